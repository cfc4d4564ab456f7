"""The lock-contention profiler against the patients' truth, on every runtime."""

import math
import unittest

from drdotnet import LONG_SECONDS, Home, Report, end_window, examine, for_each_result, side_by_side, wait_until
from patient import FRAMEWORKS, Patient, WebPatient, diagonal
from probe import hold

SECONDS = 4
METHODS = {"monitor": "Shop.Inventory.Stock.Reserve", "lock": "Shop.Inventory.Stock.Refill"}
KINDS = {"monitor": "Monitor", "lock": "Lock"}


def old(fx):
    """Runtimes that cannot tell of a wait without walking its stack, and have no System.Threading.Lock."""
    return fx == "net8.0"


def per_second(report, label):
    return report.figures[label] * 1e9 / report.data["facts"]["windowNs"]


def examined_with_truth(home, patient):
    """Report and truth of nearly the same time. The patient cannot stand still: its pause is a lock too."""
    with home.start("lock-contention", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
        job.wait_for("listening")
        patient.mark()
        wait_until(lambda: patient.truth()["since_mark_ns"] > SECONDS * 1e9, "the window is long enough")
        truth = patient.truth()
        return end_window(job), truth


class Truth(unittest.TestCase):
    """Threads that fight for one or two locks, each held for a known time."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("contention", fx=fx) as patient:
            return examined_with_truth(cls.home, patient)

    def near(self, measured, truth, share=0.05):
        self.assertAlmostEqual(measured / truth, 1, delta=share)

    @for_each_result
    def test_the_waits_are_those_the_runtime_counts(self, _, report, truth):
        self.near(per_second(report, "Waits"), truth["runtime"]["lock_contentions"] * 1e9 / truth["since_mark_ns"])

    @for_each_result
    def test_the_time_is_what_the_threads_waited(self, _, report, truth):
        waited = sum(lock["wait_ns"] for lock in truth["contention"]["locks"].values())
        self.near(per_second(report, "Waiting in all"), waited * 1e9 / truth["since_mark_ns"])
        longest = max(lock["max_wait_ns"] for lock in truth["contention"]["locks"].values())
        self.assertGreater(report.figures["Longest"], longest / 2)

    @for_each_result
    def test_each_lock_stands_with_its_kind_its_place_and_its_share(self, fx, report, truth):
        rows = {row["Waited for in"]: row for row in report.rows("By lock")}
        locks = truth["contention"]["locks"]
        self.assertEqual(set(rows), {METHODS[name] for name in locks})
        self.assertEqual(len(locks), 1 if old(fx) else 2)
        for name, lock in locks.items():
            row = rows[METHODS[name]]
            self.assertTrue(row["Lock"].endswith(KINDS[name]), row)
            self.near(row["Waits"] / report.figures["Waits"], lock["contended"] / truth["contention"]["contended"])
            self.near(row["Share"], 1 / len(locks))

    @for_each_result
    def test_it_says_who_had_it_and_where_he_took_it(self, _, report, _truth):
        for row in report.rows("By lock"):
            owner = next(line for line in row["lines"] if line.startswith("held by "))
            self.assertIn("fighter", owner)
            self.assertIn(row["Waited for in"], row["lines"])

    @for_each_result
    def test_the_queue_behind_a_lock_is_a_convoy(self, _, report, _truth):
        self.assertEqual((report.finding, report.health), ("convoy", "bad"))
        for row in report.rows("By lock"):
            # Three wait for the fourth; he who was just handed the lock may still count as one who waits.
            self.assertRegex("\n".join(row["lines"]), "up to [34] threads waited at once")

    @for_each_result
    def test_places_stand_with_their_stacks(self, _, report, _truth):
        rows = report.rows("By place")
        self.assertEqual({row["Waits in"] for row in rows}, {row["Waited for in"] for row in report.rows("By lock")})
        for row in rows:
            self.assertIn(row["Waits in"], row["lines"])

    @for_each_result
    def test_nothing_was_lost_and_every_stack_was_seen(self, _, report, _truth):
        self.assertEqual(report.how["Lost"]["value"], 0)
        # A wait for a lock of the runtime's own may have no frame of managed code.
        self.assertLessEqual(report.how["Stacks seen"]["value"], report.figures["Waits"])
        self.assertGreaterEqual(report.how["Stacks seen"]["value"], 0.99 * report.figures["Waits"])


# On a machine of any load: how long the process may stand still is not what these tests are about.
PATIENTLY = ("--look-pause-ms", "5000")


class Held(unittest.TestCase):
    """Hundreds that wait for ever, since before the window: no event tells of them, one look into memory does."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, kind): lambda fx=fx, kind=kind: cls.examined(fx, kind)
                                    for fx in FRAMEWORKS for kind in ("monitor", "lock", "rwlock")
                                    if kind != "lock" or not old(fx)}, workers=2)

    @classmethod
    def examined(cls, fx, kind):
        with Patient("lock-held", fx=fx, kind=kind, threads=300 if kind == "monitor" else 20) as patient:
            report = examine(cls.home, "lock-contention", patient.pid, 2, *PATIENTLY)
            again = cls.home.run("lock-contention", "--session", report.data["facts"]["session"], "--json")
            return report, patient.truth()["lock-held"], Report(again.json())

    @for_each_result
    def test_they_are_counted(self, _, report, truth, _again):
        self.assertEqual((report.finding, report.health), ("lock-held", "bad"), report.verdict)
        self.assertEqual(report.figures["Waited all the time"], truth["threads"])
        self.assertTrue(report.verdict.startswith(f"{truth['threads']} threads waited all the time for a lock"), report.verdict)

    @for_each_result
    def test_lock_holder_and_what_it_does_are_named(self, _, report, truth, _again):
        for name in ("lock", "waits_in", "holder", "holder_in"):
            self.assertIn(truth[name], report.verdict)
        self.assertIn(f"(tid {truth['holder_tid']})", report.verdict)
        self.assertIn("waits for an event", report.verdict)
        row = report.rows("Waited all the time")[0]
        self.assertEqual((row["Threads"], row["For"], row["In"]), (truth["threads"], truth["lock"], truth["waits_in"]))

    @for_each_result
    def test_the_look_is_told(self, _, report, _truth, _again):
        self.assertGreater(report.how["One look into memory"]["value"], 0)

    @for_each_result
    def test_a_replay_says_the_same(self, _, report, _truth, again):
        self.assertEqual((again.verdict, again.figures, again.how["One look into memory"]),
                         (report.verdict, report.figures, report.how["One look into memory"]))


