"""Who may do what: tokens, cookies, scopes, share links; the socket in the home, other users of the machine, and browsers on
other sites."""

import http.client
import io
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from drdotnet import DEADLINE_SECONDS, Home
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True

READ = "read-only-token-1234"


class TokenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FRAMEWORKS[-1]))
        cls.server = cls.enterClassContext(Server(cls.home, "--read-token", READ, listen="0.0.0.0:0")).anybody()
        cls.token = re.fullmatch(r"http://0\.0\.0\.0:\d+/\?token=([0-9a-f]{48})", cls.server.link)[1]
        cls.full = {"Authorization": f"Bearer {cls.token}"}
        cls.order = {"profilerGuid": "exceptions", "processId": cls.patient.pid, "parameters": [{"key": "duration", "value": 1}]}

    def test_nothing_without_a_token(self):
        document = self.server.get("/swagger/v1/swagger.json", **self.full).json()
        self.assertNotIn(self.token, self.server.log())
        for path, operations in document["paths"].items():
            for method in operations:
                answer = self.server.ask(method.upper(), re.sub(r"\{\w+\}", "1", path), b"{}" if method == "post" else None,
                                         {"Content-Type": "application/json"})
                if path in ("/healthz", "/api/logout"):
                    self.assertLess(answer.status, 300)
                elif path == "/share/{token}":
                    self.assertEqual(404, answer.status)
                else:
                    self.assertEqual(401, answer.status, (method, path, answer))
                    answer.detail()
        # Pages hold no secrets; the UI asks for the token.
        self.assertEqual(200, self.server.get("/sessions").status)

    def test_scopes(self):
        read = {"Authorization": f"Bearer {READ}"}
        self.assertEqual("read", self.server.get("/api/server", **read).json()["scope"])
        self.assertEqual("full", self.server.get("/api/server", **self.full).json()["scope"])
        for answer in (self.server.post("/api/sessions", self.order, **read),
                       self.server.get(f"/api/processes/{self.patient.pid}/stacks", **read),
                       self.server.get("/api/server/logs", **read)):
            self.assertEqual(403, answer.status)
            self.assertIn("full", answer.detail())
        self.assertEqual(200, self.server.get("/api/sessions", **read).status)

    def test_the_printed_link_becomes_a_cookie(self):
        first = self.server.get(f"/sessions?token={self.token}")
        self.assertEqual((303, "/sessions"), (first.status, first.headers["location"]))
        cookie = first.headers["set-cookie"]
        for word in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(word, cookie)
        self.assertEqual(200, self.server.get("/api/sessions", Cookie=cookie.split(";")[0]).status)
        wrong = self.server.get("/?token=wrong")
        self.assertEqual(303, wrong.status)
        self.assertNotIn("set-cookie", wrong.headers)
        login = self.server.post("/api/login", {"token": self.token})
        self.assertEqual(204, login.status)
        self.assertEqual(cookie.split(";")[0], login.headers["set-cookie"].split(";")[0])
        self.assertEqual(401, self.server.post("/api/login", {"token": "wrong"}).status)
        self.assertEqual(401, self.server.post("/api/login", {}).status)
        self.assertIn("Max-Age=0", self.server.post("/api/logout").headers["set-cookie"])
        # A cookie that another site makes a browser send is not enough.
        foreign = self.server.post("/api/sessions", self.order, Cookie=cookie.split(";")[0], Origin="http://evil.example")
        self.assertEqual(403, foreign.status)

    def test_the_link_leads_to_no_other_machine(self):
        for path in ("//evil.example", "/%5Cevil.example", "/%5C%5Cevil.example", "/%2Fevil.example", "/%09/evil.example", "/a%0d%0ab"):
            answer = self.server.get(f"{path}?token={self.token}")
            self.assertEqual((303, "/"), (answer.status, answer.headers["location"]), path)

    def test_two_hosts_are_none(self):
        for second in ("127.0.0.1", "evil.example.com"):
            answer = self.server.raw(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: {second}\r\nConnection: close\r\n\r\n".encode())
            self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)

    def test_many_arguments_get_an_answer(self):
        for n in (65, 400, 4000):
            answer = self.server.raw(("GET /api/sessions?" + "&".join(f"a{i}={i}" for i in range(n)) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                      f"Authorization: Bearer {self.token}\r\nConnection: close\r\n\r\n").encode())
            self.assertRegex(answer, rb"^HTTP/1\.[01] 4(00|14|31|13) ", n)

    def test_the_body_of_one_without_a_token_is_not_kept(self):
        body = b"[" * (255 << 10)
        kept = [socket.create_connection((self.server.host, self.server.port), timeout=DEADLINE_SECONDS) for _ in range(200)]
        before = self.server.rss_bytes()
        head = f"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body) + 1}\r\n\r\n"
        for s in kept:
            s.sendall(head.encode() + body)  # the last byte does not come: nobody has answered yet
        self.assertEqual(401, self.server.get("/api/sessions").status)
        self.assertLess(self.server.rss_bytes() - before, 20 << 20)  # of 50 MB
        for s in kept:
            s.sendall(b"]")
            self.assertTrue(s.recv(100).startswith(b"HTTP/1.1 401 "))
            s.close()

    def test_share_links(self):
        session = self.server.post("/api/sessions", self.order, **self.full).json()
        path = f"/api/sessions/{session['guid']}"
        with self.server.events(f"{path}/events", **self.full) as events:
            list(events)
        share = self.server.post(f"{path}/shares", {"days": 2}, **self.full).json()
        opened = self.server.get(share["path"])
        self.assertEqual((303, f"/sessions/{session['guid']}"), (opened.status, opened.headers["location"]))
        cookie = {"Cookie": opened.headers["set-cookie"].split(";")[0]}
        for more in ("", "/report.json", "/report.html", "/files", "/log", "/download", "/events"):
            self.assertEqual(200, self.server.get(path + more, **cookie).status, more)
        for method, other in (("GET", "/api/sessions"), ("GET", "/api/processes"), ("DELETE", path), ("POST", f"{path}/shares"),
                              ("GET", f"{path}/shares"), ("POST", f"{path}/cancel"), ("GET", "/metrics"),
                              ("GET", f"{path}/compare/{session['guid']}")):
            self.assertEqual(401, self.server.ask(method, other, headers=cookie).status, (method, other))
        self.assertEqual([share["token"]], [s["token"] for s in self.server.get(f"{path}/shares", **self.full).json()])
        self.assertEqual(204, self.server.ask("DELETE", f"{path}/shares/{share['token']}", headers=self.full).status)
        self.assertEqual(401, self.server.get(path, **cookie).status)
        self.assertEqual(404, self.server.get(share["path"]).status)
        self.assertEqual(404, self.server.ask("DELETE", f"{path}/shares/{share['token']}", headers=self.full).status)
        for days in (0, 366, "x", 1.5):
            self.assertEqual(400, self.server.post(f"{path}/shares", {"days": days}, **self.full).status, days)


