"""trace convert and trace collect beside dotnet-trace."""
import importlib.util
import json
import re
from collections import Counter
from pathlib import Path

from measure import Row, median, megabytes, ratio_row, seconds
from patient import Patient
from peers import speedscope_totals

ROUNDS = 3
COLLECT_SECONDS = 10


def foundation():
    """Its large trace is ours too."""
    path = Path(__file__).with_name("foundation.py")
    spec = importlib.util.spec_from_file_location("foundation", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differing(ours, theirs):
    """The part of the time that is not in the same thread at the same depth; theirs has frames of its own around."""
    def summed(path, front, pseudo):
        result = Counter()
        for thread, totals in speedscope_totals(path).items():
            for stack, ns in totals.items():
                result[re.sub(r"\D", "", thread), len(stack) - front - (stack[-1] in pseudo)] += ns
        return result

    a = summed(ours, 0, {"[native code or waiting]"})
    b = summed(theirs, 4, {"UNMANAGED_CODE_TIME", "CPU_TIME"})
    return sum(abs(a[key] - b[key]) for key in set(a) | set(b)) / max(1, sum(b.values()))


def converting(bench):
    peer, path = bench.dotnet_trace(), bench.work / "large.nettrace"
    foundation().make_trace(bench, path)
    ours, theirs = [], []
    for _ in range(ROUNDS):  # interleaved, so that noise hits both
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
    """Exceptions as fast as one thread can throw them, with stacks."""
    peer, providers = bench.dotnet_trace(), "Microsoft-Windows-DotNETRuntime:0x8000:2"
    ours, theirs, counts = [], [], []
    mine, other = bench.work / "ours.nettrace", bench.work / "theirs.nettrace"
    with Patient("exceptions", rate=0, kind="simple", depth=1) as p:
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
