"""The deadlocks profiler: every kind of deadlock is found and named as the patient knows it, and no healthy wait is one."""

import re
import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, for_each_result, look, side_by_side
from patient import FRAMEWORKS, Patient, diagonal, one_of

SIDE_BY_SIDE = True

KINDS = ("monitor", "threeway", "semaphore", "async", "rwlock")
JOIN = (FRAMEWORKS[-1], "join")  # nothing in it depends on the runtime
NEW_KINDS = ("lock", "mixed")  # System.Threading.Lock came with .NET 9
BYSTANDERS = 4
LOOK = ("-p", "interval=1", "-p", "max_pause_ms=10000")


def words(lock):
    """The patient's word for a lock, as a report names it."""
    if lock.startswith("task of "):
        return "the task of Shop.Bank.Checkout." + lock.removeprefix("task of ")
    if lock.startswith("thread "):
        return f"'{lock.removeprefix('thread ')}'"
    if lock == "Till":
        return "Shop.Bank.Closing.Till"
    if "." not in lock:
        return "Shop.Bank.Checkout." + lock
    account, field = lock.split(".")
    return f"Shop.Bank.Ledger.{account.capitalize()}.{field}"


def brief(lock):
    return ("task " if "task" in lock else "") + ".".join(lock.split(" ")[-1].split(".")[-2:])


class Found(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-deadlocks-")))
        cases = [(fx, kind) for fx in FRAMEWORKS for kind in KINDS + (() if fx == "net8.0" else NEW_KINDS)]
        cls.results = side_by_side({case: lambda case=case: cls.examined(*case) for case in [*cases, JOIN]}, workers=2)

    @classmethod
    def examined(cls, fx, kind):
        core = cls.folder / f"{fx}-{kind}"
        with Patient("deadlock", fx=fx, kind=kind, bystanders=BYSTANDERS) as patient:
            reports = {"image": look(cls.home, "deadlocks", patient.pid, *LOOK)}
            truth = patient.truth()["deadlock"]
            if kind in ("mixed", "monitor"):
                done = cls.home.run("dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet")
                if done.code != 0:
                    raise AssertionError(repr(done))
        if core.exists():
            reports["core"] = look(cls.home, "deadlocks", "--core", core)
            core.unlink()
        return reports, truth

    @for_each_result
    def test_verdict(self, key, reports, truth):
        for way, report in reports.items():
            with self.subTest(way):
                # A semaphore does not say who took it, so what is said is less sure.
                want = ("deadlock-likely", "warn") if key[1] == "semaphore" else ("deadlock", "bad")
                self.assertEqual((report.finding, report.health), want, report.verdict)
                self.assertIn(f"{len(truth['cycle'])} threads wait for each other", report.verdict)
                self.assertIn(f"{BYSTANDERS} more threads wait behind them", report.verdict)
                self.assertIsNone(report.partial)

    @for_each_result
    def test_who_has_what_and_waits_for_what(self, key, reports, truth):
        for way, report in reports.items():
            rows = {row["Thread"]: row for row in report.rows("The circle")}
            self.assertEqual(len(rows), len(truth["cycle"]))
            for party in truth["cycle"]:
                with self.subTest(way, thread=party["thread"]):
                    name = f"'{party['thread']}'" if party["thread"] != "pool" else f"pool thread {party['managed_id']}"
                    self.assertEqual(rows[name]["Has"], brief(words(party["holds"])))
                    self.assertEqual(rows[name]["Waits for"], brief(words(party["waits_for"])))
                    self.assertEqual(rows[name]["In"], party["method"])
                    self.assertIn(party["method"], rows[name]["lines"])
                    if party["tid"]:
                        self.assertIn(f"{name} (tid {party['tid']})", report.verdict)
                    self.assertIn(words(party["holds"]), report.verdict)

    @for_each_result
    def test_how_many_wait(self, key, reports, truth):
        for way, report in reports.items():
            with self.subTest(way):
                waiting = {row["For"]: row["Waiting"] for row in report.rows("What threads wait for")}
                self.assertEqual(waiting[brief(words(truth["bystanders_wait_for"]))], BYSTANDERS + 1)

    @for_each_result
    def test_it_can_be_looked_at_again(self, key, reports, truth):
        first = reports["image"].data
        again = look(self.home, "deadlocks", "--session", first["facts"]["session"]).data
        for part in ("blocks", "verdict", "how"):
            self.assertEqual(again[part], first[part])


class NotFound(unittest.TestCase):
    """Ten healthy waits, a hundred threads that wait for ever but for nobody, fights for locks: none is a deadlock."""

    SICKNESSES = {"healthy-waits": {}, "blocked": {"threads": 30}, "contention": {}, "stuck-tasks": {}, "healthy": {}}

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, sickness): lambda fx=fx, sickness=sickness: cls.examined(fx, sickness)
                                    for fx, sickness in diagonal(FRAMEWORKS, cls.SICKNESSES)}, workers=2)

    @classmethod
    def examined(cls, fx, sickness):
        with Patient(sickness, fx=fx, **cls.SICKNESSES[sickness]) as patient:
            return [look(cls.home, "deadlocks", patient.pid, *LOOK) for _ in range(2 if sickness == "healthy-waits" else 1)],

    @for_each_result
    def test_no_alarm(self, key, reports):
        for report in reports:
            # Five milliseconds are no time to hold a lock; a slow machine may stretch them, and then it is true.
            allowed = {"nothing-found", "held-long"} if key[1] == "contention" else {"nothing-found"}
            self.assertIn(report.finding, allowed, report.verdict)
            self.assertNotIn("The circle", [block["title"] for block in report.data["blocks"]])

    @for_each_result
    def test_it_looked(self, key, reports):
        for report in reports:
            self.assertIn("2 times", report.how["Target paused"]["context"])
            self.assertGreater(report.how["Threads"]["value"], 3)
            if key[1] == "blocked":
                waiting = int(re.search(r"(\d+) threads wait for something", report.verdict)[1])
                self.assertGreaterEqual(waiting, 30)


