"""The peers that our files are compared with, built or installed once below the build folder: TraceEvent (a small C#
program), dotnet-trace, the speedscope page."""

import fcntl
import hashlib
import json
import os
import subprocess
import uuid
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DRDOTNET_BUILD", Path(os.environ.get("DRDOTNET", ROOT / "build" / "drdotnet")).parent))
SET_UP_SECONDS = 600

FIXED = {
    "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4": "Microsoft-Windows-DotNETRuntime",
    "a669021c-c450-4609-a035-5af59af4df18": "Microsoft-Windows-DotNETRuntimeRundown",
}


@contextmanager
def _alone(name):
    """One at a time, also across test runs."""
    folder = BUILD / "peers"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / name


def _run(*command, **how):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=SET_UP_SECONDS, **how)
    if done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def trace_event_program():
    source = ROOT / "tests" / "oracle" / "traceevent"
    with _alone("traceevent") as folder:
        program = folder / "traceevent.dll"
        if not program.exists() or program.stat().st_mtime < (source / "Program.cs").stat().st_mtime:
            _run("dotnet", "publish", source, "-c", "Release", "-o", folder, "--nologo")
            os.utime(program)
    return program


def dotnet_trace():
    with _alone("dotnet-trace") as folder:
        program = folder / "dotnet-trace"
        if not program.exists():
            _run("dotnet", "tool", "install", "dotnet-trace", "--tool-path", folder)
    return program


def speedscope_page():
    source = ROOT / "tests" / "speedscope"
    with _alone("speedscope") as folder:
        page = folder / "node_modules" / "speedscope" / "dist" / "release" / "index.html"
        if not page.exists():
            folder.mkdir(exist_ok=True)
            for name in ("package.json", "package-lock.json"):
                (folder / name).write_bytes((source / name).read_bytes())
            _run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
    return page


def provider_guid(name):
    """As EventSource makes it from a name."""
    space = bytes.fromhex("482C2DB2C39047C887F81A15BFC130FB")
    digest = bytearray(hashlib.sha1(space + name.upper().encode("utf-16-be")).digest()[:16])
    digest[7] = digest[7] & 0x0F | 0x50
    return str(uuid.UUID(bytes_le=bytes(digest)))


def trace_event(path, names):
    """What TraceEvent reads: (events, lost, {"provider/id": count}). It tells providers it does not know by guid;
    `names` are those that are meant."""
    told = json.loads(_run("dotnet", trace_event_program(), path))
    by_guid = {**{provider_guid(n): n for n in names}, **FIXED}
    kinds = {}
    for key, kind in told["kinds"].items():
        provider, _, number = key.rpartition("/")
        if provider.startswith("Provider("):
            provider = by_guid.get(provider[len("Provider("):-1], provider)
        kinds[f"{provider}/{number}"] = kinds.get(f"{provider}/{number}", 0) + kind["count"]
    return told["events"], told["lost"], kinds


def speedscope_totals(path):
    """{thread: {stack: nanoseconds}} of an evented file."""
    data = json.loads(Path(path).read_text())
    frames = [f["name"] for f in data["shared"]["frames"]]
    result = {}
    for profile in data["profiles"]:
        unit = {"nanoseconds": 1, "milliseconds": 1e6}[profile["unit"]]
        stack, totals, last = [], {}, 0
        for event in profile["events"]:
            at = event["at"] * unit
            if stack and at > last:
                totals[tuple(stack)] = totals.get(tuple(stack), 0) + at - last
            last = at
            if event["type"] == "O":
                stack.append(frames[event["frame"]])
            elif stack.pop() != frames[event["frame"]]:
                raise AssertionError(f"{path}: a frame closes that is not on top")
        if stack:
            raise AssertionError(f"{path}: {stack} never closes")
        result[profile["name"]] = totals
    return result
