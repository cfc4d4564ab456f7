"""drdotnet serve over real HTTP: the Dr-Dotnet contract, everything beside it, and what happens to bad requests."""

import contextlib
import gzip
import io
import json
import re
import signal
import socket
import unittest
import zipfile

from drdotnet import Home, wait_until
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True

EXCEPTIONS = "805A308B-061C-47F3-9B30-F785C3186E82"
NO_SUCH = "00000000-0000-0000-0000-000000000000"
SESSION_FIELDS = {"guid": str, "uuid": str, "timestampDate": str, "timestamp": str, "path": str, "isCompleted": bool,
                  "processName": str, "profiler": dict}
PROFILER_FIELDS = {"guid": str, "uuid": str, "name": str, "description": str, "parameters": list}
PARAMETER_FIELDS = {"key": str, "name": str, "description": str, "type": int, "value": str, "valueInt32": int,
                    "valueFloat32": (int, float), "valueBoolean": bool}
# uuid -> (key, type): what clients of the contract may send.
CONTRACT_PROFILERS = {
    EXCEPTIONS: [("duration", 2)],
    "805A308B-061C-47F3-9B30-F785C3186E84": [],
    "805A308B-061C-47F3-9B30-F785C3186E85": [],
    "805A308B-061C-47F3-9B30-A485B2056E71": [("duration_seconds", 2), ("time_interval_ms", 2),
                                            ("filter_suspended_threads", 4), ("caller_to_callee", 4), ("max_stacks", 2)],
}


