"""Every system call and every allocation of ours fails once in turn. What must hold after each failure:

- The command ends, by itself and by no signal. It did its work all the same, or it failed in words; a session that failed has
  them as its error. Out of memory ends a process in order: no core file, and the session says "out of memory".
- No session is left unfinished and no half of one passes as done; rows and folders agree; an earlier session is what it was.
- No process and no temporary file of ours is left.
- The target lives: no thread of it is stopped or traced, it has no child, no event stream and no file more, and it answers.
- A server goes on: the same requests are answered well afterwards.

A failure is told by its place: the system call, and where in our code it comes from. A good run counts the places; then each
place fails at its first call and in the middle of its calls, with each error that the call can give (tests/tools/torture.c
has the table). tests/tools/torture_alloc.c does the same with allocations.

An ordinary run takes a few of them, others each day. DRDOTNET_TORTURE=1 (`make soak`) takes all; DRDOTNET_TORTURE_SHARD=1/4 a
part; DRDOTNET_TORTURE_RESULTS=FILE keeps what was tried, one JSON line each, and leaves out what stands there already."""

import collections
import json
import os
import platform
import queue
import random
import subprocess
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drdotnet import PROGRAM
from patient import DAY
from server import Server
from torture import Lane, Try, allocation_tries, call_tries, judge

WHOLE = bool(os.environ.get("DRDOTNET_TORTURE"))
SHARD, SHARDS = map(int, os.environ.get("DRDOTNET_TORTURE_SHARD", "1/1").split("/"))
RESULTS = os.environ.get("DRDOTNET_TORTURE_RESULTS")
LANES = 4 if WHOLE else 2
TRIES_EACH = 2  # of an ordinary run: of each role and kind of a command

# What is tortured: the command for a lane, the roles of ours that take part, whether it ends in a session.
COMMANDS = {
    "events": (lambda lane: ["exceptions", lane.patient.pid, "-d", "1s"], ("worker", "starter"), True),
    "samples": (lambda lane: ["cpu-hotpaths", lane.patient.pid, "-d", "1s"], ("worker",), True),
    "image": (lambda lane: ["heap-stats", lane.patient.pid], ("worker", "helper"), True),
    "stacks": (lambda lane: ["merged-call-stacks", lane.patient.pid], ("worker",), True),
    "replay": (lambda lane: ["exceptions", "--session", lane.kept], ("worker", "starter"), True),
    "sessions": (lambda lane: ["sessions", "show", lane.kept], ("starter",), False),
    "ps": (lambda lane: ["ps"], ("starter",), False),
}


MENDED = [  # command, system call, function, errors
    ("image", "sendto", "end_tracer", ("ENOMEM",)),  # the tracer was killed, and the copy stayed as a dead child of the target
    ("image", "openat", "find_names", ("EMFILE",)),  # no thread was known that would reap it
    ("events", "sendto", "connect_send", ("EPIPE",)),  # a stream was not stopped
]


def functions(tries):
    """The innermost function of each."""
    places = [one.at.split(",")[0] or "0" for one in tries]
    out = subprocess.run(["addr2line", "-f", "-e", PROGRAM, *places], capture_output=True, text=True, check=True).stdout
    return out.splitlines()[::2]


def chosen(tries, shift):
    """All of them, or a few that are others each day."""
    tries = sorted(tries, key=Try.key)
    random.Random(shift).shuffle(tries)
    if WHOLE:
        return tries[SHARD - 1::SHARDS]
    return [tries[(DAY * TRIES_EACH + i) % len(tries)] for i in range(min(TRIES_EACH, len(tries)))]


