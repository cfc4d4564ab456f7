"""A heap of many gigabytes is examined as any other: nobody has to allow a longer pause first. tools/soak makes it large."""

import os
import unittest

from drdotnet import Home, look
from patient import FRAMEWORKS, Patient, one_of

SIDE_BY_SIDE = True

MB = int(os.environ.get("DRDOTNET_HEAP_MB", "100"))
START_SECONDS = 300
A_SESSION = 1100  # bytes of an object and its payload, a little less than they take


class LargeHeap(unittest.TestCase):
    def test_it_is_examined_by_default(self):
        sessions = MB * 1_000_000 // A_SESSION
        for fx in FRAMEWORKS if MB > 1000 else one_of(FRAMEWORKS):
            with self.subTest(fx=fx), Home() as home, \
                    Patient("leak", fx=fx, holder="static", rate=0.1, initial=sessions, start_seconds=START_SECONDS) as patient:
                survivors, stats = look(home, "gc-survivors", patient.pid), look(home, "heap-stats", patient.pid)
                truth = patient.truth()["leak"]["holders"]["static"]
                for report in (survivors, stats):
                    self.assertEqual(report.how["Way"]["value"], "image", report.how)
                    self.assertGreaterEqual(report.how["Objects walked"]["value"], 2 * sessions)
                self.assertIn(truth["field"], survivors.verdict)
                kept = next(row["Retained"] for row in survivors.rows("Holders") if row["Holder"] == truth["field"])
                self.assertAlmostEqual(kept / truth["bytes"], 1, delta=0.2)


class TooLong(unittest.TestCase):
    def test_a_refusal_names_the_limit_that_suffices(self):
        with Patient("healthy") as patient, Home() as home:
            refused = home.run("stacks", patient.pid, "--way", "image", "--max-pause", "1ms")
            self.assertEqual(refused.code, 1, refused)
            self.assertRegex(refused.err, r"the limit is 1 ms, and \d+ ms would do")
            enough = refused.err.split(" ms would do")[0].rpartition(" ")[2]
            taken = home.run("stacks", patient.pid, "--way", "image", "--max-pause", f"{enough}ms")
            self.assertEqual(taken.code, 0, taken)


if __name__ == "__main__":
    unittest.main()
