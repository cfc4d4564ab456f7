"""merged-call-stacks against what the patients know: live, without a copy, from a core file, from a recording."""

import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, for_each_result, look, side_by_side
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True

TITLE = "Threads that do the same"
HALL = "Shop.Warehouse.Hall."
# Without an image nobody knows for what.
WAITS = {HALL + "WaitForOrder": ("wait for an event", ": Hall.NewOrder"),
         HALL + "WaitForBox": ("wait to be pulsed (Monitor.Wait)", ": Hall.Box"),
         HALL + "WaitForParcel": ("wait for a semaphore", "wait for Hall.Parcel")}
SINGLE = {"OnEvent": "waits for an event", "OnFifo": "reads or writes a file", "OnSocket": "waits for a socket",
          "InThreadSleep": "sleeps", "InNanosleep": "sleeps", "InEpoll": "waits for file descriptors (epoll)"}
CAFE = {"ForMonitor": "waits to be pulsed (Monitor.Wait): Waiter.Counter", "ForSemaphore": "waits for Waiter.Table",
        "ForManualEvent": "waits for an event: Waiter.Open", "ForBell": "waits for an event: Waiter.Bell",
        "ForOrder": "waits for an item of a queue: Waiter.Orders", "ForDish": "blocks on a ValueTask.",
        "ForMenu": "waits for Waiter.Menu", "ForKitchen": "waits for Waiter.Kitchen",
        "ForShift": "waits for others (barrier): Waiter.Shift", "ForCustomer": "waits for a socket"}
# Between two waits they sleep, and whoever is served runs for a moment.
MOMENTS = {"runs", "sleeps"}


def groups(report):
    return {row["Where"]: row for row in report.rows(TITLE)}


class HundredThreads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-merged-")))
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        core = cls.folder / fx
        with Patient("blocked", fx=fx, threads=100, busy=1) as patient:
            reports = {"image": look(cls.home, "merged-call-stacks", patient.pid, "-p", "max_pause_ms=10000"),
                       "events": look(cls.home, "merged-call-stacks", patient.pid, "--way", "events")}
            collected = cls.home.run("dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet")
            if collected.code != 0:
                raise AssertionError(repr(collected))
            truth = patient.truth()["blocked"]
        reports["core"] = look(cls.home, "merged-call-stacks", "--core", core)
        core.unlink()
        return reports, truth, patient.pid

    @for_each_result
    def test_everyone_is_counted(self, _, reports, truth, pid):
        for way, report in reports.items():
            with self.subTest(way):
                found = groups(report)
                for method, n in truth["waiting"].items():
                    brief, full = WAITS[method]
                    what = brief if way == "events" else full if full.startswith("wait") else brief + full
                    self.assertEqual((found[method]["Threads"], found[method]["What"]), (n, what))
                    self.assertIn(f"'hand-…' ×{n}", found[method]["lines"])
                self.assertEqual(report.rows(TITLE)[0]["Threads"], max(truth["waiting"].values()))
                self.assertIn(report.rows(TITLE)[0]["Where"], report.verdict)

    @for_each_result
    def test_who_runs(self, _, reports, truth, pid):
        for way in ("image", "core"):
            with self.subTest(way):
                running = [row for row in reports[way].rows(TITLE) if row["What"] == "runs"]
                self.assertTrue(any(f"(tid {truth['busy_tid']})" in line for row in running for line in row["lines"]), running)
                self.assertGreaterEqual(reports[way].figures["Running"], 1)
                self.assertGreaterEqual(reports[way].figures["Blocked"], truth["threads"])

    @for_each_result
    def test_what_it_cost_is_said(self, _, reports, truth, pid):
        self.assertGreater(reports["image"].how["Target paused"]["value"], 0)
        self.assertIn("copy", reports["image"].how["Way"]["context"])
        self.assertNotIn("Target paused", reports["core"].how)
        self.assertEqual(reports["core"].how["Way"]["value"], "core file")
        self.assertEqual(reports["events"].how["Way"]["value"], "events")

    @for_each_result
    def test_a_core_says_who_it_was(self, fx, reports, truth, pid):
        facts, live = reports["core"].data["facts"], reports["image"].data["facts"]
        self.assertEqual((facts["process"], facts["targetId"]), ("sick", pid))
        self.assertTrue(live["runtime"].startswith(facts["runtime"]), (live["runtime"], facts["runtime"]))

    @for_each_result
    def test_it_can_be_looked_at_again(self, _, reports, truth, pid):
        for way in ("image", "core", "events"):
            with self.subTest(way):
                first = reports[way].data
                again = look(self.home, "merged-call-stacks", "--session", first["facts"]["session"]).data
                self.assertEqual(again["blocks"], first["blocks"])
                self.assertEqual(again["verdict"], first["verdict"])
                self.assertEqual(again["how"], first["how"])

    @for_each_result
    def test_it_is_short(self, _, reports, truth, pid):
        for way, report in reports.items():
            with self.subTest(way):
                text = self.home.run("sessions", "show", report.data["facts"]["session"]).out
                self.assertLess(len(text.splitlines()), 40, text)