class SharedValues(unittest.TestCase):
    """Whoever owns a session sees the values of strings; by a share link one sees their shape, wherever they stand."""

    def test_values_of_strings(self):
        with Home() as home, Patient("duplicate-strings", fx=FRAMEWORKS[-1], copies=20000) as patient, Server(home) as server:
            asked = "EUR|USD|CHF"
            for parameters, finding in (({}, "strings-duplicated"), ({"string": asked}, "string-held")):
                session = server.examine("duplicated-strings", patient.pid, **parameters)
                self.assertEqual(finding, session["finding"])
                secret = asked if parameters else patient.truth()["duplicate-strings"]["values"][0]["value"][:10]
                path = f"/api/sessions/{session['guid']}"
                share = server.post(f"{path}/shares").json()
                nobody = server.anybody()
                cookie = {"Cookie": nobody.get(share["path"]).headers["set-cookie"].split(";")[0]}
                shown = 0
                for more in ("", "/report.json", "/report.html", "/report.md", "/report.txt", "/files/report.json",
                             "/files/summary.md", "/log", "/events"):
                    whole, masked = server.get(path + more), nobody.get(path + more, **cookie)
                    self.assertEqual((200, 200), (whole.status, masked.status), more)
                    self.assertEqual(whole.headers["content-type"], masked.headers["content-type"])
                    self.assertNotIn(secret, re.sub(r"<[^>]*>", "", masked.text()), more)
                    shown += secret in re.sub(r"<[^>]*>", "", whole.text())
                self.assertGreaterEqual(shown, 5)
                with zipfile.ZipFile(io.BytesIO(nobody.get(f"{path}/download", **cookie).body)) as archive:
                    self.assertIn("summary.md", archive.namelist())
                    for name in archive.namelist():
                        self.assertNotIn(secret, re.sub(r"<[^>]*>", "", archive.read(name).decode(errors="replace")), name)


