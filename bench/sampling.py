"""CPU sampling: whole stacks, what it costs the target and us, the time to the report; beside dotnet-trace."""
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

from measure import Row, median, megabytes, ratio_row, seconds
from patient import FRAMEWORKS, Patient

ROOT, CUT, DEEP = 0, 1, 2  # how stacks end, in the order of the recording


def facts(bench):
    """What the newest recording says of its sampling."""
    sessions = Path(bench.work / "home" / "sessions")
    newest = max(sessions.glob("*/recording/manifest.json"), key=lambda p: p.stat().st_mtime)
    return json.loads(newest.read_text())["facts"]["sampling"]


def sample(bench, pid, secs, interval_ms):
    weight = bench.weigh([bench.drdotnet, "cpu-hotpaths", pid, "-d", f"{secs}s", "-p", f"time_interval_ms={interval_ms}", "--json"])
    return weight, facts(bench)


def whole(sampled):
    ends = sampled["ends"]
    return ends[ROOT] / max(1, sum(ends) - ends[CUT] - ends[DEEP])


def completeness(bench):
    rows = []
    for fx in FRAMEWORKS:
        for what, aim in (("warm-up", 0.98), ("steady", 0.995)):
            with Patient("cpu", fx=fx, path="all", threads=2) as p:
                if what == "steady":
                    sample(bench, p.pid, 5, 10)  # lets tiering settle
                _, sampled = sample(bench, p.pid, 2 if what == "warm-up" else 6, 1)
            share = whole(sampled)
            rows.append(Row(f"stacks unwound to the thread's root, {fx}, {what}, {sampled['samples']} samples",
                            f"{100 * share:.2f} %", "-", "-", f"at least {100 * aim:.1f} %", share >= aim))
    return rows


def work(patient, during):
    """Rounds a CPU second, and CPU seconds a second of wall time, while `during()` runs."""
    patient.mark()
    start = time.monotonic()
    during()
    truth = patient.truth()["cpu"]
    rounds = sum(path["rounds"] for path in truth["paths"].values())
    return rounds / (truth["cpu_ns"] / 1e9), truth["cpu_ns"] / 1e9 / (time.monotonic() - start)


def overhead(bench):
    peer = bench.dotnet_trace()
    length = 5

    def trace(pid):
        path = bench.work / "sampled.nettrace"
        path.unlink(missing_ok=True)
        subprocess.run([peer, "collect", "-p", str(pid), "--duration", f"00:00:{length:02d}", "--profile", "dotnet-sampled-thread-time",
                        "-o", str(path)], check=True, stdout=subprocess.DEVNULL)

    seen = {"none": [], "99 Hz": [], "999 Hz": [], "dotnet-trace": []}
    with Patient("cpu") as p:
        ways = {"none": lambda: time.sleep(length), "99 Hz": lambda: sample(bench, p.pid, length, 10),
                "999 Hz": lambda: sample(bench, p.pid, length, 1), "dotnet-trace": lambda: trace(p.pid)}
        for _ in range(3):  # interleaved, so that noise hits all
            for name, way in ways.items():
                seen[name].append(work(p, way)[0])
    base = median(seen["none"])
    lost = {name: 100 * (1 - median(values) / base) for name, values in seen.items()}
    noise = 100 * (max(seen["none"]) - min(seen["none"])) / base
    return [Row(f"work lost by the target a CPU second, {name} (windows without differ by {noise:.1f} %)", f"{lost[name]:.1f} %",
                f"{lost['dotnet-trace']:.1f} %", "-", "-")
            for name in ("99 Hz", "999 Hz")]


def collector(bench):
    with Patient("cpu", threads=2) as p:
        weight, sampled = sample(bench, p.pid, 10, 1)
    each = weight.cpu / sampled["samples"] * 1000
    return [Row(f"our CPU for a thousand samples (unwound, named, reported; {sampled['samples']} in 10 s)", seconds(each), "-", "-", "-"),
            Row("our resident size meanwhile", megabytes(weight.rss), "-", "-", "below 64 MB", weight.rss < 64 << 20)]


def after_the_window(bench):
    """Seconds from the end of our newest window until now."""
    newest = max((bench.work / "home" / "sessions").glob("*/report.json"), key=lambda p: p.stat().st_mtime)
    said = json.loads(newest.read_text())["facts"]
    return (time.time_ns() - said["whenUnixNs"] - said["windowNs"]) / 1e9


