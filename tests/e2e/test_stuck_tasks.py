"""stuck-tasks against what the patient knows: how many, in which chains, at which await, for what."""

import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, Report, for_each_result, look, side_by_side, wait_until
from patient import FRAMEWORKS, PATIENTS, Patient, diagonal

SIDE_BY_SIDE = True

DEBUG = [fx + "-debug" for fx in FRAMEWORKS]  # unoptimised: their state machines are objects, not structures

CHAINS, METHODS = "Chains of async methods", "Async methods that have not ended"
LOOK = ("-p", "interval=1", "-p", "max_pause_ms=10000")
FLOW = "Shop.Orders.OrderFlow."
# By the innermost method: the patient's key, what it awaits, and the source of that await.
AWAITS = {
    FLOW + "ConfirmAsync": ("tcs", "a TaskCompletionSource kept by OrderFlow.Confirmations", "await confirmation.Task"),
    "Shop.Inventory.Shelf.FetchAsync": ("semaphore", "a semaphore: Shelf.Ladder", "await Ladder.WaitAsync()"),
    "Shop.Mail.Outbox.SendNextAsync": ("channel", "a channel: Outbox.Letters", "await Letters.Reader"),
    "Shop.Mail.Postbox.PostAsync": ("room", "room in a full channel: Postbox.Slots", "await Slots.Writer"),
    "Shop.Mail.Newsletter.IssuesAsync": ("stream", "a channel: Newsletter.Issues", "await Issues.Reader"),
    "Shop.Shipping.Consignment.PackAsync": ("whenall", "a TaskCompletionSource kept by Consignment.Parcels", "await parcel.Task"),
    "Shop.Shipping.Rider.RideAsync": ("gone", "a TaskCompletionSource that is gone", "await Arrival()"),
    "Shop.Mail.Reminder.RemindLaterAsync": ("timer", "a timer of up to 1 d 0 h", "await Task.Delay(later)"),
}
# Outer method -> inner one.
CHAINED = {
    FLOW + "ConfirmAsync": [FLOW + "PlaceAsync", FLOW + "ReserveAsync"],
    "Shop.Shipping.Consignment.PackAsync": ["Shop.Shipping.Consignment.CollectAsync"],
    "Shop.Shipping.Rider.RideAsync": ["Shop.Shipping.Rider.DeliverAsync"],
    "Shop.Mail.Newsletter.IssuesAsync": ["Shop.Mail.Newsletter.ReadAllAsync"],
}
SOURCE = (Path(__file__).resolve().parents[1] / "patients" / "sick" / "Tasks.cs").read_text().splitlines()


def line_of(text):
    return f"Tasks.cs:{next(i for i, line in enumerate(SOURCE, 1) if text in line)}"


def awaits_at(report, method):
    """What stands beside the innermost method of its chain."""
    for row in report.block(CHAINS)["rows"]:
        if row["cells"][3] == method:
            return row["lines"][-1]["right"]
    return ""


