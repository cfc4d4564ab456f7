"""The heap: against ClrMD on one core file of millions of objects, and a living process of that size."""
import json
import tempfile
from pathlib import Path

import oracle
from measure import median, ratio_row, Row, seconds
from patient import PATIENTS, Patient

OBJECTS = 1_000_000  # of each of three holders: nine million objects in all
ROUNDS = 3


def core_of(bench, patient, folder):
    core = Path(folder) / "core"
    bench.weigh([bench.drdotnet, "dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet"])
    return core


def run(bench):
    peer = oracle.build("clrmd")
    facts = bench.build / "tests" / "heap_facts"
    dac = PATIENTS / "sick" / "net10.0" / "libmscordaccore.so"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with Patient("leak", initial=OBJECTS, size=20, rate=0.1, max=20_000_000) as p:
            core = core_of(bench, p, folder)
            live = [bench.weigh([bench.drdotnet, "gc-survivors", p.pid, "--json", "-q", "-p", "max_pause_ms=60000"])
                    for _ in range(ROUNDS)]
            p.truth()
        def cpu(command):
            return median(bench.weigh(command).cpu for _ in range(ROUNDS))
        whole = [bench.weigh([bench.drdotnet, "gc-survivors", "--core", core, "--json", "-q"]) for _ in range(ROUNDS)]
        n = json.loads(whole[-1].out)["how"]
        objects = next(h["value"] for h in n if h["label"] == "Objects walked")
        what = f"{objects:,.0f} objects"
        walk = cpu([facts, "heap", core])
        rows.append(ratio_row(f"{what}: statistics by type beside ClrMD, CPU", walk, cpu(["dotnet", peer, "heap", core, dac]), seconds, 0.1))
        rows.append(ratio_row(f"{what}: all references beside ClrMD, CPU", walk, cpu(["dotnet", peer, "refs", core, dac]), seconds, 0.1))
        holders = median(w.cpu for w in whole)
        rows.append(ratio_row(f"{what}: everything of `gc-survivors` beside one root path of ClrMD, CPU", holders,
                              bench.weigh(["dotnet", peer, "path", core, dac, "Shop.Catalog.Product"]).cpu, seconds, None))
    peak = median(w.rss for w in live)
    paused = median(next(h["value"] for h in json.loads(w.out)["how"] if h["label"] == "Target paused") for w in live) / 1e9
    rows.append(Row(f"{what}: live `gc-survivors`, the process stands still", seconds(paused), "–", "–", ""))
    rows.append(Row(f"{what}: live `gc-survivors`, our memory an object", f"{peak / objects:.0f} bytes", "–", "–", "64 bytes", peak / objects < 64))
    return rows
