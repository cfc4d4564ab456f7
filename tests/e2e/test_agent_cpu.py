"""CPU samples by timers in the process: the truth as by perf, and nothing of it left, whoever dies when."""

import os
import signal
import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, PROGRAM, examine, wait_until
from patient import FRAMEWORKS, Patient
from test_agent import Traces
from test_cpu_hotpaths import BUSY, METHODS, THREADS, YOURS, complete, share, stacks

SIDE_BY_SIDE = True

SIGNALS = str(Path(PROGRAM).parent / "tests" / "libsignals.so")
FX = FRAMEWORKS[-1]
SHARED = 62


class Timers(Traces):
    """Also its timers, and the signals it catches."""

    def __init__(self, pid):
        super().__init__(pid)
        self.caught = self.signals()

    def signals(self):
        return next(line for line in (self.folder / "status").read_text().splitlines() if line.startswith("SigCgt"))

    def ticking(self):
        return (self.folder / "timers").read_text().count("ID:")

    def clean(self):
        return super().clean() and not self.ticking() and self.signals() == self.caught


def by_agent(home, patient, seconds, *options):
    return examine(home, "cpu-hotpaths", patient.pid, seconds, "--way", "agent", *options)


class Truth(unittest.TestCase):
    SIDE_BY_SIDE = False  # shares of the processor, which others would take

    def setUp(self):
        self.home = self.enterContext(Home())

    def test_the_split(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("cpu", fx=fx, threads=2) as patient:
                before = Timers(patient.pid)
                patient.mark()
                report = by_agent(self.home, patient, 3, "-p", "time_interval_ms=4")
                truth = patient.truth()["cpu"]
                before.wait("the library has left")
                rows = report.rows(YOURS)
                total = sum(share(rows, path["method"], "With callees") for path in truth["paths"].values())
                self.assertGreater(total, 0.8)
                # Rounds of about a millisecond, looked at every four at best: near, where perf is exact.
                for path in truth["paths"].values():
                    self.assertAlmostEqual(share(rows, path["method"], "With callees") / total, path["share"], delta=0.15)
                clocks = {row["Thread"]: (row["Time"], row["By the kernel's clock"]) for row in report.rows(THREADS)}
                for t in truth["threads"]:
                    ours, kernels = clocks[t["name"]]
                    self.assertAlmostEqual(ours / kernels, 1, delta=0.1)
                self.assertIn(report.finding, BUSY)
                self.assertIn("Shop.Pricing.Quote.Total → Shop.Pricing.Tax.Compute", report.verdict)
                self.assertGreaterEqual(complete(self.home), 0.98)
                self.assertIn("timers of the threads' own CPU time", report.how["Way"]["context"])
                self.assertLess(report.how["Cost in the process"]["value"], 0.02)
                clock = report.how["CPU time by the kernel's clock"]["value"]
                self.assertAlmostEqual(report.figures["CPU time"] / clock, 1, delta=0.1)
                for frames, _ in stacks(self.home):
                    if "Shop.Pricing.Tax.Compute" in frames and "[truncated]" not in frames:
                        at = frames.index("Shop.Pricing.Tax.Compute")
                        self.assertEqual(frames[at - 1], "Shop.Pricing.Quote.Total", frames)

    def test_native_code_is_rooted_in_its_managed_caller(self):
        with Patient("cpu", fx=FX, path="native") as patient:
            by_agent(self.home, patient, 3, "-p", "time_interval_ms=4")
        native = [(frames, n) for frames, n in stacks(self.home) if any(f.startswith("crc32") for f in frames)]
        rooted = sum(n for frames, n in native if "Shop.Archive.Checksum.Sum" in frames)
        self.assertGreater(rooted, 20)
        self.assertGreater(rooted / sum(n for _, n in native), 0.99)

    def test_threads_exceptions_and_collections_by_the_hundred(self):
        with Patient("churn", fx=FX) as patient:
            before = Timers(patient.pid)
            report = by_agent(self.home, patient, 3, "-p", "time_interval_ms=4")
            self.assertTrue(patient.alive())
            self.assertGreater(complete(self.home), 0.9)
            self.assertGreater(report.how["Samples"]["value"], 20)
            wait_until(lambda: not before.mapped() and not before.ticking(), "the library has left")

    def test_a_thread_that_waits_weighs_nothing(self):
        with Patient("blocked", fx=FX, threads=100, busy=1) as patient:
            report = by_agent(self.home, patient, 2)
        self.assertGreater(share(report.rows(METHODS), "Shop.Warehouse.Hall.ScanShelves", "With callees"), 0.7)


class Manners(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def test_we_die_while_it_samples(self):
        with Patient("cpu", fx=FX, threads=2) as patient:
            before = Timers(patient.pid)
            with self.home.start("cpu-hotpaths", patient.pid, "-d", "60s", "--way", "agent") as job:
                wait_until(lambda: before.ticking() > 2, "timers tick")
                os.kill(job.worker(), signal.SIGKILL)
                before.wait("clean after our death")
            self.assertGreater(patient.truth()["cpu"]["cpu_ns"], 0)

    def test_others_wait_for_their_turn(self):
        """Two more who come while it is sampled: both say whom they wait for, and look afterwards, one after the other."""
        with Patient("cpu", fx=FX) as patient:
            before = Timers(patient.pid)
            with self.home.start("cpu-hotpaths", patient.pid, "-d", "3s", "--way", "agent") as first:
                wait_until(lambda: before.ticking() > 2, "timers tick")
                said = f"waiting for its turn: process {first.worker()} examines it"
                with self.home.start("deadlocks", patient.pid) as second, \
                        self.home.start("heap-stats", patient.pid, "--way", "agent") as third:
                    for other in (second, third):
                        other.wait_for(said)
                    for job in (first, second, third):
                        done = job.finish()
                        self.assertEqual(done.code, 0, done)
            self.assertTrue(patient.alive())

    def test_a_signal_that_is_in_use_is_shared(self):
        """All signals that we would take have handlers: theirs still hear what is for them, and are there afterwards."""
        with tempfile.NamedTemporaryFile() as heard:
            env = {"LD_PRELOAD": SIGNALS, "SIGNALS_HEARD": heard.name}
            with Patient("cpu", fx=FX, env=env) as patient:
                before = Timers(patient.pid)
                with self.home.start("cpu-hotpaths", patient.pid, "-d", "3s", "--way", "agent", "--json") as job:
                    wait_until(lambda: before.ticking() > 2, "timers tick")
                    os.kill(patient.pid, SHARED)
                    wait_until(lambda: os.path.getsize(heard.name) == 1, "its handler has heard")
                    done = job.finish()
                self.assertEqual(done.code, 0, done)
                self.assertIn("one that the process uses too", done.out)
                before.wait("the library has left")
                os.kill(patient.pid, SHARED)
                wait_until(lambda: os.path.getsize(heard.name) == 2, "its handler is back")
                self.assertTrue(patient.alive())


if __name__ == "__main__":
    unittest.main()
