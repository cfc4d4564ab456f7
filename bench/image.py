"""How long a process stands still for a snapshot: as we measure it, as we predicted it, and as a thread inside it feels it;
and a core file beside the runtime's own createdump."""
import json
import os
import tempfile
import time
from pathlib import Path

from measure import Row, median, megabytes, ratio_row, seconds
from patient import PATIENTS, Patient

SIZES_MB = (100, 500, 2000)
OBJECT_BYTES = 8000
ROUNDS = 9
# Files of the runtime's own dump take seconds each.
DUMP_MB, DUMP_ROUNDS = 500, 3


class Heartbeat:
    """A thread inside the patient looks at the clock every millisecond: `longest` is the longest time it could not."""

    def __init__(self, patient):
        self.patient, self.longest = patient, 0.0

    def __enter__(self):
        self.patient.mark()
        return self

    def __exit__(self, *_):
        self.longest = self.patient.ask("truth", "TRUTH", seconds=120)["heartbeat"]["longest_ns"] / 1e9


def rss_anon(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon")


def of_size(mb):
    return Patient("leak,heartbeat", holder="static", rate=1, initial=mb * 1_000_000 // OBJECT_BYTES, size=OBJECT_BYTES,
                   start_seconds=300)


def snapshot(bench, patient):
    """Drained once, as those who use an image do."""
    with Heartbeat(patient) as heart:
        done = bench.weigh([bench.build / "tests" / "image_probe", "snapshot", patient.pid, "--read"])
    return json.loads(done.out.splitlines()[-1]), heart.longest


def dump(bench, patient, path):
    """The longest that it stood still meanwhile, and how long it took in all."""
    with Heartbeat(patient) as heart:
        done = bench.weigh([bench.drdotnet, "dump", "collect", patient.pid, "--fast", "-o", path, "--max-pause", "2s", "-q"])
    os.unlink(path)
    return heart.longest, done.wall


def dump_by_runtime(bench, patient, path):
    program = PATIENTS / "sick" / patient.fx / "createdump"
    with Heartbeat(patient) as heart:
        done = bench.weigh([program, "-u", "-f", path, patient.pid])
    os.unlink(path)
    return heart.longest, done.wall


def idle_beat(patient):
    with Heartbeat(patient) as heart:
        time.sleep(0.5)
    return heart.longest


def snapshots(bench, mb):
    with of_size(mb) as patient:
        name = f"snapshot of {rss_anon(patient.pid) / 1e6:.0f} MB"
        quiet = idle_beat(patient)
        taken = [snapshot(bench, patient) for _ in range(ROUNDS)]
    facts = [one for one, _ in taken]
    pause = median(f["pause_ns"] for f in facts) / 1e9
    predicted = median(f["predicted_ns"] for f in facts) / 1e9
    life = seconds(median(f["lifetime_ns"] for f in facts) / 1e9)
    return [
        Row(f"{name}: pause, beside the predicted one", seconds(pause), seconds(predicted), f"{pause / predicted:.2f}", "-"),
        Row(f"{name}: longest gap seen from inside, beside that without one", seconds(median(felt for _, felt in taken)),
            seconds(quiet), "-", "-"),
        Row(f"{name}: memory that copy-on-write cost while it was read once ({life})",
            megabytes(median(f["copied_bytes"] for f in facts)), "-", "-", "-"),
    ]


def dumps(bench, path):
    ours, theirs = [], []
    with of_size(DUMP_MB) as patient:
        for _ in range(DUMP_ROUNDS):
            ours.append(dump(bench, patient, path))
            theirs.append(dump_by_runtime(bench, patient, path))
    what = f"`dump collect` of {DUMP_MB} MB beside createdump"
    return [
        ratio_row(f"{what}, longest gap seen from inside", median(felt for felt, _ in ours), median(felt for felt, _ in theirs),
                  seconds, 1 / 15),
        ratio_row(f"{what}, time until the file is whole", median(wall for _, wall in ours), median(wall for _, wall in theirs),
                  seconds, None),
    ]


def run(bench):
    rows = []
    for mb in SIZES_MB:
        rows += snapshots(bench, mb)
    with tempfile.TemporaryDirectory(dir=bench.work) as folder:
        rows += dumps(bench, f"{folder}/core")
    return rows