class Looks(unittest.TestCase):
    """When the look is left out, and that the report says why."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("lock-held", fx=FRAMEWORKS[-1], threads=20))

    def left_out(self, *more):
        report = examine(self.home, "lock-contention", self.patient.pid, 1, *more)
        self.assertEqual((report.finding, report.how["One look into memory"]["value"]), ("nothing-found", "none"))
        self.assertEqual(report.how["Target paused"]["value"], "not by us")
        return report.how["One look into memory"]["context"]

    def test_it_can_be_switched_off(self):
        self.assertIn("--no-look", self.left_out("--no-look"))

    def test_not_beyond_its_limit(self):
        self.assertIn("the limit is 1 ms", self.left_out("--look-pause-ms", "1"))

    def test_never_waited_for(self):
        with hold(self.patient.pid):
            self.assertRegex(self.left_out(*PATIENTLY), "someone else examines it|is examining it")


class Named(unittest.TestCase):
    """Locks that are fought for: which field, and what its holder does."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, kind): lambda fx=fx, kind=kind: cls.examined(fx, kind)
                                    for fx in FRAMEWORKS for kind in KINDS if kind != "lock" or not old(fx)}, workers=2)

    @classmethod
    def examined(cls, fx, kind):
        with Patient("contention", fx=fx, kind=kind, threads=6, hold_ms=50) as patient:
            report = examine(cls.home, "lock-contention", patient.pid, 2, *PATIENTLY)
            return report, patient.truth()["contention"]["locks"][kind]

    @for_each_result
    def test_the_field_and_what_the_holder_does(self, _, report, truth):
        self.assertEqual(report.finding, "convoy", report.verdict)
        self.assertIn(truth["lock"], report.verdict)
        self.assertIn(truth["lock"], report.rows("By lock")[0]["lines"])
        # He who has it sleeps in Hold, but for the moment in which he takes it or gives it back.
        self.assertRegex(report.verdict, "When we looked, .* had it, which ")


