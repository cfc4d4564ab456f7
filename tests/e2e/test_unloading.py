"""Code that is unloaded while it is asked for: the runtime's list of compiled code can crash a process that unloads load
contexts meanwhile (docs/internals/ipc.md), so it is read from memory, with the same names and lines."""

import os
import re
import unittest
from pathlib import Path

from drdotnet import Home, Report, examine, side_by_side, wait_until
from patient import FRAMEWORKS, Patient, one_of
from test_every_profiler import arguments

SIDE_BY_SIDE = True
ROUNDS = int(os.environ.get("DRDOTNET_UNLOADS", 60))  # lists of code, of each runtime
OF_ONE = 100  # then a new patient: this one ends its unloading, to spare the machine
LISTS_PARTS = [fx for fx in FRAMEWORKS if int(re.findall(r"\d+", fx)[0]) >= 9]  # earlier ones list everything or nothing
HOW = "Names of compiled code"


def unloading(fx):
    return Patient("contexts", fx=fx, keep=0, rate=100, max=10000, work=1)


def place(line):
    """Of a perf map: where code is, and how large."""
    start, size, _ = line.split(maxsplit=2)
    return int(start, 16), int(size, 16)


class TargetsThatUnload(unittest.TestCase):
    """With the runtime's list, about one in a hundred killed the patient."""

    def setUp(self):
        self.home = self.enterContext(Home())

    def test_many_lists(self):
        for fx in FRAMEWORKS:
            for first in range(0, ROUNDS, OF_ONE):
                with self.subTest(fx), unloading(fx) as patient:
                    named, rounds = 0, range(first, min(first + OF_ONE, ROUNDS))
                    for round in rounds:
                        done = self.home.run("perf-map", patient.pid, "-o", "-", "-q")
                        self.assertTrue(patient.alive(), f"dead after {round + 1} lists: {done}")
                        named += "Patients.Worker" in done.out
                    # Memory that changes while it is read may make no sense.
                    self.assertGreater(named, len(rounds) / 2)

    def test_each_profiler_that_listens(self):
        """Each by the way that it takes here, and by events."""
        orders = [(p["id"], way, *arguments(p)) for p in self.home.run("profilers", "--json").json() if "events" in p["ways"]
                  for way in {p["ways"][0], "events"} - {"image"}]
        self.assertGreater(len(orders), 10)
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), unloading(fx) as patient:
                tasks = {order: lambda order=order: self.home.run(order[0], patient.pid, "--way", *order[1:], "--json")
                         for order in orders}
                for order, future in side_by_side(tasks, workers=2).items():
                    self.assertEqual(future.result().code, 0, f"{order}: {future.result()}")
                self.assertTrue(patient.alive())

    def test_a_trace(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), unloading(fx) as patient:
                file = self.home.path / f"{fx}.nettrace"
                done = self.home.run("trace", "collect", patient.pid, "-d", "1s", "-o", file)
                self.assertEqual(done.code, 0, done)
                self.assertEqual("will not name code" in done.err, True, done.err)
                self.assertTrue(patient.alive())


class FromMemory(unittest.TestCase):
    """A patient that could unload something, and does not."""

    def setUp(self):
        self.home = self.enterContext(Home())

    def test_all_that_the_runtime_says_itself(self):
        """Each method that its own perf map has, at the same place and of the same size."""
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("contexts", fx=fx, env={"DOTNET_PerfMapEnabled": "1"}, rate=100, max=40) as patient:
                wait_until(lambda: patient.truth()["contexts"]["loaded_total"] == 40, "all are loaded")
                theirs = [line for line in Path(f"/tmp/perf-{patient.pid}.map").read_text().splitlines()
                          if re.search(r"\[(Tier0|Tier1|Optimized|OptimizedTier1|QuickJitted|MinOptJitted)", line)]
                lines = self.home.run("perf-map", patient.pid, "-o", "-", "-q").out.splitlines()
                ours = dict(place(line) for line in lines)
                self.assertGreater(len(theirs), 100)
                missing = [line for line in theirs if ours.get(place(line)[0]) != place(line)[1]]
                self.assertLessEqual(len(missing), len(theirs) // 100, missing[:5])
                copies = [line for line in lines if line.endswith(" Shop.Plugins.PriceRule..ctor")]
                self.assertEqual(len(copies), 40)

    def test_the_same_as_the_whole_list(self):
        """.NET 8 lists all or nothing: precompiled code is read from memory too. What the runtime lists is what is asked for
        where memory cannot be read; nothing is unloaded meanwhile."""
        for fx in [fx for fx in FRAMEWORKS if fx not in LISTS_PARTS]:
            # Precompiled code that was compiled again between the two lists stands in the runtime's only.
            with self.subTest(fx), Patient("contexts", fx=fx, env={"DOTNET_TieredCompilation": "0"}, rate=100, max=40) as patient:
                wait_until(lambda: patient.truth()["contexts"]["loaded_total"] == 40, "all are loaded")
                theirs, ours = (set(self.home.run("perf-map", patient.pid, "-o", "-", "-q", env=env).out.splitlines())
                                for env in ({"DRDOTNET_DACHOST": "/nonexistent"}, {}))
                self.assertGreater(len(theirs), 1000)
                # Precompiled instances of generic methods are not found.
                missing = [line for line in theirs - ours if not re.search(r"[<\[`]|Generic|Linq|Json", line)]
                self.assertLessEqual(len(missing), len(theirs) // 20, missing[:5])
                self.assertGreater(len(theirs & ours), len(theirs) * 0.6)

    def test_names_and_lines(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("cpu,contexts", fx=fx, rate=1, max=3) as patient:
                report = examine(self.home, "cpu-hotpaths", patient.pid, 3, "-p", "time_interval_ms=1")
            self.assertIn(HOW, report.how)
            row = next(row for row in report.rows("Hottest methods") if row["Method"] == "Shop.Pricing.Tax.Compute")
            self.assertTrue(row["lines"])
            self.assertTrue(all(line.startswith("Cpu.cs:") for line in row["lines"]), row["lines"])

    def test_again_from_the_recording(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("exceptions,contexts", fx=fx, max=3) as patient:
                report = examine(self.home, "exceptions", patient.pid, 3)
            again = Report(self.home.run("run", "exceptions", "--session", self.home.sessions()[0]["guid"], "--json").json())
            self.assertEqual(report.how[HOW]["value"], "from its memory")
            self.assertEqual(again.how[HOW], report.how[HOW])
            self.assertEqual(again.verdict, report.verdict)

    def test_what_cannot_be_read_is_said(self):
        for fx in LISTS_PARTS:
            with self.subTest(fx), Patient("cpu,contexts", fx=fx, max=3) as patient:
                report = examine(self.home, "cpu-hotpaths", patient.pid, 2, env={"DRDOTNET_DACHOST": "/nonexistent"})
            self.assertEqual(report.how[HOW]["value"], "only of what was compiled meanwhile")


if __name__ == "__main__":
    unittest.main()
