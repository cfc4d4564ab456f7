"""A machine that has more to do than it can, which is when a doctor is called: a look stands still for hardly longer than on a
quiet one, never for longer than its limit, and what cannot be done within that is undone.

DRDOTNET_SATURATED_LOOKS: looks (5). With many (`make soak`) what the patient felt is compared with equally long times in which
nobody looked at it.
"""

import contextlib
import os
import subprocess
import time
import unittest

from drdotnet import wait_until
from patient import FRAMEWORKS, Patient
from probe import children, held_threads, raised_threads, take

SIDE_BY_SIDE = False

LOOKS = int(os.environ.get("DRDOTNET_SATURATED_LOOKS", "5"))
COMPARED_FROM = 50
LIMIT_MS = 100
OBJECTS = 1_000_000
LOOPS_A_CORE = 4
BEHIND = ("nice", "-n", "10")
WITHOUT_RIGHT = ("setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", *BEHIND)


@contextlib.contextmanager
def saturated():
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"])
             for _ in range(LOOPS_A_CORE * len(os.sched_getaffinity(0)))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def share(values, part):
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def in_words(values):
    return f"median {share(values, .5):.1f}, p99 {share(values, .99):.1f}, longest {max(values):.1f} ms" if values else "-"


class Looks:
    """What looks at a patient said of their pauses, and what the patient felt."""

    def __init__(self, patient, prefix, limit_ms):
        self.pauses, self.gaps, self.undone, self.left_alone = [], [], [], []
        for _ in range(LOOKS):
            patient.mark()
            began = time.monotonic()
            taken = take(patient.pid, "--max-pause", limit_ms, prefix=prefix)
            if taken.code:
                self.undone.append(taken.err.strip())
            else:
                self.pauses.append(taken.facts["pause_ns"] / 1e6)
            self.gaps.append(patient.truth()["heartbeat"]["longest_ns"] / 1e6)
            if LOOKS >= COMPARED_FROM:
                took = time.monotonic() - began
                patient.mark()
                time.sleep(took)
                self.left_alone.append(patient.truth()["heartbeat"]["longest_ns"] / 1e6)

    def __str__(self):
        return f"{len(self.pauses)} looks, {len(self.undone)} undone; pause: {in_words(self.pauses)}; " \
               f"longest time that a thread did not run, seen from inside: {in_words(self.gaps)}; " \
               f"in as long a time without a look: {in_words(self.left_alone)}"


def with_objects():
    return Patient("leak,heartbeat", fx=FRAMEWORKS[-1], holder="static", rate=1, initial=OBJECTS, size=100, start_seconds=600)


class Saturated(unittest.TestCase):
    def check_free(self, patient):
        wait_until(lambda: not held_threads(patient.pid), "every thread runs freely", 60)
        wait_until(lambda: not raised_threads(patient.pid), "no thread has a priority of ours", 60)
        wait_until(lambda: not children(patient.pid, copies=True), "no copy is left", 60)
        self.assertTrue(patient.alive())

    def test_no_look_is_longer_than_its_limit(self):
        """With the right to go first: each look succeeds, whatever else runs."""
        with with_objects() as patient:
            quiet = Looks(patient, BEHIND, LIMIT_MS)
            print(f"quiet: {quiet}", flush=True)
            with saturated():
                busy = Looks(patient, BEHIND, LIMIT_MS)
            print(f"saturated: {busy}", flush=True)
            self.check_free(patient)
        self.assertEqual(busy.undone, [])
        self.assertEqual([pause for pause in busy.pauses if pause > LIMIT_MS], [])
        if LOOKS >= COMPARED_FROM:
            # A busy machine keeps a thread waiting without us too.
            felt = max(share(quiet.gaps, .99), share(busy.left_alone, .99))
            self.assertLess(share(busy.gaps, .99), 3 * felt)

    def test_what_takes_too_long_is_undone(self):
        """Without that right it may come to nothing, and then says why; the patient goes on."""
        with with_objects() as patient, saturated():
            busy = Looks(patient, WITHOUT_RIGHT, LIMIT_MS)
            print(f"saturated, without the right to go first: {busy}", flush=True)
            self.check_free(patient)
            for why in busy.undone:
                self.assertRegex(why, "the machine is (so )?busy|while it may stand still|could not be read within|"
                                      "longer than the limit")


if __name__ == "__main__":
    unittest.main()
