"""The runtime-pauses profiler against the patients' truth, on every runtime and both kinds of GC."""

import os
import re
import signal
import unittest
from collections import Counter

from drdotnet import (LONG_SECONDS, Home, Report, end_window, examine, examine_exactly, for_each_result, side_by_side,
                      wait_until)
from patient import FRAMEWORKS, ROOM_FOR_ANSWERS, Patient, WebPatient, diagonal, one_of

GC = {"workstation": False, "server": True}
INDUCED = "induced by GC.Collect"
LIVE_BYTES = 20e6


def by_generation(report):
    counts = Counter()
    for row in report.rows("What for"):
        found = re.match(r"gen (\d) ", row["Reason"])
        counts[f"gen{found[1]}" if found else row["Reason"]] += row["Pauses"]
    return counts


def collections(runtime):
    return runtime["gen0"] + runtime["gen1"] + runtime["gen2"]


class Exact(unittest.TestCase):
    """Every pause: the patient stands still while the window opens and closes."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, gc): lambda fx=fx, gc=gc: cls.examined(fx, gc)
                                    for fx, gc in diagonal(FRAMEWORKS, GC)}, workers=3)

    @classmethod
    def examined(cls, fx, gc):
        # The number of server GC's heaps changes in a pause of its own, when the runtime sees fit.
        env = {**ROOM_FOR_ANSWERS, "DOTNET_GCDynamicAdaptationMode": "0"}
        with Patient("gc-pauses", fx=fx, server_gc=GC[gc], env=env, induced=4, live_mb=LIVE_BYTES / 1e6) as patient:
            return examine_exactly(cls.home, "runtime-pauses", patient,
                                   lambda truth: truth["gc-pauses"]["induced"] >= 6)

    @for_each_result
    def test_every_collection_by_generation(self, _, report, truth):
        expected = {name: truth["runtime"][name] for name in ("gen0", "gen1", "gen2") if truth["runtime"][name]}
        self.assertEqual({name: n for name, n in by_generation(report).items() if name.startswith("gen")}, expected)

    @for_each_result
    def test_the_induced_ones(self, _, report, truth):
        row, = (r for r in report.rows("What for") if INDUCED in r["Reason"])
        self.assertEqual(row["Reason"], "gen 2 blocking GC, induced by GC.Collect")
        self.assertEqual(row["Pauses"], truth["gc-pauses"]["induced"])
        # Whoever calls GC.Collect waits for the pause, and on a busy machine for its turn; with server GC it is another
        # thread that ends the pause.
        self.assertLess(row["In all"], truth["gc-pauses"]["induced_blocked_ns"] * 1.2)

    @for_each_result
    def test_the_time_they_took(self, _, report, truth):
        gc_ns = sum(r["In all"] for r in report.rows("What for") if r["Reason"].startswith("gen "))
        # The runtime's own sum ends before all threads run again, ours when they do.
        self.assertGreater(gc_ns, truth["runtime"]["gc_pause_ns"] * 0.99)
        self.assertLess(gc_ns, truth["runtime"]["gc_pause_ns"] * 1.5)

    @for_each_result
    def test_figures_tables_and_pictures_tell_the_same(self, _, report, truth):
        causes, worst = report.rows("What for"), report.rows("Worst pauses")
        self.assertEqual(report.figures["Pauses"], sum(r["Pauses"] for r in causes))
        self.assertEqual(report.figures["Standing still"], sum(r["In all"] for r in causes))
        self.assertEqual(report.figures["Longest"], max(r["Longest"] for r in causes))
        self.assertEqual(report.figures["Pauses"], len(worst))
        lengths = [r["Pause"] for r in worst]
        self.assertEqual(lengths, sorted(lengths, reverse=True))
        self.assertEqual(sum(lengths), report.figures["Standing still"])
        self.assertTrue(all(0 <= r["Stopping"] <= r["Pause"] for r in worst))
        self.assertAlmostEqual(sum(r["Share"] for r in causes), 1, places=6)
        self.assertIn(report.figures["p99"], lengths)
        self.assertLessEqual(report.figures["p95"], report.figures["p99"])
        window = report.data["facts"]["windowNs"]
        bars = report.block("When")["bars"]
        self.assertEqual(sorted(b["length"] for b in bars), sorted(lengths))
        self.assertTrue(all(0 <= b["x"] <= b["x"] + b["length"] <= window for b in bars))
        self.assertEqual(sum(n for _, _, n in report.block("How long")["buckets"]), len(worst))
        self.assertEqual(report.how["Lost"]["value"], 0)

    @for_each_result
    def test_the_heap_before_and_after(self, _, report, truth):
        full = [r for r in report.rows("Worst pauses") if INDUCED in r["Reason"]]
        self.assertTrue(full)
        for row in full:
            self.assertGreater(row["after"], LIVE_BYTES * 0.95)
            self.assertLess(row["after"], LIVE_BYTES * 1.5)
            self.assertGreaterEqual(row["Heap before"], row["after"] * 0.99)
        self.assertLess(min(r["after"] for r in full), truth["runtime"]["heap_bytes"] * 1.2)

    @for_each_result
    def test_the_verdict(self, _, report, truth):
        self.assertEqual(report.finding, "induced-collections", report.verdict)
        self.assertIn(f"{INDUCED} ({truth['gc-pauses']['induced']} pauses)", report.verdict)
        self.assertIn("cancelled after", report.partial)


class Natural(unittest.TestCase):
    """Collections that nobody asked for, also in the background, counted while they go on."""
    SIDE_BY_SIDE = True

    def test_allocating_and_leaking(self):
        def examined(fx, sickness, keys):
            with Home() as home, Patient(sickness, fx=fx, **keys) as patient:
                patient.mark()
                with home.start("runtime-pauses", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
                    job.wait_for("listening")
                    before = patient.truth()["runtime"]
                    wait_until(lambda: collections(patient.truth()["runtime"]) > collections(before) + 10, "ten more")
                    inside = patient.truth()["runtime"]
                    report = end_window(job)
                return report, before, inside, patient.truth()["runtime"]

        cases = [("allocations", {"rate_mb": 300}), ("leak", {"rate": 5000, "size": 5000})]
        results = side_by_side({(fx, s): lambda fx=fx, s=s, k=k: examined(fx, s, k)
                                for fx in FRAMEWORKS for s, k in cases}, workers=2)
        for key, future in results.items():
            with self.subTest(key):
                report, before, inside, after = future.result()
                seen, background = Counter(), 0
                for row in report.rows("What for"):
                    self.assertNotIn(INDUCED, row["Reason"])
                    # A background GC stops the world twice.
                    found = re.match(r"gen (\d) ", row["Reason"])
                    if found and "its final phase" not in row["Reason"]:
                        seen[f"gen{found[1]}"] += row["Pauses"]
                        background += row["Pauses"] if " background " in row["Reason"] else 0
                for name in ("gen0", "gen1", "gen2"):
                    # One may be under way when the window opens, when it closes, and when the truth is told; and a
                    # background GC mostly begins with a young one in the same pause.
                    young = background if name != "gen2" else 0
                    self.assertGreaterEqual(seen[name], inside[name] - before[name] - 1 - young, name)
                    self.assertLessEqual(seen[name], after[name] + 1, name)


class Elsewhere(unittest.TestCase):
    """No finding where there is none to make, and the web API as well."""
    SIDE_BY_SIDE = "quietly"

    def test_nothing_is_found_where_nothing_pauses(self):
        def verdict(sickness, fx, keys):
            with Home() as home, Patient(sickness, fx=fx, **keys) as patient:
                return examine(home, "runtime-pauses", patient.pid, 2)

        cases = [("healthy", {}), ("blocked", {"threads": 20}), ("stuck-tasks", {}), ("deadlock", {}),
                 ("exceptions", {})]
        results = side_by_side({(s, fx): lambda s=s, fx=fx, k=k: verdict(s, fx, k) for (s, k), fx in diagonal(cases, FRAMEWORKS)})
        for case, future in results.items():
            with self.subTest(case):
                report = future.result()
                self.assertIn(report.finding, ("no-pause", "nothing-found"), report.verdict)
                self.assertEqual(report.health, "ok")
                self.assertTrue(report.verdict.startswith("No problem here: "), report.verdict)

    def test_web_under_load(self):
        def examined(fx, gc):
            with Home() as home, WebPatient(fx=fx, server_gc=GC[gc]) as patient:
                with patient.start_load("exception/2", rate=50, seconds=30):
                    patient.mark()
                    report = examine(home, "runtime-pauses", patient.pid, 2)
                    return report, patient.truth()["runtime"]

        results = side_by_side({case: lambda case=case: examined(*case) for case in diagonal(FRAMEWORKS, GC)}, workers=3)
        for case, future in results.items():
            with self.subTest(case):
                report, truth = future.result()
                self.assertIn(report.finding, ("no-pause", "nothing-found"), report.verdict)
                seen = by_generation(report) if report.figures else Counter()
                for name in ("gen0", "gen1", "gen2"):
                    self.assertLessEqual(seen[name], truth[name])


class CutShort(unittest.TestCase):
    SIDE_BY_SIDE = True

    def test_a_killed_process_leaves_a_partial_report(self):
        def examined(fx):
            with Home() as home, Patient("gc-pauses", fx=fx, induced=5) as patient:
                with home.start("runtime-pauses", patient.pid, "-d", "60s", "--json") as job:
                    job.wait_for("listening")
                    patient.mark()
                    wait_until(lambda: patient.truth()["gc-pauses"]["induced"] > 4, "five collections")
                    os.kill(patient.pid, signal.SIGKILL)
                    done = job.finish()
                return done, [s["state"] for s in home.sessions()]

        for fx, future in side_by_side({fx: lambda fx=fx: examined(fx) for fx in one_of(FRAMEWORKS)}).items():
            with self.subTest(fx):
                done, states = future.result()
                self.assertEqual((done.code, states), (0, ["done"]), done)
                report = Report(done.json())
                self.assertIn("the process ended after", report.partial)
                self.assertEqual(report.finding, "induced-collections", report.verdict)


if __name__ == "__main__":
    unittest.main()