class Optimised(unittest.TestCase):
    """Optimised code forgets what it needs no more: who took a semaphore then, nobody can know, and that is said."""

    def test_semaphore(self):
        with Home() as home, Patient("deadlock", kind="semaphore", env={"DOTNET_TieredCompilation": "0"}) as patient:
            report = look(home, "deadlocks", patient.pid, *LOOK)
        self.assertIn(report.finding, ("semaphore-taken", "deadlock-likely"), report.verdict)
        if report.finding == "semaphore-taken":
            self.assertIn("cannot be ruled out", report.verdict)


class HeldLong(unittest.TestCase):
    def test_owner_is_named(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Home() as home, Patient("contention", fx=fx, hold_ms=10000, threads=5) as patient:
                report = look(home, "deadlocks", patient.pid, *LOOK)
                if report.finding != "held-long":  # the looks met the moment of a change
                    report = look(home, "deadlocks", patient.pid, *LOOK)
                self.assertEqual((report.finding, report.health), ("held-long", "warn"), report.verdict)
                self.assertRegex(report.verdict, r"4 threads wait for Shop\.Inventory\.Stock\.\w+, which '\w+-fighter-\d' ")
                self.assertIn("it sleeps in Patients.Fight.Hold", report.verdict)


class HeldWhileWaiting(unittest.TestCase):
    """Who will set an event nobody can know: perhaps one of those who wait for what the waiting thread has."""

    def test_event(self):
        with Home() as home, Patient("deadlock", kind="event", bystanders=BYSTANDERS) as patient:
            report = look(home, "deadlocks", patient.pid, *LOOK)
        self.assertEqual((report.finding, report.health), ("held-waiting", "warn"), report.verdict)
        self.assertIn(f"{BYSTANDERS + 1} threads wait for Shop.Bank.Closing.Till, which 'closer' ", report.verdict)
        self.assertIn("it waits for an event: Shop.Bank.Closing.Counted in Shop.Bank.Closing.CloseAndWait", report.verdict)


if __name__ == "__main__":
    unittest.main()