class ServerTest(unittest.TestCase):
    """One server and one patient for all; tests leave both as they found them."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FRAMEWORKS[-1]))
        cls.server = cls.enterClassContext(Server(cls.home))
        cls.done = cls.server.examine("exceptions", cls.patient.pid, duration=1)

    def assert_fields(self, value, fields):
        for name, kind in fields.items():
            self.assertIn(name, value)
            self.assertIsInstance(value[name], kind, name)

    # ---- the contract ----

    def test_processes(self):
        answer = self.server.get("/api/processes")
        self.assertEqual((200, "application/json; charset=utf-8"), (answer.status, answer.headers["content-type"]))
        mine = next(p for p in answer.json() if p["id"] == self.patient.pid)
        self.assertEqual("sick", mine["managedAssemblyName"])
        self.assertRegex(mine["version"], r"^\d+\.\d+\.\d+$")
        self.assertEqual(answer.json()[0].keys(), self.server.get("/API/Processes/").json()[0].keys())

    def test_profilers(self):
        profilers = self.server.get("/api/profilers").json()
        by_uuid = {p["uuid"].lower(): p for p in profilers}
        for profiler in profilers:
            self.assert_fields(profiler, PROFILER_FIELDS)
            self.assertEqual(profiler["guid"], profiler["uuid"].lower())
            for parameter in profiler["parameters"]:
                self.assert_fields(parameter, PARAMETER_FIELDS)
        for uuid, parameters in CONTRACT_PROFILERS.items():
            keys = {p["key"]: p for p in by_uuid[uuid.lower()]["parameters"]}
            self.assertEqual(uuid, by_uuid[uuid.lower()]["uuid"])
            for key, kind in parameters:
                self.assertEqual(kind, keys[key]["type"], key)

    def test_a_session_as_a_client_of_the_contract_runs_it(self):
        answer = self.server.post("/api/sessions", {
            "ProfilerGuid": EXCEPTIONS.lower(), "processId": self.patient.pid,
            "parameters": [{"key": "duration", "valueInt32": 1}]})
        self.assertEqual(200, answer.status, answer)
        session = answer.json()
        self.assert_fields(session, SESSION_FIELDS)
        self.assert_fields(session["profiler"], PROFILER_FIELDS)
        self.assertFalse(session["isCompleted"])
        self.assertRegex(session["timestampDate"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
        self.assertRegex(session["timestamp"], r"^\d\d/\d\d/\d{4} \d\d:\d\d:\d\d$")
        self.assertEqual("1", session["profiler"]["parameters"][0]["value"])
        self.assertEqual(f"/api/sessions/{session['guid']}", answer.headers["location"])
        done = self.server.finish(session["guid"])
        self.assertEqual(("done", True), (done["state"], done["isCompleted"]), done)
        self.assertIn("throws in", done["verdict"])
        upper = self.server.get(f"/api/sessions/{session['guid'].upper()}").json()
        self.assertEqual(done, upper)
        listed = self.server.get("/api/sessions").json()
        self.assertEqual(session["guid"], next(s["guid"] for s in listed if s["guid"] == session["guid"]))
        archive = self.server.get(f"/api/sessions/{session['guid']}/download")
        self.assertEqual("application/zip", archive.headers["content-type"])
        self.assertEqual(f"attachment; filename=session-{session['guid']}.zip", archive.headers["content-disposition"])
        names = zipfile.ZipFile(io.BytesIO(archive.body)).namelist()
        self.assertIn("summary.md", names)
        self.assertIn("report.html", names)
        self.assertNotIn("session.json", names)
        self.assertFalse([n for n in names if "/" in n])

    def test_sentences_of_the_contract(self):
        body = {"profilerGuid": EXCEPTIONS, "processId": self.patient.pid}
        cases = [
            (lambda h: self.server.get(f"/api/sessions/{NO_SUCH}", **h), f"No session found with guid '{NO_SUCH}'"),
            (lambda h: self.server.get(f"/api/sessions/{NO_SUCH}/download", **h), f"No session found with guid '{NO_SUCH}'"),
            (lambda h: self.server.post("/api/sessions", {**body, "profilerGuid": NO_SUCH}, **h),
             f"No profiler found with guid '{NO_SUCH}'"),
            (lambda h: self.server.post("/api/sessions", {**body, "processId": 1}, **h), "No process found with pid '1'"),
            (lambda h: self.server.post("/api/sessions", {**body, "parameters": [{"key": "x", "value": "1"}]}, **h),
             "No parameter found with key 'x'"),
        ]
        for ask, sentence in cases:
            with self.subTest(sentence):
                plain, as_json, problem = ask({}), ask({"Accept": "application/json"}), ask({"Accept": "application/problem+json"})
                self.assertEqual((404, sentence), (plain.status, plain.text()))
                self.assertEqual((404, sentence), (as_json.status, as_json.json()))
                self.assertEqual(sentence, problem.detail())

    # ---- beside it ----

    def test_a_process_and_its_ways(self):
        details = self.server.get(f"/api/processes/{self.patient.pid}").json()
        self.assertEqual(["events", "samples", "image", "agent", "proc"], [w["way"] for w in details["ways"]])
        self.assertTrue(details["ways"][0]["open"])
        for way in details["ways"]:
            self.assertTrue(way["how"] if way["open"] else way["why"])
        self.assertEqual(404, self.server.get("/api/processes/1").status)
        self.assertEqual(400, self.server.get("/api/processes/sick").status)

    def test_the_report_in_every_form(self):
        path = f"/api/sessions/{self.done['guid']}"
        by_extension = {e: self.server.get(f"{path}/report.{e}") for e in ("json", "md", "html", "txt")}
        for accept, extension in (("application/json", "json"), ("text/markdown", "md"), ("text/html,*/*;q=0.8", "html"),
                                  ("text/plain", "txt"), ("*/*", "json")):
            answer = self.server.get(f"{path}/report", Accept=accept)
            self.assertEqual(200, answer.status)
            self.assertEqual(by_extension[extension].body, answer.body, accept)
        self.assertEqual(self.done["verdict"], by_extension["json"].json()["verdict"]["plain"])
        self.assertIn("sandbox", by_extension["html"].headers["content-security-policy"])
        self.assertEqual(406, self.server.get(f"{path}/report", Accept="image/png").status)

    def test_files(self):
        path = f"/api/sessions/{self.done['guid']}/files"
        files = {f["name"]: f for f in self.server.get(path).json()}
        for name in ("report.json", "report.html", "log.txt", "summary.md"):
            answer = self.server.get(f"{path}/{name}")
            self.assertEqual(files[name]["bytes"], len(answer.body), name)
            self.assertEqual(files[name]["mediaType"], answer.headers["content-type"])
        self.assertEqual('attachment; filename="summary.md"',
                         self.server.get(f"{path}/summary.md?download=true").headers["content-disposition"])
        for name in ("session.json", "nothing", "recording", "..", "%2e%2e%2findex.db", "..%2fx", "%00", "log.txt%00.html"):
            self.assertEqual(404, self.server.get(f"{path}/{name}").status, name)
        self.assertIn("exceptions on sick", self.server.get(f"/api/sessions/{self.done['guid']}/log").text())

    def test_lists_can_be_narrowed(self):
        def guids(query):
            return [s["guid"] for s in self.server.get(f"/api/sessions?{query}").json()]
        mine = self.done["guid"]
        for query in ("state=done", "state=finished", "profiler=exceptions", f"profiler={EXCEPTIONS}", "process=sick",
                      f"processId={self.patient.pid}", "q=throws%20in", f"q={mine}"):
            self.assertIn(mine, guids(query), query)
        for query in ("state=failed", "state=unfinished", "profiler=runtime-pauses", "process=other", "processId=1", "q=zzz"):
            self.assertNotIn(mine, guids(query), query)
        self.assertEqual(1, len(guids("limit=1")))
        self.assertEqual(1, len(guids("limit=1&q=sick")))
        for query in ("state=odd", "limit=0", "limit=x", "processId=-1", "profiler=odd"):
            self.assertEqual(400, self.server.get(f"/api/sessions?{query}").status, query)

    def test_live_events_of_one_session_end_with_it(self):
        session = self.server.start("exceptions", self.patient.pid, duration=1)
        with self.server.events("/api/events") as all_events, \
             self.server.events(f"/api/sessions/{session['guid']}/events") as events:
            seen = list(events)
            last = next(data for name, data in all_events if name == "session" and data["guid"] == session["guid"]
                        and data["isCompleted"])
        names = [name for name, _ in seen]
        self.assertEqual("session", names[0])
        self.assertIn("progress", names)
        self.assertIn("log", names)
        self.assertEqual((True, "done"), (seen[-1][1]["isCompleted"], seen[-1][1]["state"]))
        self.assertEqual(last, seen[-1][1])
        numbers = [data["number"] for name, data in seen if name == "log"]
        self.assertEqual(sorted(set(numbers)), list(range(1, max(numbers) + 1)))
        # Afterwards the same, at once.
        with self.server.events(f"/api/sessions/{session['guid']}/events") as events:
            again = list(events)
        self.assertEqual(("session", seen[-1][1]), again[0])
        self.assertEqual(max(numbers), len([1 for name, _ in again if name == "log"]))

    def test_cancel_keeps_what_was_seen_and_delete_removes_it(self):
        session = self.server.start("exceptions", self.patient.pid, duration=600)
        path = f"/api/sessions/{session['guid']}"
        wait_until(lambda: self.server.get(path).json()["progressText"] == "listening", "it listens")
        self.assertEqual(409, self.server.ask("DELETE", path).status)
        self.assertEqual(409, self.server.get(f"{path}/report").status)
        self.assertEqual(409, self.server.get(f"{path}/download").status)
        self.assertEqual(202, self.server.post(f"{path}/cancel").status)
        done = self.server.finish(session["guid"])
        self.assertEqual("cancelled", done["state"])
        self.assertEqual(200, self.server.get(f"{path}/report").status)
        self.assertEqual(409, self.server.post(f"{path}/cancel").status)
        self.assertEqual(204, self.server.ask("DELETE", path).status)
        self.assertEqual(404, self.server.get(path).status)
        self.assertEqual(404, self.server.ask("DELETE", path).status)
        self.assertNotIn(session["guid"], self.home.folders())

    def test_sessions_of_the_command_line_are_seen_and_can_be_cancelled(self):
        with self.home.start("exceptions", self.patient.pid, "-d", "600s", "--json") as job:
            job.wait_for("listening")
            running = self.server.get("/api/sessions?state=running").json()
            self.assertEqual(1, len(running))
            self.assertEqual(202, self.server.post(f"/api/sessions/{running[0]['guid']}/cancel").status)
            self.assertEqual(130, job.finish().code)
        self.assertEqual("cancelled", self.server.get(f"/api/sessions/{running[0]['guid']}").json()["state"])

    def test_the_server_about_itself(self):
        self.assertEqual((200, "ok\n"), (self.server.get("/healthz").status, self.server.get("/healthz").text()))
        self.assertEqual("full", self.server.get("/api/server").json()["scope"])
        metrics = dict(re.findall(r"^(\w+) ([\d.e+]+)$", self.server.get("/metrics").text(), re.M))
        self.assertGreaterEqual(float(metrics["drdotnet_sessions_done_total"]), 1)
        self.assertGreater(float(metrics["process_resident_memory_bytes"]), 1e6)
        lines = self.server.get("/api/server/logs").json()
        audit = next(line for line in lines if line["text"].startswith("audit: 127.0.0.1 starts exceptions on sick"))
        later = self.server.get(f"/api/server/logs?since={audit['number']}").json()
        self.assertEqual(audit["number"] + 1, later[0]["number"])

    def test_pages_and_their_policy(self):
        for path in ("/", "/processes", f"/profilers/{self.patient.pid}", f"/job/{self.patient.pid}/{EXCEPTIONS}",
                     f"/sessions/{self.done['guid']}", "/index.html"):
            page = self.server.get(path)
            self.assertEqual((200, "text/html; charset=utf-8"), (page.status, page.headers["content-type"]), path)
            policy = page.headers["content-security-policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual("nosniff", page.headers["x-content-type-options"])
        self.assertNotRegex(page.text(), r"<script(?![^>]*\bsrc=)[^>]*>|\son\w+=|style=")
        self.assertEqual(304, self.server.get("/", If_None_Match=page.headers["etag"]).status)
        for path in ("/nothing.js", "/assets/", "/assets/x.js", "/api/nothing", "/swagger/x"):
            self.assertEqual(404 if path != "/assets/" else 200, self.server.get(path).status, path)

    def test_the_openapi_document_tells_the_truth(self):
        """Every route it names answers, and what it answers has the fields it names."""
        document = self.server.get("/swagger/v1/swagger.json").json()
        self.assertTrue(document["openapi"].startswith("3."))
        schemas = document["components"]["schemas"]
        places = {"{id}": str(self.patient.pid), "{guid}": self.done["guid"], "{name}": "report.json",
                  "{provider}": "System.Runtime", "{meter}": "System.Runtime", "{instrument}": "dotnet.gc.collections",
                  "{other}": self.done["guid"]}
        checked = set()
        for path, operations in document["paths"].items():
            if "get" not in operations or path in ("/api/events", "/api/link") or path.startswith(("/debug/", "/share/", "/api/cores/")) or path.endswith("/trace"):
                continue  # those last, or are told to some only, and have tests of their own
            for place, value in places.items():
                path = path.replace(place, value)
            success = operations["get"]["responses"].get("200", {}).get("content", {})
            answer = self.server.get(path)
            self.assertEqual(200, answer.status, (path, answer))
            kind = answer.headers["content-type"].split(";")[0]
            if operations["get"]["operationId"] != "getFile":
                self.assertIn(kind, success, path)
            schema = success.get("application/json", {}).get("schema", {})
            one = schema.get("items", schema).get("$ref", "").rpartition("/")[2]
            if one and one != "Report" and kind == "application/json":
                values = answer.json() if schema.get("type") == "array" else [answer.json()]
                for value in values[:5]:
                    self.assertEqual(set(schemas[one]["properties"]), set(value), path)
                checked.add(one)
        self.assertLessEqual({"ProcessInfo", "ProcessDetails", "ProfilerInfo", "SessionInfo", "FileInfo", "ServerInfo"}, checked)

    def test_two_sessions_can_be_compared(self):
        mine = self.done["guid"]
        other = self.server.examine("exceptions", self.patient.pid, duration=2)["guid"]
        both = self.server.get(f"/api/sessions/{mine}/compare/{other}").json()
        figure = next(f for f in both["figures"] if f["label"] == "Throws")
        self.assertGreater(figure["change"], 0, "twice as long")
        self.assertAlmostEqual(figure["after"] - figure["before"], figure["change"])
        table = both["tables"][0]
        changes = [abs(row["change"]) for row in table["rows"] if row["change"] is not None]
        self.assertEqual(sorted(changes, reverse=True), changes)
        self.assertEqual("grew", figure["status"])
        self.assertLessEqual({row["status"] for row in table["rows"]}, {"grew", "shrank", "new", "gone", "same"})
        self.assertEqual(len(table["columns"]), len(table["rows"][0]["names"]))
        # One comparison: the command line prints what REST serves.
        printed = self.home.run("sessions", "compare", mine, other, "--json")
        self.assertEqual(0, printed.code, printed)
        self.assertEqual(json.loads(printed.out), both["report"])
        self.assertEqual("grew", both["report"]["verdict"]["finding"])
        odd = self.server.examine("runtime-pauses", self.patient.pid, duration=1)["guid"]
        self.assertIn("one profiler", self.server.get(f"/api/sessions/{mine}/compare/{odd}").detail())
        self.assertEqual(404, self.server.get(f"/api/sessions/{mine}/compare/{NO_SUCH}").status)

    def test_swagger(self):
        moved = self.server.get("/swagger")
        if moved.status == 404:
            self.skipTest("built without node")
        self.assertEqual((302, "/swagger/index.html"), (moved.status, moved.headers["location"]))
        page = self.server.get("/swagger/index.html")
        for name in re.findall(r'(?:src|href)="([\w.-]+)"', page.text()):
            plain, packed = self.server.get(f"/swagger/{name}"), self.server.get(f"/swagger/{name}", Accept_Encoding="gzip, br")
            self.assertEqual((200, 200), (plain.status, packed.status), name)
            if "content-encoding" in packed.headers:
                self.assertEqual(plain.body, gzip.decompress(packed.body), name)

    def test_a_finished_session_has_progress_1(self):
        self.assertEqual(1, self.server.get(f"/api/sessions/{self.done['guid']}").json()["progress"])
        kept = next(s for s in self.home.sessions() if s["guid"] == self.done["guid"])
        self.assertEqual(("done", 1), (kept["state"], kept["progress"]))

    # ---- bad input ----

    def test_bad_bodies(self):
        good = {"profilerGuid": EXCEPTIONS, "processId": self.patient.pid}
        before = len(self.home.folders())
        for body, status, words in (
                (b"", 400, "empty"), (b"{", 400, "not JSON"), (b"[]", 400, "object"), (b"\xff\xfe", 400, "not JSON"),
                (b"[" * 100000, 400, "not JSON"), (json.dumps({**good, "profilerGuid": None}).encode(), 400, "profilerGuid"),
                (json.dumps({**good, "processId": "x"}).encode(), 400, "processId"),
                (json.dumps({**good, "surprise": 1}).encode(), 400, "surprise"),
                (json.dumps({**good, "parameters": [{"key": "duration", "value": "abc"}]}).encode(), 400, "abc"),
                (json.dumps({**good, "parameters": [{"key": "duration", "value": "99999999"}]}).encode(), 400, "86400"),
                (json.dumps({**good, "way": "image"}).encode(), 400, "events"),
                (b" " * 300000, 413, "256 KB")):
            answer = self.server.post("/api/sessions", body)
            self.assertEqual(status, answer.status, (body[:60], answer))
            self.assertIn(words, answer.detail())
        for path in ("/api/traces", "/api/cores", "/api/commands", "/api/login", f"/api/sessions/{self.done['guid']}/shares"):
            for body, words in ((b"{", "not JSON"), (b"[]", "object"), (b'{"surprise": 1}', "surprise")):
                answer = self.server.post(path, body)
                self.assertEqual(400, answer.status, (path, answer))
                self.assertIn(words, answer.detail())
        for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
            answer = self.server.ask("POST", "/api/sessions", json.dumps(good).encode(), {"Content-Type": kind})
            self.assertEqual(415, answer.status)
            self.assertIn("application/json", answer.detail())
        self.assertEqual(before, len(self.home.folders()))
        self.assertTrue(self.patient.alive())

    def test_bad_addresses_and_methods(self):
        for guid in ("x", "..", "1", "805A308B-061C-47F3-9B30-F785C3186E8", "%27"):
            self.assertEqual(400, self.server.get(f"/api/sessions/{guid}/log").status, guid)
        answer = self.server.ask("PATCH", "/api/sessions")
        self.assertEqual((405, "GET, HEAD, POST"), (answer.status, answer.headers["allow"]))
        self.assertEqual("GET, HEAD", self.server.ask("DELETE", "/api/processes").headers["allow"])
        self.assertEqual((204, "GET, HEAD, DELETE"),
                         ((a := self.server.ask("OPTIONS", f"/api/sessions/{NO_SUCH}")).status, a.headers["allow"]))
        self.assertEqual(404, self.server.get("/api/nothing").status)
        self.assertEqual(404, self.server.post("/processes").status)
        head, get = self.server.ask("HEAD", "/api/profilers"), self.server.get("/api/profilers")
        self.assertEqual((200, b""), (head.status, head.body))
        self.assertEqual(get.headers["content-length"], head.headers["content-length"])
        self.assertIn(self.server.get("/api/sessions/" + "a" * 5000).status, (400, 414))

    def test_bytes_that_are_no_http(self):
        for data in (b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00" * 50,
                     b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: " + b"y" * 40000 + b"\r\n\r\n",
                     b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
                     b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                     b"POST /api/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"):
            reply = self.server.raw(data, seconds=1.0)
            if reply:
                self.assertRegex(reply, rb"^HTTP/1\.\d [45]\d\d |^HTTP/1\.\d 200", data[:40])
        self.assertEqual(200, self.server.get("/healthz").status)

    def test_parts_of_files_are_given_whole(self):
        """Ranges may be ignored, never answered wrongly."""
        path = f"/api/sessions/{self.done['guid']}/report.html"
        whole = self.server.get(path)
        for wanted in ("bytes=0-9", "bytes=-1", "bytes=99999999-", "lines=1-2", "bytes=5-1,7-"):
            part = self.server.get(path, Range=wanted)
            self.assertEqual((200, whole.body), (part.status, part.body), wanted)

    def test_clients_that_do_not_read(self):
        """Their answers wait in the kernel, not in us; others are answered meanwhile."""
        before, idle = self.server.rss_bytes(), []
        try:
            for _ in range(100):
                s = socket.socket()
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                s.connect((self.server.host, self.server.port))
                s.sendall(f"GET /api/profilers HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.server.token}\r\n\r\n".encode() * 20)
                idle.append(s)
            for _ in range(20):
                self.assertEqual(200, self.server.get("/api/profilers").status)
            self.assertLess(self.server.rss_bytes(), before + 32 * 1048576)
        finally:
            for s in idle:
                s.close()

    def half_closed(self):
        with socket.create_connection((self.server.host, self.server.port), timeout=30) as s:
            s.sendall(f"GET /api/profilers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.server.token}\r\n"
                      "Connection: close\r\n\r\n".encode())
            s.shutdown(socket.SHUT_WR)
            reply = b""
            while chunk := s.recv(65536):
                reply += chunk
        return reply

    def test_a_half_closed_client_gets_its_answer(self):
        """Also where it is not the only one."""
        with contextlib.ExitStack() as others:
            for _ in range(10):
                reply = self.half_closed()
                self.assertTrue(reply.startswith(b"HTTP/1.1 200"), reply[:100])
                others.enter_context(socket.create_connection((self.server.host, self.server.port)))

    def test_a_process_that_vanishes(self):
        with Patient("healthy-waits", fx=FRAMEWORKS[-1]) as short:
            pid = short.pid
            session = self.server.start("exceptions", pid, duration=600)
            wait_until(lambda: self.server.get(f"/api/sessions/{session['guid']}").json()["progressText"] == "listening", "it listens")
        done = self.server.finish(session["guid"])
        self.assertTrue(done["state"] == "failed" or done["partial"], done)
        self.assertEqual(404, self.server.post("/api/sessions", {"profilerGuid": EXCEPTIONS, "processId": pid}).status)


class SwitchesTest(unittest.TestCase):
    def test_without_ui_or_api(self):
        with Home() as home:
            with Server(home, "--no-web-ui") as server:
                self.assertEqual(404, server.get("/").status)
                self.assertEqual(404, server.get("/processes").status)
                self.assertEqual(200, server.get("/api/profilers").status)
            with Server(home, env={"REST_API_ENABLED": "false"}) as server:
                page = server.get("/api/processes")
                self.assertEqual((200, "text/html; charset=utf-8"), (page.status, page.headers["content-type"]))
                self.assertEqual(200, server.get("/healthz").status)
            done = home.run("serve", "--listen", "127.0.0.1:0", "--no-web-ui", env={"REST_API_ENABLED": "0"})
            self.assertEqual(2, done.code)
            self.assertIn("nothing to serve", done.err)
            self.assertEqual(2, home.run("serve", env={"WEB_UI_ENABLED": "perhaps"}).code)

    def test_where_it_listens(self):
        with Home() as home:
            for bad in ("", "x", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "no.such.host.invalid:1"):
                self.assertEqual(2, home.run("serve", "--listen", bad).code, bad)
            with Server(home) as server:
                done = home.run("serve", "--listen", f"127.0.0.1:{server.port}")
                self.assertEqual(1, done.code)
                self.assertIn("in use", done.err)
            with Server(home, listen="[::1]:0") as server:
                self.assertEqual(200, server.get("/healthz").status)

    def test_stopping_cancels_what_runs_and_what_waits(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient:
            with Server(home) as server:
                guids = [server.start("exceptions", patient.pid, duration=600)["guid"] for _ in range(6)]
                wait_until(lambda: len(server.get("/api/sessions?state=running").json()) == 4, "four run")
                self.assertEqual(2, len(server.get("/api/sessions?state=queued").json()))
                with server.events("/api/events"):
                    self.assertEqual(0, server.stop(signal.SIGINT))
            states = {s["guid"]: s for s in home.sessions()}
            self.assertEqual(set(guids), set(states))
            for session in states.values():
                self.assertEqual("cancelled", session["state"])
            self.assertTrue(patient.alive())


if __name__ == "__main__":
    unittest.main()
