"""Sessions that earlier programs recorded (tests/stored): today's opens them, and says of their raw parts what theirs said.

Needs no .NET: nothing is examined here."""

import functools
import json
import tarfile
import unittest
from pathlib import Path

from drdotnet import Home
from server import Server

SIDE_BY_SIDE = True

STORED = Path(__file__).resolve().parents[1] / "stored"
# They are older than a program keeps its sessions.
FOR_EVER = {"DRDOTNET_KEEP_AGE": "100000d"}
# The profilers of the first stored set.
OLDEST = {"allocations", "cpu-hotpaths", "crash", "deadlocks", "duplicated-strings", "exceptions", "gc-stats", "gc-survivors",
          "heap-stats", "jit", "loader", "lock-contention", "memory-leaks", "merged-call-stacks", "off-cpu", "runtime-pauses",
          "stuck-tasks", "thread-pool", "wasted-collections", "zombie-threads"}


def for_each_session(test):
    """Runs a test method once for every stored session, with its guid and the report of the program that recorded it."""
    @functools.wraps(test)
    def run(self):
        for name, guid in self.guids.items():
            with self.subTest(name):
                test(self, guid, json.loads((self.home.path / "sessions" / guid / "report.json").read_text()))
    return run


def said(report):
    """What a new analysis must say again: verdict and finding, key figures, and the rows of all tables. How alarming that
    is, is judged anew."""
    verdict = {key: value for key, value in report["verdict"].items() if key != "health"}
    return {"verdict": verdict, "figures": report["figures"],
            "blocks": [(b["title"], b.get("rows")) for b in report["blocks"]]}


class Stored(unittest.TestCase):
    """All of them in one home, without its index: the program finds the folders."""

    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.guids = {}
        for path in sorted(STORED.glob("*/*.tar.xz")):
            with tarfile.open(path) as archive:
                cls.guids[f"{path.parent.name}/{path.name.removesuffix('.tar.xz')}"] = archive.getnames()[0]
                archive.extractall(cls.home.path / "sessions")
        cls.rows = {row["guid"]: row for row in cls.home.sessions()}

    def run_well(self, *words):
        done = self.home.run(*words, env=FOR_EVER)
        self.assertEqual(done.code, 0, done)
        return done

    def test_every_profiler_has_one(self):
        self.assertEqual(len(self.rows), len(self.guids))
        self.assertGreaterEqual({row["profiler"]["id"] for row in self.rows.values()}, OLDEST)

    @for_each_session
    def test_listed_as_it_was(self, guid, before):
        row = self.rows[guid]
        self.assertEqual((row["state"], row["finding"], row["verdict"]),
                         ("done", before["verdict"]["finding"], before["verdict"]["plain"]))

    @for_each_session
    def test_shown_in_every_format(self, guid, before):
        folder = self.home.path / "sessions" / guid
        for word, name in (("json", "report.json"), ("html", "report.html"), ("md", "report.md")):
            self.assertEqual(self.run_well("sessions", "report", guid, "--format", word).out, (folder / name).read_text())
        # The text is made of report.json, and broken into lines.
        text = " ".join(self.run_well("sessions", "report", guid).out.split())
        self.assertIn(" ".join(before["verdict"]["plain"].split()), text)

    def test_served(self):
        with Server(self.home, env=FOR_EVER) as server:
            listed = {session["guid"] for session in server.get("/api/sessions").json()}
            self.assertLessEqual(set(self.guids.values()), listed)
            for name, guid in self.guids.items():
                with self.subTest(name):
                    for file in ("report.json", "report.html"):
                        answer = server.get(f"/api/sessions/{guid}/files/{file}")
                        self.assertEqual((answer.status, answer.text()),
                                         (200, (self.home.path / "sessions" / guid / file).read_text()))

    @for_each_session
    def test_analysed_again_with_the_same_result(self, guid, before):
        # Values of strings were shown as their shape to everybody then.
        again = self.run_well("run", self.rows[guid]["profiler"]["id"], "--session", guid, "--json", "--mask").json()
        self.assertEqual(said(again), said(before))
        # The new report has every format of its own.
        folder = self.home.path / "sessions" / again["facts"]["session"]
        for name, part in (("report.html", "</html>"), ("report.md", "# "), ("report.txt", "sick ")):
            self.assertIn(part, (folder / name).read_text())


if __name__ == "__main__":
    unittest.main()