class HighRate(unittest.TestCase):
    """Where stacks are heard in bursts, here at any rate: counted to the end where the runtime allows it, else estimated and
    so called."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("contention", fx=fx, kind="monitor", threads=8, hold_ms=1, think_ms=0) as patient:
            patient.mark()
            wait_until(lambda: patient.truth()["runtime"]["lock_contentions"] >= 100, "waits")
            # A window for ten times as many, however slow the machine is. The bursts are spread over it, so it is not cut short.
            seconds = min(max(SECONDS, math.ceil(patient.truth()["since_mark_ns"] / 1e8)), 30)
            with cls.home.start("lock-contention", patient.pid, "-d", f"{seconds}s", "--json",
                                env={"DRDOTNET_BURST_RATE": "0"}) as job:
                job.wait_for("listening")
                patient.mark()
                wait_until(lambda: patient.truth()["since_mark_ns"] > seconds * 0.9e9, "most of the window is over")
                truth = patient.truth()
                done = job.finish()
            if done.code != 0:
                raise AssertionError(repr(done))
            return Report(done.json()), truth

    @for_each_result
    def test_counts(self, fx, report, truth):
        rate = truth["runtime"]["lock_contentions"] * 1e9 / truth["since_mark_ns"]
        # The rate itself is not the same in every second. Old runtimes are heard for a fifth of the time, and on a busy machine
        # waits come in clumps, so that an estimate of a few hundred is right in its size only.
        ratio = per_second(report, "Waits") / rate
        self.assertTrue(0.5 < ratio < 2 if old(fx) else 0.75 < ratio < 1.25, (report.figures["Waits"], ratio))
        self.assertEqual(old(fx), "about " in report.verdict)

    @for_each_result
    def test_stacks_are_heard_in_part_and_the_place_is_still_right(self, _, report, _truth):
        self.assertLess(report.how["Stacks seen"]["value"], report.figures["Waits"] / 2)
        # The runtime has locks of its own, which on a busy machine may be fought for as well.
        places = report.rows("By place")
        self.assertEqual(places[0]["Waits in"], METHODS["monitor"])
        self.assertGreater(places[0]["Waits"], 0.95 * sum(place["Waits"] for place in places))


class Others(unittest.TestCase):
    """Where nobody fights for locks it finds nothing."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, sickness): lambda fx=fx, sickness=sickness: cls.examined(fx, sickness)
                                    for fx, sickness in diagonal(FRAMEWORKS, ("healthy", "healthy-waits", "starvation"))},
                                   workers=3)

    @classmethod
    def examined(cls, fx, sickness):
        with Patient(sickness, fx=fx) as patient:
            patient.mark()
            return examine(cls.home, "lock-contention", patient.pid, 3), patient.truth()

    @for_each_result
    def test_nothing_is_found(self, _, report, _truth):
        self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)


class Web(unittest.TestCase):
    SIDE_BY_SIDE = True

    def test_under_load(self):
        with Home() as home, WebPatient(fx=FRAMEWORKS[-1]) as patient:
            patient.load("healthy", seconds=1)
            with patient.start_load("healthy", rate=300, seconds=8):
                report = examine(home, "lock-contention", patient.pid, 3)
            self.assertEqual(report.finding, "nothing-found", report.verdict)
            self.assertTrue(patient.alive())


if __name__ == "__main__":
    unittest.main()
