"""Diagnose: what a busy web app loses meanwhile, our CPU and memory, the time to the first impression and to the report; beside dotnet-trace.

DRDOTNET_BENCH_RATE says how many requests a second are sent (5,000), DRDOTNET_BENCH_ROUNDS how often all of it is done (3).
"""
import os
import time

from drdotnet import Home
from measure import Row, median, megabytes, ratio_row, seconds
from patient import Patient, WebPatient, cpu_ns

RATE = int(os.environ.get("DRDOTNET_BENCH_RATE", "5000"))
ROUNDS = int(os.environ.get("DRDOTNET_BENCH_ROUNDS", "3"))
ROUTE = "healthy"
TRACE_SECONDS = 10
QUIET_SECONDS = 15
WARM_UP_SECONDS = 5
LOAD_SECONDS = 200  # longer than any window
SENDERS = 64
SICK = ("deadlock", "starvation", "exceptions", "contention", "healthy")


def traced(bench, pid):
    path = bench.work / "diagnose.nettrace"
    path.unlink(missing_ok=True)
    return bench.weigh([bench.dotnet_trace(), "collect", "-p", pid, "--duration", f"00:00:{TRACE_SECONDS:02d}", "-o", path])


def diagnosed(bench, pid):
    return bench.weigh([bench.drdotnet, "diagnose", pid, "--json"])


def window(web, during):
    """What during() returns, and of the app meanwhile: requests answered a CPU second, and a second."""
    with web.start_load(ROUTE, rate=RATE, seconds=LOAD_SECONDS, concurrency=SENDERS):
        time.sleep(WARM_UP_SECONDS)
        web.mark()
        cpu, start = cpu_ns(web.pid), time.monotonic()
        seen = during()
        spent, took = (cpu_ns(web.pid) - cpu) / 1e9, time.monotonic() - start
        answered = web.truth()["web"]["requests"][ROUTE]
    return seen, answered / spent, answered / took


def busy(bench):
    ways = {"none": lambda pid: time.sleep(QUIET_SECONDS), "ours": lambda pid: diagnosed(bench, pid),
            "theirs": lambda pid: traced(bench, pid)}
    rounds = {name: [] for name in ways}
    with WebPatient() as web:
        for _ in range(ROUNDS):  # interleaved, so that noise hits all
            for name, way in ways.items():
                rounds[name].append(window(web, lambda way=way: way(web.pid)))
    work = {name: median(per_cpu for _, per_cpu, _ in seen) for name, seen in rounds.items()}
    quiet = [per_cpu for _, per_cpu, _ in rounds["none"]]
    noise = 100 * (max(quiet) - min(quiet)) / work["none"]
    ours, theirs = ([w for w, _, _ in rounds[name]] for name in ("ours", "theirs"))
    lost = {name: 100 * (1 - work[name] / work["none"]) for name in ways}
    rate = median(a for _, _, a in rounds["none"])
    return [
        Row(f"requests lost a CPU second of a web app at {rate:,.0f} requests/s, during a diagnosis "
            f"(windows without differ by {noise:.1f} %)", f"{lost['ours']:.1f} %", f"{lost['theirs']:.1f} %", "-", "at most 2 %",
            lost["ours"] <= 2),
        ratio_row(f"our CPU, beside {TRACE_SECONDS} s of dotnet-trace collect", median(w.cpu for w in ours), median(w.cpu for w in theirs),
                  seconds, 1),
        ratio_row("our largest resident memory, beside the same", median(w.rss for w in ours), median(w.rss for w in theirs), megabytes, 1)]


def timed(home, pid):
    """Seconds to the first impression, and to the report."""
    start = time.monotonic()
    with home.start("diagnose", pid, "--json") as job:
        job.wait_for("First impression")
        impression = time.monotonic() - start
        done = job.finish()
    if done.code != 0:
        raise RuntimeError(repr(done))
    return impression, time.monotonic() - start


def waited(_bench):
    seen = []
    with Home() as home:
        for sickness in SICK:
            for _ in range(ROUNDS):
                with Patient(sickness) as patient:
                    seen.append(timed(home, patient.pid))
    impression, page = (median(s[i] for s in seen) for i in (0, 1))
    slowest = max(s[1] for s in seen)
    return [Row(f"until the first impression, median of {len(seen)}", seconds(impression), "-", "-", "5 s", impression <= 5),
            Row(f"until the report, median of the same (the slowest {seconds(slowest)})", seconds(page), "-", "-", "30 s", page <= 30)]


def run(bench):
    return busy(bench) + waited(bench)