class Torture(unittest.TestCase):
    SIDE_BY_SIDE = True

    @classmethod
    def setUpClass(cls):
        if platform.machine() != "x86_64":
            raise unittest.SkipTest("tests/tools/torture.c knows the registers of x86-64 only")
        cls.pool = ThreadPoolExecutor(LANES)  # for the whole class: a patient ends with the thread that started it
        cls.addClassCleanup(cls.pool.shutdown)
        cls.lanes = []
        for _ in range(LANES):
            lane = Lane("exceptions", rate=100)
            cls.addClassCleanup(lane.__exit__)
            lane.keep("exceptions", lane.patient.pid, "-d", "1s", "--keep-recording")
            cls.lanes.append(lane)
        past = Path(RESULTS).read_text().splitlines() if RESULTS and Path(RESULTS).exists() else []
        cls.known = {one["key"] for one in map(json.loads, past) if one["outcome"] != "defect"}
        cls.lock, cls.counts = threading.Lock(), collections.Counter()

    @classmethod
    def tearDownClass(cls):
        print(", ".join(f"{n} {outcome}" for outcome, n in sorted(cls.counts.items())), flush=True)

    def test_events(self):
        self.torture("events")

    def test_samples(self):
        self.torture("samples")

    def test_image(self):
        self.torture("image")

    def test_stacks(self):
        self.torture("stacks")

    def test_replay(self):
        self.torture("replay")

    def test_sessions(self):
        self.torture("sessions")

    def test_ps(self):
        self.torture("ps")

    def test_what_was_mended(self):
        """Failures that once left something behind, by the function that meets them."""
        lane = self.lanes[0]
        for name, call, function, errors in MENDED:
            command = COMMANDS[name][0]
            places = [one for one in call_tries("worker", lane.count("calls", "worker", command(lane))) if one.name == call]
            tries = [one for one, where in zip(places, functions(places)) if where == function and one.error in errors]
            self.assertTrue(tries, f"{function} makes no call {call} any more")
            self.try_all(name, tries, lambda lane, one: judge(lane, one, lane.run(one, command(lane)), True))

    def torture(self, name):
        command, roles, finds_session = COMMANDS[name]
        lane, tries = self.lanes[0], []
        for shift, role in enumerate(roles):
            tries += chosen(call_tries(role, lane.count("calls", role, command(lane))), shift)
            if role != "helper":  # it is another program
                some = chosen(allocation_tries(role, lane.count("allocations", role, command(lane))), shift)
                # What the C library does for the names of users does not bear it: glibc 2.36 crashes in getpwuid_r().
                tries += [one for one, where in zip(some, functions(some)) if where != "user_name"]
        self.assertTrue(tries)
        self.try_all(name, tries, lambda lane, one: judge(lane, one, lane.run(one, command(lane)), finds_session))

    def try_all(self, name, tries, attempt):
        """Each of them, a lane at a time; what one lane meets with stays in it."""
        waiting, bad = queue.Queue(), []
        for one in tries:
            if f"{name}:{one.key()}" not in self.known:
                waiting.put(one)

        def work(lane):
            while True:
                try:
                    one = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    outcome, detail = attempt(lane, one)
                except Exception as error:  # the lane is of no use any more: a thread's exception would be lost
                    outcome, detail = "defect", f"{type(error).__name__}: {error}"
                self.note(name, one, outcome, detail)
                if outcome == "defect":
                    bad.append((one, detail))

        for done in [self.pool.submit(work, lane) for lane in self.lanes]:
            done.result()
        for one, detail in bad:
            with self.subTest(f"{name}: {one.name} of the {one.role}: {one.error}", place=one.place, nth=one.nth, at=one.at):
                self.fail(detail)

    def note(self, name, one, outcome, detail):
        with self.lock:
            self.counts[outcome] += 1
            if RESULTS:
                line = {"key": f"{name}:{one.key()}", "name": one.name, "at": one.at, "outcome": outcome, "detail": detail}
                with open(RESULTS, "a") as out:
                    print(json.dumps(line), file=out)


class Served(unittest.TestCase):
    """A server with a failure in it says so to one request, at most, and goes on."""

    SIDE_BY_SIDE = True
    ROUNDS = 3

    @classmethod
    def setUpClass(cls):
        if platform.machine() != "x86_64":
            raise unittest.SkipTest("tests/tools/torture.c knows the registers of x86-64 only")
        cls.lane = Lane("exceptions", rate=100)
        cls.addClassCleanup(cls.lane.__exit__)
        cls.lane.keep("exceptions", cls.lane.patient.pid, "-d", "1s", "--keep-recording")

    def paths(self):
        kept = f"/api/sessions/{self.lane.kept}"
        return ["/", "/api/processes", "/api/sessions", kept, f"{kept}/report.json", f"{kept}/report.html", f"{kept}/download"]

    def round(self, server):
        """The answers that are not as they should be."""
        bad = []
        for path in self.paths():
            try:
                status = server.get(path).status
            except OSError as error:
                status = repr(error)
            if status != 200:
                bad.append(f"{path}: {status}")
        return bad

    def serve(self, one, counting=False):
        out = self.lane.tmp / "served"
        out.unlink(missing_ok=True)
        prefix, env = self.lane.means(one, out, counting)
        try:
            server = Server(self.lane.home, prefix=prefix, env={**self.lane.env, **env})
        except AssertionError as error:
            return out, f"not started: {error}"
        with server:
            rounds = [self.round(server) for _ in range(self.ROUNDS)]
            self.assertEqual(rounds[-1], [], f"{one} {rounds} {server.log()}")
            code = server.stop()
        self.assertEqual(code, 0, f"{one} {server.log()}")
        return out, ""

    def test_goes_on(self):
        out, words = self.serve(Try("starter", "", 0, "", ""), counting=True)
        self.assertEqual(words, "")
        tries = call_tries("starter", out.read_text())
        # libmicrohttpd wakes its thread by an eventfd, which the kernel never fails, and ends the process if it did.
        tries = [one for one, where in zip(tries, functions(tries)) if one.name != "write" or not where.startswith("MHD_")]
        tries = chosen(tries, 3)
        self.assertTrue(tries)
        for one in tries:
            with self.subTest(f"{one.name}: {one.error}", place=one.place, nth=one.nth, at=one.at):
                _, words = self.serve(one)
                self.assertNotEqual(words, "not started: the server did not start: ")
                self.assertEqual(self.lane.wrong(), "")
                self.lane.tidy()


if __name__ == "__main__":
    unittest.main()
