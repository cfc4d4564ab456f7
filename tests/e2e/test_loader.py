"""The loader profiler against the patients' truth, on every runtime."""

import unittest

from drdotnet import Home, examine, examine_exactly, for_each_result, side_by_side
from patient import FRAMEWORKS, Patient, WebPatient, diagonal, one_of

SIDE_BY_SIDE = True


def row_of(report, table, column, name):
    return next(row for row in report.rows(table) if row[column] == name)


class Contexts(unittest.TestCase):
    """Load contexts that are kept for ever: every one is counted."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS})

    @classmethod
    def examined(cls, fx):
        with Patient("contexts", fx=fx, rate=20) as patient:
            report, truth = examine_exactly(cls.home, "loader", patient,
                                            lambda truth: truth["contexts"]["loaded"] >= 120)
            return report, truth["contexts"]

    @for_each_result
    def test_every_copy_and_every_context(self, _, report, truth):
        row = row_of(report, "Assemblies", "Assembly", "sick")
        self.assertEqual((row["Loaded"], row["Unloaded"]), (truth["loaded"], 0))
        self.assertEqual(row["Now"], truth["loaded_total"] + 1)  # and the program itself
        self.assertEqual(report.figures["Load contexts"], truth["loaded"])

    @for_each_result
    def test_the_leak_is_found_and_who_asks_for_it(self, _, report, truth):
        self.assertEqual((report.finding, report.health), ("contexts-leak", "bad"), report.verdict)
        self.assertIn(truth["method"], report.verdict)
        row = row_of(report, "Assemblies", "Assembly", "sick")
        self.assertEqual(row["Asked for in"], truth["method"])
        self.assertTrue(any('"plugin-' in line for line in row["lines"]), row)


class Unloaded(unittest.TestCase):
    def test_contexts_that_go_again_are_no_leak(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Home() as home, Patient("contexts", fx=fx, rate=20, keep=0) as patient:
                report = examine(home, "loader", patient.pid, 8)
                self.assertEqual(report.finding, "nothing-found", report.verdict)
                self.assertGreater(row_of(report, "Assemblies", "Assembly", "sick")["Unloaded"], 0)


class DynamicCode(unittest.TestCase):
    """Methods made at run time: every one is counted, with who asked for it."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, sickness): lambda fx=fx, sickness=sickness: cls.examined(fx, sickness)
                                    for fx in FRAMEWORKS for sickness in ("jit", "regex")})

    @classmethod
    def examined(cls, fx, sickness):
        keys, made = ({"kind": "dynamic"}, "dynamic_methods") if sickness == "jit" else ({}, "regexes")
        with Patient(sickness, fx=fx, rate=20, **keys) as patient:
            report, truth = examine_exactly(cls.home, "loader", patient, lambda truth: truth[sickness][made] >= 80)
            return report, truth[sickness]

    @for_each_result
    def test_it_is_found(self, _, report, _truth):
        self.assertEqual((report.finding, report.health), ("dynamic-code-grows", "warn"), report.verdict)

    @for_each_result
    def test_every_method(self, key, report, truth):
        if key[1] == "jit":
            row = row_of(report, "Dynamic code", "What", "Formula#")
            self.assertEqual((row["Methods"], row["Asked for in"]),
                             (truth["dynamic_methods"], "Shop.Rules.Engine.RunDynamic"))
        else:
            # Each has a method that looks and one that scans; the one that matches (order-17) has a third.
            row = row_of(report, "Dynamic code", "What", "compiled regular expression")
            self.assertIn(row["Methods"], (2 * truth["regexes"], 2 * truth["regexes"] + 1))
            self.assertEqual(row["Asked for in"], truth["method"])
            self.assertIn(truth["method"], report.verdict)


class Threads(unittest.TestCase):
    def test_threads_that_come_and_go(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("churn", fx=fx, rate=50) as patient:
                report, truth = examine_exactly(home, "loader", patient,
                                                lambda truth: truth["churn"]["parts"]["thread"]["rounds"] >= 120)
                row = row_of(report, "Threads started", "Started in", "Shop.Mall.Stalls.ThroughThread")
                self.assertEqual(row["Threads"], truth["churn"]["parts"]["thread"]["rounds"])
                self.assertEqual(report.finding, "threads-come-and-go", report.verdict)


class Others(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, sickness): lambda fx=fx, sickness=sickness: cls.examined(fx, sickness)
                                    for fx, sickness in diagonal(FRAMEWORKS, ("healthy", "contention", "exceptions"))},
                                   workers=3)

    @classmethod
    def examined(cls, fx, sickness):
        with Patient(sickness, fx=fx) as patient:
            return examine(cls.home, "loader", patient.pid, 3), None

    @for_each_result
    def test_nothing_is_found(self, _, report, _truth):
        self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)
        self.assertEqual(report.how["Lost"]["value"], 0)


class Web(unittest.TestCase):
    def test_under_load(self):
        with Home() as home, WebPatient(fx=FRAMEWORKS[-1]) as patient:
            patient.load("healthy", seconds=3, rate=200)
            with patient.start_load("healthy", rate=200, seconds=10):
                report = examine(home, "loader", patient.pid, 4)
            self.assertEqual(report.finding, "nothing-found", report.verdict)
            self.assertTrue(patient.alive())


if __name__ == "__main__":
    unittest.main()
