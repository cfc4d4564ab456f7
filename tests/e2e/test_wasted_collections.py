"""wasted-collections against what the patient knows, on every runtime, workstation and server GC."""

import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, look, Report, side_by_side, stand_still
from patient import FRAMEWORKS, Patient, diagonal

SIDE_BY_SIDE = True


class AgainstThePatient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-room-")))
        cls.results = side_by_side({(fx, server): lambda fx=fx, server=server: cls.examined(fx, server)
                                    for fx, server in diagonal(FRAMEWORKS, (False, True))}, workers=1)

    @classmethod
    def examined(cls, fx, server):
        with Patient("wasted-collections", fx=fx, server_gc=server) as patient:
            stand_still(patient)
            report = look(cls.home, "wasted-collections", patient.pid)
            core = cls.folder / f"{fx}.core"
            if not server:
                done = cls.home.run("dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet")
                assert done.code == 0, done
            return report, patient.truth()["wasted-collections"], core

    def each(self):
        for which, future in self.results.items():
            with self.subTest(which):
                yield future.result()

    def assert_exact(self, report, truth):
        rows = {row["Field"]: row for row in report.rows("Where it is")}
        for place in truth["places"]:
            row = rows[place["field"]]
            self.assertEqual((row["What"], row["Objects"], row["Wasted"]),
                             (place["what"], place["objects"], place["wasted_bytes"]))
        for field in truth["in_order"]:
            self.assertNotIn(field, rows)

    def test_every_collection_is_counted_to_the_byte(self):
        for report, truth, _ in self.each():
            self.assert_exact(report, truth)
            wasted = sum(place["wasted_bytes"] for place in truth["places"])
            self.assertGreaterEqual(report.figures["Wasted"], wasted)
            self.assertLess(report.figures["Wasted"], wasted * 1.02)

    def test_the_worst_is_named(self):
        for report, truth, _ in self.each():
            worst = max(truth["places"], key=lambda place: place["wasted_bytes"])
            self.assertEqual((report.finding, report.health), ("oversized-collections", "warn"))
            self.assertIn(worst["field"], report.verdict)
            self.assertIn(worst["what"], report.verdict)
            self.assertIn("static " + truth["holder"], str(report.block("Where it is")))

    def test_the_kinds_add_up(self):
        for report, _, _ in self.each():
            self.assertAlmostEqual(sum(row["Wasted"] for row in report.rows("Kinds")), report.figures["Wasted"], delta=5)

    def test_a_core_says_the_same(self):
        for _, truth, core in self.each():
            if core.exists():
                self.assert_exact(look(self.home, "wasted-collections", "--core", core), truth)

    def test_a_kept_recording_says_the_same(self):
        for report, _, _ in self.each():
            done = self.home.run("run", "wasted-collections", "--session", report.data["facts"]["session"], "--json")
            self.assertEqual(done.code, 0, done)
            self.assertEqual(Report(done.json()).rows("Where it is"), report.rows("Where it is"))


class WhereThereIsNothing(unittest.TestCase):
    def test_healthy(self):
        with Home() as home, Patient("healthy") as patient:
            report = look(home, "wasted-collections", patient.pid)
            self.assertEqual((report.finding, report.health), ("nothing-found", "ok"))
            strings = look(home, "duplicated-strings", patient.pid)
            done = home.run("run", "wasted-collections", "--session", strings.data["facts"]["session"])
            self.assertNotEqual(done.code, 0)
            self.assertIn("does not say how full collections are", done.err)


if __name__ == "__main__":
    unittest.main()
