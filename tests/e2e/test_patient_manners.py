"""The patients' command line and protocol, the helper that starts them, and the web patient."""

import json
import os
import pwd
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from patient import FRAMEWORKS, PATIENTS, Patient, PatientError, WebPatient  # noqa: E402

SIDE_BY_SIDE = True


def run_program(fx, *arguments):
    program = PATIENTS / "sick" / fx / "sick"
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


class Manners(unittest.TestCase):
    """The command line, the protocol and the helper."""

    def test_list_names_every_sickness(self):
        done = run_program(FRAMEWORKS[-1], "list")
        self.assertEqual(done.returncode, 0)
        for sickness in ("healthy", "gc-pauses", "waits", "load"):
            self.assertIn(f"\n{sickness}", "\n" + done.stdout)

    def test_wrong_usage_is_one_line_and_exit_2(self):
        for arguments in ([], ["flu"], ["healthy", "flu=1"], ["healthy", "nonsense"], ["exceptions", "rate=fast"],
                          ["exceptions", "rate=-1"], ["leak", "holder=me"], ["load"],
                          ["load", "url=http://192.0.2.1/"], ["load", "url=http://127.0.0.1:1/", "seconds=99999"]):
            with self.subTest(arguments=arguments):
                done = run_program(FRAMEWORKS[-1], *arguments)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(done.stdout, "")
                self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_sicknesses_combine(self):
        with Patient("exceptions,leak", fx=FRAMEWORKS[-1], **{"exceptions.rate": 70, "leak.rate": 300}) as patient:
            truth = patient.truth()
            self.assertIn("types", truth["exceptions"])
            self.assertGreater(truth["leak"]["holders"]["static"]["objects"], 0)

    def test_pause_stops_the_counters(self):
        with Patient("exceptions", fx=FRAMEWORKS[-1], rate=0) as patient:
            self.assertTrue(patient.pause()["quiet"])
            first = patient.truth()["exceptions"]
            self.assertEqual(patient.truth()["exceptions"], first)
            patient.resume()
            deadline = time.monotonic() + 10
            while patient.truth()["exceptions"] == first:
                self.assertLess(time.monotonic(), deadline)

    def test_ends_by_itself(self):
        with Patient("deadlock", fx=FRAMEWORKS[-1], max_seconds=3) as patient:
            self.assertEqual(patient.wait(10), -signal.SIGALRM)
            pattern = f"*-{patient.pid}-*"
            patient.stop()
        self.assertEqual(list(Path(tempfile.gettempdir()).glob(pattern)), [], "left behind by a killed patient")

    def test_sigterm_ends_it(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Patient("starvation", fx=fx) as patient:
                os.kill(patient.pid, signal.SIGTERM)
                self.assertEqual(patient.wait(10), 143)
                self.assertEqual(list(Path(tempfile.gettempdir()).glob(f"*-{patient.pid}-*")), [])

    def test_end_of_stdin_changes_nothing(self):
        program = PATIENTS / "sick" / FRAMEWORKS[-1] / "sick"
        process = subprocess.Popen([program, "healthy", "max-seconds=30"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        with process:
            self.assertTrue(process.stdout.readline().startswith(b"READY "))
            with self.assertRaises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.terminate()

    def test_patient_dies_with_its_test(self):
        code = ("import sys; sys.path.insert(0, sys.argv[1]); from patient import Patient\n"
                "print(Patient('healthy', fx=sys.argv[2]).pid, flush=True); sys.stdin.read()")
        tester = subprocess.Popen([sys.executable, "-c", code, str(Path(__file__).parent), FRAMEWORKS[-1]],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with tester:
            pid = int(tester.stdout.readline())
            handle = os.pidfd_open(pid)
            self.addCleanup(os.close, handle)
            tester.kill()
        self.assertTrue(select.select([handle], [], [], 10)[0], "the patient outlived its test")
        for left in Path(tempfile.gettempdir()).glob(f"*-{pid}-*"):
            left.unlink()

    def test_start_failure_is_explained(self):
        with self.assertRaisesRegex(PatientError, "unknown sickness 'flu'"):
            Patient("flu", fx=FRAMEWORKS[-1])

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_other_user_and_pid_namespace(self):
        with Patient("healthy", fx=FRAMEWORKS[-1], user="nobody") as patient:
            self.assertEqual(os.stat(f"/proc/{patient.pid}").st_uid, pwd.getpwnam("nobody").pw_uid)
        with Patient("healthy", fx=FRAMEWORKS[-1],
                     prefix=["unshare", "--pid", "--mount-proc", "--fork", "--kill-child"]) as patient:
            self.assertEqual(patient.ready["pid"], 1)
            self.assertNotEqual(patient.pid, 1)
            self.assertIn("sick", Path(f"/proc/{patient.pid}/cmdline").read_text())
            self.assertEqual(patient.stop(), 0)


class Web(unittest.TestCase):
    def test_routes_and_truth(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), WebPatient(fx=fx) as web:
                self.assertTrue(web.url.startswith("http://127.0.0.1:"))
                web.mark()
                routes = ["healthy", "on-cpu?ms=20", "off-cpu?ms=20", "exception/7", "log?n=5", "concurrent-dict",
                          "slow-linq?n=200", "sync-over-async?ms=5", "leak?bytes=1000"]
                for route in routes:
                    with urllib.request.urlopen(f"{web.url}/{route}", timeout=20) as answer:
                        self.assertEqual(answer.status, 200, route)
                truth = web.truth()["web"]
                names = {route.partition("?")[0].partition("/")[0] for route in routes}
                self.assertEqual(truth["requests"], {name: 1 for name in names})
                self.assertEqual((truth["exceptions"], truth["log_messages"], truth["leaked_objects"]), (7, 5, 1))
                self.assertGreaterEqual(truth["on_cpu_ns"], 20e6)
                self.assertGreaterEqual(truth["off_cpu_ns"], 20e6)
                with urllib.request.urlopen(f"{web.url}/truth", timeout=20) as answer:
                    self.assertEqual(json.load(answer)["web"]["leaked_objects"], 1)
                self.assertEqual(web.stop(), 0)

    def test_load(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), WebPatient(fx=fx) as web:
                web.mark()
                done = web.load("healthy", rate=100, seconds=1, concurrency=4)
                self.assertEqual(done["failed"], 0)
                self.assertEqual(done["sent"], done["ok"])
                self.assertTrue(1 <= done["ok"] <= 100, done)
                self.assertEqual(web.truth()["web"]["requests"]["healthy"], done["ok"])
                self.assertLessEqual(done["p50_ms"], done["max_ms"])


if __name__ == "__main__":
    unittest.main()