class ModesTest(unittest.TestCase):
    def test_share_links_outlive_the_server(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient:
            with Server(home) as server:
                guid = server.examine("exceptions", patient.pid, duration=1)["guid"]
                share = server.post(f"/api/sessions/{guid}/shares").json()
                self.assertEqual(0o600, (home.path / "shares.json").stat().st_mode & 0o777)
            with Server(home) as server:
                self.assertEqual(303, server.get(share["path"]).status)

    def test_share_links_expire(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient, \
                Server(home, "--token", "a-token-of-my-own") as server:
            full = {"Authorization": "Bearer a-token-of-my-own"}
            order = {"profilerGuid": "exceptions", "processId": patient.pid, "parameters": [{"key": "duration", "value": 1}]}
            path = f"/api/sessions/{server.post('/api/sessions', order, **full).json()['guid']}"
            share = server.post(f"{path}/shares", {"days": 1}, **full).json()
            cookie = {"Cookie": server.get(share["path"]).headers["set-cookie"].split(";")[0]}
            self.assertEqual(200, server.get(path, **cookie).status)
            server.stop()
            # A day passes.
            kept = home.path / "shares.json"
            text = re.sub(r'("expiresUnixNs":\s*)(\d+)', lambda m: m[1] + str(int(m[2]) - 86400 * 10 ** 9 - 1), kept.read_text())
            self.assertNotEqual(text, kept.read_text())
            kept.write_text(text)
            with Server(home, "--token", "a-token-of-my-own") as again:
                self.assertEqual(404, again.get(share["path"]).status)
                self.assertEqual(401, again.get(path, **cookie).status)
                self.assertEqual([], again.get(f"{path}/shares", **full).json())

    def test_who_guesses_keeps_nobody_out(self):
        with Home() as home, Server(home) as server:
            nobody = server.anybody()
            for _ in range(40):
                last = nobody.post("/api/login", {"token": "guess-guess-guess"})
            self.assertEqual(429, last.status)
            self.assertEqual(401, nobody.get("/api/sessions").status)
            self.assertEqual(204, nobody.post("/api/login", {"token": server.token}).status)
            self.assertIn("set-cookie", nobody.get(f"/?token={server.token}").headers)
            self.assertEqual(200, server.get("/api/sessions").status)

    def test_a_token_is_not_shown_to_other_users(self):
        with Home() as home, tempfile.NamedTemporaryFile("w") as file:
            file.write("a-token-of-my-own\n")
            file.flush()
            with Server(home, "--token", "a-token-of-my-own", "--read-token=and-one-to-read") as server:
                words = Path(f"/proc/{server.pid}/cmdline").read_bytes()
                self.assertNotIn(b"my-own", words)
                self.assertNotIn(b"and-one", words)
                self.assertEqual(200, server.get("/api/sessions", Authorization="Bearer a-token-of-my-own").status)
                self.assertEqual(200, server.get("/api/sessions", Authorization="Bearer and-one-to-read").status)
                done = home.run("ps", "--server", server.url, "--token-file", file.name)
                self.assertEqual(0, done.code, done)
            with Server(home, "--token-file", file.name, "--read-token-file", file.name) as server:
                self.assertEqual(200, server.get("/api/sessions", Authorization="Bearer a-token-of-my-own").status)
            self.assertEqual(2, home.run("serve", "--token-file", file.name, "--token", "a-token-of-my-own").code)
            self.assertEqual(2, home.run("serve", "--token-file", "/dev/null").code)
            self.assertEqual(3, home.run("serve", "--token-file", "/nonexistent").code)

    def test_without_auth_only_when_said(self):
        with Home() as home:
            with Server(home, "--no-auth", listen="0.0.0.0:0") as server:
                self.assertNotIn("token", server.link)
                self.assertEqual(200, server.get("/api/sessions").status)
                about = server.get("/api/server").json()
                self.assertEqual(("off", True), (about["auth"], about["exposed"]))
                self.assertIn("token", about["warning"])
                self.assertIn("warning: whoever can reach", server.log())
                self.assertEqual(421, server.get("/api/sessions", Host="evil.example.com").status)
                for name in ("drdotnet:92", "[::1].evil.example.com", "[::1]evil:92"):
                    self.assertEqual(421, server.get("/api/sessions", Host=name).status, name)
            with Server(home, "--no-auth", "--allow-host", "drdotnet", listen="0.0.0.0:0") as server:
                self.assertEqual(200, server.get("/api/sessions", Host="drdotnet:92").status)
            with Server(home, env={"DRDOTNET_AUTH": "none"}, listen="0.0.0.0:0") as server:
                self.assertEqual(200, server.get("/api/sessions").status)
            with Server(home, "--no-auth") as server:
                self.assertEqual((None, 200), (server.token, server.get("/api/sessions").status))
                self.assertIn("no token is asked for", server.log())
                self.assertEqual(("off", False), ((about := server.get("/api/server").json())["auth"], about["exposed"]))
            self.assertEqual(2, home.run("serve", env={"DRDOTNET_AUTH": "perhaps"}).code)
            self.assertEqual(2, home.run("serve", "--token", "short").code)
            with Server(home, env={"DRDOTNET_TOKEN": "a-token-of-my-own"}) as server:
                self.assertEqual((server.url, 401), (server.link, server.get("/api/sessions").status))
                self.assertEqual(200, server.get("/api/sessions", Authorization="Bearer a-token-of-my-own").status)
                self.assertFalse((home.path / "token").exists(), "who gives a token keeps it")
            with Server(home, "--allow-host", "diag.example.com") as server:
                self.assertEqual(200, server.get("/api/sessions", Host="diag.example.com").status)
                self.assertEqual(200, server.get("/api/sessions", Origin="https://diag.example.com").status)
                self.assertEqual(421, server.get("/api/sessions", Host="other.example.com").status)
                self.assertEqual(403, server.get("/api/sessions", Origin="https://other.example.com").status)


class KeptTokenTest(unittest.TestCase):
    def test_it_is_the_same_after_a_restart(self):
        with Home() as home:
            with Server(home) as server:
                link, token = server.link, server.token
                self.assertRegex(link, r"^http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{48}$")
                self.assertNotIn(token, server.log())
                cookie = server.anybody().get(f"/?token={token}", Host="localhost").headers["set-cookie"].split(";")[0]
            kept = home.path / "token"
            self.assertEqual((0o600, token), (kept.stat().st_mode & 0o7777, kept.read_text().strip()))
            with Server(home) as server:
                self.assertEqual(token, server.token)
                self.assertEqual(200, server.get("/api/sessions", Cookie=cookie, Host="localhost").status)
            self.assertEqual([], [p.name for p in home.path.glob("token?*")])
            kept.unlink()
            with Server(home) as server:
                self.assertNotEqual(token, server.token)

    def test_two_servers_of_a_home_have_the_same(self):
        with Home() as home, Server(home) as one, Server(home) as other:
            self.assertEqual((48, one.token), (len(one.token), other.token))
            self.assertEqual(200, one.get("/api/sessions").status)

    def refused(self, home, words):
        done = home.run("serve", "--listen", "127.0.0.1:0")
        self.assertEqual((4, ""), (done.code, done.out), done)
        self.assertIn(words, done.err)
        self.assertIn(str(home.path / "token"), done.err)

    def test_a_file_that_is_not_safe_is_refused(self):
        with Home() as home:
            kept, word = home.path / "token", "a-word-that-somebody-knows\n"
            for mode in (0o644, 0o640, 0o604, 0o660):
                kept.write_text(word)
                kept.chmod(mode)
                self.refused(home, "nobody else can read")
            kept.chmod(0o600)
            if os.geteuid() == 0:
                os.chown(kept, 65534, -1)
                self.refused(home, "file of uid 0")
                os.chown(kept, 0, -1)
            kept.rename(home.path / "elsewhere")
            kept.symlink_to(home.path / "elsewhere")
            self.refused(home, "is a link")
            kept.unlink()
            kept.symlink_to(home.path / "not-there")
            self.refused(home, "is a link")
            self.assertFalse((home.path / "not-there").exists())
            kept.unlink()
            os.mkfifo(kept, 0o600)
            self.refused(home, "must be a file")

    def test_the_link_again(self):
        with Home() as home, Home() as other:
            with Server(home) as server:
                again = home.run("serve", "--link", "--listen", f"127.0.0.1:{server.port}")
                self.assertEqual((0, server.link + "\n"), (again.code, again.out), again)
                by_variable = home.run("serve", "--link", env={"DRDOTNET_LISTEN": f"0.0.0.0:{server.port}"})
                self.assertEqual(again.out, by_variable.out)
                stranger = other.run("serve", "--link", "--listen", f"127.0.0.1:{server.port}")
                self.assertEqual((3, ""), (stranger.code, stranger.out))
                self.assertEqual(403, server.get("/api/link").status)
            gone = home.run("serve", "--link", "--listen", f"127.0.0.1:{server.port}")
            self.assertEqual(3, gone.code)
            self.assertIn(f"no server of the home '{home.path}' listens on port {server.port}", gone.err)
            with Server(home, "--token", "a-token-of-my-own") as server:
                again = home.run("serve", "--link", "--listen", f"127.0.0.1:{server.port}")
                self.assertEqual(f"{server.url}/?token=a-token-of-my-own\n", again.out)
            for wrong in ("localhost:8000", "http://", "ftp://x", "http://a b", "http://x/?token=1"):
                refused = home.run("serve", "--public-url", wrong)
                self.assertEqual(2, refused.code, refused)
                self.assertIn("http://localhost:8000", refused.err)
            with socket.create_server(("127.0.0.1", 0)) as free:
                at = f"127.0.0.1:{free.getsockname()[1]}"
            with Server(home, "--public-url", "http://dr.localhost:8000/", listen=at) as server:
                self.assertEqual(f"http://dr.localhost:8000/?token={server.token}", server.link)
                again = home.run("serve", "--link", "--listen", at)
                self.assertEqual(server.link + "\n", again.out)
                self.assertNotIn("put the address", server.log())
            with Server(home, listen="0.0.0.0:0") as server:
                self.assertIn(f"in place of 0.0.0.0:{server.port}", server.log())
                self.assertNotIn(server.token, server.log())
            with Server(home, "--no-auth") as server:
                again = home.run("serve", "--link", "--listen", f"127.0.0.1:{server.port}")
                self.assertEqual(f"{server.url}\n", again.out)


class Child:
    """A function in a process of another user; no program is started, since he may not be able to read one."""

    def __init__(self, user, work, *arguments):
        read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                self._out = os.fdopen(write, "w")
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
                os.chdir("/")
                self.say(work(self, *arguments))
            except BaseException as error:  # nothing of the parent's shall run here
                self.say({"error": repr(error)})
            finally:
                os._exit(0)
        os.close(write)
        self._in = os.fdopen(read)

    def say(self, value):
        print(json.dumps(value), file=self._out, flush=True)

    def hear(self):
        """What it says next."""
        heard = json.loads(self._in.readline())
        if isinstance(heard, dict):
            raise AssertionError(heard["error"])
        return heard

    def end(self):
        self._in.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def ask_one(where, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", where if isinstance(where, int) else 1, timeout=DEADLINE_SECONDS)
    if isinstance(where, str):
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(where)
    connection.request(method, path, body, headers or {})
    status = connection.getresponse().status
    connection.close()
    return status


def asks(user, where, *requests):
    """Statuses that this user gets: (method, path, body, headers) to a port or to a socket's path."""
    child = Child(user, lambda _: [ask_one(where, *request) for request in requests])
    try:
        return child.hear()
    finally:
        child.end()


def pretend(child, path):
    """Listens there and says what the first client says."""
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()
        child.say("ready")
        return s.accept()[0].recv(1000).decode()


NOBODY, OTHER = 65534, 65533
JSON = {"Content-Type": "application/json"}


@unittest.skipUnless(os.geteuid() == 0, "needs root")
class OtherUsersTest(unittest.TestCase):
    """A server of root on the loopback address, which every user of the machine reaches."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FRAMEWORKS[-1]))
        cls.server = cls.enterClassContext(Server(cls.home))
        cls.guid = cls.server.examine("exceptions", cls.patient.pid, duration=1)["guid"]
        cls.core = cls.server.post("/api/cores", {"processId": cls.patient.pid}).json()["name"]
        cls.socket = str(cls.home.path / f"{cls.server.port}.sock")

    def test_nothing_without_the_token(self):
        document, values = self.server.get("/swagger/v1/swagger.json").json(), {"guid": self.guid, "name": self.core, "other": self.guid}
        requests = [(method.upper(), re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], str(self.patient.pid)), path),
                     "{}" if method == "post" else None, JSON)
                    for path, operations in document["paths"].items() for method in operations]
        self.assertGreater(len(requests), 50)
        free = {"/healthz": {200}, "/api/logout": {204}, f"/share/{self.patient.pid}": {404}}
        for request, status in zip(requests, asks(NOBODY, self.server.port, *requests)):
            self.assertIn(status, free.get(request[1], {401}), request)
        self.assertEqual(200, self.server.get(f"/api/cores/{self.core}").status, "it is there, for others")

    def test_with_the_token(self):
        full = {"Authorization": f"Bearer {self.server.token}"}
        self.assertEqual([200, 200, 200, 401], asks(NOBODY, self.server.port, ("GET", "/api/processes", None, full),
                                                    ("POST", f"/api/processes/{self.patient.pid}/dump", "", {**JSON, **full}),
                                                    ("GET", f"/api/cores/{self.core}", None, full),
                                                    ("GET", f"/api/cores/{self.core}", None, {"Authorization": "Bearer 0123456789ab"})))

    def test_requests_that_are_forged(self):
        """As a page of another site, or a name that somebody points at 127.0.0.1, makes a browser send them."""
        for status, headers in ((421, {"Host": "evil.example.com"}), (421, {"Host": f"evil.example.com:{self.server.port}"}),
                                (403, {"Origin": "http://evil.example.com"}), (403, {"Origin": "null"}),
                                (403, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})):
            with self.subTest(headers):
                self.assertEqual(status, self.server.ask("POST", "/api/cores", b"{}", {**JSON, **headers}).status)
                self.assertIn(self.server.anybody().ask("POST", "/api/cores", b"{}", {**JSON, **headers}).status, (401, 403, 421))
        self.assertEqual([403, 403], asks(0, self.socket, ("GET", "/api/sessions", None, {"Origin": "http://evil.example.com"}),
                                          ("POST", "/api/cores", "{}", {**JSON, "Origin": "http://127.0.0.1:2"})))

    def test_the_socket_is_for_root(self):
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.socket).st_mode))
        every = [("GET", path) for path in ("/api/processes", "/api/link", f"/api/cores/{self.core}")]
        self.assertEqual([200] * 3, asks(0, self.socket, *every))
        with self.assertRaisesRegex(AssertionError, "PermissionError"):
            asks(NOBODY, self.socket, *every)
        self.addCleanup(os.chmod, self.home.path, 0o700)
        self.addCleanup(os.chmod, self.socket, 0o600)
        os.chmod(self.home.path, 0o777)
        os.chmod(self.socket, 0o666)
        # Whatever he asks for, also with the token: by its address it would open the server.
        full = {"Authorization": f"Bearer {self.server.token}"}
        self.assertEqual([403] * 5, asks(NOBODY, self.socket, *every, ("GET", "/healthz"), ("GET", "/api/sessions", None, full)))

    def test_the_socket_of_an_ordinary_user(self):
        with Home() as home:
            os.chown(home.path, NOBODY, NOBODY)
            with Server(home, prefix=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")) as server:
                self.assertFalse(server.get("/api/server").json()["root"])
                self.assertEqual(NOBODY, (home.path / "token").stat().st_uid)
                self.assertEqual([401], asks(OTHER, server.port, ("GET", "/api/sessions")))
                path = str(home.path / f"{server.port}.sock")
                for user in (NOBODY, 0):
                    self.assertEqual([200, 200], asks(user, path, ("GET", "/api/sessions"), ("GET", "/api/link")), user)
                os.chmod(home.path, 0o755)
                os.chmod(path, 0o666)
                self.assertEqual([403], asks(OTHER, path, ("GET", "/api/sessions")))

    def test_a_peer_of_another_pid_namespace(self):
        """Root in another container that has our home for a volume is not our root."""
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        script = "import socket; s = socket.socket(socket.AF_UNIX); s.connect(%r); s.sendall(b'GET /api/link HTTP/1.0\\r\\n\\r\\n'); print(s.recv(99))"
        with Home() as home:
            server = Server(home, prefix=apart)
            try:
                done = subprocess.run([*apart, sys.executable, "-c", script % str(home.path / f"{server.port}.sock")],
                                      capture_output=True, text=True, check=True)
                self.assertIn("403 Forbidden", done.stdout)
            finally:
                server.stop(9)  # it hears nothing else

    def test_health_checks_need_none(self):
        self.assertEqual([200], asks(NOBODY, self.server.port, ("GET", "/healthz")))
        self.assertEqual(0, self.home.run("_health", f"127.0.0.1:{self.server.port}").code)

    def test_commands_of_ours_need_none(self):
        here = self.home.run("profilers")
        for host in ("127.0.0.1", "localhost"):
            there = self.home.run("profilers", "--server", f"http://{host}:{self.server.port}")
            self.assertEqual((0, here.out), (there.code, there.out), there)
        self.assertIn("audit: uid 0 runs 'profilers", self.server.log())
        with Home() as other:
            done = other.run("profilers", "--server", self.server.url)
            self.assertEqual(4, done.code)
            self.assertIn("a token is needed", done.err)

    def test_a_socket_of_somebody_else_is_not_used(self):
        """A client in a folder that others can write to, as /tmp/dr-dotnet, asks who answers before it speaks."""
        with Home() as home:
            os.chmod(home.path, 0o777)
            path = home.path / f"{self.server.port}.sock"
            impostor = Child(NOBODY, pretend, str(path))
            self.addCleanup(impostor.end)
            self.assertEqual("ready", impostor.hear())
            self.assertEqual(4, home.run("profilers", "--server", self.server.url).code)
            self.assertEqual("", impostor.hear())
            self.assertEqual(3, home.run("serve", "--link", "--listen", f"127.0.0.1:{self.server.port}").code)


if __name__ == "__main__":
    unittest.main()
