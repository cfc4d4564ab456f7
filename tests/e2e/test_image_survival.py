"""Whatever happens to us while a snapshot is taken, the patient lives on as if nothing had been.

DRDOTNET_KILLS: kills at random instants (20). DRDOTNET_SNAPSHOTS: snapshots in a row (50). DRDOTNET_SEED repeats a run.
"""

import os
import random
import signal
import subprocess
import time
import unittest

from drdotnet import wait_until
from patient import FRAMEWORKS, Patient
from probe import PROBE, State, children, copies_of, descriptors, held_threads, hold, places, raised_threads, take

SIDE_BY_SIDE = True

KILLS = int(os.environ.get("DRDOTNET_KILLS", "20"))
SNAPSHOTS = int(os.environ.get("DRDOTNET_SNAPSHOTS", "50"))
SEED = int(os.environ.get("DRDOTNET_SEED", str(time.time_ns() % 1_000_000)))
# Passed once for each thread.
PER_THREAD = ("seized", "interrupted", "detached")
IMPORTANT = ("seized", "interrupted", "all stopped", "saved", "frame written", "options set", "heal set", "mask set",
             "call set", "call entered", "child made", "detached", "all let go", "copy stands", "copy bound", "ready",
             "copy killed", "copy ended", "call left", "copy buried")
PROCESSES = 5  # a second, started by the patient itself
PARTS = ("memory", "exception", "thread", "timer", "socket")


