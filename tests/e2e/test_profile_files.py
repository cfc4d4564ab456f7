"""Samples as files for other programs."""

import gzip
import json
import unittest
from pathlib import Path

from drdotnet import Home
from patient import FRAMEWORKS, Patient

FX = FRAMEWORKS[-1]
HOT = "Shop.Pricing.Tax.Compute"


class Exports(unittest.TestCase):
    """One session in every form; the ending of the file says which."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        with Patient("cpu", fx=FX, threads=2) as patient:
            cls.pid = patient.pid
            cls.path = cls.home.path / "first.speedscope.json"
            cls.done = cls.home.run("cpu-hotpaths", patient.pid, "-d", "2s", "-o", cls.path)
            cls.wrong = cls.home.run("exceptions", patient.pid, "-d", "1s", "-o", cls.home.path / "x.pb.gz")
        cls.guid = cls.home.sessions()[0]["guid"]
        cls.report = json.loads((cls.home.path / "sessions" / cls.guid / "report.json").read_text())

    def exported(self, ending):
        path = self.home.path / f"again{ending}"
        done = self.home.run("sessions", "export", self.guid, "-o", path)
        self.assertEqual(done.code, 0, done)
        return path.read_bytes()

    def cpu_ns(self):
        return next(f["value"] for f in self.report["figures"] if f["label"] == "CPU time")

    def test_speedscope_has_all_the_time(self):
        self.assertEqual(self.done.code, 0, self.done)
        data = json.loads(self.path.read_text())
        names = [f["name"] for f in data["shared"]["frames"]]
        self.assertIn(HOT, names)
        self.assertIn(str(self.pid), data["name"])
        spent = 0
        for profile in data["profiles"]:
            depth, since = 0, 0
            for event in profile["events"]:
                if event["type"] == "O":
                    since = event["at"] if depth == 0 else since
                    depth += 1
                else:
                    depth -= 1
                    spent += event["at"] - since if depth == 0 else 0
            self.assertEqual(depth, 0)
        unit = {"nanoseconds": 1, "microseconds": 1e3}[data["profiles"][0]["unit"]]
        self.assertAlmostEqual(spent * unit / self.cpu_ns(), 1, delta=0.02)
        self.assertEqual(json.loads(self.exported(".speedscope.json")), data)

    def test_pprof_folded_svg_and_reports(self):
        self.assertIn(HOT.encode(), gzip.decompress(self.exported(".pb.gz")))
        self.assertRegex(self.exported(".folded").decode(), rf"(?m)^\S.*;{HOT} \d+$")
        self.assertTrue(self.exported(".svg").startswith(b"<?xml"))
        self.assertTrue(self.exported(".html").startswith(b"<!doctype html>"))
        self.assertEqual(json.loads(self.exported(".json")), self.report)
        self.assertIn(HOT.encode(), self.exported(".md"))
        self.assertIn(HOT.encode(), self.exported(".txt"))

    def test_a_profiler_without_samples_says_so_beforehand(self):
        self.assertEqual(self.wrong.code, 2)
        self.assertIn("takes no samples", self.wrong.err)
        self.assertEqual(len(self.home.sessions()), 1)


if __name__ == "__main__":
    unittest.main()
