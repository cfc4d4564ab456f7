"""Wrong input and what is answered, in one table: each answer says what was wrong and what to do, by every door in the words of
that door: a command line hears of options, a client of fields, a file of keys and lines."""

import os
import re
import unittest

from drdotnet import Home
from patient import Patient, one_of, FRAMEWORKS
from server import Server

SIDE_BY_SIDE = True

FAILED, USAGE, NOT_FOUND, DENIED = 1, 2, 3, 4
NO_SUCH = "00000000-0000-0000-0000-000000000000"

# What is typed, the exit code, the answer behind "drdotnet: ", or its essential words. {pid}: the patient; {own}: this test, which is
# no .NET process; {folder}: a folder that is there.
COMMANDS = [
    ("frobnicate", USAGE, "'frobnicate' is neither a command nor a profiler; see 'drdotnet help'"),
    ("exception {pid}", USAGE, "'exception' is neither a command nor a profiler; did you mean 'exceptions'? See 'drdotnet help'"),
    ("version", USAGE, "'version' is neither a command nor a profiler; did you mean '--version'? See 'drdotnet help'"),
    ("run deadlock {pid}", USAGE, "no profiler is called 'deadlock'", "deadlocks"),
    ("trace summary x.nettrace", USAGE, "'drdotnet trace' does collect, convert and report, not 'summary'"),
    ("exceptions", USAGE, "'drdotnet exceptions' needs one TARGET (a pid, a process name or an assembly name; 'drdotnet ps' lists them)"),
    ("stacks", USAGE, "'drdotnet stacks' needs a TARGET or --core FILE"),
    ("symbols get {pid}", USAGE, "'drdotnet symbols' does fetch, not 'get'"),
    ("dump open", USAGE, "'drdotnet dump open' needs a FILE"),
    ("exceptions 999999999", NOT_FOUND, "there is no process 999999999"),
    ("exceptions no-such-app", NOT_FOUND, "no .NET process is called 'no-such-app'; there are: ", " (user "),
    ("exceptions {own}", NOT_FOUND, "not a .NET process"),
    ("exceptions {pid} --frob", USAGE, "unknown option '--frob' for 'drdotnet exceptions'; it knows --duration, "),
    ("exceptions {pid} --duraton 5s", USAGE, "did you mean '--duration'?"),
    ("exceptions {pid} --duration soon", USAGE, "'soon'", "10s"),
    ("exceptions {pid} --param duration=0", USAGE, "from 1 to 86400"),
    ("exceptions {pid} --param colour=red", USAGE, "'colour'", "duration"),
    ("memory-leaks {pid} --looks 60", USAGE, "--looks takes a whole number from 2 to 20, not '60'"),
    ("gc-survivors {pid} --generation young", USAGE, "--generation takes one of all, old"),
    ("exceptions {pid} --way magic", USAGE, "'magic'", "events"),
    ("exceptions {pid} --format pdf", USAGE, "'pdf'", "html"),
    ("exceptions {pid} -o report.pdf", USAGE, "the name 'report.pdf' does not tell the format", ".html"),
    ("exceptions {pid} -o /nosuch/report.html", USAGE, "cannot write to '/nosuch/report.html': there is no folder '/nosuch'"),
    ("crash --core /nosuch/core", NOT_FOUND, "/nosuch/core"),
    ("crash --core /etc/passwd", FAILED, "/etc/passwd", "core"),
    ("dump open /etc/passwd -c threads", FAILED, "/etc/passwd", "core"),
    ("trace report /etc/passwd", FAILED, "/etc/passwd", "trace"),
    ("trace collect {pid} --profile everything", USAGE, "there is no trace profile 'everything'; there are cpu, gc, "),
    ("trace collect {pid} --providers A:zz", USAGE, "keywords of 'A' are hexadecimal such as 0x8000, not 'zz'"),
    ("sessions show abcd", NOT_FOUND, "abcd"),
    ("sessions show zzzz", USAGE, "'zzzz' is no session: give its guid, or at least the first 4 digits"),
    ("sessions prune --older-than soon", USAGE, "--older-than", "'soon'", "7d"),
    ("completion tcsh", USAGE, "no completion for 'tcsh'; there is bash, zsh and fish"),
    ("serve --listen nowhere", USAGE, "'nowhere'", "127.0.0.1:9292"),
    ("serve --max-sessions 0", USAGE, "takes a number from 1 to 100, not '0'"),
    ("ps --server http://127.0.0.1:1 --token x", FAILED, "127.0.0.1:1", "refused"),
]

