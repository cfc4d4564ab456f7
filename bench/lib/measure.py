"""What the benchmarks share: running a command and weighing it, the peers, and rows of the result."""
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Weight:
    """One run of a command: wall and CPU seconds, and the largest resident size of any process in it, in bytes."""
    wall: float
    cpu: float
    rss: int
    out: str


@dataclass
class Row:
    what: str
    ours: str
    theirs: str
    ratio: str
    aim: str
    met: bool | None = None


def weigh(command, env=None, check=True, stdin=None):
    """Children that the command waits for count too."""
    started = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               stdin=stdin or subprocess.DEVNULL, env={**os.environ, **(env or {})})
    out, err = b"", b""
    import threading
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    reader.start()
    out = process.stdout.read()
    reader.join()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - started
    err = errors[0] if errors else b""
    if check and process.returncode != 0:
        raise RuntimeError(f"{command}: exit {process.returncode}\n{out.decode(errors='replace')}\n{err.decode(errors='replace')}")
    return Weight(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, out.decode(errors="replace"))


def seconds(x):
    return f"{x * 1000:.1f} ms" if x < 1 else f"{x:.2f} s"


def megabytes(x):
    return f"{x / 1048576:.1f} MB"


def ratio_row(what, ours, theirs, shown, aim):
    """aim: at most this part of the peer; e.g. 1/10."""
    part = ours / theirs if theirs else float("inf")
    text = f"1/{1 / part:.1f}" if part < 1 else f"{part:.2f}"
    return Row(what, shown(ours), shown(theirs), text, f"at most 1/{round(1 / aim)}" if aim else "-",
               None if aim is None else part <= aim)


def median(values):
    return statistics.median(values)


class Bench:
    def __init__(self, root, build):
        self.root, self.build = root, build
        self.work = build / "bench"
        self.work.mkdir(parents=True, exist_ok=True)
        self.drdotnet = build / "drdotnet"
        os.environ.setdefault("DRDOTNET_PATIENTS", str(build / "patients"))
        os.environ["DRDOTNET"] = str(self.drdotnet)
        os.environ["DRDOTNET_HOME"] = str(self.work / "home")

    def dotnet_trace(self):
        """The peer, a NuGet tool; installed once below the build folder."""
        tool = self.work / "tools" / "dotnet-trace"
        if not tool.exists():
            subprocess.run(["dotnet", "tool", "install", "--tool-path", str(tool.parent), "dotnet-trace"], check=True,
                           stdout=sys.stderr)
        return tool

    def target(self, name):
        """A program of ours that is built only for benchmarks."""
        path = f"bench/{name}"
        subprocess.run(["ninja", "-C", str(self.build), path, "--quiet"], check=True, stdout=sys.stderr)
        return self.build / path
