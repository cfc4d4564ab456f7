"""zombie-threads against what the patients know."""

import unittest

from drdotnet import Home, for_each_result, look, side_by_side
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True

STILL = "Threads that did not run"
LOOK = ("-p", "interval=2", "-p", "max_pause_ms=10000")
DEAD, POOL = 1000, 4


class Zombies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("zombie-threads", fx=fx, dead=DEAD, pool=POOL) as patient:
            return look(cls.home, "zombie-threads", patient.pid, *LOOK), patient.truth()["zombie-threads"]

    @for_each_result
    def test_verdict(self, _, report, truth):
        self.assertEqual((report.finding, report.health), ("lost-pool-threads", "warn"), report.verdict)
        self.assertIn(f"{truth['lost_pool_threads']} pool threads have not run", report.verdict)
        self.assertIn(truth["lost_pool_method"], report.verdict)
        self.assertIn(f"1,000 ended threads are still kept by {truth['dead_holder']}", report.verdict)
        self.assertIn("1 foreground thread has not run", report.verdict)
        self.assertIn(truth["foreground"]["keeper"], report.verdict)

    @for_each_result
    def test_who_stands_still(self, _, report, truth):
        rows = {row["Where"]: row for row in report.rows(STILL)}
        self.assertEqual((rows[truth["lost_pool_method"]]["Threads"], rows[truth["lost_pool_method"]]["Of"]),
                         (truth["lost_pool_threads"], "the pool"))
        self.assertEqual(rows[truth["foreground"]["keeper"]]["Of"], "foreground")
        queue = rows[truth["blocked"]["queue-reader"]]
        self.assertEqual((queue["Of"], queue["What"]), ("background", "waits for an item of a queue: DeadQueue.Jobs"))
        self.assertEqual(report.figures["Of the pool"], truth["lost_pool_threads"])

    @for_each_result
    def test_who_keeps_the_dead(self, _, report, truth):
        self.assertGreaterEqual(report.figures["Ended, but kept"], truth["dead_threads"])
        self.assertEqual(report.rows("Who keeps ended threads")[0], {"Holder": truth["dead_holder"], "Threads": DEAD, "lines": []})

    @for_each_result
    def test_it_can_be_looked_at_again(self, _, report, truth):
        again = look(self.home, "zombie-threads", "--session", report.data["facts"]["session"]).data
        for part in ("blocks", "verdict", "how"):
            self.assertEqual(again[part], report.data[part])


class Others(unittest.TestCase):
    def test_growth(self):
        with Home() as home, Patient("zombie-threads", dead=0, pool=0, growth=10) as patient:
            patient.mark()
            report = look(home, "zombie-threads", patient.pid, *LOOK)
            grown = patient.truth()["zombie-threads"]["grown_since_mark"]
        self.assertEqual(report.finding, "growing", report.verdict)
        self.assertGreater(report.figures["New"], 3)
        self.assertLessEqual(report.figures["New"], grown + 5)

    def test_no_alarm(self):
        """Threads that work, or wait and are served, are none; those that wait for good are told without alarm."""
        with Home() as home:
            for sickness, findings in (("healthy", {"nothing-found"}),
                                       ("healthy-waits", {"nothing-found", "no-progress"}),
                                       ("blocked", {"no-progress"})):
                with self.subTest(sickness), Patient(sickness) as patient:
                    report = look(home, "zombie-threads", patient.pid, *LOOK)
                    self.assertIn(report.finding, findings, report.verdict)
                    self.assertIn(report.health, ("ok", "info"))
                    if sickness == "blocked":
                        self.assertGreaterEqual(report.figures["Did not run"], 100)


if __name__ == "__main__":
    unittest.main()
