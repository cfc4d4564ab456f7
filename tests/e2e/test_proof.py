"""An all-clear needs proof that the instrument worked: runtimes whose streams carry nothing, and real processes at rest."""

import contextlib
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, Report, side_by_side
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True
MUTE = Path(__file__).with_name("mute_runtime.py")
DEAD = ["nothing", "zeros", "garbage", "header", "end"]
# Of these the runtime's own sampler or its whole heap is wanted: one event is not enough.
NEVER_SILENT = {"cpu-hotpaths", "merged-call-stacks", "gc-survivors", "heap-stats"}


@contextlib.contextmanager
def mute_runtime(kind):
    """Its process id."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([sys.executable, str(MUTE), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "TMPDIR": folder, "PYTHONDONTWRITEBYTECODE": "1"})
        try:
            if process.stdout.readline() != "READY\n":
                raise AssertionError("it did not start")
            yield process.pid
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def profilers(home, way):
    """The registry's, that can go that way: whatever is added later. diagnose has many instruments, and still judges what
    /proc says when one of them sees nothing: test_diagnose.py."""
    return [p for p in home.run("profilers", "--json").json() if way in p["ways"] and p["id"] != "diagnose"]


def arguments(profiler):
    return ["-d", "1s"] if any(p["key"].startswith("duration") for p in profiler["parameters"]) else []


class Streams(unittest.TestCase):
    def examine(self, kind):
        """id -> what became of it."""
        with Home() as home, mute_runtime(kind) as pid:
            found = {p["id"]: home.run(p["id"], pid, *arguments(p), "--way", "events", "--json") for p in profilers(home, "events")}
            return found, {s["guid"]: s for s in home.sessions()}

    def test_no_all_clear_from_a_stream_that_carried_nothing(self):
        for kind, future in side_by_side({kind: lambda k=kind: self.examine(k) for kind in DEAD}, workers=3).items():
            found, sessions = future.result()
            self.assertGreater(len(found), 10)
            for profiler, done in found.items():
                with self.subTest(f"{profiler}, {kind}"):
                    self.assertEqual(done.code, 1, done)
                    if not done.out:
                        continue  # it failed, and said why
                    report = Report(done.json())
                    self.assertEqual((report.finding, report.health), ("not-seen", "warn"))
                    self.assertTrue(report.verdict.startswith("Could not be seen: "), report.verdict)
                    self.assertTrue(report.partial)
                    self.assertEqual(report.figures, {})
            kept = [s for s in sessions.values() if s["state"] == "done"]
            self.assertTrue(kept)
            self.assertTrue(all(s["partial"] and s["finding"] == "not-seen" for s in kept), kept)

    def test_one_event_is_enough_where_nothing_happens(self):
        found, _ = self.examine("event")
        for profiler, done in found.items():
            if profiler in NEVER_SILENT:
                continue
            with self.subTest(profiler):
                self.assertEqual(done.code, 0, done)
                report = Report(done.json())
                self.assertEqual(report.health, "ok", report.verdict)
                self.assertIn("event", report.how["Proof"]["value"])


class AtRest(unittest.TestCase):
    """A process that only waits is well: by every instrument, and each says how it knows."""

    @staticmethod
    def examine(fx):
        with Home() as home, Patient("blocked", fx=fx) as patient:
            results = {}
            for way in ("events", "samples"):
                for p in profilers(home, way):
                    results[p["id"], way] = home.run(p["id"], patient.pid, *arguments(p), "--way", way, "--json")
            for session in home.sessions():  # and again, from what was recorded
                profiler = session["profiler"]["id"]
                results[profiler, f"replay of {session['guid']}"] = home.run(profiler, "--session", session["guid"], "--json")
            return results

    def test_it_is_seen(self):
        for fx, future in side_by_side({fx: lambda f=fx: self.examine(f) for fx in FRAMEWORKS}).items():
            for (profiler, way), done in future.result().items():
                with self.subTest(f"{profiler} by {way} on {fx}"):
                    self.assertEqual(done.code, 0, done)
                    report = Report(done.json())
                    self.assertNotEqual(report.finding, "not-seen")
                    self.assertIsNone(report.partial)
                    if report.health == "ok":
                        self.assertTrue({"Proof", "Objects"} & set(report.how), report.how)


if __name__ == "__main__":
    unittest.main()
