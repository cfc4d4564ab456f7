"""Where threads wait, against what the patients timed themselves, on every runtime."""

import os
import select
import shutil
import unittest
from pathlib import Path

from drdotnet import DEADLINE_SECONDS, PROGRAM, Home, Report, examine, for_each_result, wait_until
from patient import FRAMEWORKS, Patient, WebPatient, one_of, run_delay_ns

GATE_CLOSE = Path(PROGRAM).parent / "tests" / "libgate_close.so"
PLACES = "Where your code waits"
# What the patient does -> what a report calls it.
WORDS = {"futex": "an event or signal", "fifo": "a pipe", "socket": "a socket", "thread-sleep": "sleep",
         "nanosleep": "sleep", "epoll": "epoll or poll"}


class Result:
    """A future that is done: the tests run one after the other."""

    def __init__(self, *values):
        self._values = values

    def result(self):
        return self._values


def times(report, method):
    """Waits for -> time."""
    return {row["Waits for"]: row["Time"] for row in report.rows(PLACES) if row["Method"] == method}


def closers_at(gate):
    """The processes that close descriptors for a drdotnet which was started with that gate."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text() == "drdotnet-closer\n" and str(gate).encode() in (process / "environ").read_bytes():
                yield int(process.name)
        except (FileNotFoundError, ProcessLookupError):
            pass


class Kinds(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = {fx: Result(*cls.examined(fx)) for fx in FRAMEWORKS}

    @classmethod
    def examined(cls, fx):
        with Patient("waits", fx=fx) as patient:
            patient.mark()
            report = examine(cls.home, "off-cpu", patient.pid, 4)
            return report, patient.truth()

    @for_each_result
    def test_each_kind_of_wait_has_its_place_and_its_time(self, _, report, truth):
        window = report.data["facts"]["windowNs"]
        for kind, waiter in truth["waits"]["kinds"].items():
            with self.subTest(kind):
                got = times(report, waiter["method"])
                self.assertIn(WORDS[kind], got)
                expected = waiter["waited_ns"] / truth["since_mark_ns"]
                self.assertAlmostEqual(got[WORDS[kind]] / window, expected, delta=0.1)
                self.assertGreater(got[WORDS[kind]] / sum(got.values()), 0.9)

    @for_each_result
    def test_it_waits_and_that_is_no_alarm(self, _, report, truth):
        self.assertEqual(report.finding, "waits")
        self.assertEqual(report.health, "info")

    @for_each_result
    def test_stacks_are_whole(self, _, report, truth):
        self.assertGreater(report.how["Whole stacks"]["value"], 0.9)


class Special(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())

    def test_waits_through_the_whole_window_are_seen_without_a_stop(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Patient("blocked", fx=fx, threads=60) as patient:
                truth = patient.truth()["blocked"]["waiting"]
                report = examine(self.home, "off-cpu", patient.pid, 2)
                seen = {row["Method"]: row["All the time"] for row in report.rows(PLACES)}
                for method, threads in truth.items():
                    self.assertEqual(seen.get(method), threads, seen)
                self.assertEqual(report.finding, "nothing-waits")

    def test_a_contended_lock_is_the_story(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("contention", fx=fx, kind="monitor") as patient:
                report = examine(self.home, "off-cpu", patient.pid, 3)
                self.assertEqual(report.finding, "lock-waits")
                self.assertEqual(report.health, "warn")
                self.assertIn("Shop.Inventory.Stock.Reserve", report.verdict)

    def test_a_busy_collector_is_no_lock(self):
        for fx in FRAMEWORKS[:1] + FRAMEWORKS[-1:]:
            with self.subTest(fx), Patient("gc-pauses", fx=fx) as patient:
                report = examine(self.home, "off-cpu", patient.pid, 2)
                waits = {(row["Waits for"]): row["Time"] for row in report.rows("By what it waits for")}
                self.assertNotEqual(report.finding, "lock-waits", report.verdict)
                self.assertLess(waits.get("a lock", 0), max(waits.get("the garbage collector", 0), 1e8), waits)

    def test_a_lock_that_is_never_given_back(self):
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            report = examine(self.home, "off-cpu", patient.pid, 1)
            self.assertEqual((report.finding, report.health), ("lock-held", "warn"), report.verdict)
            self.assertRegex(report.verdict, r"^\d+ threads waited all the time for a lock, (most )?in Shop\.")

    def test_healthy_gets_no_alarm(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Patient("healthy", fx=fx) as patient:
                before = run_delay_ns(patient.pid)
                report = examine(self.home, "off-cpu", patient.pid, 2)
                if report.finding == "cpu-starved":  # others use this machine: then the kernel must say so too
                    self.assertGreater(run_delay_ns(patient.pid) - before, 1e9)
                    continue
                self.assertIn(report.finding, ("nothing-waits", "waits"))
                self.assertIn(report.health, ("ok", "info"))

    def test_many_switches_are_thinned_and_that_is_said(self):
        with Patient("switches,waits", **{"switches.pairs": 1}) as patient:
            patient.mark()
            report = examine(self.home, "off-cpu", patient.pid, 5)
            truth = patient.truth()
        self.assertIn("thinned", report.how["Switches"]["context"])
        self.assertLess(report.how["Listened"]["value"], 0.9)
        self.assertIn("a pipe", times(report, "Patients.Switches.Hand"))
        # What waits long beside them is scaled to the window as well; the little that was heard leaves some play.
        waiter = truth["waits"]["kinds"]["thread-sleep"]
        got = sum(times(report, waiter["method"]).values()) / report.data["facts"]["windowNs"]
        self.assertAlmostEqual(got, waiter["waited_ns"] / truth["since_mark_ns"], delta=0.35)

    def test_the_report_does_not_wait_for_descriptors_to_be_closed(self):
        """A kernel may take seconds to close each perf event; this one never ends."""
        gate = self.home.path / "gate"
        os.mkfifo(gate)
        with Patient("switches", fx=FRAMEWORKS[-1], **{"switches.pairs": 1}) as patient:
            done = self.home.run("off-cpu", patient.pid, "-d", "2s",
                                 env={"LD_PRELOAD": str(GATE_CLOSE), "GATE_CLOSE": str(gate)})
            self.assertEqual(done.code, 0, done)
            closers = [os.pidfd_open(pid) for pid in closers_at(gate)]
            self.assertTrue(closers, "nothing was left to be closed: the test shows nothing")
        writer = os.open(gate, os.O_RDWR)
        for closer in closers:
            self.assertTrue(select.select([closer], [], [], DEADLINE_SECONDS)[0], "it does not end")
            os.close(closer)
        os.close(writer)

    def test_pages_that_are_not_there(self):
        with Patient("faults") as patient:
            patient.mark()
            report = examine(self.home, "off-cpu", patient.pid, 3)
            truth = patient.truth()
        self.assertGreater(truth["faults"]["faults"], 100)
        got = times(report, truth["faults"]["method"])
        self.assertGreater(got["a page fault"] / sum(got.values()), 0.9)
        # Its own wait includes being able to run without a cpu; ours does not.
        window, since = report.data["facts"]["windowNs"], truth["since_mark_ns"]
        self.assertLess(got["a page fault"] / window, truth["faults"]["waited_ns"] / since * 1.3 + 0.05)
        self.assertGreater((got["a page fault"] + report.figures["Waited for a CPU"]) / window,
                           truth["faults"]["waited_ns"] / since * 0.6)

    def test_the_recording_gives_the_same_report_again(self):
        with Patient("waits") as patient:
            first = examine(self.home, "off-cpu", patient.pid, 2)
        guid = self.home.sessions()[0]["guid"]
        done = self.home.run("run", "off-cpu", "--session", guid, "--json")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.json()["blocks"], first.data["blocks"])
        self.assertEqual(done.json()["verdict"], first.data["verdict"])

    def test_without_the_right_the_runtime_tells_of_locks_and_events(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become somebody else")
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
        with Home() as home, Patient("waits,contention", user="nobody", **{"contention.kind": "monitor"}) as patient:
            shutil.chown(home.path, "nobody")
            patient.mark()
            report = examine(home, "off-cpu", patient.pid, 3, prefix=user)
            truth = patient.truth()["waits"]["kinds"]["futex"]
            since = patient.truth()["since_mark_ns"]
            done = home.run("off-cpu", patient.pid, "-d", "1s", "--way", "samples", prefix=user)
        self.assertEqual(done.code, 4, done)
        self.assertIn("CAP_PERFMON", done.err)
        self.assertIn("CAP_PERFMON", report.how["Why not by samples"]["value"])
        self.assertEqual(report.how["Way"]["value"], "events")
        self.assertIn("a lock", times(report, "Shop.Inventory.Stock.Reserve"))
        got = times(report, truth["method"])["an event or signal"] / report.data["facts"]["windowNs"]
        self.assertAlmostEqual(got, truth["waited_ns"] / since, delta=0.15)
        self.assertNotIn("Waited for a CPU", report.figures)  # not measured, so not there

    def test_a_path_that_spins_and_one_that_waits(self):
        """Equal load on both: the waiting one is nowhere on the CPU and nearly all of the waiting."""
        spins, waits = "Shop.Web.Routes.OnCpu", "Shop.Web.Routes.OffCpu"
        with WebPatient() as patient:
            with patient.start_load("on-cpu?ms=100", rate=4, seconds=30), patient.start_load("off-cpu?ms=100", rate=4, seconds=30):
                on = examine(self.home, "cpu-hotpaths", patient.pid, 5, "-p", "time_interval_ms=1")
                folder = self.home.path / "sessions" / self.home.sessions()[0]["guid"]
                off = examine(self.home, "off-cpu", patient.pid, 5)
        stacks = [line.rpartition(" ") for line in (folder / "folded_stacks.out").read_text().splitlines()]
        total = sum(int(n) for _, _, n in stacks)
        part = {name: sum(int(n) for frames, _, n in stacks if name in frames.split(";")) / total for name in (spins, waits)}
        self.assertLess(part[waits], 0.005)
        self.assertGreater(part[spins], 0.5)
        waited = {row["Method"]: row["Time"] for row in off.rows(PLACES)}
        still = {row["Method"] for row in off.rows(PLACES) if row["All the time"]}
        below = sum(t for method, t in waited.items() if method not in still)
        self.assertGreater(waited[waits] / below, 0.9, waited)


class Endpoints(unittest.TestCase):
    """Threads of a web server: the route of the requests that wait, and of those that compute, out of one look into memory."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = {(fx, profiler): Result(*cls.examined(fx, profiler, route)) for fx in FRAMEWORKS
                       for profiler, route in (("off-cpu", "off-cpu"), ("cpu-hotpaths", "on-cpu"), ("thread-pool", "sync-over-async"))}

    @classmethod
    def examined(cls, fx, profiler, route):
        with WebPatient(fx=fx) as patient:
            # Some are in it at any moment, also when a busy machine takes its time before the look.
            with patient.start_load(f"{route}?ms=1000", rate=20, seconds=300, concurrency=6):
                wait_until(lambda: patient.truth()["web"]["requests"].get(route, 0) >= 12, "requests")
                report = examine(cls.home, profiler, patient.pid, 2, "--look-pause-ms", "5000")
            again = cls.home.run(profiler, "--session", report.data["facts"]["session"], "--json")
            return report, route, Report(again.json())

    @for_each_result
    def test_the_route_is_named(self, _, report, route, _again):
        self.assertIn(f"GET /{route}", report.verdict)

    @for_each_result
    def test_a_replay_says_the_same(self, _, report, _route, again):
        self.assertEqual(again.verdict, report.verdict)


if __name__ == "__main__":
    unittest.main()
