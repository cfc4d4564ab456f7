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


def _dotnet(verb, project, out, *more):
    """One SDK command, unless the sources are those of the last time. Skips the test where there is no SDK."""
    if not shutil.which("dotnet"):
        raise unittest.SkipTest("the .NET SDK is not installed")
    out.mkdir(parents=True, exist_ok=True)
    stamp, fingerprint = out / "stamp", _fingerprint(project.parent)
    with open(out / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == fingerprint:
            return
        env = {**os.environ, "DOTNET_CLI_USE_MSBUILD_SERVER": "0", "MSBUILDDISABLENODEREUSE": "1",
               "DOTNET_CLI_TELEMETRY_OPTOUT": "1", "DOTNET_NOLOGO": "1"}
        done = subprocess.run(["dotnet", verb, str(project), "-c", "Release", "-o", str(out / "bin"), "--artifacts-path",
                               str(out / "artifacts"), "-nodeReuse:false", "-p:UseSharedCompilation=false", *more],
                              env=env, capture_output=True, text=True, timeout=BUILD_SECONDS)
        if done.returncode:
            raise AssertionError(f"dotnet {verb} {project} failed:\n{done.stdout[-3000:]}")
        stamp.write_text(fingerprint)


def _fingerprint(folder):
    sum_of_sources = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sum_of_sources.update(path.read_bytes())
    return sum_of_sources.hexdigest()


def build(name):
    """The program's dll."""
    _dotnet("build", ROOT / "tests" / "oracle" / name / f"{name}.csproj", FOLDER / name)
    return FOLDER / name / "bin" / f"{name}.dll"


def single_file_patient():
    """The patient `sick` for .NET 10 as one file, runtime inside."""
    _dotnet("publish", ROOT / "tests" / "patients" / "sick" / "Sick.csproj", FOLDER / "single", "-f", "net10.0", "-r",
            "linux-x64", "--self-contained", "-p:PublishSingleFile=true", "-p:EnableSingleFileAnalyzer=false")
    return FOLDER / "single" / "bin" / "sick"


def run(name, *arguments, seconds=120):
    """Its standard output."""
    done = subprocess.run(["dotnet", str(build(name)), *map(str, arguments)], capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise AssertionError(f"{name} {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def stacks(core, dac):
    """The lines that ClrMD has for the threads of a core. Where a thread has no frame, as one that has not come to managed code
    yet, the runtime's library says so by a success without registers; ClrMD then shows one frame, with those that its buffer
    still held of another thread. That one is left out."""
    result, lines = [], run("clrmd", "stacks", core, dac).splitlines()
    for at, line in enumerate(lines):
        alone = result[-1:] and result[-1].startswith("thread ") and (lines[at + 1:at + 2] or ["thread "])[0].startswith("thread ")
        if not (alone and line.endswith(" - -")):
            result.append(line)
    return result
