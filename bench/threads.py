"""merged-call-stacks of 10, 100 and 1,000 threads: beside dotnet-trace, which lets the runtime sample for one second, the
shortest it can, and beside our own way without a copy, which does the same for 0.3 s."""
import json

from measure import Row, median, ratio_row, seconds
from patient import Patient

ROUNDS = 5
THREADS = (10, 100, 1000)


def lines(text):
    return len(text.splitlines())


def one(bench, peer, threads):
    ours, events, theirs, pauses = [], [], [], []
    trace = bench.work / "threads.nettrace"
    with Patient("blocked", threads=threads) as p:
        for _ in range(ROUNDS):  # interleaved, so that noise hits both
            ours.append(bench.weigh([bench.drdotnet, "merged-call-stacks", p.pid, "--quiet", "-p", "max_pause_ms=1000"]))
            events.append(bench.weigh([bench.drdotnet, "merged-call-stacks", p.pid, "--quiet", "--way", "events"]))
            trace.unlink(missing_ok=True)
            theirs.append(bench.weigh([peer, "collect", "-p", p.pid, "--providers", "Microsoft-DotNETCore-SampleProfiler",
                                       "--duration", "00:00:00:01", "-o", trace]))
            report = json.loads(bench.weigh([bench.drdotnet, "merged-call-stacks", p.pid, "--quiet", "--json",
                                             "-p", "max_pause_ms=1000"]).out)
            pauses.append(next(h["value"] for h in report["how"] if h["label"] == "Target paused") / 1e9)
        p.truth()
    what = f"`merged-call-stacks` of {threads:,} blocked threads"
    longest = max(lines(w.out) for w in ours)
    wall = median(w.wall for w in ours)
    return [
        ratio_row(f"{what} beside `dotnet-trace collect` for a second, wall time", wall, median(w.wall for w in theirs),
                  seconds, 1 / 3),
        ratio_row(f"{what} beside our own way without a copy (EventPipe for 0.3 s)", wall, median(w.wall for w in events),
                  seconds, 1 / 3),
        Row(f"{what}: the process stands still", seconds(median(pauses)), "-", "-", "-"),
        Row(f"{what}: lines of text", str(longest), "-", "-", "below 40", longest < 40),
    ]


def run(bench):
    peer = bench.dotnet_trace()
    return [row for threads in THREADS for row in one(bench, peer, threads)]
