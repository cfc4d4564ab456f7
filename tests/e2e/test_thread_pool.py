"""The thread-pool profiler against the patients' truth, on every runtime."""

import unittest

from drdotnet import LONG_SECONDS, Home, end_window, examine, for_each_result, side_by_side, wait_until
from patient import FRAMEWORKS, Patient, WebPatient, diagonal, one_of

SECONDS = 5
DOING = {"result": "waits for a task", "sleep": "sleeps"}


class Starving(unittest.TestCase):
    """Work items that block their workers faster than the pool grows."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, kind): lambda fx=fx, kind=kind: cls.examined(fx, kind)
                                    for fx, kind in diagonal(FRAMEWORKS, DOING)}, workers=2)

    @classmethod
    def examined(cls, fx, kind):
        with Patient("starvation", fx=fx, kind=kind) as patient:
            patient.mark()
            report = examine(cls.home, "thread-pool", patient.pid, SECONDS)
            return report, patient.truth()

    @for_each_result
    def test_it_is_found(self, _, report, truth):
        self.assertEqual((report.finding, report.health), ("starvation", "bad"), report.verdict)
        self.assertIn(truth["starvation"]["method"], report.verdict)

    @for_each_result
    def test_what_holds_the_workers(self, key, report, truth):
        top = report.rows("What the workers do")[0]
        self.assertEqual((top["In"], top["It"]), (truth["starvation"]["method"], DOING[key[1]]))
        self.assertGreater(top["Share"], 0.9)
        self.assertIn(truth["starvation"]["method"], top["lines"])

    @for_each_result
    def test_what_they_wait_for(self, key, report, truth):
        """Out of memory, where that is open to us: the task, by the method it is of."""
        if key[1] == "result":
            top = report.rows("What blocked workers wait for")[0]
            self.assertEqual(top["In"], truth["starvation"]["method"])
            self.assertTrue(top["They"].startswith("block on tasks of Handler.FetchAsync"), top)
            self.assertGreater(report.how["One look into memory"]["value"], 0)

    @for_each_result
    def test_why_the_pool_grew(self, key, report, _truth):
        reasons = {row["Reason"]: row["Times"] for row in report.rows("Why the pool changed its size")}
        self.assertGreater(reasons["cooperative blocking" if key[1] == "result" else "starvation"], 0)

    @for_each_result
    def test_the_advice_fits(self, key, report, _truth):
        advice = "".join(piece["text"] for piece in report.data["next"])
        self.assertIn("Task.Delay" if key[1] == "sleep" else "Await", advice)

    @for_each_result
    def test_the_stop_was_short_and_is_said(self, _, report, _truth):
        self.assertIn("looks at all threads", report.how["Target paused"]["context"])
        self.assertLess(report.how["Target paused"]["value"], 100e6)
        self.assertEqual(report.how["Lost"]["value"], 0)


class Crowd(unittest.TestCase):
    """Workers that block for ever while the pool keeps up: how many, where, on what, and where the chain of tasks ends."""
    SIDE_BY_SIDE = "quietly"

    KINDS = ("result", "wait", "getresult", "queue", "semaphore", "lock")

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, kind, workers): lambda fx=fx, kind=kind, workers=workers: cls.examined(fx, kind, workers)
                                    for fx in FRAMEWORKS for kind in cls.KINDS for workers in (12, 2)
                                    if workers == 12 or kind == "result"}, workers=2)

    @classmethod
    def examined(cls, fx, kind, workers):
        with Patient("pool-crowd", fx=fx, kind=kind, workers=workers) as patient:
            report = examine(cls.home, "thread-pool", patient.pid, 2, "--look-pause-ms", "5000")
            return report, patient.truth()["pool-crowd"]

    @for_each_result
    def test_they_are_counted_whatever_their_number(self, key, report, truth):
        number = truth["workers"]
        self.assertRegex(report.verdict, f"{number} workers (of the pool )?are blocked: {number} in ")
        # A few of them are no finding; on a busy machine work may be late for other reasons.
        if number < 8:
            self.assertNotEqual(report.finding, "many-blocked")

    @for_each_result
    def test_what_they_wait_for_is_named(self, _, report, truth):
        for name in ("method", "waits_for", "end"):
            self.assertIn(truth[name], report.verdict)
        self.assertEqual(report.rows("What blocked workers wait for")[0]["Workers"], truth["workers"])


class Measured(unittest.TestCase):
    """A pool of four workers that does four fifths of what comes: the time in the queue grows steadily."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("starvation", fx=fx, kind="sleep", block_ms=50, max_threads=4) as patient, \
                cls.home.start("thread-pool", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
            job.wait_for("listening")
            patient.mark()
            wait_until(lambda: patient.truth()["since_mark_ns"] > SECONDS * 1e9, "the window is long enough")
            truth = patient.truth()
            return end_window(job), truth

    @for_each_result
    def test_items(self, _, report, truth):
        taken = report.figures["Items taken"] / report.data["facts"]["windowNs"]
        self.assertAlmostEqual(taken / (truth["starvation"]["started"] / truth["since_mark_ns"]), 1, delta=0.05)

    @for_each_result
    def test_longest_time_in_the_queue(self, _, report, truth):
        longest, true_longest = report.figures["Longest"], truth["starvation"]["max_latency_ns"]
        more_ns = report.data["facts"]["windowNs"] - truth["since_mark_ns"]  # it grows at most as fast as time
        self.assertGreaterEqual(longest, true_longest * 0.98)
        self.assertLessEqual(longest, true_longest * 1.01 + more_ns)

    @for_each_result
    def test_workers(self, _, report, truth):
        self.assertEqual(report.figures["Workers"], truth["runtime"]["pool_threads"])


