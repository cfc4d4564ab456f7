"""Listing processes, reading a large trace, collecting a million events: against dotnet-trace."""
import json
import subprocess

from measure import median, megabytes, ratio_row, seconds
from patient import Patient

TRACE_BYTES = 60 << 20


def listing(bench):
    peer = bench.dotnet_trace()
    ours, theirs = [], []
    with Patient("healthy"), Patient("healthy", fx="net8.0"):
        for _ in range(7):  # interleaved, so that noise hits both
            ours.append(bench.weigh([bench.drdotnet, "ps"]))
            theirs.append(bench.weigh([peer, "ps"]))
    return [
        ratio_row("`ps`, wall time", median(w.wall for w in ours), median(w.wall for w in theirs), seconds, 1 / 10),
        ratio_row("`ps`, resident size", median(w.rss for w in ours), median(w.rss for w in theirs), megabytes, 1 / 5),
    ]


def make_trace(bench, path):
    """A trace of at least 60 MB with everything a real one has: samples with stacks, allocations, rundown."""
    if path.exists() and path.stat().st_size >= TRACE_BYTES:
        return
    peer = bench.dotnet_trace()
    with Patient("cpu,allocations,exceptions", **{"threads": 4, "exceptions.rate": 2000}) as p:
        for length in (20, 40, 80, 160):
            path.unlink(missing_ok=True)
            subprocess.run([peer, "collect", "-p", str(p.pid), "--duration", f"00:{length // 60:02d}:{length % 60:02d}",
                            "--providers", "Microsoft-DotNETCore-SampleProfiler,Microsoft-Windows-DotNETRuntime:0x8000C14FCCBD:5",
                            "-o", str(path)], check=True, stdout=subprocess.DEVNULL)
            if path.stat().st_size >= TRACE_BYTES:
                return


def parsing(bench):
    peer, tool = bench.dotnet_trace(), bench.target("bench_nettrace")
    path = bench.work / "large.nettrace"
    make_trace(bench, path)
    size = path.stat().st_size
    ours = bench.weigh([tool, path])
    ordered = next(r for r in json.loads(ours.out)["runs"] if r["mode"] == "ordered")  # in chunks as a socket gives them
    theirs = bench.weigh([peer, "convert", path, "--format", "Speedscope", "-o", bench.work / "large.speedscope.json"])
    what = f"reading a trace of {size >> 20} MB"
    cpu = ratio_row(f"{what} (every event, in order of time) beside `dotnet-trace convert`, CPU",
                    ordered["cpu_s"], theirs.cpu, seconds, 1 / 50)
    rss = ratio_row(f"{what} held in memory whole, resident size", ours.rss, theirs.rss, megabytes, None)
    return [cpu, rss]


def collecting(bench):
    """The whole examination of over a million exceptions; plain collecting is measured with the traces."""
    peer = bench.dotnet_trace()
    rows = []
    with Patient("exceptions", rate=0, kind="simple", depth=1) as p:
        ours = bench.weigh([bench.drdotnet, "exceptions", p.pid, "--duration", "10s", "--json"])
        report = json.loads(ours.out)
        count = next(f["value"] for f in report["figures"] if f["label"] == "Exceptions")
        trace = bench.work / "live.nettrace"
        trace.unlink(missing_ok=True)
        theirs = bench.weigh([peer, "collect", "-p", p.pid, "--duration", "00:00:10", "--providers",
                        "Microsoft-Windows-DotNETRuntime:0x8000:2", "-o", trace])
    what = f"the whole `exceptions` examination of {count / 1e6:.1f} million live events in 10 s beside `dotnet-trace collect`"
    rows.append(ratio_row(f"{what} (which only writes them to disk, {trace.stat().st_size >> 20} MB), CPU",
                          ours.cpu, theirs.cpu, seconds, None))
    rows.append(ratio_row("the same, resident size", ours.rss, theirs.rss, megabytes, None))
    return rows


def run(bench):
    return listing(bench) + parsing(bench) + collecting(bench)
