"""The web pages in a real browser against a real server and real patients. What is clicked stands in web/e2e/scenarios.mjs;
set DRDOTNET_SHOTS to a folder to keep pictures."""

import json
import os
import shutil
import subprocess
import unittest

from drdotnet import PROGRAM, ROOT, Home, side_by_side
from patient import Patient
from server import Server

WEB = ROOT / "web"
SCENARIO_SECONDS = 240


def tool(*arguments):
    """A tool of web/, its packages installed before."""
    return subprocess.run([ROOT / "tools" / "web", *arguments], capture_output=True, text=True, timeout=SCENARIO_SECONDS)


class Generated(unittest.TestCase):
    def test_the_client_is_made_from_the_document(self):
        """rest.d.ts is what openapi-typescript makes of the routes now; `make docs` makes it again."""
        document = subprocess.run([PROGRAM, "_generate", "openapi"], capture_output=True, check=True).stdout
        made = subprocess.run([ROOT / "tools" / "web", "api"], input=document, capture_output=True, timeout=SCENARIO_SECONDS)
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        self.assertEqual(made.stdout.decode(), (WEB / "src" / "lib" / "rest.d.ts").read_text(), "stale: run make docs")


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("chromium"):
            raise unittest.SkipTest("chromium is not installed")
        if (built := tool("types")).returncode:
            raise AssertionError(built.stderr)
        cls.home = cls.enterClassContext(Home())
        # Not side by side: a patient dies with the thread that started it.
        cls.patients = {"thrower": cls.enterClassContext(Patient("exceptions", rate=300)),
                        "busy": cls.enterClassContext(Patient("cpu")),
                        "locks": cls.enterClassContext(Patient("contention", fx="net8.0"))}
        cls.server = cls.enterClassContext(Server(cls.home))
        cls.pid = cls.patients["thrower"].pid

        def examined(profiler, patient, **parameters):
            return lambda: cls.server.examine(profiler, cls.patients[patient].pid, **parameters)["guid"]
        done = side_by_side({"first": examined("exceptions", "thrower", duration=1),
                             "second": examined("exceptions", "thrower", duration=2),
                             "cpu": examined("cpu-hotpaths", "busy", duration_seconds=1),
                             "spare": examined("exceptions", "busy", duration=1)})
        guids = {name: future.result() for name, future in done.items()}
        cls.sessions, cls.cpu, cls.spare = [guids["first"], guids["second"]], guids["cpu"], guids["spare"]

    def browse(self, scenario, **facts):
        facts = {"url": self.server.url, "pid": self.pid, "pids": [p.pid for p in self.patients.values()], "session": self.cpu,
                 "sessions": self.sessions, "shots": os.environ.get("DRDOTNET_SHOTS"), **facts}
        done = subprocess.run(["node", WEB / "e2e" / "browse.mjs", scenario, json.dumps(facts)], capture_output=True, text=True,
                              timeout=SCENARIO_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name, patient in self.patients.items():
            self.assertTrue(patient.alive(), f"{name} died: {patient.stderr()}")
        return json.loads(done.stdout.splitlines()[-1])

    def test_from_the_list_to_a_patient(self):
        self.assertGreaterEqual(self.browse("list")["rows"], 3)

    def test_every_profiler_to_its_report(self):
        pid_of = {"cpu-hotpaths": self.patients["busy"].pid, "lock-contention": self.patients["locks"].pid,
                  "off-cpu": self.patients["locks"].pid}
        results = {r["id"]: r for r in self.browse("profile", pidOf=pid_of)["results"]}
        self.assertEqual(sorted(results), sorted(p["id"] for p in self.server.get("/api/profilers").json()))
        self.assertEqual(results["exceptions"]["finding"], "many-exceptions", results["exceptions"])
        self.assertIn("flame", results["cpu-hotpaths"]["blocks"])

    def test_cancel_keeps_what_was_seen(self):
        self.browse("cancel")

    def test_delete_asks_first(self):
        self.browse("remove", session=self.spare)

    def test_a_link_shows_the_same_in_a_fresh_browser(self):
        self.browse("deepLink")

    def test_by_keyboard(self):
        self.browse("keyboard")

    def test_wide_pages_are_accessible(self):
        self.browse("wide")

    def test_narrow_pages_are_accessible(self):
        self.browse("narrow")

    def test_history_logs_compare_and_download(self):
        self.browse("history")

    def test_a_hundred_thousand_rows_scroll(self):
        self.assertGreater(self.browse("rows")["frames"], 100)


if __name__ == "__main__":
    unittest.main()
