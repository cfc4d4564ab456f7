"""What our library costs a process: how long it stands still beside a snapshot from outside, how long loading takes, how long
an examination by it takes; and the size of the container image."""
import json

from measure import Row, median, megabytes, seconds
from patient import Patient

OBJECTS = (1_000_000, 5_000_000, 10_000_000)
OBJECT_BYTES = 24
ROUNDS = 5


def of_objects(n):
    """A session and its bytes each."""
    return Patient("leak", holder="static", rate=1, initial=n // 2, size=OBJECT_BYTES, start_seconds=300)


def taken(bench, program, *options):
    done = bench.weigh([bench.build / "tests" / program, *options],
                       env={"DRDOTNET_AGENT": str(bench.build / "libdrdotnet-agent.so")})
    return json.loads(done.out.splitlines()[-1])


def pauses(bench, n):
    with of_objects(n) as patient:
        agent = [taken(bench, "attach_probe", patient.pid) for _ in range(ROUNDS)]
        image = [taken(bench, "image_probe", "snapshot", patient.pid) for _ in range(ROUNDS)]
    name = f"agent, {n / 1e6:.0f} M objects"
    ours, theirs = (median(f[key] for f in facts) / 1e9 for facts, key in ((agent, "pauseNs"), (image, "pause_ns")))
    size, stream = median(f["bytes"] for f in agent), median(f["streamNs"] for f in agent) / 1e9
    return [
        Row(f"{name}: pause, beside a snapshot from outside", seconds(ours), seconds(theirs), f"{ours / theirs:.2f}", "-"),
        Row(f"{name}: {megabytes(size)} received", seconds(stream), "-", "-", "-"),
    ]


def run(bench):
    rows = []
    for n in OBJECTS:
        rows += pauses(bench, n)
    with Patient("deadlock") as patient:
        first = taken(bench, "attach_probe", patient.pid)
        rows.append(Row("agent: loaded by the runtime", seconds(first["attachNs"] / 1e9), "-", "-", "-"))
        rows.append(Row("agent: loaded, image received, left", seconds(first["wholeNs"] / 1e9), "-", "-", "-"))
    return rows