class WhatTheyWaitFor(unittest.TestCase):
    """Ten healthy waits and six ways to be off the processor, by the framework's methods and by system calls."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("healthy-waits,waits", fx=fx) as patient:
            return [look(cls.home, "merged-call-stacks", patient.pid, "-p", "max_pause_ms=10000") for _ in range(2)],

    @for_each_result
    def test_each(self, _, reports):
        known = {**{f"Shop.Io.Waiting.{k}": v for k, v in SINGLE.items()},
                 **{f"Shop.Cafe.Waiter.{k}": v for k, v in CAFE.items()}}
        met = set()
        for report in reports:
            for row in report.rows(TITLE):
                if row["Where"] in known:
                    met.add(row["Where"])
                    self.assertTrue(row["What"] in MOMENTS or row["What"].startswith(known[row["Where"]]), row)
        self.assertGreater(len(met), 10)

    @for_each_result
    def test_no_alarm(self, _, reports):
        for report in reports:
            self.assertIn(report.health, ("ok", "info"), report.verdict)

    @for_each_result
    def test_the_runtimes_own_are_one_line(self, _, reports):
        idle = [row for row in reports[0].rows(TITLE) if row["What"] == "are idle"]
        self.assertEqual(len(idle), 1)
        self.assertEqual(idle[0], reports[0].rows(TITLE)[-1])
        self.assertFalse([row for row in reports[0].rows(TITLE) if row["Where"].startswith("System.Threading.Portable")])


class Closed(unittest.TestCase):
    def test_usage(self):
        with Home() as home:
            for words, say in ((["merged-call-stacks"], "--core"),
                               (["merged-call-stacks", "1", "--core", "x"], "--core"),
                               (["exceptions", "--core", "x"], "a living process"),
                               (["merged-call-stacks", "--", "dotnet", "x"], "one instant"),
                               (["merged-call-stacks", "--core", "x", "--way", "events"], "--way")):
                done = home.run(*words)
                self.assertEqual(done.code, 2, done)
                self.assertIn(say, done.err)
            done = home.run("merged-call-stacks", "--core", "/nowhere")
            self.assertEqual(done.code, 3, done)
            self.assertEqual(home.folders(), [])

    def test_too_long_a_pause_falls_back_to_events(self):
        """A copy would make it stand still for longer than allowed: so the runtime's sampler is asked, and it is said why."""
        with Home() as home, Patient("healthy") as patient:
            report = look(home, "merged-call-stacks", patient.pid, "-p", "max_pause_ms=1")
            self.assertEqual(report.how["Way"]["value"], "events")
            self.assertIn("stand still", report.how["Why not by image"]["value"])
            done = home.run("merged-call-stacks", patient.pid, "-p", "max_pause_ms=1", "--way", "image")
            self.assertEqual(done.code, 4, done)


if __name__ == "__main__":
    unittest.main()
