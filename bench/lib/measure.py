"""What the benchmarks share: running a command and weighing it, the peers, and rows of the result."""
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass


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
        os.environ["DRDOTNET_DACHOST"] = str(build / "drdotnet-dachost")
        os.environ["DRDOTNET_HOME"] = str(self.work / "home")

    def weigh(self, command, env=None):
        """Runs it through a small launcher; children that the command waits for count too."""
        done = subprocess.run([str(c) for c in [self.target("weigh"), *command]], capture_output=True,
                              stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        err = done.stderr.decode(errors="replace")
        if done.returncode != 0:
            raise RuntimeError(f"{command}: exit {done.returncode}\n{done.stdout.decode(errors='replace')}\n{err}")
        return Weight(**json.loads(err.strip().splitlines()[-1]), out=done.stdout.decode(errors="replace"))

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
