"""trace convert and trace collect beside dotnet-trace."""
import json
import re
import signal
import subprocess
import time
from collections import Counter

from measure import Row, median, megabytes, ratio_row, seconds
from patient import Patient
from peers import speedscope_totals

TRACE_BYTES = 60 << 20
ROUNDS = 3
CONVERT_ROUNDS = 1  # millions of samples take the peer a minute
FRAME_OF_THEIRS = re.compile(r"Process\d+ |\((Non-)?Activities\)$|Activity |Threads$|Thread \(")
COLLECT_SECONDS = 10
EXCEPTIONS = 25_000  # a second; each is four events


def make_trace(bench, path):
    """CPU samples of some 200 threads until there are 60 MB. Nothing else: the peer takes the stacks of other events as
    samples too, and makes towers of activities of exceptions, so that neither time nor totals could be compared."""
    if path.exists() and path.stat().st_size >= TRACE_BYTES:
        return
    partial = path.with_name(path.name + ".partial")
    with Patient("cpu,blocked", **{"cpu.threads": 2, "blocked.threads": 200}) as p:
        job = subprocess.Popen([bench.drdotnet, "trace", "collect", str(p.pid), "-q", "-o", path])
        deadline = time.monotonic() + 600
        while not partial.exists() or partial.stat().st_size < TRACE_BYTES:
            if job.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the trace does not grow")
            time.sleep(0.1)
        job.send_signal(signal.SIGINT)
        job.wait()


def differing(ours, theirs):
    """The part of the time that is not in the same thread at the same depth. Theirs has frames of its own around each
    stack, and counts on for a thread that is not looked at any more; such threads are left out."""
    def summed(path, pseudo):
        result = {}
        for thread, totals in speedscope_totals(path).items():
            depths = result.setdefault(re.sub(r"\D", "", thread), Counter())
            for stack, ns in totals.items():
                own = next((i for i, f in enumerate(stack) if not FRAME_OF_THEIRS.match(f)), len(stack))
                depths[len(stack) - own - (stack[-1] in pseudo)] += ns
        return result

    a = summed(ours, {"[native code or waiting]"})
    b = summed(theirs, {"UNMANAGED_CODE_TIME", "CPU_TIME"})
    both = [t for t in b if t in a and sum(a[t].values()) > 0.9 * sum(b[t].values())]
    wrong = sum(abs(a[t][d] - b[t][d]) for t in both for d in set(a[t]) | set(b[t]))
    return wrong / max(1, sum(sum(b[t].values()) for t in both))


def converting(bench):
    peer, path = bench.dotnet_trace(), bench.work / "samples.nettrace"
    make_trace(bench, path)
    ours, theirs = [], []
    for _ in range(CONVERT_ROUNDS):
        ours.append(bench.weigh([bench.drdotnet, "trace", "convert", path, "-o", bench.work / "ours.speedscope.json"]))
        theirs.append(bench.weigh([peer, "convert", path, "--format", "Speedscope", "-o", bench.work / "theirs"]))
    what = f"`trace convert` of {path.stat().st_size >> 20} MB to speedscope"
    part = differing(bench.work / "ours.speedscope.json", bench.work / "theirs.speedscope.json")
    return [
        ratio_row(f"{what}, CPU", median(w.cpu for w in ours), median(w.cpu for w in theirs), seconds, 1 / 50),
        ratio_row(f"{what}, resident size", median(w.rss for w in ours), median(w.rss for w in theirs), megabytes, 1 / 3),
        Row("the same, time in stacks that differs", f"{part:.2%}", "-", "-", "below 1 %", part < 0.01),
    ]


def collecting(bench):
    """A million events in ten seconds: exceptions with the events of their handling, with stacks."""
    peer, providers = bench.dotnet_trace(), "Microsoft-Windows-DotNETRuntime:0x8000:4"
    ours, theirs, counts = [], [], []
    mine, other = bench.work / "ours.nettrace", bench.work / "theirs.nettrace"
    with Patient("exceptions", rate=EXCEPTIONS, kind="simple", depth=1) as p:
        for _ in range(ROUNDS):
            ours.append(bench.weigh([bench.drdotnet, "trace", "collect", p.pid, "--providers", providers, "-d",
                                     f"{COLLECT_SECONDS}s", "-o", mine]))
            other.unlink(missing_ok=True)
            theirs.append(bench.weigh([peer, "collect", "-p", p.pid, "--providers", providers, "--duration",
                                       f"00:00:00:{COLLECT_SECONDS:02}", "-o", other]))
    for path in (mine, other):
        figures = json.loads(bench.weigh([bench.drdotnet, "trace", "report", path, "--json"]).out)["figures"]
        counts.append(next(f["value"] for f in figures if f["label"] == "Events"))
    what = f"`trace collect` for {COLLECT_SECONDS} s ({counts[0] / 1e6:.1f} million events; {counts[1] / 1e6:.1f} million)"
    return [
        ratio_row(f"{what}, CPU", median(w.cpu for w in ours), median(w.cpu for w in theirs), seconds, 1 / 5),
        ratio_row("the same, resident size", median(w.rss for w in ours), median(w.rss for w in theirs), megabytes, 1 / 5),
    ]


def run(bench):
    return converting(bench) + collecting(bench)
