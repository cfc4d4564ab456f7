"""native-memory against what the patient has taken outside of the managed heap, and against apps with nothing wrong."""

import tempfile
import unittest
from pathlib import Path

from drdotnet import PROGRAM, Home, Report, look, side_by_side
from patient import FRAMEWORKS, HealthyPatient, Patient, diagonal, one_of

SIDE_BY_SIDE = True

FINDINGS = {"kept": "native-in-use", "lost": "native-in-use", "trimmable": "trimmable", "fragments": "fragmented",
            "mmap": "mappings", "stacks": "stacks"}
MB = 1 << 20
NAMED = 0.95
PATIENCE = ("--max-pause-ms", "10000")  # a loaded machine is no reason to refuse
# The runtime may have some of that size; and a chunk that leaves less than 32 bytes of free room takes these as well.
FEW = 20
OTHERS_MB = 12  # that a runtime at rest has of a kind, beside what the patient took


def chunk(asked):
    """What malloc takes for it."""
    return max(32, (asked + 8 + 15) & ~15)


def kinds(report):
    return {row["Memory"]: row["In RAM"] for row in report.rows("Where the memory is")}


def of_size(report, size):
    return sum(row["Chunks"] for row in report.rows("Chunks in use, by size") if row["Size"] == f"{size:,} bytes")


class AgainstThePatient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-native-")))
        cls.results = side_by_side({(kind, fx): lambda kind=kind, fx=fx: cls.examined(kind, fx)
                                    for kind, fx in diagonal(FINDINGS, FRAMEWORKS)}, workers=1)

    @classmethod
    def examined(cls, kind, fx):
        with Patient("native", fx=fx, kind=kind) as patient:
            report = look(cls.home, "native-memory", patient.pid, *PATIENCE)
            core = cls.folder / f"{kind}.core"
            if kind == "kept":
                done = cls.home.run("dump", "collect", patient.pid, "-o", core, "--max-pause", "10s", "--quiet")
                assert done.code == 0, done
            return report, patient.truth()["native"], core

    def each(self, *wanted):
        for (kind, fx), future in self.results.items():
            if not wanted or kind in wanted:
                with self.subTest(kind=kind, fx=fx):
                    yield future.result()

    def about(self, seen, truth_bytes):
        """No less than it took, and no more than that and what a runtime has besides."""
        self.assertGreaterEqual(seen, 0.99 * truth_bytes)
        self.assertLessEqual(seen, 1.02 * truth_bytes + OTHERS_MB * MB)

    def test_the_sickness_is_named(self):
        for report, truth, _ in self.each():
            self.assertEqual(report.finding, FINDINGS[truth["kind"]], report.verdict)

    def test_every_byte_is_somewhere(self):
        for report, _, _ in self.each():
            self.assertEqual(sum(kinds(report).values()), report.figures["In RAM"])

    def test_nearly_all_is_named(self):
        for report, _, _ in self.each("kept", "lost", "trimmable", "fragments", "stacks"):
            self.assertGreater(report.figures["Named"], NAMED)

    def test_arenas_add_up(self):
        for report, _, _ in self.each():
            self.assertNotIn("Arenas not understood", report.how)
            self.assertNotIn("Mapped chunks not found", report.how)
            self.assertEqual(report.how["Allocator"]["value"], "glibc")

    def test_chunks_are_counted_by_size(self):
        for report, truth, _ in self.each("kept", "lost"):
            size = chunk(truth["chunk_bytes"])
            self.assertAlmostEqual(of_size(report, size), truth["used"], delta=FEW)
            self.about(report.figures["malloc in use"], truth["used"] * size)
            self.assertIn(f"{size:,} bytes each", report.verdict)

    def test_what_trim_would_give_back(self):
        for report, truth, _ in self.each("trimmable"):
            self.about(report.figures["Could be trimmed"], truth["freed"] * chunk(truth["chunk_bytes"]))

    def test_what_is_free_and_stays(self):
        for report, truth, _ in self.each("fragments"):
            self.about(kinds(report)["malloc, free, scattered"], truth["freed"] * chunk(truth["chunk_bytes"]))
            self.assertLess(report.figures["Could be trimmed"], 10 * MB)

    def test_mappings(self):
        for report, truth, _ in self.each("mmap"):
            self.about(kinds(report)["other private memory"], truth["mapped_bytes"])

    def test_stacks(self):
        for report, truth, _ in self.each("stacks"):
            self.about(kinds(report)["stacks of threads"], truth["stack_bytes"])

    def test_a_core_knows_the_chunks(self):
        for report, truth, core in self.each("kept"):
            of_core = look(self.home, "native-memory", "--core", core)
            self.assertEqual(of_core.finding, "seen", of_core.verdict)
            self.assertIsNone(of_core.figures["In RAM"])
            self.assertAlmostEqual(of_size(of_core, chunk(truth["chunk_bytes"])), truth["used"], delta=FEW)

    def test_a_kept_recording_says_the_same(self):
        for report, _, _ in self.each("kept"):
            done = self.home.run("run", "native-memory", "--session", report.data["facts"]["session"], "--json")
            self.assertEqual(done.code, 0, done)
            again = Report(done.json())
            self.assertEqual((again.verdict, again.data["blocks"]), (report.verdict, report.data["blocks"]))

    def test_others_point_here(self):
        for fx in one_of(FRAMEWORKS):
            with Patient("native", fx=fx, kind="kept") as patient:
                report = look(self.home, "heap-stats", patient.pid, *PATIENCE)
                self.assertEqual(report.finding, "memory-is-elsewhere", report.verdict)
                self.assertIn("Run native-memory", str(report.data["next"]))


