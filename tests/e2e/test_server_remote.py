"""`drdotnet --server URL`: the commands of the command line on another machine, with the same output."""

import json
import re
import signal
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

from drdotnet import CANCELLED, Home, wait_until
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True

TOKEN = "a-token-for-the-laptop"


class RemoteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())  # of the server
        cls.laptop = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FRAMEWORKS[-1]))
        cls.server = cls.enterClassContext(Server(cls.home, "--token", TOKEN))

    def remote(self, *words):
        return self.laptop.run(words[0], "--server", self.server.url, "--token", TOKEN, *words[1:])

    def test_the_same_output(self):
        self.assertEqual(0, self.home.run("exceptions", self.patient.pid, "-d", "1s", "-q").code)
        for words in (("profilers",), ("profilers", "--json"), ("sessions", "--json"), ("sessions",), ("check", self.patient.pid),
                      ("sessions", "show", "zzzz"), ("run", "nothing", "1"), ("run", "exceptions", "99999999"), ("ps", "--odd"),
                      ("exceptions", "--help"), ("memory-leaks", 1, "--lokks", "6"),
                      ("run", "deadlocks", "--interval", "2h", 1), ("memory-leaks", "--help")):
            here, there = self.home.run(*words), self.remote(*words)
            self.assertEqual((here.code, here.out, here.err), (there.code, there.out, there.err), words)
        ids = {p["id"] for p in self.remote("ps", "--json").json()}
        self.assertIn(self.patient.pid, ids)
        self.assertEqual([], self.laptop.folders(), "nothing happens here")

    def test_an_examination(self):
        done = self.remote("exceptions", self.patient.pid, "-d", "1s", "--json")
        self.assertEqual(0, done.code, done)
        self.assertEqual("exceptions", done.json()["facts"]["profiler"])
        done = self.remote("merged-call-stacks", "--max-pause-ms", "2s", self.patient.pid, "--json")
        self.assertEqual(0, done.code, done)
        self.assertIn("2000", json.dumps(done.json()["parameters"]))
        page, archive = self.folder / "report.html", self.folder / "all.zip"
        self.assertEqual(0, self.remote("run", "exceptions", self.patient.pid, "-d", "1s", "-o", page).code)
        self.assertIn("<!doctype html>", page.read_text()[:200].lower())
        guid = json.loads(self.remote("sessions", "--json").out)[0]["guid"]
        self.assertEqual(0, self.remote("sessions", "export", guid, f"--output={archive}").code)
        self.assertIn("report.html", zipfile.ZipFile(archive).namelist())
        self.assertEqual(2, self.remote("sessions", "export", guid, "-o", self.folder / "no" / "such.zip").code)

    def test_counters_stacks_traces_and_dumps(self):
        once = self.remote("counters", self.patient.pid, "--once", "--json")
        self.assertEqual(0, once.code, once)
        self.assertTrue(once.json()["counters"])
        self.assertIn("managed threads", self.remote("stacks", self.patient.pid).out)
        trace, core = self.folder / "x.nettrace", self.folder / "core"
        done = self.remote("trace", "collect", self.patient.pid, "-d", "1s", "-o", trace, "--profile", "exceptions")
        self.assertEqual(0, done.code, done)
        self.assertTrue(trace.read_bytes().startswith(b"Nettrace"))
        done = self.remote("dump", "collect", self.patient.pid, "--fast", "-o", core)
        self.assertEqual(0, done.code, done)
        self.assertEqual(b"\x7fELF", core.read_bytes()[:4])
        self.assertEqual(0o600, core.stat().st_mode & 0o777, "its secrets are the owner's")
        self.assertEqual([], [p.name for p in self.folder.iterdir() if p.suffix == ".partial"])

    def test_questions_and_maps(self):
        """What looks at a process there, in lines, and the file that comes here."""
        asked = self.remote("inspect", self.patient.pid, "-c", "threads")
        self.assertEqual(0, asked.code, asked)
        self.assertIn("Patients.Commander.ReadLine", asked.out)
        prompt = self.remote("inspect", self.patient.pid)
        self.assertEqual(2, prompt.code)
        self.assertIn("-c COMMAND", prompt.err)
        names = self.folder / "names.map"
        self.assertEqual(0, self.remote("perf-map", self.patient.pid, "-o", names).code)
        self.assertIn("Patients.Program.Main", names.read_text())
        archive = self.folder / "prof.tar.gz"
        sampled = self.remote("cpu", "collect", "--pid", self.patient.pid, "-d", "1s", "-o", archive)
        self.assertEqual((0, "prof.tar.gz\n"), (sampled.code, sampled.out), sampled)
        with tarfile.open(archive) as tar:
            self.assertLessEqual({"perf.data", "perf_script.out", "folded_stacks.out", "flamegraph.svg"}, set(tar.getnames()))
        folder = self.remote("cpu", "collect", "--pid", self.patient.pid)
        self.assertEqual(2, folder.code)
        self.assertIn("-o prof.tar.gz", folder.err)
        hottest = self.remote("top", self.patient.pid, "--once")
        self.assertEqual(0, hottest.code, hottest)

    def test_help_and_completion_know_of_other_machines(self):
        overview = self.laptop.run("help").out.partition("\nCommands\n")[2]
        knowing = set()
        for name in re.findall(r"^  ([a-z-]+)  ", overview, re.M):
            if "--server URL" in self.laptop.run("help", name).out:
                knowing.add(name)
        self.assertEqual({"ps", "check", "run", "profilers", "cpu", "top", "counters", "perf-map", "trace", "stacks", "dump", "inspect",
                          "sessions", "symbols"}, knowing)
        self.assertIn("--server URL", self.laptop.run("help", "exceptions").out)
        for shell in ("bash", "zsh", "fish"):
            script = self.laptop.run("completion", shell).out
            self.assertGreaterEqual(script.count("server"), len(knowing), shell)

    def test_ctrl_c_ends_the_window_there_and_prints_the_report_here(self):
        with self.laptop.start("exceptions", self.patient.pid, "-d", "600s", "--json", "--server", self.server.url,
                               "--token", TOKEN) as job:
            job.wait_for("listening")
            job.signal(signal.SIGINT)
            done = job.finish()
        self.assertEqual(CANCELLED, done.code, done)
        self.assertEqual("exceptions", done.json()["facts"]["profiler"])

    def test_a_laptop_that_vanishes_ends_its_command(self):
        def running():
            return self.server.get("/api/sessions?state=running", Authorization=f"Bearer {TOKEN}").json()
        with self.laptop.start("exceptions", self.patient.pid, "-d", "600s", "--server", self.server.url, "--token", TOKEN) as job:
            job.wait_for("listening")
            self.assertEqual(1, len(running()))
            job.signal(signal.SIGKILL)
        wait_until(lambda: not running(), "it is cancelled")

    def test_what_may_not_be_asked_for(self):
        for words, code in ((("stacks", "--core", "/etc/passwd"), 4), (("stacks", "--core", "../index.db"), 4),
                            (("trace", "report", "/etc/passwd"), 4), (("serve",), 2), (("completion", "bash"), 4),
                            (("_worker", "x"), 4), (("exceptions", "--recording", "/tmp"), 4),
                            (("cpu", "postprocess", "-dir", "/tmp", "-o", "x"), 4), (("trace", "collect", "--", "sh", "-c", "true"), 4)):
            done = self.remote(*words)
            self.assertEqual(code, done.code, (words, done))
        answer = self.server.post("/api/commands", {"arguments": ["ps", "--server", "http://127.0.0.1:1"]},
                                  Authorization=f"Bearer {TOKEN}")
        self.assertIn("not passed on", answer.text())
        self.assertTrue(answer.text().endswith("exit 4\n"))
        for body in ({}, {"arguments": []}, {"arguments": [1]}, {"arguments": "ps"}):
            self.assertEqual(400, self.server.post("/api/commands", body, Authorization=f"Bearer {TOKEN}").status)
        self.assertEqual(404, self.server.post("/api/commands/999/interrupt", {}, Authorization=f"Bearer {TOKEN}").status)

    def test_servers_that_are_none(self):
        for url, code in (("nonsense", 2), ("ftp://x", 2), ("http://", 2), ("http://127.0.0.1:99999", 2),
                          ("http://127.0.0.1:1", 1), ("http://no.such.host.invalid:1", 1), ("http://user@127.0.0.1:1", 2)):
            self.assertEqual(code, self.laptop.run("ps", "--server", url).code, url)
        wrong = self.laptop.run("ps", "--server", self.server.url, "--token", "wrong-token-123")
        self.assertEqual(4, wrong.code)
        self.assertIn("token", wrong.err)
        self.assertEqual(2, self.laptop.run("ps", "--token", "x").code)
        self.assertEqual(2, self.laptop.run("ps", "--server").code)
        env = self.laptop.run("profilers", "--server", self.server.url, env={"DRDOTNET_TOKEN": TOKEN})
        self.assertEqual(0, env.code, env)


if __name__ == "__main__":
    unittest.main()