class Survival(unittest.TestCase):
    def check_free(self, pid, masks=True):
        """No thread held or before others, no copy running; the kernel may need a moment after a kill."""
        wait_until(lambda: not held_threads(pid, masks), "every thread runs freely", 10)
        wait_until(lambda: not raised_threads(pid), "no thread has a priority of ours", 10)
        wait_until(lambda: all(state == "Z" for state in children(pid).values()), "no copy runs", 10)

    def check_work(self, patient):
        """Every part goes on, and its checksum is right."""
        before = patient.truth()["churn"]["parts"]

        def moved():
            now = patient.truth()["churn"]["parts"]
            return all(now[part]["rounds_total"] > before[part]["rounds_total"] for part in PARTS)

        wait_until(moved, "every part of the patient goes on")
        self.assertTrue(patient.truth()["churn"]["right"])

    def bury(self, pid):
        """An undisturbed snapshot buries what a killed one left, so that the next one goes the same way."""
        if children(pid):
            taken = take(pid)
            self.assertEqual(taken.code, 0, taken)
            self.assertGreater(taken.facts["reaped"], 0)
        self.assertEqual(children(pid), {})

    def test_death_after_every_single_step(self):
        for fx in FRAMEWORKS:
            with Patient("churn", fx=fx) as patient:
                died = self.die_at_every_place(patient.pid, lambda: self.assertTrue(patient.truth()["churn"]["right"]))
                self.check_work(patient)
            print(f"{fx}: died at {len(died)} places of {len({place for _, place in died})} kinds", flush=True)

    def die_at_every_place(self, pid, check, masks=True):
        died = []
        for role, place, number in places(pid):
            for victim in ("owner",) if role == "owner" else ("tracer", "tracer+owner"):
                with self.subTest(pid=pid, victim=victim, place=place, number=number):
                    self.bury(pid)
                    taken = take(pid, fault=f"{victim}:{place}:{number}")
                    # Threads come and go: the last ones of a list may not be there. How often a burial is tried is up
                    # to signals that come between.
                    again = place == "bury tried" and number > 1
                    self.assertTrue(taken.died or place in PER_THREAD or again, taken)
                    self.check_free(pid, masks)
                    check()
                    if taken.died:
                        died.append((victim, place))
        self.bury(pid)
        for place in IMPORTANT:
            self.assertIn(("tracer", place), died)
            self.assertIn(("tracer+owner", place), died)
        return died

    def test_death_at_random_instants(self):
        chance = random.Random(SEED)
        print(f"seed {SEED}", flush=True)
        each = -(-KILLS // len(FRAMEWORKS))
        for fx in FRAMEWORKS:
            with Patient("churn", fx=fx) as patient:
                for _ in range(each):
                    self.kill_once(patient, chance)
                self.check_work(patient)

    def kill_once(self, patient, chance):
        process = subprocess.Popen([PROBE, "snapshot", str(patient.pid), "--hold", "20"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        instant = time.monotonic() + chance.uniform(0, 0.035)
        while time.monotonic() < instant:
            pass  # finer than a sleep
        tracer = next(iter(children(process.pid)), None)
        if tracer and chance.random() < 0.5:
            os.kill(tracer, signal.SIGKILL)
            process.wait(60)
        else:
            process.kill()
            process.wait()
        self.check_free(patient.pid)
        self.assertTrue(patient.truth()["churn"]["right"])

    def test_a_killed_snapshot_leaves_no_dead_child(self):
        """Whichever of our two processes is killed, the other one has the copy buried."""
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Patient("churn", fx=fx) as patient:
                with hold(patient.pid) as held:
                    self.assertTrue(children(patient.pid, copies=True))
                    held.process.kill()
                wait_until(lambda: not children(patient.pid, copies=True), "the tracer has it buried")
                with hold(patient.pid) as held:
                    os.kill(next(iter(children(held.process.pid))), signal.SIGKILL)
                    held.process.communicate("\n", timeout=60)
                self.assertEqual(children(patient.pid, copies=True), {})
                for place in ("child made", "all let go", "copy stands", "copy killed", "copy ended"):
                    taken = take(patient.pid, fault=f"tracer:{place}:1")
                    self.assertTrue(taken.died, taken)
                    self.assertEqual(children(patient.pid, copies=True), {}, place)
                self.check_free(patient.pid)
                self.check_work(patient)

    def test_many_snapshots_leave_nothing(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Patient("churn", fx=fx, processes=PROCESSES) as patient:
                self.assertEqual(take(patient.pid, "--read").code, 0)
                before = descriptors(patient.pid)
                pauses = []
                while len(pauses) < -(-SNAPSHOTS // len(FRAMEWORKS)):
                    taken = take(patient.pid)
                    # One that starts a process cannot be held just then: it is left alone, and that is said.
                    if taken.code and "starts a process" in taken.err:
                        continue
                    self.assertEqual(taken.code, 0, taken)
                    wait_until(lambda: not copies_of(patient.pid), "the copy is buried")
                    pauses.append(taken.facts["pause_ns"] / 1e6)
                self.check_free(patient.pid)
                self.check_work(patient)
                self.assertGreater(patient.truth()["churn"]["parts"]["process"]["rounds_total"], 0)
                # Sockets and files come and go in this patient; copies would pile up.
                self.assertLess(descriptors(patient.pid), before + 20)
                pauses.sort()
                print(f"{fx}: {len(pauses)} snapshots, pause median {pauses[len(pauses) // 2]:.1f} ms, "
                      f"longest {pauses[-1]:.1f} ms", flush=True)

    def test_registers_floats_and_signals_are_as_they_were(self):
        for words in ((), ("read",), ("poll",), ("futex",), ("none",)):
            with self.subTest(waits=words), State(*words) as state:
                carriers = set()
                for _ in range(40):
                    taken = take(state.pid)
                    self.assertEqual(taken.code, 0, taken)
                    carriers.add(taken.facts["carrier"])
                counts = state.check()
                self.assertGreater(counts["signals"], 0)
                self.assertGreater(counts["computed"], 0)
                if words and words != ("none",):
                    name = {"read": ".NET Reader", "poll": ".NET SynchPoll", "futex": ".NET Futex"}[words[0]]
                    self.assertIn(name, carriers)
                self.assertEqual(state.stop(), 0)

    def test_state_survives_death_at_every_place(self):
        for words in (("read",), ("poll",), ("futex",)):
            with self.subTest(waits=words), State(*words) as state:
                self.die_at_every_place(state.pid, state.check, masks=False)  # it compares its masks itself
                self.assertEqual(state.stop(), 0)


if __name__ == "__main__":
    unittest.main()
