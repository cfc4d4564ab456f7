"""The jit profiler against the patients' truth, on every runtime."""

import time
import unittest

from drdotnet import end_window, examine, Home, LONG_SECONDS, Report, side_by_side, wait_until
from patient import FRAMEWORKS, Patient, WebPatient, diagonal, one_of

WITHIN = 0.05


def methods(report):
    return {row["Method"]: row for row in report.rows("By method")}


def settle(patient):
    """Waits until the runtime has compiled what its start left over: two looks a second apart say the same."""
    seen = [None, 0.0]

    def quiet():
        methods_now, now = patient.truth()["runtime"]["jitted_methods"], time.monotonic()
        if methods_now != seen[0]:
            seen[:] = methods_now, now
        return now - seen[1] > 1.0

    wait_until(quiet, "the runtime compiles no more")


class Truth(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("jit", fx=fx, rate=100) as patient:
            # The first session and the first commands make the runtime compile what they need themselves.
            patient.truth()
            examine(cls.home, "jit", patient.pid, 1)
            patient.pause()
            patient.mark()
            with cls.home.start("jit", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
                job.wait_for("listening")
                patient.resume()
                wait_until(lambda: patient.truth()["jit"]["dynamic_methods"] >= 600, "600 dynamic methods")
                patient.pause()
                report = end_window(job)
            # Only now: the runtime goes on compiling in the background for a while.
            return report, patient.truth()

    def each(self):
        for fx, future in self.results.items():
            with self.subTest(fx=fx):
                yield future.result()

    def test_code_that_is_made_is_counted_exactly(self):
        for report, truth in self.each():
            found = methods(report)
            self.assertEqual(found["Formula#"]["Times"], truth["jit"]["dynamic_methods"])
            self.assertEqual(found["Shop.Rules.Rule.Apply"]["Times"], truth["jit"]["instantiations"])
            self.assertEqual(found["Regex#_Scan"]["Times"], truth["jit"]["regexes"])
            self.assertGreaterEqual(report.figures["Dynamic methods"],
                                    truth["jit"]["dynamic_methods"] + 2 * truth["jit"]["regexes"])
            self.assertEqual(report.how["Lost"]["value"], 0)

    def test_all_methods_and_their_time(self):
        for report, truth in self.each():
            runtime = truth["runtime"]
            # The runtime also counts what it compiles between the mark and the window, and between that and the truth.
            self.assertAlmostEqual(report.figures["Methods"] / runtime["jitted_methods"], 1, delta=WITHIN)
            self.assertAlmostEqual(report.figures["Compiling"] / runtime["jit_ns"], 1, delta=WITHIN)

    def test_sums_agree(self):
        for report, _ in self.each():
            tiers = report.rows("By tier")
            self.assertEqual(sum(t["Methods"] for t in tiers), report.figures["Methods"])
            self.assertEqual(sum(t["Time"] for t in tiers), report.figures["Compiling"])
            self.assertEqual(sum(t["Code"] for t in tiers), report.figures["Machine code"])

    def test_the_verdict(self):
        for report, _ in self.each():
            self.assertEqual(report.finding, "code-made-again", report.verdict)
            self.assertIn("a dynamic method, was compiled", report.verdict)


class Elsewhere(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    def test_a_regex_for_every_request(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx=fx), Home() as home, Patient("regex", fx=fx, rate=20) as patient:
                report = examine(home, "jit", patient.pid, 4)
                self.assertEqual(report.finding, "code-made-again", report.verdict)
                self.assertIn("Regex#_", report.verdict)

    def test_nothing_is_found_where_nothing_is_wrong(self):
        def verdict(sickness, fx, keys):
            with Home() as home, Patient(sickness, fx=fx, **keys) as patient:
                settle(patient)
                return examine(home, "jit", patient.pid, 3)

        cases = [("healthy", {}), ("contention", {}), ("gc-pauses", {}), ("blocked", {"threads": 10})]
        results = side_by_side({(s, fx): lambda s=s, fx=fx, k=k: verdict(s, fx, k) for (s, k), fx in diagonal(cases, FRAMEWORKS)},
                               workers=2)
        for case, future in results.items():
            with self.subTest(case):
                report = future.result()
                self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)

    def test_web_under_load(self):
        def examined(fx):
            with Home() as home, WebPatient(fx=fx) as patient:
                with home.start("jit", patient.pid, "-d", "4s", "--json") as job:
                    job.wait_for("listening")
                    load = patient.load("healthy", rate=100, seconds=2)
                    done = job.finish()
                self.assertEqual(done.code, 0, done)
                self.assertEqual(load["failed"], 0, load)
                self.assertTrue(patient.alive())
                return Report(done.json())

        for fx, future in side_by_side({fx: lambda fx=fx: examined(fx) for fx in one_of(FRAMEWORKS)}).items():
            with self.subTest(fx):
                report = future.result()
                self.assertIsNone(report.partial)
                self.assertGreater(report.figures["Methods"], 50)  # the first requests
                self.assertEqual(report.how["Lost"]["value"], 0)


if __name__ == "__main__":
    unittest.main()