def stop_time(command):
    """Runs the peer's collect: seconds from the moment it says that it stops until its end."""
    stopping = None
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True) as job:
        for line in job.stdout:
            if "Stopping the trace" in line:
                stopping = time.monotonic()
    if stopping is None:
        raise RuntimeError("the peer did not say when it stopped")
    return time.monotonic() - stopping


def to_the_report(bench):
    return [row for fx in (FRAMEWORKS[-1], FRAMEWORKS[0]) for row in to_the_report_on(bench, fx)]


def to_the_report_on(bench, fx):
    peer = bench.dotnet_trace()
    ours, theirs, our_rest, their_rest = [], [], [], []
    path, length = bench.work / "asked.nettrace", 5
    with Patient("cpu", fx=fx, threads=2) as p:
        for _ in range(5):
            ours.append(sample(bench, p.pid, length, 10)[0].wall - length)
            our_rest.append(after_the_window(bench))
            path.unlink(missing_ok=True)
            start = time.monotonic()
            stop = stop_time([peer, "collect", "-p", p.pid, "--duration", f"00:00:{length:02d}", "--profile",
                              "dotnet-sampled-thread-time", "-o", path])
            collect = time.monotonic() - start
            convert = bench.weigh([peer, "convert", path, "--format", "Speedscope", "-o", bench.work / "asked.speedscope.json"])
            theirs.append(collect - length + convert.wall)
            their_rest.append(stop + convert.wall)
    return [ratio_row(f"from the end of the window to the report, {fx} (theirs: stop and convert)", median(our_rest),
                      median(their_rest), seconds, 1 / 5),
            ratio_row(f"asked for 5 s, {fx}: time beyond them, start included", median(ours), median(theirs), seconds, 1 / 5)]


def waits(pid):
    """Nanoseconds in which threads were able to run, or ran, by the kernel's count: (run, delay) of the busiest."""
    best = (0, 0)
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            run, delay, _ = map(int, (task / "schedstat").read_text().split())
        except (FileNotFoundError, ProcessLookupError, ValueError):
            continue
        best = max(best, (run, delay))
    return best


def stopped(pid, during):
    """The share of the wall time in which the busiest thread neither ran nor could have."""
    before, start = waits(pid), time.monotonic()
    thread = threading.Thread(target=during)
    thread.start()
    time.sleep(1.5)  # sessions open and list names first
    before, start = waits(pid), time.monotonic()
    time.sleep(2.5)
    after, wall = waits(pid), (time.monotonic() - start) * 1e9
    thread.join()
    return max(0.0, 1 - (after[0] - before[0] + after[1] - before[1]) / wall)


def stops(bench):
    peer, rows = bench.dotnet_trace(), []
    for n in (10, 100, 400):
        with Patient("blocked", threads=n, busy=1) as p:
            ours = stopped(p.pid, lambda: sample(bench, p.pid, 5, 10))
            theirs = stopped(p.pid, lambda: subprocess.run(
                [peer, "collect", "-p", str(p.pid), "--duration", "00:00:05", "--profile", "dotnet-sampled-thread-time",
                 "-o", str(bench.work / "stops.nettrace")], check=True, stdout=subprocess.DEVNULL))
        rows.append(Row(f"share of its time in which a busy thread is held, {n} threads waiting", f"{100 * ours:.2f} %",
                        f"{100 * theirs:.1f} %", "-", "at most 0.5 %", ours <= 0.005))
    return rows


def suspensions(bench, pid, during):
    """How often the runtime stopped its threads meanwhile, by its own events."""
    path, events = bench.work / "suspensions.nettrace", bench.work / "suspensions.jsonl"
    for old in (path, events):
        old.unlink(missing_ok=True)
    with subprocess.Popen([bench.drdotnet, "trace", "collect", str(pid), "--providers", "Microsoft-Windows-DotNETRuntime:1:4", "-q",
                           "-o", path], stdout=subprocess.DEVNULL) as listener:
        time.sleep(1)
        during()
        listener.send_signal(signal.SIGINT)
    bench.weigh([bench.drdotnet, "trace", "convert", path, "-o", events])
    return sum(json.loads(line)["event"] == "GCSuspendEEBegin" for line in events.open())


