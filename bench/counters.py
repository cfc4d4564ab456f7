"""Live counters: beside a minimal client made of Microsoft's own libraries, and what they cost the patient."""
import os
import subprocess
import sys
import time

from drdotnet import event_streams, wait_until
from measure import Row, median, megabytes, ratio_row, seconds
from patient import Patient

METERS = ["System.Runtime", "Shop.Meters"]
LENGTH = 30  # seconds
WINDOW = 4.0  # seconds of CPU
ROUNDS = 5


def peer(bench):
    """NETCore.Client and TraceEvent in a small program; built once below the build folder."""
    folder = bench.work / "peers" / "counters"
    program = folder / "counters"
    project = bench.root / "bench" / "peers" / "counters"
    newest = max(path.stat().st_mtime for path in project.iterdir() if path.is_file())
    if not program.exists() or program.stat().st_mtime < newest:
        subprocess.run(["dotnet", "build", "-c", "Release", "-o", str(folder), "--artifacts-path",
                        str(bench.work / "peers" / ".artifacts"), "-nodeReuse:false", "-p:UseSharedCompilation=false",
                        "-v:q", "-nologo", str(project)], check=True, stdout=sys.stderr)
        os.utime(program)
    return program


def listening(bench):
    theirs_program = peer(bench)
    meters = [word for meter in METERS for word in ("--meter", meter)]
    with Patient("meters,healthy") as p:
        ours = bench.weigh([bench.drdotnet, "counters", p.pid, "--json", "--duration", f"{LENGTH}s", *meters])
        theirs = bench.weigh([theirs_program, p.pid, LENGTH, *METERS])
    values = ours.out.count('"provider"')
    lines = len(theirs.out.splitlines())
    if values < 0.8 * lines or lines < LENGTH * 20:
        raise RuntimeError(f"not the same work: {values} values, {lines} lines")
    what = f"`counters` of two meters every second for {LENGTH} s beside a minimal client in C# (NETCore.Client, TraceEvent)"
    return [ratio_row(f"{what}, CPU", ours.cpu, theirs.cpu, seconds, 1 / 20),
            ratio_row("the same, resident size", ours.rss, theirs.rss, megabytes, 1 / 5)]


def work_per_cpu_second(patient):
    """Over a window of CPU time, not of wall time: other load on the machine makes it longer, not wrong."""
    patient.mark()
    while True:
        time.sleep(0.5)
        truth = patient.truth()
        if truth["runtime"]["cpu_ns"] > WINDOW * 1e9:
            rounds = sum(path["rounds"] for path in truth["cpu"]["paths"].values())
            return rounds / (truth["runtime"]["cpu_ns"] / 1e9)


def overhead(bench):
    """Work per CPU second of a busy patient, alone and listened to, in interleaved windows."""
    alone, heard = [], []
    with Patient("cpu,meters", threads=1) as p:
        for i in range(ROUNDS + 1):
            before = work_per_cpu_second(p)
            job = subprocess.Popen([str(bench.drdotnet), "counters", str(p.pid), "--all", "--json"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            wait_until(lambda: event_streams(p.pid) == 2, "it listens")
            during = work_per_cpu_second(p)
            job.terminate()
            job.wait()
            if i:  # in the first, everything is still being compiled
                alone.append(before)
                heard.append(during)
    loss = 1 - median(heard) / median(alone)
    spread = (max(alone) - min(alone)) / median(alone) / 2
    return [Row("what `counters --all` every second costs a busy process: work per CPU second, median of "
                f"{ROUNDS} interleaved windows of {WINDOW:.0f} s of CPU", f"{loss * 100:+.1f} %",
                f"noise ±{spread * 100:.1f} %", "-", "-")]


def run(bench):
    return listening(bench) + overhead(bench)
