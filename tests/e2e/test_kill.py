"""SIGKILL of our processes at random instants: the patient lives on as if nothing had been, and the store opens clean.

DRDOTNET_KILLS says how often (20); DRDOTNET_SEED repeats a run.
"""

import os
import random
import signal
import tempfile
import time
import unittest
from pathlib import Path

from drdotnet import Home, event_streams, gone, wait_until
from patient import FRAMEWORKS, Patient

KILLS = int(os.environ.get("DRDOTNET_KILLS", "20"))
SEED = int(os.environ.get("DRDOTNET_SEED", str(time.time_ns() % 1_000_000)))
WINDOW_SECONDS = 1
LATEST_SECONDS = 1.25  # a window, its start and its analysis


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
        victim = self.chance.choice(("starter", "worker", "both"))
        profiler = self.chance.choice(("exceptions", "runtime-pauses"))
        with home.start("run", profiler, patient.pid, "-d", f"{WINDOW_SECONDS}s") as job:
            ended = job.poll_within(self.chance.uniform(0, LATEST_SECONDS))
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
