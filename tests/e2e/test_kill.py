"""SIGKILL of our processes at random instants: the patient lives on as if nothing had been, and the store opens clean.

DRDOTNET_KILLS says how often (20), DRDOTNET_DIAGNOSE_KILLS how often of a diagnosis (4); DRDOTNET_SEED repeats a run.
"""

import os
import random
import signal
import tempfile
import time
import unittest
from pathlib import Path

from drdotnet import Home, event_streams, gone, wait_until
from patient import FRAMEWORKS, Patient, one_of

KILLS = int(os.environ.get("DRDOTNET_KILLS", "20"))
SEED = int(os.environ.get("DRDOTNET_SEED", str(time.time_ns() % 1_000_000)))
DIAGNOSE_KILLS = int(os.environ.get("DRDOTNET_DIAGNOSE_KILLS", "4"))
WINDOW_SECONDS = 1
LATEST_SECONDS = 1.25  # a window, its start and its analysis


def copies_of(pid):
    """Processes that its threads have made."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += (task / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread that has ended
    return found


def stopped_threads(pid):
    """Threads that somebody holds."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            stat = (task / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if stat.rpartition(")")[2].split()[0] in "tT":
            found.append(task.name)
    return found


class RandomKills(unittest.TestCase):
    SIDE_BY_SIDE = True

    def setUp(self):
        self.chance = random.Random(SEED)
        self.counts = {}

    def test_the_patient_outlives_us(self):
        print(f"seed {SEED}", flush=True)
        kills_each = -(-KILLS // len(FRAMEWORKS))
        for fx in FRAMEWORKS:
            with tempfile.TemporaryDirectory() as tmp, Home() as home, \
                    Patient("exceptions", fx=fx, rate=200, env={"TMPDIR": tmp}) as patient:
                files = sorted(p.name for p in Path(tmp).iterdir())
                hits = 0
                for attempt in range(4 * kills_each):
                    if hits == kills_each:
                        break
                    with self.subTest(fx=fx, attempt=attempt, seed=SEED):
                        hits += self.kill_once(home, patient)
                        self.assertEqual(sorted(p.name for p in Path(tmp).iterdir()), files)
                self.assertEqual(hits, kills_each)
        print(", ".join(f"{n} x {what}" for what, n in sorted(self.counts.items())), flush=True)

    def kill_once(self, home, patient):
        """Whether it came in time."""
        profiler = self.chance.choice(("exceptions", "runtime-pauses"))
        return self.kill_one(home, patient, profiler, WINDOW_SECONDS, LATEST_SECONDS)

    def kill_one(self, home, patient, profiler, window_seconds, latest_seconds):
        victim = self.chance.choice(("starter", "worker", "both"))
        with home.start("run", profiler, patient.pid, "-d", f"{window_seconds}s") as job:
            ended = job.poll_within(self.chance.uniform(0, latest_seconds))
            worker = job.worker()
            hit = self.strike(job, worker, victim) if ended is None else "nobody (too late)"
            if victim == "worker":
                job.finish()
            else:
                job.poll_within(30)
        self.counts[hit] = self.counts.get(hit, 0) + 1
        if worker:
            wait_until(lambda: gone(worker), "the worker ends")
        self.assertTrue(patient.alive())
        wait_until(lambda: event_streams(patient.pid) == 0, "the patient's event streams end")
        self.assertTrue(patient.truth())
        self.check_store(home)
        return ended is None

    def test_the_patient_outlives_a_diagnosis(self):
        """In any of its parts: the vital signs, the windows, the looks that several share."""
        print(f"seed {SEED}", flush=True)
        fx, = one_of(FRAMEWORKS)
        with tempfile.TemporaryDirectory() as tmp, Home() as home, \
                Patient("exceptions,stuck-tasks", fx=fx, env={"TMPDIR": tmp}, **{"exceptions.rate": 200}) as patient:
            files = sorted(p.name for p in Path(tmp).iterdir())
            start = time.monotonic()
            done = home.run("diagnose", patient.pid, "-d", "2s", "-q")
            whole = time.monotonic() - start
            self.assertEqual(done.code, 0, done)
            hits = 0
            for attempt in range(4 * DIAGNOSE_KILLS):
                if hits == DIAGNOSE_KILLS:
                    break
                with self.subTest(fx=fx, attempt=attempt, seed=SEED):
                    hits += self.kill_one(home, patient, "diagnose", 2, whole)
                    wait_until(lambda: not copies_of(patient.pid), "the copies of its memory end")
                    wait_until(lambda: sorted(p.name for p in Path(tmp).iterdir()) == files, "its folder is as it was")
                    self.assertFalse(stopped_threads(patient.pid))
            self.assertEqual(hits, DIAGNOSE_KILLS)
        print(", ".join(f"{n} x {what}" for what, n in sorted(self.counts.items())), flush=True)

    def strike(self, job, worker, victim):
        if victim != "starter" and worker is None:
            victim = "starter"
        if victim == "both":
            job.signal(signal.SIGSTOP)  # it must not tidy up between the two
        if victim in ("worker", "both"):
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if victim in ("starter", "both"):
            job.signal(signal.SIGKILL)
        return victim

    def check_store(self, home):
        done = home.run("sessions", "--json")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.err, "")
        sessions = home.sessions()
        for session in sessions:
            self.assertIn(session["state"], ("done", "failed", "cancelled"))
            if session["state"] == "failed":
                self.assertTrue(session["error"])
        self.assertEqual(sorted(s["guid"] for s in sessions), home.folders())
        for guid in home.folders():
            names = {p.name for p in (home.path / "sessions" / guid).iterdir()}
            self.assertIn("session.json", names)
            self.assertFalse([n for n in names if n.endswith(".tmp")])


if __name__ == "__main__":
    unittest.main()
