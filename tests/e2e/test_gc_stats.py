"""The gc-stats profiler against the patients' truth, on every runtime and both kinds of GC."""

import unittest

from drdotnet import Home, Report, examine, examine_exactly, side_by_side
from patient import FRAMEWORKS, ROOM_FOR_ANSWERS, Patient, WebPatient, diagonal, one_of

GC = {"workstation": False, "server": True}
WITHIN = 0.05


class Truth(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, gc): lambda fx=fx, gc=gc: cls.examined(fx, gc)
                                    for fx, gc in diagonal(FRAMEWORKS, GC)}, workers=1)

    @classmethod
    def examined(cls, fx, gc):
        with Patient("gc-pauses", fx=fx, server_gc=GC[gc], env=ROOM_FOR_ANSWERS, induced=4, allocate_mb=100) as patient:
            return examine_exactly(cls.home, "gc-stats", patient,
                                   lambda truth: truth["gc-pauses"]["induced"] >= 12)

    def each(self):
        for (fx, gc), future in self.results.items():
            with self.subTest(fx=fx, gc=gc):
                yield future.result()

    def test_every_collection_is_counted(self):
        for report, truth in self.each():
            runtime = truth["runtime"]
            self.assertEqual(report.figures["Collections"], runtime["gen0"] + runtime["gen1"] + runtime["gen2"])
            by_generation = [0, 0, 0]
            for row in report.rows("Collections by kind"):
                by_generation[int(row["Kind and reason"].split()[1])] += row["Count"]
            self.assertEqual(by_generation, [runtime["gen0"], runtime["gen1"], runtime["gen2"]])
            self.assertEqual(report.how["Lost"]["value"], 0)

    def test_time_in_gc(self):
        for report, truth in self.each():
            paused = report.figures["Time in GC"] * report.data["facts"]["windowNs"]
            # The runtime's own sum ends before the threads run again, which takes a while on a busy machine. The
            # callers of GC.Collect wait to the very end, so ours lies between the two.
            self.assertGreater(paused, truth["runtime"]["gc_pause_ns"] * 0.99)
            induced = sum(row["Paused"] for row in report.rows("Collections by kind") if "induced" in row["Kind and reason"])
            self.assertLess(induced, truth["gc-pauses"]["induced_blocked_ns"])
            self.assertGreater(induced / truth["gc-pauses"]["induced_blocked_ns"], 0.8)

    def test_induced_collections_and_who_asked(self):
        for report, truth in self.each():
            self.assertEqual(report.finding, "induced-collections", report.verdict)
            row, = report.rows("Who asked for collections")
            self.assertEqual((row["Method"], row["Calls"]), (truth["gc-pauses"]["induced_by"], truth["gc-pauses"]["induced"]))
            self.assertIn(f"in {truth['gc-pauses']['induced_by']}.", report.verdict)
            self.assertLessEqual(row["Paused"], truth["gc-pauses"]["induced_blocked_ns"])
            self.assertGreater(row["Paused"], truth["gc-pauses"]["induced_blocked_ns"] * 0.5)

    def test_the_heap(self):
        for report, truth in self.each():
            heap = {row["Part"]: row for row in report.rows("The heap")}
            live = heap["generation 1"]["After the last"] + heap["generation 2"]["After the last"]
            self.assertTrue(18e6 < live < 60e6, live)  # 20 MB of ledger
            self.assertAlmostEqual(report.figures["Heap after a GC"], sum(r["After the last"] for r in heap.values()))


class AllocationRate(unittest.TestCase):
    """What collections find, without a single event about an allocation."""
    SIDE_BY_SIDE = True

    def test_rate(self):
        def examined(fx, gc):
            # Many small collections, so that little is allocated before the first and after the last of them.
            often = {"DOTNET_GCgen0size": "0x800000"}
            with Home() as home, Patient("allocations", fx=fx, server_gc=GC[gc], env=often, rate_mb=200) as patient:
                return examine_exactly(home, "gc-stats", patient, lambda truth: truth["allocations"]["bytes"] > 8e8)

        for case, future in side_by_side({c: lambda c=c: examined(*c) for c in diagonal(FRAMEWORKS, GC)}, workers=1).items():
            with self.subTest(case):
                report, truth = future.result()
                # The rate is that of the time between the first and the last; a sum does not depend on when a busy
                # machine let the patient run. Its own count, for the runtime's forgets what was allocated on a heap
                # that server GC gives up again.
                ends = [x for line in report.block("Heap after each GC")["lines"] for x, _ in line["points"]]
                found = report.figures["Allocated per second"] * (max(ends) - min(ends)) / 1e9
                self.assertAlmostEqual(found / truth["allocations"]["bytes"], 1, delta=WITHIN)


class Elsewhere(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    def test_nothing_is_found_where_nothing_is_wrong(self):
        def verdict(sickness, fx, keys):
            with Home() as home, Patient(sickness, fx=fx, **keys) as patient:
                return examine(home, "gc-stats", patient.pid, 2)

        cases = [("healthy", {}), ("contention", {}), ("exceptions", {"rate": 10}), ("blocked", {"threads": 10})]
        results = side_by_side({(s, fx): lambda s=s, fx=fx, k=k: verdict(s, fx, k) for (s, k), fx in diagonal(cases, FRAMEWORKS)})
        for case, future in results.items():
            with self.subTest(case):
                report = future.result()
                self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)

    def test_large_objects_force_full_collections(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx=fx), Home() as home, Patient("allocations", fx=fx, rate_mb=600, loh=80) as patient:
                report = examine(home, "gc-stats", patient.pid, 3)
                rows = report.rows("Collections by kind")
                full = sum(r["Count"] for r in rows if r["Kind and reason"].startswith("gen 2"))
                self.assertGreater(full, 3 * 5)
                self.assertTrue(any("large-object allocation" in r["Kind and reason"] for r in rows), rows)

    def test_web_under_load(self):
        def examined(fx):
            with Home() as home, WebPatient(fx=fx, server_gc=True) as patient:
                with home.start("gc-stats", patient.pid, "-d", "4s", "--json") as job:
                    job.wait_for("listening")
                    load = patient.load("healthy", rate=200, seconds=2)
                    done = job.finish()
                self.assertEqual(done.code, 0, done)
                self.assertEqual(load["failed"], 0, load)
                self.assertTrue(patient.alive())
                return Report(done.json())

        for fx, future in side_by_side({fx: lambda fx=fx: examined(fx) for fx in one_of(FRAMEWORKS)}).items():
            with self.subTest(fx):
                self.assertIsNone(future.result().partial)


if __name__ == "__main__":
    unittest.main()
