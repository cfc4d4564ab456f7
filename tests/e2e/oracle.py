"""Builds and runs the small C# programs of tests/oracle, which say what .NET's own libraries see."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("DRDOTNET_ORACLES", ROOT / "build" / "oracles"))
BUILD_SECONDS = 300


def build(name):
    """The program's dll; built when its sources have changed. Skips the test where there is no SDK."""
    if not shutil.which("dotnet"):
        raise unittest.SkipTest("the .NET SDK is not installed")
    source, out = ROOT / "tests" / "oracle" / name, FOLDER / name
    out.mkdir(parents=True, exist_ok=True)
    print_of_sources = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(source.iterdir()) if p.is_file())).hexdigest()
    stamp = out / "stamp"
    with open(out / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == print_of_sources:
            return out / "bin" / f"{name}.dll"
        env = {**os.environ, "DOTNET_CLI_USE_MSBUILD_SERVER": "0", "MSBUILDDISABLENODEREUSE": "1",
               "DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1"}
        done = subprocess.run(["dotnet", "build", str(source / f"{name}.csproj"), "-c", "Release", "-o", str(out / "bin"),
                               "--artifacts-path", str(out / "artifacts"), "-nodeReuse:false",
                               "-p:UseSharedCompilation=false"],
                              env=env, capture_output=True, text=True, timeout=BUILD_SECONDS)
        if done.returncode:
            raise AssertionError(f"building {name} failed:\n{done.stdout[-3000:]}")
        stamp.write_text(print_of_sources)
    return out / "bin" / f"{name}.dll"


def run(name, *arguments, seconds=120):
    """Its standard output."""
    done = subprocess.run(["dotnet", str(build(name)), *map(str, arguments)], capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise AssertionError(f"{name} {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout
