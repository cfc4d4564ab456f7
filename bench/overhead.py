"""What each profiler costs its target: work per CPU second with it and without, interleaved."""
import json
import os
import time
from pathlib import Path

from measure import Row, median
from patient import Patient

ROUNDS = 3
SECONDS = 3
# A bit of everything that the profilers listen to, beside a thread that only computes and counts its rounds.
MIX = {"exceptions.rate": 500, "allocations.rate-mb": 20, "contention.hold-ms": 2}


def cpu_seconds(pid):
    """Of the whole process: what a profiler makes other threads do is work lost too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def window(patient, during):
    """Rounds per CPU second of the process while during() runs."""
    patient.mark()
    before = cpu_seconds(patient.pid)
    during()
    rounds = sum(path["rounds"] for path in patient.truth()["cpu"]["paths"].values())
    return rounds / (cpu_seconds(patient.pid) - before)


def profilers(bench):
    """All that examine a living process for a time, with the least of their durations."""
    for p in json.loads(bench.weigh([bench.drdotnet, "profilers", "--json"]).out):
        if any(parameter["key"].startswith("duration") for parameter in p["parameters"]):
            yield p["id"]


def run(bench):
    rows = []
    with Patient("cpu,exceptions,allocations,contention", **MIX) as p:
        for name in profilers(bench):
            ours, none = [], []
            for _ in range(ROUNDS):
                none.append(window(p, lambda: time.sleep(SECONDS)))
                ours.append(window(p, lambda: bench.weigh([bench.drdotnet, name, p.pid, "-d", f"{SECONDS}s", "--json"])))
            lost = 100 * (1 - median(ours) / median(none))
            noise = 100 * (max(none) - min(none)) / median(none)
            rows.append(Row(f"work lost by a busy target under `{name}`", f"{lost:.1f} % (windows without differ by {noise:.1f} %)", "-", "-", "-"))
    return rows
