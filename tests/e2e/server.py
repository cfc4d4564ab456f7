"""Starts `drdotnet serve` for the end-to-end tests and speaks HTTP with it.

    with Home() as home, Server(home) as server:
        answer = server.get("/api/processes")
        answer.status, answer.headers["content-type"], answer.json()
        session = server.examine("exceptions", patient.pid, duration=2)
        server.anybody().get("/api/processes").status     # 401: the others show the token of the printed link
"""

import copy
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
import time
from urllib.parse import urlsplit

from drdotnet import DEADLINE_SECONDS, PROGRAM


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    def json(self):
        return json.loads(self.body)

    def text(self):
        return self.body.decode()

    def detail(self):
        """Of a problem document."""
        problem = self.json()
        if self.headers["content-type"] != "application/problem+json; charset=utf-8" or problem["status"] != self.status:
            raise AssertionError(f"no problem document: {self!r}")
        return problem["detail"]

    def __repr__(self):
        return f"{self.status} {self.headers}\n{self.body[:2000]!r}"


class Events:
    """Server-sent events, one by one."""

    def __init__(self, response, connection):
        self._response, self._connection = response, connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._connection.close()

    def __iter__(self):
        name, data = None, None
        while line := self._response.readline():
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
            elif not line and name:
                yield name, data
                name = data = None


class Server:
    def __init__(self, home, *arguments, listen="127.0.0.1:0", env=None, prefix=()):
        self.home = home
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [*prefix, PROGRAM, "serve", *(["--listen", listen] if listen else []), *map(str, arguments)], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=self._log, env={**os.environ, "DRDOTNET_HOME": str(home.path), **(env or {})})
        self.pid = self._process.pid
        if not select.select([self._process.stdout], [], [], DEADLINE_SECONDS)[0]:
            self._process.kill()
            raise AssertionError("the server did not start")
        self.link = self._process.stdout.readline().decode().strip()
        self.url, _, query = self.link.partition("/?")
        self.token = query.removeprefix("token=") or None
        if not self.url:
            self._process.wait()
            raise AssertionError(f"the server did not start: {self.log()}")
        self.host, self.port = urlsplit(self.url).hostname, urlsplit(self.url).port
        if self.host in ("0.0.0.0", "::"):
            self.host = "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def log(self):
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    def stop(self, number=signal.SIGTERM):
        """Ends it; returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(DEADLINE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                raise AssertionError(f"the server did not stop: {self.log()}") from None
        self._process.stdout.close()
        return self._process.wait()

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def anybody(self):
        """The same server for who has no token."""
        other = copy.copy(self)
        other.token = None
        return other

    def authorization(self):
        """The header of who has the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def connect(self):
        return http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_SECONDS)

    def ask(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            connection.request(method, path, body, self._with_token(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, response.getheaders(), response.read())
        finally:
            connection.close()

    def _with_token(self, headers):
        return headers if "Cookie" in headers else {**self.authorization(), **headers}

    def get(self, path, **headers):
        return self.ask("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path, value=None, **headers):
        body = value if isinstance(value, (bytes, type(None))) else json.dumps(value).encode()
        names = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.ask("POST", path, body, {"Content-Type": "application/json", **names})

    def raw(self, data, seconds=DEADLINE_SECONDS):
        """Bytes in, all bytes out until the server closes or falls silent."""
        with socket.create_connection((self.host, self.port), timeout=seconds) as s:
            s.sendall(data)
            out = b""
            try:
                while chunk := s.recv(65536):
                    out += chunk
            except TimeoutError:
                pass
            return out

    def events(self, path, **headers):
        connection = self.connect()
        connection.request("GET", path, headers=self._with_token({name.replace("_", "-"): value for name, value in headers.items()}))
        response = connection.getresponse()
        if response.status != 200:
            raise AssertionError(f"{path}: {response.status} {response.read()!r}")
        return Events(response, connection)

    def start(self, profiler, pid, **parameters):
        """Starts a session; returns its SessionInfo."""
        answer = self.post("/api/sessions", {
            "profilerGuid": profiler, "processId": pid,
            "parameters": [{"key": key, "value": str(value)} for key, value in parameters.items()]})
        if answer.status != 200:
            raise AssertionError(repr(answer))
        return answer.json()

    def finish(self, guid, seconds=DEADLINE_SECONDS):
        """Waits for its end; returns its SessionInfo."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with self.events(f"/api/sessions/{guid}/events") as events:
                for name, data in events:
                    if name == "session" and data["isCompleted"]:
                        return data
        raise AssertionError(f"session {guid} did not end")

    def examine(self, profiler, pid, **parameters):
        return self.finish(self.start(profiler, pid, **parameters)["guid"])
