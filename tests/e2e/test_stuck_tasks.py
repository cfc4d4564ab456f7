"""stuck-tasks against what the patient knows: how many, in which chains, at which await, for what."""

import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, for_each_result, look, side_by_side
from patient import FRAMEWORKS, PATIENTS, Patient

DEBUG = "net10.0-debug"  # unoptimised: its state machines are objects, not structures

CHAINS, METHODS = "Chains of async methods", "Async methods that have not ended"
LOOK = ("-p", "interval=1", "-p", "max_pause_ms=10000")
FLOW = "Shop.Orders.OrderFlow."
# By the innermost method: the patient's key and what it awaits.
AWAITS = {
    FLOW + "ConfirmAsync": ("tcs", "a TaskCompletionSource"),
    "Shop.Inventory.Shelf.FetchAsync": ("semaphore", "a semaphore: Shop.Inventory.Shelf.Ladder"),
    "Shop.Mail.Outbox.SendNextAsync": ("channel", "a channel"),
    "Shop.Shipping.Consignment.PackAsync": ("whenall", "a TaskCompletionSource"),
    "Shop.Mail.Reminder.RemindLaterAsync": ("timer", "a timer of up to 1 d 0 h"),
}


class Stuck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-tasks-")))
        cases = [(fx, server_gc) for fx in FRAMEWORKS for server_gc in (False, True)]
        if (PATIENTS / "sick" / DEBUG).exists():
            cases.append((DEBUG, False))
        cls.results = side_by_side({case: lambda case=case: cls.examined(*case) for case in cases}, workers=1)

    @classmethod
    def examined(cls, fx, server_gc):
        core = cls.folder / f"{fx}-{server_gc}"
        with Patient("stuck-tasks", fx=fx, server_gc=server_gc, tcs=123, semaphore=11, channel=7, whenall=6, timer=3) as patient:
            reports = {"image": look(cls.home, "stuck-tasks", patient.pid, *LOOK)}
            truth = patient.truth()["stuck-tasks"]
            if not server_gc:
                done = cls.home.run("dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet")
                if done.code != 0:
                    raise AssertionError(repr(done))
        if core.exists():
            reports["core"] = look(cls.home, "stuck-tasks", "--core", core)
            core.unlink()
        return reports, truth

    @for_each_result
    def test_counts_are_exact(self, _, reports, truth):
        for way, report in reports.items():
            with self.subTest(way):
                found = {row["Method"]: row["Times"] for row in report.rows(METHODS)}
                self.assertEqual({k: v for k, v in found.items() if k.startswith("Shop.")}, truth["methods"])

    @unittest.skipUnless((PATIENTS / "sick" / DEBUG).exists(), "no unoptimised patient: tests/patients/build --debug")
    def test_also_of_a_debug_build(self):
        self.assertIn((DEBUG, False), self.results)

    @for_each_result
    def test_chains(self, _, reports, truth):
        for way, report in reports.items():
            rows = {row["Innermost"]: row for row in report.rows(CHAINS)}
            for method, (kind, awaits) in AWAITS.items():
                with self.subTest(way, method=method):
                    self.assertEqual((rows[method]["Alike"], rows[method]["Awaits"]), (truth["kinds"][kind], awaits))
                    self.assertEqual(rows[method]["Unmoved"], truth["kinds"][kind] if way == "image" else None)
            self.assertEqual(rows[FLOW + "ConfirmAsync"]["lines"],
                             [FLOW + "PlaceAsync", FLOW + "ReserveAsync", FLOW + "ConfirmAsync"])
            self.assertEqual(rows["Shop.Shipping.Consignment.PackAsync"]["lines"],
                             ["Shop.Shipping.Consignment.CollectAsync", "Shop.Shipping.Consignment.PackAsync"])

    @for_each_result
    def test_what_moves_is_not_stuck(self, _, reports, truth):
        moving = [row for row in reports["image"].rows(CHAINS) if row["Innermost"] == "Shop.Shipping.Tracking.FollowAsync"]
        self.assertEqual((sum(row["Alike"] for row in moving), sum(row["Unmoved"] for row in moving)), (truth["moving"], 0))

    @for_each_result
    def test_verdict(self, _, reports, truth):
        report = reports["image"]
        self.assertEqual((report.finding, report.health), ("stuck", "warn"), report.verdict)
        self.assertIn(f"{truth['kinds']['tcs']} async operations did not move", report.verdict)
        self.assertIn(FLOW + "PlaceAsync", report.verdict)
        self.assertEqual(report.figures["Operations"], truth["stuck"] + truth["moving"])

    @for_each_result
    def test_it_can_be_looked_at_again(self, _, reports, truth):
        first = reports["image"].data
        again = look(self.home, "stuck-tasks", "--session", first["facts"]["session"]).data
        for part in ("blocks", "verdict", "how"):
            self.assertEqual(again[part], first[part])


class Others(unittest.TestCase):
    def test_no_alarm(self):
        with Home() as home:
            for sickness in ("healthy", "healthy-waits", "deadlock"):
                with self.subTest(sickness), Patient(sickness) as patient:
                    report = look(home, "stuck-tasks", patient.pid, *LOOK)
                    self.assertIn(report.health, ("ok", "info"), report.verdict)


if __name__ == "__main__":
    unittest.main()
