"""Every setting by option, variable and file; docs/configuration.md has the table."""

import re
import socket
import unittest

from drdotnet import ROOT, Home
from server import Server

SIDE_BY_SIDE = True
ROW = re.compile(r"(?m)^\| `([\w.]+)` \| `(--[\w-]+)( \S+)?` \| `(\w+)` \| ([^|]+) \| ([^|]+) \|$")
VALUES = {"an absolute path": ("/srv/a", "/srv/b"), "true or false": ("false", "no"), "a time such as 30d or 12h": ("2w", "12h"),
          "a size such as 500M or 2G": ("1G", "500M"), "a number from 1 to 100": ("7", "9"), "a number": ("70", "90"),
          "a text": ("one-text-that-is-long-enough", "another-text-that-is-long"), "names, with commas": ("a.example", "b.example,c.example"),
          "token or none": ("none", "token"), "cancel or finish": ("finish", "cancel"), "text or json": ("json", "text")}
SECRET = {"token", "read_token"}


def table():
    """key -> (option, value's name or "", variable, what it takes)"""
    text = (ROOT / "docs/configuration.md").read_text()
    return {key: (option, (value or "").strip(), variable, takes) for key, option, value, variable, takes, _ in ROW.findall(text)}


class Settings(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def file(self, text, mode=0o600):
        path = self.home.path / "config.yaml"
        path.write_text(text)
        path.chmod(mode)
        return path

    def show(self, path, **env):
        """key -> (value, origin or None)"""
        done = self.home.run("config", "show", "--config", path, env=env)
        self.assertEqual((done.code, done.err), (0, ""))
        lines = [re.split(r"  +", line) for line in done.out.splitlines()[1:]]
        return {key: (value, origin[0] if origin else None) for key, value, *origin in lines}

    def test_every_row_by_file_and_by_variable(self):
        rows = table()
        self.assertGreaterEqual(len(rows), 20)
        path = self.file("".join(f"{key}: {VALUES[takes][0]}\n" for key, (_, _, _, takes) in rows.items()))
        shown = self.show(path, DRDOTNET_HOME="")
        self.assertEqual(set(rows), set(shown))
        for line, (key, (_, _, _, takes)) in enumerate(rows.items(), 1):
            self.assertEqual(("(secret)" if key in SECRET else VALUES[takes][0], f"from line {line}"), shown[key], key)
        variables = {variable: VALUES[takes][1] for _, _, variable, takes in rows.values()}
        shown = self.show(path, **variables)
        for key, (_, _, variable, takes) in rows.items():
            self.assertEqual(("(secret)" if key in SECRET else VALUES[takes][1], f"from {variable}"), shown[key], key)

    def test_every_row_has_its_option(self):
        serve, fetch = (self.home.run("help", name).out for name in ("serve", "symbols"))
        for key, (option, value, _, _) in table().items():
            self.assertRegex(serve + fetch, rf"(?m)^  {option}{' ' + value if value else ''}\b", key)

    def test_a_wrong_variable_is_refused_by_its_name(self):
        for _, _, variable, takes in table().values():
            if takes in ("a text", "names, with commas"):
                continue
            done = self.home.run("config", "check", env={variable: "per haps"})
            self.assertEqual((2, f"drdotnet: {variable} takes {takes.strip()}, not 'per haps'\n"), (done.code, done.err), variable)

    def test_every_option_comes_before_its_variable(self):
        """Those whose value can be wrong: then it shows which of the two was read. test_server_auth.py has the others."""
        taken = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        port = str(taken.getsockname()[1])
        tried, serve = 0, ("serve", "--listen", f"127.0.0.1:{port}")  # it ends by itself
        for key, (option, value, variable, takes) in table().items():
            if takes.strip() in ("a text", "names, with commas"):
                continue
            wrong, right = {variable: "per haps"}, str(self.home.path) if key == "home" else VALUES[takes][0]
            with self.subTest(key):
                refused = self.home.run(*serve, env=wrong)
                self.assertEqual(2, refused.code)
                self.assertRegex(refused.err, rf"\Adrdotnet: {variable} (takes|must be) {takes.strip()}, not 'per haps'\n\Z")
                heard = self.home.run(*serve, option, *([right] if value else []), env=wrong)
                self.assertNotIn(variable, heard.err)
                self.assertIn(port, heard.err)
                if value:
                    refused = self.home.run(*serve, option, "per haps")
                    self.assertEqual(2, refused.code)
                    self.assertRegex(refused.err, rf"\Adrdotnet: {option} takes [^\n]+, not 'per haps'\n\Z")
                tried += 1
        self.assertGreaterEqual(tried, 12)

    def test_a_wrong_file(self):
        wrong = self.file("listen: 127.0.0.1:0\nkeep:\n  aeg: 3d\n")
        for words in (("config", "check", "--config", wrong), ("config", "--config", wrong), ("serve", "--config", wrong)):
            done = self.home.run(*words)
            self.assertEqual(2, done.code)
            self.assertIn("line 3: there is no setting 'keep.aeg'; did you mean 'keep.age'?", done.err)
        done = self.home.run("sessions", env={"DRDOTNET_CONFIG": str(wrong)})
        self.assertEqual(0, done.code)
        self.assertIn("the configuration is not used", done.err)
        self.assertEqual(2, self.home.run("config", "delete").code)
        self.assertEqual(3, self.home.run("config", "check", "--config", self.home.path / "nobody.yaml").code)
        self.assertEqual(4, self.home.run("config", "check", "--config", self.file("token: a-secret-of-ours\n", 0o644)).code)

    def test_the_server_obeys(self):
        path = self.file("listen: 127.0.0.1:0\nauth: none\nrest_api: false\nlog:\n  format: json\n  file: false\n")
        with Server(self.home, "--config", path, listen=None) as server:
            self.assertIsNone(server.token)
            self.assertEqual("text/html; charset=utf-8", server.get("/api/profilers").headers["content-type"])
            self.assertTrue(server.log().startswith("{"), server.log())
            self.assertFalse((self.home.path / "app.log").exists())
        # A variable comes before the file, an option before both.
        with Server(self.home, "--config", path, "--log-format", "text", listen=None,
                    env={"REST_API_ENABLED": "true", "DRDOTNET_LOG_FORMAT": "json"}) as server:
            self.assertEqual(200, server.get("/api/profilers").status)
            self.assertFalse(server.log().startswith("{"), server.log())

    def test_a_token_in_the_file_opens_and_is_not_told(self):
        path = self.file("listen: 127.0.0.1:0\ntoken: a-token-for-this-test-only\n")
        with Server(self.home, "--config", path, listen=None) as server:
            self.assertIsNone(server.token)
            self.assertEqual(401, server.get("/api/profilers").status)
            self.assertEqual(200, server.get("/api/profilers", Authorization="Bearer a-token-for-this-test-only").status)
            with open(f"/proc/{server.pid}/cmdline") as words, open(f"/proc/{server.pid}/environ") as environment:
                self.assertNotIn("a-token-for", words.read() + environment.read())
        self.assertNotIn("a-token-for", self.home.run("config", "show", "--config", path).out)


if __name__ == "__main__":
    unittest.main()
