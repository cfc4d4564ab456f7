"""The web pages in a real browser against a real server and real patients. What is clicked stands in web/e2e/scenarios.mjs;
DRDOTNET_SCENARIOS runs only some of them. With DRDOTNET_SHOTS=FOLDER pictures of the main pages are made."""

import json
import os
import re
import shutil
import subprocess
import unittest

from drdotnet import PROGRAM, ROOT, Home, side_by_side
from patient import Patient
from server import Server

WEB = ROOT / "web"
SCENARIO_SECONDS = 480
EXCEPTIONS = "805A308B-061C-47F3-9B30-F785C3186E82"
SHOTS = os.environ.get("DRDOTNET_SHOTS")


def tool(*arguments):
    """A tool of web/, its packages installed before."""
    return subprocess.run([ROOT / "tools" / "web", *arguments], capture_output=True, text=True, timeout=SCENARIO_SECONDS)


class Generated(unittest.TestCase):
    SIDE_BY_SIDE = True

    def test_the_client_is_made_from_the_document(self):
        """rest.d.ts is what openapi-typescript makes of the routes now; `make docs` makes it again."""
        document = subprocess.run([PROGRAM, "_generate", "openapi"], capture_output=True, check=True).stdout
        made = subprocess.run([ROOT / "tools" / "web", "api"], input=document, capture_output=True, timeout=SCENARIO_SECONDS)
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        self.assertEqual(made.stdout.decode(), (WEB / "src" / "lib" / "rest.d.ts").read_text(), "stale: run make docs")


    def test_the_document_is_valid(self):
        """Against the schema of OpenAPI; and every place of a path is a parameter."""
        document = subprocess.run([PROGRAM, "_generate", "openapi"], capture_output=True, check=True).stdout
        done = subprocess.run([ROOT / "tools" / "web", "validate"], input=document, capture_output=True, timeout=SCENARIO_SECONDS)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        for path, operations in json.loads(document)["paths"].items():
            for method, operation in operations.items():
                declared = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path" and p["required"]}
                self.assertEqual(set(re.findall(r"\{(\w+)\}", path)), declared, (method, path))


class Browsing(unittest.TestCase):
    """A server, patients and sessions of theirs; the scenarios of SCENARIOS have been clicked through, in one browser."""
    SCENARIOS = ()

    @classmethod
    def setUpClass(cls):
        if not shutil.which("chromium"):
            raise unittest.SkipTest("chromium is not installed")
        if (built := tool("types")).returncode:
            raise AssertionError(built.stderr)
        cls.home = cls.enterClassContext(Home())
        # Not side by side: a patient dies with the thread that started it.
        cls.patients = {"thrower": cls.enterClassContext(Patient("exceptions", fx="net8.0", rate=300)),
                        # It takes what is left of the processor: the browser needs it too.
                        "busy": cls.enterClassContext(Patient("cpu", prefix=("nice", "-n", "15"))),
                        "locks": cls.enterClassContext(Patient("contention,meters", fx="net9.0"))}
        if SHOTS:
            cls.patients["keeper"] = cls.enterClassContext(Patient("leak", initial=3000))
        cls.server = cls.enterClassContext(Server(cls.home))
        cls.pid = cls.patients["thrower"].pid

        def examined(profiler, patient, **parameters):
            return lambda: cls.server.examine(profiler, cls.patients[patient].pid, **parameters)["guid"]
        done = side_by_side({"first": examined("exceptions", "thrower", duration=1),
                             "second": examined("exceptions", "thrower", duration=2),
                             "cpu": examined("cpu-hotpaths", "busy", duration_seconds=10 if SHOTS else 1),
                             "spare": examined("exceptions", "busy", duration=1),
                             **({"kept": examined("gc-survivors", "keeper")} if SHOTS else {})})
        guids = {name: future.result() for name, future in done.items()}
        cls.sessions, cls.cpu, cls.spare = [guids["first"], guids["second"]], guids["cpu"], guids["spare"]

        pid_of = {"cpu-hotpaths": cls.patients["busy"].pid, "lock-contention": cls.patients["locks"].pid,
                  "off-cpu": cls.patients["locks"].pid}
        facts = {"url": cls.server.url, "token": cls.server.token, "login": cls.server.link, "pid": cls.pid, "pids": [p.pid for p in cls.patients.values()], "session": cls.cpu,
                 "still": cls.patients["locks"].pid, "sessions": cls.sessions, "shots": SHOTS}
        cls.results = cls.browse(facts, {name: more for name, more in cls.wanted(pid_of, guids).items() if name in cls.SCENARIOS})

    @classmethod
    def wanted(cls, pid_of, _guids):
        """Scenario -> what it needs to know."""
        return {"profile": {"pidOf": pid_of}, "rows": {}}

    @staticmethod
    def browse(facts, wanted):
        """Scenario -> what it found."""
        only = os.environ.get("DRDOTNET_SCENARIOS", "").split()
        wanted = {name: more for name, more in wanted.items() if not only or name in only}
        done = subprocess.run(["node", WEB / "e2e" / "browse.mjs", json.dumps({"facts": facts, "wanted": wanted})],
                              capture_output=True, text=True, timeout=SCENARIO_SECONDS)
        if done.returncode:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def found(self, scenario):
        if scenario not in self.results and os.environ.get("DRDOTNET_SCENARIOS"):
            self.skipTest("not among DRDOTNET_SCENARIOS")
        result = self.results[scenario]
        if "error" in result:
            self.fail(result["error"])
        return result["found"]

    def assert_patients_are_well(self):
        for name, patient in self.patients.items():
            self.assertTrue(patient.alive(), f"{name} died: {patient.stderr()}")


