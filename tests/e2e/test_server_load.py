"""The server under load, under clients that mean ill, and killed while it works."""

import os
import re
import resource
import signal
import socket
import subprocess
import unittest

from drdotnet import Home, gone, wait_until
from patient import FRAMEWORKS, Patient
from server import Server

KILLS = int(os.environ.get("DRDOTNET_SERVER_KILLS", "10"))
CONNECTIONS = 10000
BODIES, BODY_BYTES = 200, 250_000
MEGABYTE = 1 << 20


class LoadTest(unittest.TestCase):
    def test_many_lists_while_sessions_wait(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient, Server(home) as server:
            guids = [server.start("exceptions", patient.pid, duration=600)["guid"] for _ in range(20)]
            sizes = []
            for path in ("/api/sessions", "/api/profilers", "/api/processes") * 2:
                done = subprocess.run(["wrk", "-t", "2", "-c", "200", "-d", "2s", "--timeout", "30s", "-H",
                                       f"Authorization: Bearer {server.token}", server.url + path],
                                      capture_output=True, text=True, check=True)
                self.assertNotRegex(done.stdout, "Non-2xx|Socket errors", path)
                self.assertGreater(int(re.search(r"(\d+) requests in", done.stdout)[1]), 200, done.stdout)
                sizes.append(server.rss_bytes())
            # The second round finds what the first one left: no growth with the number of requests.
            self.assertLess(max(sizes[3:]), max(sizes[:3]) + 16 * MEGABYTE, sizes)
            queued = server.get("/api/sessions?state=queued").json()
            self.assertEqual(16, len(queued))
            for guid in guids:
                self.assertEqual(202, server.post(f"/api/sessions/{guid}/cancel").status)
            wait_until(lambda: not server.get("/api/sessions?state=unfinished").json(), "all have ended")
            self.assertEqual({"cancelled"}, {s["state"] for s in home.sessions()})
            self.assertTrue(patient.alive())

    def test_ten_thousand_connections_that_say_nothing(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = CONNECTIONS + 200
        self.assertGreaterEqual(hard, wanted, "this test needs many descriptors")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        idle = []
        try:
            with Home() as home, Server(home) as server:
                for n in range(CONNECTIONS):
                    idle.append(socket.create_connection((server.host, server.port), timeout=30))
                    idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nHo" if n % 2 else b"")
                    if n == CONNECTIONS // 4:
                        early = server.rss_bytes()
                    if n % 1000 == 999:
                        self.assertEqual(200, server.get("/healthz").status)
                self.assertLess(server.rss_bytes(), early + 24 * MEGABYTE)
                self.assertLess(server.rss_bytes(), 64 * MEGABYTE)
        finally:
            for each in idle:
                each.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_large_bodies_are_not_kept(self):
        with Home() as home, Server(home) as server:
            before = server.rss_bytes()
            for _ in range(20):
                head = b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" \
                    + f"Authorization: Bearer {server.token}\r\n".encode()
                reply = server.raw(head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
                                   + (b"%x\r\n" % 65536 + b" " * 65536 + b"\r\n") * 16 + b"0\r\n\r\n", seconds=10)
                self.assertTrue(reply.startswith(b"HTTP/1.1 413"), reply[:60])
            self.assertLess(server.rss_bytes(), before + 8 * MEGABYTE)

    def test_memory_is_given_back(self):
        """Many large bodies at a time, several times: what they took is the machine's again once they are answered."""
        body = b" " * BODY_BYTES
        with Home() as home, Server(home) as server:
            head = (f"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n"
                    f"Authorization: Bearer {server.token}\r\nContent-Length: {BODY_BYTES}\r\n\r\n").encode()
            self.assertEqual(400, server.post("/api/sessions", body).status)
            before = server.rss_bytes()
            for _ in range(3):
                clients = [socket.create_connection((server.host, server.port), timeout=60) for _ in range(BODIES)]
                for client in clients:
                    client.sendall(head + body[:-1])
                wait_until(lambda: server.rss_bytes() > before + BODIES * BODY_BYTES // 2, "the bodies are held")
                for client in clients:
                    client.sendall(b" ")
                    self.assertTrue(client.recv(100).startswith(b"HTTP/1.1 400"))
                    client.close()
            wait_until(lambda: server.rss_bytes() < before + 6 * MEGABYTE, "the memory is given back", 60)


class KillTest(unittest.TestCase):
    SIDE_BY_SIDE = True

    DURATIONS = (600, 1, 600, 600, 600, 1)

    def check_whole(self, server, sessions):
        for session in sessions:
            self.assertTrue(session["isCompleted"], session)
            report = server.get(f"/api/sessions/{session['guid']}/report.json")
            self.assertEqual(200 if session["verdict"] else 404, report.status, session)
            self.assertTrue(session["verdict"] or session["error"], session)

    def test_killed_while_sessions_run(self):
        """After every restart each session that was started is there, ended, and nothing is half."""
        # All are kept: what is deleted for its age would look like a loss.
        keep = {"DRDOTNET_KEEP_COUNT": str(KILLS * len(self.DURATIONS) + 10)}
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1], max_seconds=600 + 20 * KILLS) as patient:
            started, last = [], []
            for _ in range(KILLS):
                server = Server(home, env=keep)
                sessions = {s["guid"]: s for s in server.get("/api/sessions").json()}
                self.assertEqual(set(started), set(sessions))
                self.check_whole(server, [sessions[guid] for guid in last])
                last = [server.start("exceptions", patient.pid, duration=d)["guid"] for d in self.DURATIONS]
                started += last
                wait_until(lambda: server.get("/api/sessions?state=running").json(), "some run")
                workers = open(f"/proc/{server.pid}/task/{server.pid}/children").read().split()
                server.stop(signal.SIGKILL)
                for worker in workers:
                    wait_until(lambda w=int(worker): gone(w), "its workers end")
            self.assertTrue(patient.alive())
            with Server(home, env=keep) as server:
                self.assertEqual([], server.get("/api/sessions?state=unfinished").json())
                self.assertEqual(set(started), set(home.folders()))
                self.check_whole(server, server.get("/api/sessions").json())
                self.assertEqual("done", server.examine("exceptions", patient.pid, duration=1)["state"])


if __name__ == "__main__":
    unittest.main()
