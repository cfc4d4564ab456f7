"""Our library in the process: the same answers as from outside, and nothing of it left, whoever dies when."""

import itertools
import json
import os
import socket
import struct
import subprocess
import tempfile
import unittest
import uuid
from pathlib import Path

from drdotnet import Home, PROGRAM, wait_until
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True

BUILD = Path(PROGRAM).parent
PROBE = str(BUILD / "tests" / "attach_probe")
AGENT = str(BUILD / "libdrdotnet-agent.so")
FAULTY = str(BUILD / "tests" / "libdrdotnet-agent-faulty.so")
OTHER = str(BUILD / "tests" / "libother-profiler.so")
ROUNDS = int(os.environ.get("DRDOTNET_ROUNDS", "30"))
FEW_ROUNDS = 30
COPY_STEPS = 7
CLEAN_SECONDS = 20
SECONDS = 120


def seconds_for(rounds):
    return max(SECONDS, 10 * rounds)


class Taken:
    def __init__(self, done):
        self.code, self.err = done.returncode, done.stderr
        self.looks = [json.loads(line) for line in done.stdout.splitlines()]
        self.passed = [line.split(" passes: ")[1] for line in done.stderr.splitlines() if " passes: " in line]

    def __repr__(self):
        return f"exit code {self.code}, {self.err.strip()}, {self.looks}"


def take(pid, *options, library=AGENT, fault=None):
    env = {**os.environ, "DRDOTNET_AGENT": library}
    if fault:
        env["DRDOTNET_FAULT"] = fault
    return Taken(subprocess.run([PROBE, str(pid), *map(str, options)], capture_output=True, text=True, env=env,
                                timeout=seconds_for(ROUNDS)))


def attach(pid, library, data=b""):
    """AttachProfiler, as anybody may send it; returns the runtime's answer."""
    path = next(Path(f"/proc/{pid}/root/tmp").glob(f"dotnet-diagnostic-{pid}-*-socket"))
    name = (library + "\0").encode("utf-16-le")
    payload = struct.pack("<I", 3000) + uuid.uuid4().bytes + struct.pack("<I", len(name) // 2) + name
    payload += struct.pack("<I", len(data)) + data
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(str(path))
        s.sendall(b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20 + len(payload), 3, 1, 0) + payload)
        reply = s.recv(64)
    return struct.unpack_from("<I", reply, 20)[0]