class Stuck(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-tasks-")))
        cases = diagonal(FRAMEWORKS, (False, True))
        cases += [(fx, False) for fx in DEBUG if (PATIENTS / "sick" / fx).exists()]
        cls.results = side_by_side({case: lambda case=case: cls.examined(*case) for case in cases}, workers=1)

    @classmethod
    def examined(cls, fx, server_gc):
        core = cls.folder / f"{fx}-{server_gc}"
        gone = 5 if server_gc else 0
        with Patient("stuck-tasks", fx=fx, server_gc=server_gc, tcs=123, semaphore=11, channel=7, whenall=6, timer=3,
                     room=12, stream=4, gone=gone) as patient:
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

    @unittest.skipUnless(all((PATIENTS / "sick" / fx).exists() for fx in DEBUG), "no unoptimised patient: tests/patients/build --debug")
    def test_also_of_debug_builds(self):
        for fx in DEBUG:
            self.assertIn((fx, False), self.results)

    @for_each_result
    def test_oldest_first(self, _, reports, truth):
        for way, report in reports.items():
            with self.subTest(way):
                order = [(row["Unmoved"] == 0, -row["Gen"], -row["Alike"]) for row in report.rows(CHAINS) if row["Gen"] is not None]
                self.assertGreater(len(order), 5)
                self.assertEqual(order, sorted(order))

    @for_each_result
    def test_chains(self, _, reports, truth):
        for way, report in reports.items():
            rows = {row["Innermost"]: row for row in report.rows(CHAINS)}
            for method, (kind, awaits, source) in AWAITS.items():
                if not truth["kinds"][kind]:
                    continue
                with self.subTest(way, method=method):
                    found = rows[method]["Awaits"].split(", due in ")
                    self.assertEqual((rows[method]["Alike"], found[0]), (truth["kinds"][kind], awaits))
                    self.assertEqual(rows[method]["Unmoved"], truth["kinds"][kind] if way == "image" else None)
                    self.assertEqual(rows[method]["lines"], CHAINED.get(method, []) + [method])
                    self.assertTrue(awaits_at(report, method).endswith(line_of(source)), awaits_at(report, method))
                    # A core does not say when it was written by that clock.
                    self.assertEqual(len(found) > 1, kind == "timer" and way == "image", found)

    @for_each_result
    def test_what_moves_is_not_stuck(self, _, reports, truth):
        moving = [row for row in reports["image"].rows(CHAINS) if row["Innermost"] == "Shop.Shipping.Tracking.FollowAsync"]
        self.assertEqual((sum(row["Alike"] for row in moving), sum(row["Unmoved"] for row in moving)), (truth["moving"], 0))

    @for_each_result
    def test_verdict(self, _, reports, truth):
        report = reports["image"]
        self.assertEqual(report.figures["Operations"], truth["stuck"] + truth["moving"])
        if truth["kinds"]["gone"]:  # nobody can end those any more: that weighs more than how many
            self.assertEqual((report.finding, report.health), ("source-gone", "warn"), report.verdict)
            self.assertIn("RideAsync", report.verdict)
            return
        self.assertEqual((report.finding, report.health), ("stuck", "warn"), report.verdict)
        self.assertIn(f"{truth['kinds']['tcs']} async operations did not move", report.verdict)
        self.assertIn(FLOW + "PlaceAsync", report.verdict)
        self.assertIn("kept by Shop.Orders.OrderFlow.Confirmations", report.verdict)

    @for_each_result
    def test_it_can_be_looked_at_again(self, _, reports, truth):
        first = reports["image"].data
        again = look(self.home, "stuck-tasks", "--session", first["facts"]["session"]).data
        for part in ("blocks", "verdict", "how"):
            self.assertEqual(again[part], first[part])


class Moved(unittest.TestCase):
    def test_a_collection_between_the_looks(self):
        """Objects are elsewhere after it, which must not be taken for going on."""
        with Home() as home, Patient("stuck-tasks", tcs=50) as patient:
            with home.start("stuck-tasks", patient.pid, *LOOK, "--json") as job:
                wait_until(lambda: any(home.path.glob("sessions/*/recording/tasks")), "the first look is taken")
                patient.collect()
                done = job.finish()
            self.assertEqual(done.code, 0, done)
            report = Report(done.json())
            self.assertEqual(report.finding, "stuck", report.verdict)
            self.assertIn("50 async operations did not move", report.verdict)


    def test_arguments_tell(self):
        """Each order has its number, by which it is known again at the second look: it needs no third."""
        with Home() as home, Patient("stuck-tasks", tcs=50, semaphore=0, channel=0, whenall=0, timer=0) as patient:
            with home.start("stuck-tasks", patient.pid, *LOOK, "--json") as job:
                wait_until(lambda: any(home.path.glob("sessions/*/recording/tasks")), "the first look is taken")
                patient.collect()
                done = job.finish()
            self.assertEqual(done.code, 0, done)
            report, truth = Report(done.json()), patient.truth()["stuck-tasks"]
            self.assertFalse(any(home.path.glob("sessions/*/recording/tasks-3")), report.verdict)
        self.assertEqual(report.finding, "stuck", report.verdict)
        rows = {row["Innermost"]: row for row in report.rows(CHAINS)}
        # The number of the first one is 0, which says nothing.
        self.assertIn(rows[FLOW + "ConfirmAsync"]["Unmoved"], (49, 50))
        self.assertEqual(rows["Shop.Shipping.Tracking.FollowAsync"]["Unmoved"], 0)
        self.assertEqual(truth["kinds"]["tcs"], 50)


class Others(unittest.TestCase):
    def test_no_alarm(self):
        with Home() as home:
            for sickness in ("healthy", "healthy-waits", "deadlock"):
                with self.subTest(sickness), Patient(sickness) as patient:
                    report = look(home, "stuck-tasks", patient.pid, *LOOK)
                    self.assertIn(report.health, ("ok", "info"), report.verdict)


if __name__ == "__main__":
    unittest.main()