# The file, the exit code of `config check`, the answer behind its name.
FILES = [
    ("keep:\n  aeg: 3d\n", USAGE, ", line 2: there is no setting 'keep.aeg'; did you mean 'keep.age'?"),
    ("max_sessions: many\n", USAGE, ", line 1: max_sessions takes a number from 1 to 100, not 'many'"),
    ("auth: none\nauth: token\n", USAGE, ", line 2: 'auth' stands in line 1 already"),
    ("listen: a: b\n", USAGE, ", line 1: this is not YAML: "),
]

# Method, path, body, token?, status, words of the answer's detail. {pid} as above.
REQUESTS = [
    ("GET", "/api/processes", None, False, 401, "token"),
    ("GET", "/api/processes/1", None, True, 404, "1"),
    ("GET", f"/api/sessions/{NO_SUCH}", None, True, 404, f"No session found with guid '{NO_SUCH}'"),
    ("GET", "/api/sessions?state=asleep", None, True, 400, "'state' takes queued, running", "not 'asleep'"),
    ("POST", "/api/sessions", {"profilerGuid": "nobody", "processId": "{pid}"}, True, 404, "nobody"),
    ("POST", "/api/sessions", {"profilerGuid": "exceptions", "processId": "{pid}", "surprise": 1}, True, 400, "surprise"),
    ("POST", "/api/sessions", {"profilerGuid": "exceptions", "processId": "{pid}",
                               "parameters": [{"key": "duration", "value": "0"}]}, True, 400, "duration", "1 to 86400"),
    ("POST", "/api/sessions", {"profilerGuid": "exceptions", "processId": "{pid}",
                               "parameters": [{"key": "colour", "value": "red"}]}, True, 404, "No parameter found with key 'colour'"),
    ("POST", "/api/sessions", {"profilerGuid": "exceptions", "processId": 999999999}, True, 404, "999999999"),
    ("POST", "/api/traces", {"processId": "{pid}", "profile": "everything"}, True, 400, "there is no trace profile 'everything'"),
    ("POST", "/api/traces", {"processId": "{pid}", "providers": "A:zz"}, True, 400, "keywords of 'A' are hexadecimal"),
    ("POST", "/api/traces", {"processId": "{pid}", "profile": "cpu", "maxSeconds": 0}, True, 400, "'maxSeconds' takes a whole number"),
    ("POST", "/api/cores", {"processId": "{pid}", "type": "huge"}, True, 400, "type"),
]


class WrongInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("healthy", fx=one_of(FRAMEWORKS)[0]))

    def filled(self, value):
        if isinstance(value, dict):
            return {key: self.patient.pid if x == "{pid}" else x for key, x in value.items()}
        return value.format(pid=self.patient.pid, own=os.getpid())

    def test_there_are_enough(self):
        self.assertGreaterEqual(len(COMMANDS) + len(FILES) + len(REQUESTS), 40)

    def test_commands(self):
        for line, code, *words in COMMANDS:
            with self.subTest(line):
                done = self.home.run(*self.filled(line).split())
                said = done.err.splitlines()[-1]
                self.assertEqual((done.code, done.out), (code, ""), done)
                self.assertTrue(said.startswith("drdotnet: "), done)
                for word in words:
                    self.assertIn(self.filled(word), said)
        self.assertTrue(self.patient.alive())

    def test_files(self):
        path = self.home.path / "config.yaml"
        for text, code, words in FILES:
            with self.subTest(text):
                path.write_text(text)
                path.chmod(0o600)
                done = self.home.run("config", "check", "--config", path)
                self.assertEqual((done.code, done.out), (code, ""), done)
                self.assertRegex(done.err, rf"\Adrdotnet: {path}[^\n]+\n\Z")
                self.assertIn(words, done.err)

    def test_requests(self):
        with Server(self.home) as server:
            for method, path, body, known, status, *words in REQUESTS:
                with self.subTest(path, body=body):
                    who = server if known else server.anybody()
                    answer = who.post(path, self.filled(body)) if method == "POST" else who.get(path)
                    self.assertEqual(answer.status, status, answer)
                    said = answer.detail() if "problem" in answer.headers["content-type"] else answer.text()
                    for word in words:
                        self.assertIn(word, said)
                    outside = re.sub(r"'drdotnet [^']*'", "", said)  # a command that somebody can type is no field
                    self.assertNotRegex(outside, r"(^|[\s'(])--?[a-z]", "a client has no options")


if __name__ == "__main__":
    unittest.main()
