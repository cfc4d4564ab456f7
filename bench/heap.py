"""The heap: against ClrMD on one core file of ten million objects, and living processes of one to twenty million."""
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import oracle
from measure import Row, median, megabytes, ratio_row, seconds
from patient import PATIENTS, Patient

MILLIONS = (1, 5, 10, 20)
AGAINST_CLRMD = 10
PER_STEP = 9  # objects that the patient makes for each of `initial`
ROUNDS = 3
# Twenty times the objects: how much more CPU each may take and still be called linear. Caches hold less of a larger heap.
LINEAR = 2.0


class Heartbeat:
    """Asks the patient for its time without pause; the longest wait for an answer is what a user would have felt."""

    def __init__(self, patient):
        self.patient, self.longest, self.ending = patient, 0.0, False
        self.thread = threading.Thread(target=self.beat)

    def beat(self):
        while not self.ending:
            began = time.monotonic()
            self.patient.ask("mark", "MARKED", seconds=120)
            self.longest = max(self.longest, time.monotonic() - began)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        self.thread.join()


class Anonymous:
    """Watches the anonymous memory of the largest process below this one that is ours: files that it reads where they lie
    do not count."""

    def __init__(self):
        self.most, self.ending = 0, threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def below(self, pid):
        for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in tasks.read_text().split():
                yield from self.below(child)
                yield child

    def look(self):
        for pid in self.below(os.getpid()):
            if os.readlink(f"/proc/{pid}/exe").endswith("/drdotnet"):
                size = re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
                self.most = max(self.most, int(size[1]) * 1024 if size else 0)

    def watch(self):
        while not self.ending.wait(0.002):
            try:
                self.look()
            except OSError:
                pass  # one of them ended meanwhile

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()


def of_size(millions):
    return Patient("leak", initial=millions * 1_000_000 // PER_STEP, size=20, rate=0.1, max=20_000_000, start_seconds=300)


def how(report, label):
    return next(h["value"] for h in report["how"] if h["label"] == label)


def live(bench, millions):
    """One heap: rows of what its examination costs, CPU seconds an object, and with AGAINST_CLRMD its core file's rows."""
    runs, felt = [], []
    with of_size(millions) as p:
        command = [bench.drdotnet, "gc-survivors", p.pid, "--json", "-q", "-p", "max_pause_ms=60000"]
        for _ in range(ROUNDS):
            with Heartbeat(p) as heart:
                runs.append(bench.weigh(command))
            felt.append(heart.longest)
        with Anonymous() as watch:
            bench.weigh(command)
        rows = against_clrmd(bench, p) if millions == AGAINST_CLRMD else []
    report = json.loads(runs[-1].out)
    objects = how(report, "Objects walked")
    paused = median(how(json.loads(r.out), "Target paused") for r in runs) / 1e9
    read = re.search(r"read for ([^;]+);", next(h["context"] for h in report["how"] if h["label"] == "Way"))[1]
    cpu = median(r.cpu for r in runs)
    name = f"{objects / 1e6:.1f} M objects, live `gc-survivors`"
    an_object = watch.most / objects
    return [
        Row(f"{name}: pause as we measure it, and the longest wait for an answer meanwhile", seconds(paused),
            seconds(median(felt)), "-", "-"),
        Row(f"{name}: how long the copy lived", read, "-", "-", "-"),
        Row(f"{name}: total time, and CPU", seconds(median(r.wall for r in runs)), seconds(cpu), "-", "-"),
        Row(f"{name}: resident size, and anonymous memory an object", megabytes(median(r.rss for r in runs)),
            f"{an_object:.0f} bytes", "-", "under 64 bytes", an_object < 64),
        *rows,
    ], cpu / objects


def any_object(bench, core):
    listed = bench.weigh([bench.drdotnet, "dump", "open", core, "-c", "heap type Shop.Catalog.Product"]).out
    return re.findall(r"^\s*(?:0x)?([0-9a-f]{10,16})\b", listed, re.M)[-1]


def against_clrmd(bench, patient):
    peer = oracle.build("clrmd")
    facts = bench.build / "tests" / "heap_facts"
    dac = PATIENTS / "sick" / patient.fx / "libmscordaccore.so"
    with tempfile.TemporaryDirectory() as folder:
        core = Path(folder) / "core"
        bench.weigh([bench.drdotnet, "dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "60s", "--quiet"])

        def cpu(command, rounds=ROUNDS):
            return median(bench.weigh(command).cpu for _ in range(rounds))

        wanted = any_object(bench, core)
        what = f"{AGAINST_CLRMD} M objects in a core, beside ClrMD"
        walk = cpu([facts, "heap", core])
        graph = subprocess.run([facts, "graph", core], capture_output=True, text=True, check=True).stderr
        dominators = int(re.search(r"dominators in (\d+) ms", graph)[1]) / 1000
        return [
            ratio_row(f"{what}: statistics by type, CPU", cpu([facts, "stat", core]), cpu(["dotnet", peer, "heap", core, dac]), seconds, 1 / 10),
            ratio_row(f"{what}: all references, CPU", walk, cpu(["dotnet", peer, "refs", core, dac]), seconds, 1 / 10),
            ratio_row(f"{what}: one path to a root, CPU",
                      cpu([bench.drdotnet, "dump", "open", core, "-c", f"roots {wanted}"]),
                      cpu(["dotnet", peer, "path", core, dac, wanted], 1), seconds, 1 / 10),
            Row(f"{what}: retained sizes of every object, CPU", seconds(dominators), "it has none", "-", "-"),
        ]


def run(bench):
    rows, an_object = [], {}
    for millions in MILLIONS:
        more, an_object[millions] = live(bench, millions)
        rows += more
    least, most = min(MILLIONS), max(MILLIONS)
    growth = an_object[most] / an_object[least]
    rows.append(Row(f"CPU an object at {most} M, beside that at {least} M", f"{an_object[most] * 1e9:.0f} ns",
                    f"{an_object[least] * 1e9:.0f} ns", f"{growth:.2f}", f"at most {LINEAR:g}", growth <= LINEAR))
    return rows
