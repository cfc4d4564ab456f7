"""Descriptors, files and connections against the patients' own count, and against what the kernel shows to everybody."""

import os
import unittest

from drdotnet import LONG_SECONDS, Home, examine, side_by_side
from patient import FRAMEWORKS, ROOM_FOR_ANSWERS, Patient, WebPatient, one_of

SIDE_BY_SIDE = True
FX = FRAMEWORKS[-1]
KINDS, FILES, CONNECTIONS = "Descriptors by kind", "Files", "Connections"


def connections(report, state):
    return [row for row in report.rows(CONNECTIONS) if row["State"].startswith(state)]


class Kept(unittest.TestCase):
    def check_again(self, home, report):
        again = home.run("run", "open-files", "--session", home.sessions()[0]["guid"], "--json").json()
        self.assertEqual((again["verdict"]["plain"], again["blocks"]), (report.verdict, report.data["blocks"]))

    def test_files(self):
        for fx in FRAMEWORKS:
            for what in one_of(("files", "files-dropped")):
                with self.subTest(fx=fx, what=what), Home() as home, \
                        Patient("descriptors", fx=fx, what=what, count=400, env=ROOM_FOR_ANSWERS) as patient:
                    truth = patient.truth()["descriptors"]
                    report = examine(home, "open-files", patient.pid, 1)
                    self.assertEqual((report.finding, report.health), ("many-files", "info"), report.verdict)
                    self.assertIn(f"{truth['folder']}/*", report.verdict)
                    row = report.rows(FILES)[0]
                    self.assertEqual((row["File or folder"], row["Open"]), (f"{truth['folder']}/*", truth["open"]))
                    self.assertAlmostEqual(report.figures["Descriptors"], len(os.listdir(f"/proc/{patient.pid}/fd")), delta=5)
                    self.assertEqual(sum(row["Open"] for row in report.rows(KINDS)), report.figures["Descriptors"])
                    self.check_again(home, report)

    def test_connections_that_the_other_side_has_closed(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Home() as home, \
                    Patient("descriptors", fx=fx, what="close-wait", count=150) as patient:
                truth = patient.truth()["descriptors"]
                report = examine(home, "open-files", patient.pid, 1)
                self.assertEqual((report.finding, report.health), ("not-closed", "warn"), report.verdict)
                self.assertIn(f"all of them to 127.0.0.1:{truth['server']}", report.verdict)
                rows = connections(report, "CLOSE_WAIT")
                self.assertEqual([(row["Sockets"], row["State"], row["Waiting"]) for row in rows],
                                 [(150, "CLOSE_WAIT, made by it", 0)])
                self.check_again(home, report)

    def test_a_client_for_each_request(self):
        for what, fx in zip(("clients", "sockets"), (FRAMEWORKS[0], FX)):
            with self.subTest(what=what, fx=fx), Home() as home, \
                    Patient("descriptors", fx=fx, what=what, count=250) as patient:
                server = patient.truth()["descriptors"]["server"]
                report = examine(home, "open-files", patient.pid, 1)
                self.assertEqual((report.finding, report.health), ("many-connections", "info"), report.verdict)
                rows = {row["State"]: row for row in connections(report, "ESTABLISHED")}
                self.assertEqual({row["Address"] for row in rows.values()}, {f"127.0.0.1:{server}"})
                self.assertEqual(rows["ESTABLISHED, made by it"]["Sockets"], 250)
                self.assertEqual(rows["ESTABLISHED, came to it"]["Sockets"], 250)

    def test_a_limit_that_is_near(self):
        with Home() as home, Patient("descriptors", fx=FX, what="files", count=300,
                                     prefix=("prlimit", "--nofile=390:390")) as patient:
            report = examine(home, "open-files", patient.pid, 1)
            self.assertEqual(report.finding, "near-limit", report.verdict)
            self.assertIn(report.health, ("warn", "bad"))
            self.assertIn("descriptors it may open", report.verdict)


class Healthy(unittest.TestCase):
    def test_nothing_is_found(self):
        def look(fx):
            with Home() as home, Patient("healthy", fx=fx) as patient:
                return examine(home, "open-files", patient.pid, 2)

        def web():
            with Home() as home, WebPatient(fx=FX) as patient, patient.start_load("healthy", rate=50, seconds=LONG_SECONDS):
                report = examine(home, "open-files", patient.pid, 9)
                listening = connections(report, "LISTEN")
                self.assertTrue(listening, report.data)
                return report

        tasks = {fx: lambda fx=fx: look(fx) for fx in FRAMEWORKS} | {"web under load": web}
        for where, future in side_by_side(tasks).items():
            with self.subTest(where):
                report = future.result()
                self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)


if __name__ == "__main__":
    unittest.main()
