"""Who may do what on a server that others can reach: tokens, cookies, scopes, share links; and browsers on other sites."""

import re
import unittest

from drdotnet import Home
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True

READ = "read-only-token-1234"


class TokenTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FRAMEWORKS[-1]))
        cls.server = cls.enterClassContext(Server(cls.home, "--read-token", READ, listen="0.0.0.0:0"))
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
                              ("GET", f"{path}/shares"), ("POST", f"{path}/cancel"), ("GET", "/metrics")):
            self.assertEqual(401, self.server.ask(method, other, headers=cookie).status, (method, other))
        self.assertEqual([share["token"]], [s["token"] for s in self.server.get(f"{path}/shares", **self.full).json()])
        self.assertEqual(204, self.server.ask("DELETE", f"{path}/shares/{share['token']}", headers=self.full).status)
        self.assertEqual(401, self.server.get(path, **cookie).status)
        self.assertEqual(404, self.server.get(share["path"]).status)
        self.assertEqual(404, self.server.ask("DELETE", f"{path}/shares/{share['token']}", headers=self.full).status)
        for days in (0, 366, "x", 1.5):
            self.assertEqual(400, self.server.post(f"{path}/shares", {"days": days}, **self.full).status, days)


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
                self.assertEqual(200, server.get("/api/sessions", Host="drdotnet:92").status)
            with Server(home, env={"DRDOTNET_AUTH": "none"}, listen="0.0.0.0:0") as server:
                self.assertEqual(200, server.get("/api/sessions").status)
            self.assertEqual(2, home.run("serve", env={"DRDOTNET_AUTH": "perhaps"}).code)
            self.assertEqual(2, home.run("serve", "--token", "short").code)
            with Server(home, env={"DRDOTNET_TOKEN": "a-token-of-my-own"}) as server:
                self.assertEqual(401, server.get("/api/sessions").status)
                self.assertEqual(200, server.get("/api/sessions", Authorization="Bearer a-token-of-my-own").status)
            with Server(home, "--allow-host", "diag.example.com") as server:
                self.assertEqual(200, server.get("/api/sessions", Host="diag.example.com").status)
                self.assertEqual(200, server.get("/api/sessions", Origin="https://diag.example.com").status)
                self.assertEqual(421, server.get("/api/sessions", Host="other.example.com").status)
                self.assertEqual(403, server.get("/api/sessions", Origin="https://other.example.com").status)


if __name__ == "__main__":
    unittest.main()
