"""The server as part of a system: TLS, systemd, logs, webhooks, the order of sessions, and the examples of the docs."""

import http.server
import json
import os
import queue
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from drdotnet import DEADLINE_SECONDS, PROGRAM, ROOT, Home, wait_until
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True


class Receiver:
    """Takes posts and keeps their bodies."""

    def __init__(self, status=200):
        self.posts = queue.Queue()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(status)
                self.end_headers()
                receiver.posts.put((self.path, json.loads(body)))

            def log_message(self, *_):
                pass
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class ServiceTest(unittest.TestCase):
    def test_the_examples_of_the_docs(self):
        page = (ROOT / "docs/automation.md").read_text()
        script = "set -euo pipefail\n" + "\n".join(re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M))
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient, Receiver() as receiver, \
                Server(home) as server, tempfile.TemporaryDirectory() as folder:
            # Another machine may run the same name at the same time: the one we started is meant.
            script = script.replace('echo "$NAME is $PID"', f"PID={patient.pid}").replace("'\"$NAME\"'", str(patient.pid))
            os.symlink(PROGRAM, f"{folder}/drdotnet")
            done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=DEADLINE_SECONDS,
                                  env={"PATH": f"{folder}:{os.environ['PATH']}", "DRDOTNET": server.url, "NAME": "sick", "DRDOTNET_HOME": str(home.path),
                                       "WEBHOOK": f"{receiver.url}/hook?x=1", "TMPDIR": folder, "HOME": folder})
            self.assertEqual(0, done.returncode, done)
            for words in ("throws in 2 s", f"{server.url}/sessions/", '"alert":"ManyExceptions"', "cpu-usage",
                          "drdotnet_sessions_done_total", "throws in 1", "managed threads"):
                self.assertIn(words, done.stdout)
            self.assertNotIn('"session":null', done.stdout)
            path, told = receiver.posts.get(timeout=DEADLINE_SECONDS)
            self.assertEqual(("/hook?x=1", "done"), (path, told["state"]))
            self.assertIn("throws in", told["verdict"])

    def test_alerts_that_start_nothing(self):
        with Home() as home, Server(home) as server:
            def answers(*alerts):
                return server.post("/api/alerts", {"alerts": list(alerts)}).json()
            self.assertEqual([], answers())
            self.assertEqual([], answers({"status": "resolved", "labels": {}}))
            for labels, words in (({}, "drdotnet_profiler"), ({"drdotnet_profiler": "odd", "drdotnet_target": "x"}, "odd"),
                                  ({"drdotnet_profiler": "exceptions", "drdotnet_target": "no.such.app"}, "no.such.app"),
                                  ({"drdotnet_profiler": "exceptions", "drdotnet_target": "x", "drdotnet_duration": "x"}, "x")):
                answer, = answers({"labels": {"alertname": "A", **labels}})
                self.assertIsNone(answer["session"])
                self.assertIn(words, answer["error"])
            self.assertEqual(400, server.post("/api/alerts", {"alerts": 1}).status)
            self.assertEqual(400, server.post("/api/alerts", {}).status)

    def test_webhooks_of_all_sessions_and_those_that_fail(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient, Receiver() as good, Receiver(500) as bad:
            with Server(home, "--webhook", good.url) as server:
                order = {"profilerGuid": "exceptions", "processId": patient.pid, "webhook": bad.url,
                         "parameters": [{"key": "duration", "value": 1}]}
                guid = server.post("/api/sessions", order).json()["guid"]
                self.assertEqual(guid, good.posts.get(timeout=DEADLINE_SECONDS)[1]["guid"])
                for _ in range(3):
                    bad.posts.get(timeout=DEADLINE_SECONDS)
                wait_until(lambda: "was not delivered: it answered 500" in server.log(), "the failure is logged")
                for webhook in ("x", "ftp://x", 1, "http://a b"):
                    self.assertEqual(400, server.post("/api/sessions", {**order, "webhook": webhook}).status, webhook)
            self.assertEqual(2, home.run("serve", "--webhook", "nonsense").code)

    def test_tls(self):
        with Home() as home, tempfile.TemporaryDirectory() as folder:
            cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                           check=True, capture_output=True)
            with Server(home, "--tls-cert", cert, "--tls-key", key, "--token", "a-token-over-tls") as server:
                self.assertTrue(server.url.startswith("https://127.0.0.1:"))
                context = ssl.create_default_context(cafile=cert)
                with urllib.request.urlopen(f"{server.url}/healthz", context=context) as answer:
                    self.assertEqual(b"ok\n", answer.read())
                login = urllib.request.Request(f"{server.url}/api/login", b'{"token":"a-token-over-tls"}',
                                               {"Content-Type": "application/json"})
                with urllib.request.urlopen(login, context=context) as answer:
                    self.assertIn("; Secure", answer.headers["Set-Cookie"])
                remote = ("profilers", "--server", server.url, "--token", "a-token-over-tls")
                done = home.run(*remote, "--ca-file", cert)
                self.assertEqual((0, home.run("profilers").out), (done.code, done.out), done)
                unknown = home.run(*remote)
                self.assertEqual(4, unknown.code)
                self.assertIn("not trusted", unknown.err)
                self.assertFalse(server.raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", seconds=2).startswith(b"HTTP/1.1 200"))
            self.assertEqual(2, home.run("serve", "--tls-cert", cert).code)
            self.assertEqual(2, home.run("serve", "--listen", "127.0.0.1:0", "--tls-cert", key, "--tls-key", cert).code)
            self.assertEqual(3, home.run("serve", "--listen", "127.0.0.1:0", "--tls-cert", "/no/such", "--tls-key", key).code)

    def test_systemd_is_told(self):
        with Home() as home, tempfile.TemporaryDirectory() as folder, \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(f"{folder}/notify")
            notify.settimeout(DEADLINE_SECONDS)
            with Server(home, env={"NOTIFY_SOCKET": f"{folder}/notify"}) as server:
                self.assertTrue(notify.recv(1000).startswith(b"READY=1"))
                server.stop()
                self.assertEqual(b"STOPPING=1", notify.recv(1000))
        unit = (ROOT / "deploy/drdotnet.service").read_text()
        self.assertIn("Type=notify", unit)

    def test_logs(self):
        with Home() as home:
            with Server(home, "--log-format", "json") as server:
                server.post("/api/login", {"token": "x"})
            lines = [json.loads(line) for line in server.log().splitlines()]
            self.assertTrue(lines[0]["message"].startswith("listening on http://127.0.0.1"))
            self.assertIn(("warn", "audit: 127.0.0.1 showed a wrong token"), [(l["level"], l["message"]) for l in lines])
            self.assertEqual(server.log(), (home.path / "app.log").read_text())
            with Server(home, "--no-file-logging", "--no-console-logging") as server:
                pass
            self.assertEqual("", server.log())
            self.assertEqual(1, (home.path / "app.log").read_text().count("listening"))

    def test_sessions_take_turns_and_may_finish(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient:
            with Server(home, "--max-sessions", "1", "--on-stop", "finish") as server:
                first = server.start("exceptions", patient.pid, duration=2)["guid"]
                second = server.start("exceptions", patient.pid, duration=2)["guid"]
                wait_until(lambda: server.get(f"/api/sessions/{first}").json()["progressText"] == "listening", "the first runs")
                self.assertEqual("queued", server.get(f"/api/sessions/{second}").json()["state"])
                self.assertEqual(0, server.stop(signal.SIGTERM))
            states = {s["guid"]: s for s in home.sessions()}
            self.assertEqual(("done", "cancelled"), (states[first]["state"], states[second]["state"]))
            self.assertEqual(2, home.run("serve", "--max-sessions", "0").code)
            self.assertEqual(2, home.run("serve", "--on-stop", "explode").code)


if __name__ == "__main__":
    unittest.main()
