"""A session's life against real patients: kept, shown, cancelled, cut short, killed, swept, out of space."""

import io
import json
import os
import signal
import tempfile
import unittest
import zipfile
from pathlib import Path

from drdotnet import Home, event_streams, gone, wait_until
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True

REPORT_FILES = {"report.json", "report.md", "report.html", "report.txt", "summary.md"}
FX = FRAMEWORKS[-1]


class KeptSessions(unittest.TestCase):
    """One examination, looked at in every way."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FX, rate=100))
        cls.done = cls.home.run("run", "exceptions", cls.patient.pid, "--duration", "1s")
        cls.guid = cls.home.sessions()[0]["guid"]

    def test_the_report_is_the_output_and_the_rest_is_chatter(self):
        self.assertEqual(self.done.code, 0, self.done)
        self.assertTrue(self.done.out.startswith("sick "), self.done)
        self.assertRegex(self.done.err.splitlines()[-1], f"^Saved as session {self.guid[:8]}(…|[.]{{3}}); open with: "
                                                         f"drdotnet sessions show {self.guid[:8]}$")

    def test_the_folder_has_every_file(self):
        folder = self.home.path / "sessions" / self.guid
        self.assertEqual({p.name for p in folder.iterdir()}, REPORT_FILES | {"session.json", "log.txt", "recording"})
        record = json.loads((folder / "session.json").read_text())
        self.assertEqual(record["guid"], self.guid)
        self.assertEqual(record["state"], "done")
        self.assertEqual(record["profiler"]["id"], "exceptions")
        self.assertEqual(record["target"]["id"], self.patient.pid)
        self.assertEqual(record["parameters"]["duration"], "1")
        self.assertLessEqual(record["startedUnixNs"], record["finishedUnixNs"])
        sizes = {f["name"]: f["bytes"] for f in record["files"]}
        for name in REPORT_FILES:
            self.assertEqual(sizes[name], (folder / name).stat().st_size)
            self.assertGreater(sizes[name], 0)
        self.assertEqual(os.stat(self.home.path).st_mode & 0o777, 0o700)
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)

    def test_compared_with_itself_nothing_changed(self):
        done = self.home.run("sessions", "compare", self.guid, self.guid)
        self.assertEqual(done.code, 0, done)
        self.assertIn("Nothing of note changed between the two.", done.out)
        self.assertIn("change means 2 points of a share or a tenth of anything else (less is noise)", " ".join(done.out.split()))

    def test_list_and_show(self):
        done = self.home.run("sessions")
        self.assertEqual(done.code, 0, done)
        head, *rows = done.out.splitlines()
        self.assertTrue(head.startswith("SESSION "))
        row, = [r for r in rows if r.startswith(self.guid[:8])]
        for part in ("sick", "exceptions", "done"):
            self.assertIn(part, row)
        self.assertLessEqual(max(map(len, done.out.splitlines())), 100)
        shown = self.home.run("sessions", "show", self.guid[:6])
        self.assertIn(self.guid, shown.out)
        self.assertIn("report.html", shown.out)
        as_json = json.loads(self.home.run("sessions", "show", self.guid, "--json").out)
        self.assertEqual(as_json["guid"], self.guid)
        self.assertTrue(as_json["verdict"])

    def test_report_in_every_format(self):
        folder = self.home.path / "sessions" / self.guid
        for word, name in (("md", "report.md"), ("html", "report.html"), ("json", "report.json")):
            done = self.home.run("sessions", "report", self.guid[:8], "--format", word)
            self.assertEqual(done.out, (folder / name).read_text())
        done = self.home.run("sessions", "report", self.guid[:8])
        self.assertEqual(done.out, self.done.out)

    def test_export_zip_is_flat_and_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.zip"
            done = self.home.run("sessions", "export", self.guid, "-o", path)
            self.assertEqual(done.code, 0, done)
            with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as archive:
                self.assertIsNone(archive.testzip())
                self.assertEqual(set(archive.namelist()), REPORT_FILES)
                self.assertEqual(archive.read("report.md"),
                                 (self.home.path / "sessions" / self.guid / "report.md").read_bytes())
            self.assertEqual([p.name for p in Path(folder).iterdir()], ["out.zip"])

    def test_a_recording_is_analysed_again_with_the_same_result(self):
        first = json.loads((self.home.path / "sessions" / self.guid / "report.json").read_text())
        done = self.home.run("run", "exceptions", "--session", self.guid, "--json")
        self.assertEqual(done.code, 0, done)
        again = json.loads(done.out)
        self.assertEqual(again["verdict"], first["verdict"])
        self.assertEqual(again["blocks"], first["blocks"])
        self.assertEqual(self.home.run("sessions", "delete", self.home.sessions()[0]["guid"]).code, 0)

    def test_a_damaged_index_comes_back(self):
        with Home() as other:
            self.assertEqual(other.run("run", "runtime-pauses", self.patient.pid, "-d", "1s").code, 0)
            before = other.sessions()
            for path in other.path.glob("index.db*"):
                path.write_bytes(b"this is not a database" * 100)
            done = other.run("sessions", "--json")
            self.assertEqual(done.code, 0, done)
            self.assertIn("made again", done.err)
            self.assertEqual(json.loads(done.out)[0]["verdict"], before[0]["verdict"])
            self.assertNotIn("made again", other.run("sessions").err)


class Pruning(unittest.TestCase):
    def test_delete_and_prune(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            for _ in range(3):
                self.assertEqual(home.run("runtime-pauses", patient.pid, "-d", "1s", "-q").code, 0)
            guids = [s["guid"] for s in home.sessions()]
            dry = home.run("sessions", "prune", "--keep", "1", "--dry-run")
            self.assertEqual(sorted(line.split()[0] for line in dry.out.splitlines()), sorted(guids[1:]))
            self.assertEqual(len(home.folders()), 3)
            self.assertEqual(home.run("sessions", "delete", guids[1]).code, 0)
            self.assertEqual(home.run("sessions", "delete", guids[1]).code, 3)
            self.assertEqual(home.run("sessions", "prune", "--older-than", "0.001s").code, 0)
            self.assertEqual(home.folders(), [guids[0]])
            # The limits also hold after each run, by themselves.
            done = home.run("runtime-pauses", patient.pid, "-d", "1s", env={"DRDOTNET_KEEP_COUNT": "1"})
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(home.folders()), 1)
            self.assertNotEqual(home.folders(), [guids[0]])


class BadInput(unittest.TestCase):
    """A one-line error with the right exit code, nothing started, nothing kept."""

    def test_errors(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            pid = str(patient.pid)
            cases = [
                (["run", "no-such-profiler", pid], 2, "runtime-pauses"),
                (["run", "exceptions", pid, "--param", "nope=1"], 2, "duration"),
                (["run", "exceptions", pid, "--param", "duration"], 2, "key=value"),
                (["run", "exceptions", pid, "--param", "duration=ten"], 2, "duration"),
                (["run", "exceptions", pid, "--param", "duration=-1"], 2, "duration"),
                (["run", "exceptions", pid, "--duration", "soon"], 2, "10s"),
                (["run", "exceptions", pid, "--way", "image"], 2, "events"),
                (["run", "exceptions", pid, "--way", "magic"], 2, "events"),
                (["run", "exceptions", pid, "--format", "pdf"], 2, "html"),
                (["run", "exceptions", pid, "-o", "report.pdf"], 2, ".html"),
                (["run", "exceptions", pid, "-o", "/no/such/folder/report.html"], 2, "/no/such/folder"),
                (["run", "exceptions", pid, "--json", "--format", "md"], 2, "--json"),
                (["run", "exceptions"], 2, "TARGET"),
                (["run", "exceptions", "no-such-process"], 3, "no-such-process"),
                (["run", "exceptions", "999999999"], 3, "999999999"),
                (["run", "exceptions", "--recording", "/no/such/recording"], 3, "/no/such/recording"),
                (["sessions", "show", "12"], 2, "4"),
                (["sessions", "show", "1234"], 3, "1234"),
                (["sessions", "show", "../../etc"], 2, "guid"),
                (["sessions", "explode"], 2, "prune"),
                (["sessions", "list", "--dry-run"], 2, "--dry-run"),
                (["sessions", "prune", "--older-than", "7"], 2, "7d"),
                (["sessions", "export", "1234"], 2, "-o"),
            ]
            for words, code, part in cases:
                with self.subTest(words=words):
                    done = home.run(*words)
                    self.assertEqual(done.code, code, done)
                    self.assertEqual(done.out, "")
                    self.assertIn(part, done.err)
            self.assertEqual(home.folders(), [])
            # Another test's server may listen to every process for a moment.
            wait_until(lambda: event_streams(patient.pid) == 0, "nobody listens to the patient")


class Endings(unittest.TestCase):
    """What can end an examination before its time."""

    def listening(self, home, patient, profiler="exceptions"):
        job = self.enterContext(home.start("run", profiler, patient.pid, "--duration", "60s"))
        job.wait_for("listening")
        return job

    def untouched(self, patient):
        self.assertTrue(patient.alive())
        wait_until(lambda: event_streams(patient.pid) == 0, "the patient's event streams end")
        patient.truth()

    def test_ctrl_c_keeps_what_was_seen(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Home() as home, Patient("exceptions", fx=fx, rate=100) as patient:
                job = self.listening(home, patient)
                job.signal(signal.SIGINT)
                done = job.finish()
                self.assertEqual(done.code, 130, done)
                self.assertIn("cancelled after", done.out)
                session, = home.sessions()
                self.assertEqual(session["state"], "cancelled")
                self.assertIn("cancelled after", session["partial"])
                self.untouched(patient)

    def test_a_patient_that_dies_gives_a_partial_report(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Home() as home, Patient("exceptions", fx=fx, rate=100) as patient:
                job = self.listening(home, patient)
                os.kill(patient.pid, signal.SIGKILL)
                done = job.finish()
                self.assertIn("ended after", done.out)
                session, = home.sessions()
                self.assertEqual(done.code, 1 if session["finding"] == "not-seen" else 0, done)
                self.assertEqual(session["state"], "done")
                self.assertIn("ended after", session["partial"])

    def test_a_killed_worker_fails_with_the_signal(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            job = self.listening(home, patient)
            os.kill(job.worker(), signal.SIGKILL)
            done = job.finish()
            self.assertEqual(done.code, 1, done)
            self.assertIn("signal 9 (Killed)", done.err)
            session, = home.sessions()
            self.assertEqual(session["state"], "failed")
            self.assertIn("signal 9", session["error"])
            self.untouched(patient)

    def test_a_killed_starter_cancels_the_worker(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            job = self.listening(home, patient)
            worker = job.worker()
            job.signal(signal.SIGKILL)
            wait_until(lambda: gone(worker), "the worker ends")
            session, = home.sessions()
            self.assertEqual(session["state"], "cancelled")
            self.untouched(patient)

    def test_both_killed_are_swept(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            job = self.listening(home, patient)
            worker = job.worker()
            job.signal(signal.SIGSTOP)
            os.kill(worker, signal.SIGKILL)
            job.signal(signal.SIGKILL)
            wait_until(lambda: gone(worker), "the worker ends")
            session, = home.sessions()
            self.assertEqual(session["state"], "failed")
            self.assertIn("worker was gone", session["error"])
            self.assertEqual({p.name for p in (home.path / "sessions" / session["guid"]).iterdir()},
                             {"session.json", "log.txt"})
            self.untouched(patient)

    def test_a_session_that_runs_is_left_alone(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            job = self.listening(home, patient)
            session, = home.sessions()
            self.assertEqual(session["state"], "running")
            self.assertEqual(home.run("sessions", "delete", session["guid"]).code, 5)
            self.assertEqual(home.run("sessions", "report", session["guid"]).code, 5)
            self.assertEqual(home.run("sessions", "prune", "--keep", "0").code, 0)
            self.assertEqual(home.sessions()[0]["state"], "running")
            job.signal(signal.SIGTERM)
            self.assertEqual(job.finish().code, 130)

    def test_a_wedged_worker_can_be_given_up(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            job = self.listening(home, patient)
            os.kill(job.worker(), signal.SIGSTOP)
            job.signal(signal.SIGINT)
            job.wait_for("Stopping")
            job.signal(signal.SIGINT)
            done = job.finish()
            self.assertEqual(done.code, 130, done)
            session, = home.sessions()
            self.assertEqual(session["state"], "cancelled")
            self.assertIn("given up", session["error"])
            self.untouched(patient)

    def test_two_sessions_side_by_side(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            jobs = [self.listening(home, patient, p) for p in ("exceptions", "runtime-pauses")]
            for job in jobs:
                job.signal(signal.SIGINT)
            for job in jobs:
                self.assertEqual(job.finish().code, 130)
            self.assertEqual([s["state"] for s in home.sessions()], ["cancelled", "cancelled"])
            self.untouched(patient)


class Space(unittest.TestCase):
    """Homes that take nothing: a mount of our own, in a mount namespace of our own."""

    def mounted(self, home, options, rest):
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
        return [*unshare, "sh", "-c", f'mount -t tmpfs -o {options},mode=700 tmpfs {home.path} && {rest}', "sh"]

    def test_a_read_only_home_is_said_before_the_patient_is_touched(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            done = home.run("run", "runtime-pauses", patient.pid, "-d", "1s",
                            prefix=self.mounted(home, "ro", 'exec "$@"'))
            self.assertIn(done.code, (1, 4), done)
            self.assertIn("Read-only file system", done.err)
            self.assertNotIn("listening", done.err)
            wait_until(lambda: event_streams(patient.pid) == 0, "nobody listens to the patient")

    def test_a_tiny_home_is_said_before_the_patient_is_touched(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            done = home.run("run", "runtime-pauses", patient.pid, "-d", "1s",
                            prefix=self.mounted(home, "size=1m", f'("$@"; code=$?; find {home.path}/sessions/*; exit $code)'))
            self.assertEqual(done.code, 1, done)
            self.assertIn("free", done.err)
            self.assertNotIn("listening", done.err)
            self.assertNotIn(f"{home.path}/sessions/", done.out.replace(f"{home.path}/sessions/*", ""))

    def test_a_limit_of_file_sizes_is_an_error_like_a_full_disk(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            self.assertEqual(home.run("runtime-pauses", patient.pid, "-d", "1s", "-q").code, 0)  # there is an index
            done = home.run("run", "exceptions", patient.pid, "-d", "1s", prefix=["prlimit", "--fsize=4096"])
            self.assertEqual(done.code, 1, done)  # not killed by SIGXFSZ
            self.assertTrue(done.err.strip().splitlines()[-1].startswith("drdotnet: "), done)
            self.assertEqual(home.run("runtime-pauses", patient.pid, "-d", "1s", "-q").code, 0)

    def test_a_home_of_somebody_else_is_refused(self):
        with Home() as home:
            home.path.chmod(0o777)
            done = home.run("sessions")
            self.assertEqual(done.code, 4, done)
            self.assertIn("chmod go-w", done.err)

    def test_a_home_that_fills_up_leaves_nothing_half_written(self):
        with Home() as home, Patient("exceptions", fx=FX) as patient:
            script = f'"$@"; code=$?; rm {home.path}/fill; find {home.path}/sessions -type f; exit $code'
            with home.start("run", "exceptions", patient.pid, "-d", "60s",
                            prefix=self.mounted(home, "size=12m", script)) as job:
                job.wait_for("listening")
                inside = Path(f"/proc/{job.pid}/root{home.path}")
                with open(inside / "fill", "wb", buffering=0) as fill:
                    with self.assertRaises(OSError):
                        while True:
                            fill.write(b"x" * 4096)
                os.kill(self.starter(job.pid), signal.SIGINT)
                done = job.finish()
            self.assertEqual(done.code, 1, done)
            self.assertIn("No space left", done.err)
            # Failed in good order, with its reason, or nothing at all.
            self.assertLessEqual({Path(line).name for line in done.out.splitlines()}, {"session.json", "log.txt"}, done)
            self.assertTrue(patient.alive())

    def starter(self, shell):
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])


if __name__ == "__main__":
    unittest.main()