class Traces:
    """What of us could be in a process: mappings, descriptors, threads, children, files."""

    def __init__(self, pid):
        self.pid = pid
        self.folder = Path(f"/proc/{pid}")
        self.fds = self.descriptors()
        self.files = self.in_tmp()

    def descriptors(self):
        """Those of its diagnostics server come and go with whoever asks it something."""
        names = {line.split()[6]: line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
        found = []
        for fd in (self.folder / "fd").iterdir():
            try:
                kind, _, inode = os.readlink(fd).partition(":[")
            except FileNotFoundError:
                continue
            if "dotnet-diagnostic-" not in names.get(inode.rstrip("]"), ""):
                found.append(kind)
        return sorted(found)

    def in_tmp(self):
        return {p.name for p in (self.folder / "root/tmp").glob("drdotnet-" + "[0-9a-f]" * 32)}

    def mapped(self):
        lines = (self.folder / "maps").read_text().splitlines()
        return sorted({line.split(maxsplit=5)[-1] for line in lines if "agent" in line.rpartition("/")[2]})

    def children(self):
        return [c for task in (self.folder / "task").iterdir() for c in (task / "children").read_text().split()]

    def clean(self):
        try:
            return not self.mapped() and not self.children() and self.in_tmp() <= self.files and \
                self.descriptors() == self.fds
        except FileNotFoundError:
            return False  # a thread that ended while we looked

    def wait(self, what):
        try:
            wait_until(self.clean, what, CLEAN_SECONDS)
        except AssertionError as e:
            raise AssertionError(f"{e}: {self.mapped()} {self.children()} {self.in_tmp() - self.files} "
                                 f"{self.fds} {self.descriptors()}") from None

    def resident(self):
        return int((self.folder / "statm").read_text().split()[1]) * 4096


def frames(stacks):
    """All but what registers say about the first frame of the runtime: by agent there are none."""
    return [(t["managedId"], t["osId"], t["name"], t["state"],
             [(f["method"], f["frame"], f["sp"], f["file"], f["line"], f["frame"] or f["ip"]) for f in t["frames"]])
            for t in stacks["threads"] if any(f["method"] for f in t["frames"])]


class SameAnswers(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def stacks(self, pid, *options):
        done = self.home.run("stacks", pid, "--json", *options)
        self.assertEqual(done.code, 0, done)
        return done.json()

    def test_stacks_by_image_and_by_agent(self):
        for fx in FRAMEWORKS:
            for server_gc in (False, True):
                with self.subTest(fx, server_gc=server_gc), Patient("deadlock", fx=fx, server_gc=server_gc) as patient:
                    before = Traces(patient.pid)
                    image, agent = self.stacks(patient.pid, "--way", "image"), self.stacks(patient.pid, "--way", "agent")
                    self.assertEqual(frames(agent), frames(image))
                    self.assertGreater(sum(len(t["frames"]) for t in agent["threads"]), 20)
                    self.assertGreater(agent["pauseMs"], 0)
                    before.wait("the library has left")

    def test_of_another_user(self):
        with Patient("deadlock", fx="net10.0", user="nobody") as patient:
            before = Traces(patient.pid)
            self.assertEqual(frames(self.stacks(patient.pid, "--way", "agent")),
                             frames(self.stacks(patient.pid, "--way", "image")))
            before.wait("the library has left")

    def test_by_its_socket_alone(self):
        """Nothing but the socket and its folder is used, as where only a volume is shared; the library that understands
        the image comes with it."""
        with Patient("deadlock", fx="net10.0") as patient:
            taken = take(patient.pid, "--unseen", "--send-dac")
            self.assertEqual(taken.code, 0, taken)
            self.assertTrue(taken.looks[0]["dac"])
            self.assertEqual(taken.looks[0]["left"], 0)


    def test_dumps_by_agent(self):
        """A core file of each kind tells the same stacks as the living process does from outside."""
        def named(stacks):
            return {t["managedId"]: (t["name"], [f["name"] for f in t["frames"] if f["name"]]) for t in stacks["threads"]
                    if any(f["name"] for f in t["frames"])}
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            before = Traces(patient.pid)
            alive = named(self.stacks(patient.pid, "--way", "image"))
            self.assertGreater(len(alive), 5)
            for kind in ("mini", "heap", "full"):
                with self.subTest(kind):
                    core = self.home.path / f"{kind}.core"
                    done = self.home.run("dump", "collect", patient.pid, "--fast", "--way", "agent", "--type", kind, "-o", core,
                                         "--json", "--quiet")
                    self.assertEqual((done.code, done.json()["by"]), (0, "agent"), done)
                    self.assertEqual(core.stat().st_mode & 0o777, 0o600)
                    done = self.home.run("stacks", "--core", core, "--json")
                    self.assertLessEqual(alive.items(), named(done.json()).items())
            before.wait("the library has left")


class SameHeap(unittest.TestCase):
    def heap(self, home, patient, way):
        """Name, objects, bytes and retained bytes of every type."""
        path = home.path / f"{way}.json"
        done = home.run("run", "heap-stats", patient.pid, "--way", way, "-o", path, "--quiet")
        self.assertEqual(done.code, 0, done)
        report = json.loads(path.read_text())
        table = next(b for b in walk(report) if b.get("title") == "Types" and "rows" in b)
        return [row["cells"] for row in table["rows"]]

    def test_by_image_and_by_agent(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("leak", fx=fx) as patient:
                self.assertTrue(patient.pause()["quiet"])
                image, agent = self.heap(home, patient, "image"), self.heap(home, patient, "agent")
                self.assertEqual(agent, image)
                self.assertGreater(len(agent), 10)


def walk(node):
    if isinstance(node, dict):
        yield node
        node = list(node.values())
    if isinstance(node, list):
        for child in node:
            yield from walk(child)


def matrix():
    """Runtime, server GC, regions or segments, rounds. A long run takes all that there are, an ordinary one some of them."""
    regions, segments = {}, {"DOTNET_GCName": "libclrgc.so"}
    if ROUNDS <= FEW_ROUNDS:
        return [("net8.0", False, regions, ROUNDS // 6), ("net9.0", True, regions, ROUNDS // 6), ("net10.0", False, regions, ROUNDS),
                ("net10.0", False, segments, ROUNDS // 6)]
    kinds = list(itertools.product(FRAMEWORKS, (False, True), (regions, segments)))
    return [(*kind, -(-ROUNDS // len(kinds))) for kind in kinds]


class Rounds(unittest.TestCase):
    def test_attach_and_detach_under_load(self):
        """Busy threads, exceptions and collections go on; what the patient counts stays right."""
        for fx, server_gc, env, rounds in matrix():
            if fx not in FRAMEWORKS:
                continue
            with self.subTest(fx, server_gc=server_gc, env=env), \
                    Patient("exceptions,gc-pauses", fx=fx, server_gc=server_gc, env=env,
                            max_seconds=seconds_for(rounds) + 600) as patient:
                first = take(patient.pid)
                self.assertEqual(first.code, 0, first)
                before = Traces(patient.pid)
                wait_until(lambda: not before.mapped(), "the first one has left", CLEAN_SECONDS)
                before = Traces(patient.pid)
                before.files = set()
                resident = before.resident()
                taken = take(patient.pid, "--times", rounds)
                self.assertEqual((taken.code, len(taken.looks)), (0, rounds), taken)
                before.wait("the last one has left")
                # It works on, and what it has counted in several places agrees.
                patient.mark()
                wait_until(lambda: patient.truth()["exceptions"]["objects"] > 0, "it works on")
                wait_until(lambda: patient.pause()["quiet"], "it stands still")
                truth = patient.truth()["exceptions"]
                self.assertEqual(truth["objects"], sum(t["objects"] for t in truth["types"].values()))
                self.assertEqual(truth["events"], sum(t["events"] for t in truth["types"].values()))
                self.assertTrue(patient.alive())
                self.assertLess(before.resident(), resident * 1.5 + (64 << 20))


class Stays(unittest.TestCase):
    def test_one_thread_of_the_runtime(self):
        """That which unloads profilers, once."""
        def threads():
            return {p.name: (p / "comm").read_text().strip() for p in Path(f"/proc/{patient.pid}/task").iterdir()}

        def more(than):
            """Those of the diagnostics server; others come and go with the work of the process."""
            return [name for tid, name in threads().items() if tid not in than and name == ".NET EventPipe"]
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("healthy", fx=fx) as patient:
                before, traces = threads(), Traces(patient.pid)
                self.assertEqual(take(patient.pid).code, 0)
                traces.wait("the library has left")
                self.assertEqual(more(before), [".NET EventPipe"])
                after = threads()
                self.assertEqual(take(patient.pid, "--times", 3).code, 0)
                traces.wait("the library has left")
                self.assertEqual(more(after), [])


class Faults(unittest.TestCase):
    """Whoever dies at whatever step: the process runs on and is clean within seconds."""

    def test_we_die(self):
        """The keeper tidies up, also in the folder of another user, whose rights are all it has there."""
        for user in (None, "nobody"):
            if user and os.geteuid() != 0:
                continue
            with Patient("deadlock", fx="net10.0", user=user) as patient:
                self.we_die(patient, user)

    def we_die(self, patient, user):
        before = Traces(patient.pid)
        places = take(patient.pid, fault="list").passed
        self.assertGreater(len(places), 6)
        before.wait("the library has left")
        for place in places:
            with self.subTest(place, user=user):
                taken = take(patient.pid, fault=f"host:{place}:1")
                self.assertEqual(taken.code, -9, taken)
                before.wait(f"clean after our death at '{place}'")
                self.assertEqual(patient.ask("truth", "TRUTH")["paused"], False)
        self.assertEqual(take(patient.pid).code, 0)

    def test_the_copy_dies(self):
        with Patient("deadlock", fx="net10.0") as patient:
            before = Traces(patient.pid)
            for step in range(1, COPY_STEPS + 1):
                with self.subTest(step):
                    taken = take(patient.pid, "--fault", step, library=FAULTY)
                    # After the last record nothing is missing.
                    self.assertEqual(taken.code, 0 if step == COPY_STEPS else 1, taken)
                    if step < COPY_STEPS:
                        self.assertIn("the copy of the process was killed before it was read", taken.err)
                    before.wait(f"clean after its death at step {step}")
            self.assertEqual(take(patient.pid).code, 0)

    def test_the_copy_hangs(self):
        """Its time is up: the library ends it."""
        with Patient("deadlock", fx="net10.0") as patient:
            before = Traces(patient.pid)
            for step in (1, 5):
                taken = take(patient.pid, "--fault", 100 + step, "--max-life", 1000, library=FAULTY)
                self.assertEqual(taken.code, 1, taken)
                self.assertIn("time limit", taken.err)
                before.wait(f"clean after it hung at step {step}")


class Others(unittest.TestCase):
    def test_beside_another_profiler(self):
        """An APM that is there already stays, and we work beside it."""
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("deadlock", fx=fx) as patient:
                self.assertEqual(attach(patient.pid, OTHER), 0)
                self.assertEqual(attach(patient.pid, OTHER), 0x8013136A)  # it is the one
                before = Traces(patient.pid)
                for _ in range(2):
                    done = home.run("stacks", patient.pid, "--way", "agent")
                    self.assertEqual(done.code, 0, done)
                before.wait("ours has left")
                self.assertIn(OTHER, (Path(f"/proc/{patient.pid}/maps")).read_text())

    def test_beside_one_from_the_start(self):
        env = {"CORECLR_ENABLE_PROFILING": "1", "CORECLR_PROFILER": "{" + str(uuid.uuid4()) + "}",
               "CORECLR_PROFILER_PATH": OTHER}
        with Home() as home, Patient("deadlock", fx="net10.0", env=env) as patient:
            before = Traces(patient.pid)
            done = home.run("stacks", patient.pid, "--way", "agent")
            self.assertEqual(done.code, 0, done)
            before.wait("ours has left")


class Refusals(unittest.TestCase):
    def test_attach_switched_off(self):
        with Home() as home, Patient("deadlock", fx="net10.0", env={"DOTNET_EnableDiagnostics_Profiler": "0"}) as patient:
            done = home.run("stacks", patient.pid, "--way", "agent")
            self.assertNotEqual(done.code, 0)
            self.assertIn("told to take no profilers", done.err)

    def test_pause_too_long(self):
        with Patient("deadlock", fx="net10.0") as patient:
            taken = take(patient.pid, "--max-pause", 1)
            self.assertEqual(taken.code, 1)
            self.assertIn("longer than is allowed", taken.err)

    def test_not_a_library(self):
        with tempfile.NamedTemporaryFile() as f, Patient("deadlock", fx="net10.0") as patient:
            f.write(b"not a library")
            f.flush()
            before = Traces(patient.pid)
            taken = take(patient.pid, library=f.name)
            self.assertEqual(taken.code, 1)
            before.wait("nothing is left")

    def test_hostile_configuration(self):
        """Whoever else loads the library with other parameters gets nothing, and it leaves again."""
        with Patient("deadlock", fx="net10.0") as patient:
            before = Traces(patient.pid)
            for data in (b"", b"\0", b"drdnagt\0" + b"\xff" * 1088, b"A" * 1096):
                self.assertNotEqual(attach(patient.pid, AGENT, data), 0)
            before.wait("it has left")


if __name__ == "__main__":
    unittest.main()