def held_by_name(bench):
    """What holds threads on purpose: suspensions of the runtime, and ptrace, which we are watched for by strace. A call that only
    asks whether it would be permitted stops nobody."""
    peer, calls = bench.dotnet_trace(), bench.work / "ptrace"

    def ours():
        subprocess.run(["strace", "-f", "-qq", "-e", "trace=ptrace", "-o", calls, bench.drdotnet, "cpu-hotpaths", str(p.pid), "-d", "3s",
                        "-q"], check=True, stdout=subprocess.DEVNULL)

    def theirs():
        subprocess.run([peer, "collect", "-p", str(p.pid), "--duration", "00:00:03", "--profile", "dotnet-sampled-thread-time",
                        "-o", str(bench.work / "held.nettrace")], check=True, stdout=subprocess.DEVNULL)

    with Patient("blocked", threads=400, busy=1) as p:
        mine, other = suspensions(bench, p.pid, ours), suspensions(bench, p.pid, theirs)
    traced = len(re.findall(r"PTRACE_(?:ATTACH|SEIZE|INTERRUPT)", calls.read_text()))
    return [Row("suspensions of the runtime in 3 s", mine, other, "-", "none", mine == 0),
            Row("stops by ptrace meanwhile", traced, "-", "-", "none", traced == 0)]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pin(pid, cpus):
    """The two threads that hand over to each other, each on its processor. Where they run decides how much of a switch is
    work and how much is waking a processor up: left to the scheduler, windows would differ several times over."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        name = (task / "comm").read_text()
        if name.startswith(("ping", "pong")):
            os.sched_setaffinity(int(task.name), {cpus[name.startswith("pong")]})


def steps_window(patient):
    """Steps of work a CPU second, and switches a second."""
    patient.mark()
    cpu, start = cpu_seconds(patient.pid), time.monotonic()
    time.sleep(2)
    truth = patient.truth()["switches"]
    return truth["steps"] / (cpu_seconds(patient.pid) - cpu), 2 * truth["rounds"] / (time.monotonic() - start)


def switching_on(bench, asked, cpus, least):
    """Steps a CPU second without and with off-cpu, windows in turn, and the rate. Windows in which others left it no time to
    switch that often do not count."""
    tries, plain, watched, rates = 13, [], [], []
    with Patient("switches", pairs=1, rate=asked) as p:
        pin(p.pid, cpus)
        time.sleep(2)  # tiering
        while len(plain) < 5 and (tries := tries - 1):
            without = steps_window(p)
            job = subprocess.Popen([bench.drdotnet, "off-cpu", str(p.pid), "-d", "4s", "-q"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
            beside = steps_window(p)
            job.wait()
            if min(without[1], beside[1]) > least * asked:
                plain.append(without[0])
                watched.append(beside[0])
                rates.append(beside[1])
    return (median(plain), median(watched), median(rates)) if len(plain) >= 3 else None


def switching(bench):
    """What off-cpu costs a target that switches 50,000 times a second. On one processor nearly all of its time is steps of
    work. On two most of it is waking the other one up: what we take is then compared with its CPU time, not with the few
    steps that are left."""
    rows, asked, what = [], 50000, "work kept under off-cpu at 50,000 switches a second"
    with Patient("switches", pairs=1, rate=1000) as p:
        pin(p.pid, (0, 0))
        time.sleep(2)
        most = steps_window(p)[0]
    for where, cpus, least in (("threads on one processor", (0, 0), 0.9), ("threads on two", (0, 1), 0.8)):
        got = switching_on(bench, asked, cpus, least)
        if not got:
            rows.append(Row(f"{what}, {where}: the machine did not let it switch that often", "-", "-", "-", "at least 95 %", False))
            continue
        plain, watched, rate = got
        kept = watched / plain if cpus[0] == cpus[1] else 1 - (plain - watched) / most
        rows.append(Row(f"{what}, {where} ({rate:,.0f} measured)", f"{100 * kept:.1f} %", "-", "-", "at least 95 %", kept >= 0.95))
    return rows


def run(bench):
    parts = (completeness, overhead, collector, to_the_report, stops, held_by_name, switching)
    return [row for part in parts for row in part(bench)]
