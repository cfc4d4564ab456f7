"""`make demo` as a newcomer runs it: reports on the terminal, then a server with a patient, and Ctrl-C leaves nothing."""

import os
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

from drdotnet import PROGRAM, ROOT, gone, wait_until
from patient import FRAMEWORKS, PATIENTS

SIDE_BY_SIDE = True

SECONDS = 300


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


class Demo(unittest.TestCase):
    def test_it_shows_serves_and_leaves_nothing(self):
        if "net10.0" not in FRAMEWORKS:
            self.skipTest("its patient is one of .NET 10")
        build = Path(PROGRAM).parent
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "TMPDIR": folder, "DRDOTNET_PATIENTS": str(PATIENTS)}
            env.pop("CI", None)
            demo = subprocess.Popen([ROOT / "tools" / "demo", build], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                    env=env, start_new_session=True)
            late = threading.Timer(SECONDS, demo.kill)
            late.start()
            try:
                said = []
                for line in demo.stdout:
                    said.append(line)
                    if line.startswith("Ctrl-C ends both"):
                        break
                said = "".join(said)
                self.assertIn("The patient was examined: http://127.0.0.1:", said)
                for command in ("ps", "runtime-pauses", "exceptions", "lock-contention", "cpu-hotpaths", "sessions"):
                    self.assertIn(f"\n$ drdotnet {command}", said)
                url = said.split("The patient was examined: ")[1].split()[0]
                with urllib.request.urlopen(url, timeout=SECONDS) as page:
                    self.assertIn("<!doctype html>", page.read().decode().lower())
                page, token = url.split("?token=")
                report = urllib.request.Request(page.replace("/sessions/", "/api/sessions/") + "/report.txt",
                                                headers={"Authorization": f"Bearer {token}"})
                with urllib.request.urlopen(report, timeout=SECONDS) as text:
                    self.assertRegex(text.read().decode(), r"\d (throws|exceptions) in ")
                ours = descendants(demo.pid)
                self.assertGreaterEqual(len(ours), 2)
                demo.send_signal(signal.SIGINT)
                self.assertEqual(demo.wait(SECONDS), 130)
            finally:
                late.cancel()
                demo.kill()
                demo.stdout.close()
                demo.wait()
            wait_until(lambda: all(gone(pid) for pid in ours), "all that it started has ended")
            self.assertEqual([], os.listdir(folder))


if __name__ == "__main__":
    unittest.main()