class Stuck(unittest.TestCase):
    """All workers wait for continuations that need a worker, and the pool is at its limit: nothing moves any more."""
    SIDE_BY_SIDE = "quietly"

    def test_it_is_told_though_no_event_comes(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, \
                    Patient("starvation", fx=fx, kind="result", block_ms=50, max_threads=4) as patient:
                patient.mark()
                report = examine(home, "thread-pool", patient.pid, 3)
                truth = patient.truth()["starvation"]
                self.assertEqual(truth["started"], 0)
                self.assertEqual((report.finding, report.health), ("workers-blocked", "warn"), report.verdict)
                self.assertIn(truth["method"], report.verdict)


class Others(unittest.TestCase):
    """A pool that works finds no complaint, however busy."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, sickness): lambda fx=fx, sickness=sickness: cls.examined(fx, sickness)
                                    for fx, sickness in diagonal(FRAMEWORKS, ("healthy", "healthy-waits", "exceptions"))},
                                   workers=2)

    @classmethod
    def examined(cls, fx, sickness):
        with Patient(sickness, fx=fx) as patient:
            return examine(cls.home, "thread-pool", patient.pid, 3), None

    @for_each_result
    def test_nothing_is_found(self, _, report, _truth):
        self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)


class Web(unittest.TestCase):
    def examined(self, fx, route, rate, concurrency):
        with Home() as home, WebPatient(fx=fx) as patient:
            patient.load(route, rate=20, seconds=1)
            with patient.start_load(route, rate=rate, seconds=SECONDS + 20, concurrency=concurrency):
                report = examine(home, "thread-pool", patient.pid, SECONDS)
            self.assertTrue(patient.alive())
            return report

    def test_sync_over_async_starves(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx):
                report = self.examined(fx, "sync-over-async?ms=500", 200, 100)
                self.assertEqual(report.finding, "starvation", report.verdict)
                self.assertIn("Shop.Web.Routes.SyncOverAsync", report.verdict)

    def test_a_busy_pool_that_keeps_up_is_fine(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx):
                report = self.examined(fx, "healthy", 500, 8)
                self.assertEqual(report.finding, "nothing-found", report.verdict)

    def test_too_much_computing_is_no_starvation(self):
        report = self.examined(FRAMEWORKS[-1], "on-cpu?ms=100", 100, 40)
        self.assertEqual(report.finding, "queue-latency", report.verdict)


if __name__ == "__main__":
    unittest.main()
