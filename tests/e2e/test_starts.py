"""Counters asked for in the first instant of a program: the runtime can hang for ever when a session comes while it starts (see
src/eventpipe/settle.h), so none does."""

import os
import signal
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from drdotnet import Home, wait_until
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True
STARTS = int(os.environ.get("DRDOTNET_STARTS", 4))  # of each runtime
AT_ONCE = 4


class AskedEarly(Patient):
    """A patient of whom counters are asked as soon as there is a socket, long before it says that it is ready."""

    def __init__(self, home, fx):
        self.home, self.job = home, None
        super().__init__("healthy,cpu", fx=fx)

    def _expect(self, word, seconds):
        if word != "READY":
            return super()._expect(word, seconds)
        asking = threading.Thread(target=self._ask)
        asking.start()
        try:
            return super()._expect(word, seconds)
        finally:
            asking.join()

    def _ask(self):
        pid = self._process.pid
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        wait_until(Path(f"/tmp/dotnet-diagnostic-{pid}-{started}-socket").exists, "it has a socket")
        self.job = self.home.start("counters", pid, "--once", "--plain")

    def look_old(self, seconds=3600):
        """It is as young as it is."""


class Starts(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def start(self, fx):
        with AskedEarly(self.home, fx) as patient, patient.job as job:
            done = job.finish()
            self.assertEqual(done.code, 0, done)
            self.assertIn("System.Runtime", done.out)
            patient.truth()

    def test_a_program_starts_whoever_asks(self):
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for future in [pool.submit(self.start, fx) for fx in FRAMEWORKS for _ in range(STARTS)]:
                future.result()

    def test_cancelled_while_it_waits(self):
        with Patient("healthy") as patient:
            patient.look_old(-3600)  # for ever too young
            with self.home.start("exceptions", patient.pid, "-d", "1s") as job:
                wait_until(job.worker, "its worker runs")
                job.signal(signal.SIGINT)
                self.assertNotEqual(job.finish().code, 0)
            patient.truth()


if __name__ == "__main__":
    unittest.main()