class WhatBecameMore(unittest.TestCase):
    def test_chunks_that_came_between_the_looks(self):
        for fx in one_of(FRAMEWORKS, 1):
            with Home() as home, Patient("native", fx=fx, kind="lost", mb=20) as patient:
                before = patient.truth()["native"]
                with home.start("native-memory", patient.pid, "-d", "6s", *PATIENCE, "--json") as job:
                    job.wait_for("waiting for the next look")
                    patient.ask("more", "DONE")
                    done = job.finish()
                self.assertEqual(done.code, 0, done)
                more = patient.truth()["native"]["used"] - before["used"]
                size = chunk(before["chunk_bytes"])
                rows = {row["Size"]: row for row in Report(done.json()).rows("Chunks that became more, by size")}
                row = rows[f"{size:,} bytes"]
                self.assertAlmostEqual(row["Last look"] - row["First look"], more, delta=FEW)
                self.assertEqual(row["More"], size * (row["Last look"] - row["First look"]))


class OtherAllocators(unittest.TestCase):
    def test_it_is_named_and_not_read(self):
        preload = {"LD_PRELOAD": str(Path(PROGRAM).parent / "tests" / "libjemalloc.so")}
        for fx in one_of(FRAMEWORKS):
            with Home() as home, Patient("native", fx=fx, kind="kept", env=preload) as patient:
                report = look(home, "native-memory", patient.pid, *PATIENCE)
                self.assertEqual(report.finding, "other-allocator", report.verdict)
                self.assertIn("jemalloc", report.verdict)
                self.assertEqual(report.how["Allocator"]["value"], "jemalloc")
                self.assertNotIn("Chunks in use, by size", [block.get("title") for block in report.data["blocks"]])


class WhereThereIsNothing(unittest.TestCase):
    def test_at_rest_and_under_load(self):
        for fx in one_of(FRAMEWORKS):
            with Home() as home, HealthyPatient("api", fx=fx) as patient:
                reports = [look(home, "native-memory", patient.pid, *PATIENCE)]
                with patient.under_load():
                    reports.append(look(home, "native-memory", patient.pid, *PATIENCE))
                    reports.append(look(home, "native-memory", patient.pid, "-d", "4s", *PATIENCE))
                for report in reports:
                    self.assertEqual(report.health, "ok", report.verdict)
                    self.assertTrue(report.verdict.startswith("No problem here"), report.verdict)
                    self.assertGreater(report.figures["Named"], NAMED)


if __name__ == "__main__":
    unittest.main()
