"""What our library costs a process: how long it stands still beside a snapshot from outside, how long loading takes, how long
an examination by it takes, what its CPU samples take of the CPU; and the container: size of the image, memory at rest."""
import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

from measure import Row, median, megabytes, seconds
from patient import Patient

OBJECTS = (1_000_000, 5_000_000, 10_000_000)
OBJECT_BYTES = 24
ROUNDS = 5
CPU_SECONDS = 5
HANDLER_AIM = 0.01  # of the threads' CPU time, at 100 samples a second
IMAGE_AIM = 60_000_000
REST_SECONDS = 5


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


def samples(bench):
    """The handler's time by the threads' own clocks, which the report shows; at the default rate of 100 a second."""
    with Patient("cpu", threads=2) as patient:
        done = bench.weigh([bench.drdotnet, "cpu-hotpaths", patient.pid, "-d", f"{CPU_SECONDS}s", "--way", "agent", "--json", "--quiet"])
    how = {fact["label"]: fact for fact in json.loads(done.out)["how"]}
    cost = how["Cost in the process"]
    each = re.match(r"(.*) a sample", cost["context"])[1]
    return Row(f"agent: handler, {each} a sample, of the threads' CPU time", f"{cost['value']:.2%}", "-", "-",
               f"below {HANDLER_AIM:.0%}", cost["value"] < HANDLER_AIM)


def container(bench):
    """A server that nobody has asked anything, in its container."""
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        return [Row("container: needs root and docker.io", "-", "-", "-", "-")]
    from test_docker import Engine, IMAGE
    engine = Engine()
    try:
        subprocess.run([bench.root / "deploy" / "image", bench.build, IMAGE], check=True, capture_output=True,
                       env={**os.environ, "DOCKER_HOST": engine.host})
        size = int(engine.docker("image", "inspect", "-f", "{{.Size}}", IMAGE).stdout)
        port = 19093
        engine.docker("run", "-d", "--name", "rest", "--network", "host", "-e", f"DRDOTNET_LISTEN=127.0.0.1:{port}",
                      "-e", "DRDOTNET_AUTH=none", IMAGE)
        time.sleep(REST_SECONDS)
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/processes", timeout=30).read()
        pid = engine.docker("inspect", "-f", "{{.State.Pid}}", "rest").stdout.strip()
        status = Path(f"/proc/{pid}/status").read_text()
        rss = int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
        engine.docker("rm", "-f", "rest")
    finally:
        engine.stop()
    return [Row("container: size of the image", megabytes(size), "-", "-", f"below {megabytes(IMAGE_AIM)}", size < IMAGE_AIM),
            Row("container: resident at rest", megabytes(rss), "-", "-", "-")]


def run(bench):
    rows = []
    for n in OBJECTS:
        rows += pauses(bench, n)
    with Patient("deadlock") as patient:
        first = taken(bench, "attach_probe", patient.pid)
        rows.append(Row("agent: loaded by the runtime", seconds(first["attachNs"] / 1e9), "-", "-", "-"))
        rows.append(Row("agent: loaded, image received, left", seconds(first["wholeNs"] / 1e9), "-", "-", "-"))
    rows.append(samples(bench))
    rows += container(bench)
    return rows