class EveryProfiler(Browsing):
    SIDE_BY_SIDE = True
    SCENARIOS = ("profile",)

    def test_every_profiler_to_its_report(self):
        results = {r["id"]: r for r in self.found("profile")["results"]}
        self.assertEqual(sorted(results), sorted(p["id"] for p in self.server.get("/api/profilers").json()))
        self.assertEqual(results["exceptions"]["finding"], "many-exceptions", results["exceptions"])
        self.assertIn("flame", results["cpu-hotpaths"]["blocks"])
        self.assert_patients_are_well()


class Scrolling(Browsing):
    """It measures how long the page stands still, so it has the machine to itself."""
    SCENARIOS = ("rows",)

    def test_a_hundred_thousand_rows_scroll(self):
        self.assertGreater(self.found("rows")["frames"], 100)


class Pages(Browsing):
    SIDE_BY_SIDE = "quietly"
    SCENARIOS = ("list", "diagnosis", "cancel", "wide", "narrow", "history", "remove", "deepLink", "keyboard", "take", "meters", "treemap",
                 "pictures", "link", "switches", "open", "token")

    @classmethod
    def wanted(cls, _pid_of, guids):
        word, read = "a-token-for-this-test-only", "a-token-to-read-with"
        closed = cls.enterClassContext(Server(cls.home, "--token", word, "--read-token", read, listen="0.0.0.0:0"))
        open_to_all = cls.enterClassContext(Server(cls.home, "--no-auth"))
        switched = {"both": cls.server,
                    "pages": cls.enterClassContext(Server(cls.home, env={"REST_API_ENABLED": "false"})),
                    "open pages": cls.enterClassContext(Server(cls.home, "--no-auth", "--no-rest-api")),
                    "rest": cls.enterClassContext(Server(cls.home, "--no-web-ui"))}
        url = f"http://127.0.0.1:{closed.port}"
        sick = cls.enterClassContext(Patient("deadlock"))
        cls.server.examine("diagnose", sick.pid, duration=2)
        link = cls.home.run("serve", "--link", "--listen", f"127.0.0.1:{cls.server.port}").out.strip()
        return {
            "list": {}, "diagnosis": {"sick": sick.pid}, "cancel": {}, "wide": {}, "narrow": {}, "history": {}, "remove": {"session": cls.spare}, "deepLink": {},
            "keyboard": {}, "take": {}, "meters": {},
            "treemap": {"memory": json.loads((ROOT / "tests" / "golden" / "report" / "memory.json").read_text())},
            **({"pictures": {"kept": guids["kept"]}} if SHOTS else {}),
            "link": {"login": None, "link": link},
            "switches": {"profiler": EXCEPTIONS, "servers": {
                name: {"url": server.url, "link": server.link, "pages": name != "rest"} for name, server in switched.items()}},
            "open": {"login": None, "url": open_to_all.url},
            "token": {"login": None, "url": url, "token": word, "readToken": read, "link": f"{url}/?token={word}",
                      "session": cls.sessions[0]}}

    def test_the_patients_are_well(self):
        self.assert_patients_are_well()

    def test_from_the_list_to_a_patient(self):
        self.assertGreaterEqual(self.found("list")["rows"], 3)

    def test_a_diagnosis_says_what_it_knows_as_it_goes(self):
        self.found("diagnosis")

    def test_cancel_keeps_what_was_seen(self):
        self.found("cancel")

    def test_delete_asks_first(self):
        self.found("remove")

    def test_a_link_shows_the_same_in_a_fresh_browser(self):
        self.found("deepLink")

    def test_by_keyboard(self):
        self.found("keyboard")

    def test_the_treemap_goes_in_and_out(self):
        self.found("treemap")

    def test_wide_pages_are_accessible(self):
        self.found("wide")

    def test_narrow_pages_are_accessible(self):
        self.found("narrow")

    def test_history_logs_compare_and_download(self):
        self.found("history")

    def test_a_core_file_and_a_trace(self):
        self.found("take")

    def test_meters_of_the_app(self):
        self.found("meters")

    def test_the_link_leaves_no_token_behind(self):
        self.assertEqual(0, self.found("link")["banners"])

    def test_a_server_without_tokens_says_so(self):
        self.found("open")

    def test_pages_with_and_without_the_rest_api(self):
        """With both switches off the server does not start: test_server.py."""
        found = self.found("switches")
        alone = found.pop("rest")
        self.assertEqual((404, 401), (alone["page"], alone["stranger"]))
        self.assertIn("exception", alone["verdict"])
        self.assertIn(".zip", alone["zip"])
        for name, page in found.items():
            rest = name == "both"
            self.assertIn("exception", page["verdict"], name)
            self.assertRegex(page["zip"], r"\.zip$", name)
            self.assertTrue(page["live"], name)
            self.assertEqual((rest, "application/json" if rest else "text/html"), (page["link"] == 1, page["api"]), name)
            self.assertEqual("application/json" if rest else "text/html", page["swagger"], name)
            self.assertEqual("text/html", page["stranger"], name)

    def test_token_and_share_link(self):
        self.found("token")


if __name__ == "__main__":
    unittest.main()
