"""The list of patients judged by rules. Its server listens to every .NET process of the machine: no other test runs beside it."""

import unittest

from drdotnet import Home, wait_until
from patient import Patient
from server import Server


class Conditions(unittest.TestCase):
    """The list says what the rules of a diagnosis see without an examination, and nothing of healthy ones."""
    SIDE_BY_SIDE = "quietly"

    def test_what_is_wrong_is_listed(self):
        sick = {"exceptions": ("exceptions-many", "exceptions"), "starvation": ("pool-starved", "thread-pool")}
        with Home() as home, Server(home) as server, Patient("healthy") as healthy, Patient("exceptions", rate=2000) as thrown, \
                Patient("starvation") as starved:
            def conditions():
                answer = server.get("/api/processes/vitals?since=0").json()
                return {p["id"]: p["condition"] for p in answer["processes"]}

            self.assertIsNone(conditions().get(healthy.pid))
            for patient, sickness in ((thrown, "exceptions"), (starved, "starvation")):
                with self.subTest(sickness):
                    wait_until(lambda: (conditions().get(patient.pid) or {}).get("finding"), f"{sickness} is listed", 60)
                    condition = conditions()[patient.pid]
                    self.assertEqual((condition["finding"], condition["profiler"]), sick[sickness], condition)
                    self.assertGreaterEqual(condition["severity"], 50)
                    self.assertTrue(condition["text"])
            wait_until(lambda: conditions().get(healthy.pid), "the healthy one is judged", 60)
            self.assertEqual(conditions()[healthy.pid]["severity"], 0, conditions())


if __name__ == "__main__":
    unittest.main()
