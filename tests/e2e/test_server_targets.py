"""What the server gives back of living processes at once: counters, vital signs, stacks, traces, core files, pprof."""

import json
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from drdotnet import PROGRAM, Home, event_streams, gone, side_by_side, wait_until
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True


class TargetsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FRAMEWORKS[-1]))
        cls.server = cls.enterClassContext(Server(cls.home))
        cls.path = f"/api/processes/{cls.patient.pid}"

    def folder_is_empty(self):
        return not [p for work in self.home.path.glob("serve-*") for p in work.iterdir()]

    def test_counters_and_their_history(self):
        first = self.server.get(f"{self.path}/counters").json()
        by_name = {(s["provider"], s["name"]): s for s in first["series"]}
        self.assertIn(("System.Runtime", "gc-heap-size"), by_name)
        for series in first["series"]:
            self.assertLessEqual(len(series["points"]), 1)
        name = ("System.Runtime", "exception-count")

        def points(since):
            answer = self.server.get(f"{self.path}/counters/System.Runtime/exception-count?since={since}").json()
            self.assertEqual([name], [(s["provider"], s["name"]) for s in answer["series"]])
            return answer["series"][0]["points"]
        wait_until(lambda: len(points(0)) >= 3, "three points")
        history = points(0)
        self.assertEqual(sorted(p[0] for p in history), [p[0] for p in history])
        self.assertGreater(max(p[1] for p in history), 0)
        self.assertTrue(all(p[0] > history[0][0] for p in points(history[0][0])))
        only = self.server.get(f"{self.path}/counters/system.runtime").json()
        self.assertEqual({"System.Runtime"}, {s["provider"] for s in only["series"]})
        wait_until(lambda: event_streams(self.patient.pid) == 1, "everybody shares one listener")
        self.assertEqual(400, self.server.get(f"{self.path}/counters?since=x").status)
        self.assertEqual(404, self.server.get("/api/processes/1/counters").status)

    def test_vital_signs(self):
        def mine():
            return next((p["points"] for p in self.server.get("/api/processes/vitals").json()["processes"]
                         if p["id"] == self.patient.pid), [])
        wait_until(lambda: any(p[4] for p in mine()), "exceptions are counted")
        last = mine()[-1]
        self.assertGreater(last[2], 1e6, "resident memory")
        self.assertGreater(last[3], 1e4, "GC heap")
        with self.server.events("/api/events?vitals=true") as events:
            name, data = next(iter(events))
            self.assertEqual("vitals", name)
            self.assertIn(self.patient.pid, [p["id"] for p in data])

    def test_stacks(self):
        text = self.server.get(f"{self.path}/stacks")
        self.assertEqual((200, "text/plain; charset=utf-8"), (text.status, text.headers["content-type"]), text)
        self.assertIn("managed threads", text.text())
        self.assertIn("Patients.Program.Main", text.text())
        as_json = self.server.get(f"{self.path}/stacks", Accept="application/json").json()
        self.assertTrue(any(f["name"] and "Patients.Program.Main" in f["name"] for t in as_json["threads"] for f in t["frames"]))
        self.assertEqual(404, self.server.get("/api/processes/1/stacks").status)
        self.assertEqual(400, self.server.get("/api/processes/x/stacks").status)
        self.assertEqual(400, self.server.get(f"{self.path}/stacks?maxPauseMs=0").status)

    def convertible(self, data, wanted):
        with tempfile.NamedTemporaryFile(suffix=".nettrace") as file:
            file.write(data)
            file.flush()
            done = subprocess.run([PROGRAM, "trace", "report", file.name], capture_output=True, text=True, check=True)
            self.assertIn(wanted, done.stdout)

    def test_a_trace_of_some_seconds(self):
        trace = self.server.get(f"{self.path}/trace?seconds=1&profile=exceptions")
        self.assertEqual((200, "application/octet-stream"), (trace.status, trace.headers["content-type"]), trace)
        self.assertTrue(trace.body.startswith(b"Nettrace"))
        self.convertible(trace.body, "xception")
        flame = self.server.get(f"{self.path}/trace?seconds=1&format=speedscope").json()
        self.assertIn("profiles", flame)
        wait_until(self.folder_is_empty, "nothing is left of it")
        for query, words in (("seconds=0", "seconds"), ("profile=odd", "odd"), ("format=odd", "format"),
                             ("profile=gc&providers=X", "either"), ("providers=:::", "")):
            answer = self.server.get(f"{self.path}/trace?{query}")
            self.assertEqual(400, answer.status, query)
            self.assertIn(words, answer.detail())
        self.assertEqual(404, self.server.get("/api/processes/1/trace?seconds=1").status)

    def test_a_client_that_goes_away_ends_its_trace(self):
        before = event_streams(self.patient.pid)
        connection = self.server.connect()
        connection.request("GET", f"{self.path}/trace?seconds=600&profile=gc", headers=self.server.authorization())
        wait_until(lambda: event_streams(self.patient.pid) > before, "the trace runs")
        connection.close()
        wait_until(lambda: event_streams(self.patient.pid) <= before, "the trace ends")

    def test_a_trace_that_is_started_and_stopped(self):
        self.assertEqual([], self.server.get("/api/traces").json())
        answer = self.server.post("/api/traces", {"processId": self.patient.pid, "profile": "exceptions"})
        self.assertEqual(201, answer.status, answer)
        trace = answer.json()
        self.assertEqual(f"/api/traces/{trace['id']}", answer.headers["location"])
        self.assertEqual((self.patient.pid, "exceptions", True), (trace["processId"], trace["what"], trace["running"]))
        self.assertEqual([trace["id"]], [t["id"] for t in self.server.get("/api/traces").json()])
        self.patient.mark()
        wait_until(lambda: self.patient.truth()["exceptions"]["raised"] > 20, "it throws")
        stopped = self.server.post(f"/api/traces/{trace['id']}/stop")
        self.assertEqual(200, stopped.status, stopped)
        self.convertible(stopped.body, "xception")
        self.assertEqual(404, self.server.post(f"/api/traces/{trace['id']}/stop").status)
        other = self.server.post("/api/traces", {"processId": self.patient.pid, "providers": "System.Runtime"}).json()
        self.assertEqual(204, self.server.ask("DELETE", f"/api/traces/{other['id']}").status)
        wait_until(self.folder_is_empty, "nothing is left of it")
        for body, status in (({}, 400), ({"processId": 1}, 404), ({"processId": self.patient.pid, "profile": "odd"}, 400),
                             ({"processId": self.patient.pid, "maxSeconds": 0}, 400),
                             ({"processId": self.patient.pid, "profile": "a", "providers": "b"}, 400)):
            self.assertEqual(status, self.server.post("/api/traces", body).status, body)
        self.assertEqual([], self.server.get("/api/traces").json())

    def test_a_core_file(self):
        core = self.server.post(f"{self.path}/dump")
        self.assertEqual(200, core.status, core)
        self.assertEqual(b"\x7fELF", core.body[:4])
        self.assertGreater(len(core.body), 10e6)
        self.assertEqual('attachment; filename="core"', core.headers["content-disposition"])
        wait_until(self.folder_is_empty, "nothing is left of it")
        self.assertEqual(405, self.server.get(f"{self.path}/dump").status)
        self.assertEqual(404, self.server.post("/api/processes/1/dump").status)

    def test_go_tool_pprof_opens_the_cpu_profile(self):
        with Patient("cpu", fx=FRAMEWORKS[-1]) as busy, tempfile.TemporaryDirectory() as folder:
            url = f"{self.server.url}/debug/pprof/profile?seconds=1&pid={busy.pid}"
            url = url.replace("://", f"://pprof:{self.server.token}@")
            top = subprocess.run(["go", "tool", "pprof", "-top", url], capture_output=True, text=True,
                                 env={"PATH": "/usr/local/go/bin:/usr/bin:/bin", "HOME": folder, "PPROF_TMPDIR": folder})
            self.assertEqual(0, top.returncode, top.stderr)
            self.assertIn("Shop.Pricing.Quote.Total", top.stdout)
        self.assertEqual(400, self.server.get("/debug/pprof/profile?seconds=0").status)
        self.assertEqual(404, self.server.get("/debug/pprof/profile?pid=1").status)

    def test_go_tool_pprof_opens_the_heap_profile(self):
        with Patient("leak", fx=FRAMEWORKS[-1]) as sick, tempfile.TemporaryDirectory() as folder:
            url = f"{self.server.url}/debug/pprof/heap?pid={sick.pid}"
            url = url.replace("://", f"://pprof:{self.server.token}@")

            def top(*options):
                done = subprocess.run(["go", "tool", "pprof", "-top", *options, url], capture_output=True, text=True,
                                      env={"PATH": "/usr/local/go/bin:/usr/bin:/bin", "HOME": folder, "PPROF_TMPDIR": folder})
                self.assertEqual(0, done.returncode, done.stderr)
                return done.stdout
            self.assertIn("Shop.", top("-cum"))
            self.assertIn("Type: inuse_objects", top("-sample_index=inuse_objects"))
        self.assertEqual(404, self.server.get("/debug/pprof/heap?pid=1").status)

    def test_commands_end_with_the_server(self):
        with Home() as home, Server(home) as server:
            answer = server.post("/api/traces", {"processId": self.patient.pid, "profile": "gc"})
            self.assertEqual(201, answer.status)
            child = int(Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[0])
            server.stop(signal.SIGKILL)
            wait_until(lambda: gone(child), "its commands end too")
            self.assertEqual(1, len(list(home.path.glob("serve-*"))))
            with Server(home) as again:
                self.assertEqual([f"serve-{again.pid}"], [p.name for p in home.path.glob("serve-*")])
            self.assertEqual([], list(home.path.glob("serve-*")))


class ViewersTest(unittest.TestCase):
    def test_streams_end_with_the_last_viewer(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as patient, Server(home) as server:
            with server.events("/api/events?vitals=true") as events, server.events("/api/events?vitals=true") as more:
                for each in (events, more):
                    next(iter(each))
                wait_until(lambda: event_streams(patient.pid) == 1, "the list of patients listens")
            wait_until(lambda: not event_streams(patient.pid), "nobody looks at the list", 60)
            # A page without live events asks every two seconds.
            self.assertEqual(200, server.get("/api/processes/vitals").status)
            wait_until(lambda: event_streams(patient.pid) == 1, "the list is looked at again")
            wait_until(lambda: not event_streams(patient.pid), "nobody asks any more", 60)
            self.assertEqual(200, server.get(f"/api/processes/{patient.pid}/counters").status)
            wait_until(lambda: event_streams(patient.pid) == 1, "its counters are listened to")
            wait_until(lambda: not event_streams(patient.pid), "nobody asks for its counters", 45)


class TurnsTest(unittest.TestCase):
    """Of one process one copy at a time; who only listens need not wait, and other processes are others."""

    def state(self, session):
        return self.server.get(f"/api/sessions/{session['guid']}").json()["state"]

    def take_turns(self, long, second, one, other):
        first = self.server.start(long, one, **({"duration": 600} if long == "memory-leaks" else {"duration_seconds": 600}))
        wait_until(lambda: self.state(first) == "running", "the first runs")
        waits = self.server.start(second, one)
        self.assertEqual("done", self.server.examine("exceptions", one, duration=1)["state"])
        self.assertEqual("done", self.server.examine(second, other)["state"])
        self.assertEqual(("running", "queued"), (self.state(first), self.state(waits)))
        self.assertEqual(202, self.server.post(f"/api/sessions/{first['guid']}/cancel").status)
        self.assertEqual("done", self.server.finish(waits["guid"])["state"])

    def test_by_image(self):
        with Home() as home, Patient("exceptions", fx=FRAMEWORKS[-1]) as one, Patient("leak", fx=FRAMEWORKS[-1]) as other, \
                Server(home) as self.server:
            self.take_turns("memory-leaks", "merged-call-stacks", one.pid, other.pid)

    def test_where_only_sockets_are_seen(self):
        """CPU samples need our library there too, though from outside they would disturb nobody."""
        apart = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with tempfile.TemporaryDirectory() as folder, Home() as home, \
                Patient("exceptions", fx=FRAMEWORKS[-1], env={"TMPDIR": folder}, max_seconds=611), \
                Patient("leak", fx=FRAMEWORKS[-1], env={"TMPDIR": folder}, max_seconds=612):
            self.server = Server(home, env={"TMPDIR": folder}, prefix=apart)
            try:
                # Sockets of other tests may be seen too.
                ids = {p["commandLine"].split("=")[-1]: p["id"] for p in self.server.get("/api/processes").json()}
                self.take_turns("cpu-hotpaths", "merged-call-stacks", ids["611"], ids["612"])
            finally:
                self.server.stop(signal.SIGKILL)  # it hears nothing else


class MetersTest(unittest.TestCase):
    """Instruments of the app itself, against what it knows of them."""

    def check(self, server, pid):
        path = f"/api/processes/{pid}"

        def series(where):
            answer = server.get(f"{path}/{where}")
            self.assertEqual(200, answer.status, answer)
            return answer.json()["series"]
        everything = {(s["provider"], s["name"]) for s in series("meters")}
        for name in ("shop.orders", "shop.temperature", "shop.order.duration"):
            self.assertIn(("Shop.Meters", name), everything)
        heat, = series("meters/Shop.Meters/shop.temperature")
        self.assertEqual((21.5, "gauge", ["value"], "Cel"), (heat["value"], heat["kind"], heat["columns"], heat["unit"]))
        self.assertEqual(["disk=a", "disk=b"], sorted(s["tags"] for s in series("meters/shop.meters/shop.free")))
        wait_until(lambda: len(series("meters/Shop.Meters/shop.order.duration?since=0")[0]["points"]) >= 3, "three points")
        took, = series("meters/Shop.Meters/shop.order.duration?since=0")
        self.assertEqual(["p50", "p95", "p99", "perSecond", "mean"], took["columns"])
        for point in took["points"]:
            self.assertEqual(6, len(point))
        self.assertTrue(any(p[1] and 0.02 < p[1] < p[2] <= p[3] <= 0.11 for p in took["points"]), took["points"])
        later = series(f"meters/Shop.Meters/shop.order.duration?since={took['points'][0][0]}")[0]["points"]
        self.assertTrue(later and all(p[0] > took["points"][0][0] for p in later))
        self.assertEqual([], series("meters/No.Such"))
        # An event source of the app, which only its name leads to.
        own = {s["name"]: s for s in series("counters/Shop-Events")}
        self.assertEqual(21.5, own["temperature"]["value"])
        self.assertEqual({"perSecond", "total"}, set(own["visits"]["columns"]))

    def test_meters_and_event_sources_of_the_app(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("meters", fx=fx) as patient, Server(home) as server:
                self.check(server, patient.pid)
                # One that was replaced when more was asked for takes a moment to end.
                wait_until(lambda: event_streams(patient.pid) == 2, "one listener for the meters, one for the event source")
                server.stop()
                wait_until(lambda: not event_streams(patient.pid), "nothing is left in the process")
                self.assertTrue(patient.alive())

    def test_what_cannot_be_asked_for(self):
        with Home() as home, Patient("meters", fx=FRAMEWORKS[-1]) as patient, Server(home) as server:
            path = f"/api/processes/{patient.pid}"
            self.assertEqual(400, server.get(f"{path}/counters/a%5Bb%5D").status)
            self.assertEqual(400, server.get(f"{path}/meters?since=-1").status)
            self.assertEqual(404, server.get("/api/processes/1/meters").status)
            nothing = server.get(f"{path}/counters/No.Such").json()
            self.assertEqual([], nothing["series"])
            self.assertIn("nothing came from this provider", nothing["notes"][0])
            # Each name costs the process a listener: not any number of them.
            asked = side_by_side({i: lambda i=i: server.get(f"{path}/counters/No.Such{i}").status for i in range(10)})
            answers = [a.result() for a in asked.values()]
            self.assertEqual({200, 409}, set(answers), answers)
            self.assertLessEqual(event_streams(patient.pid), 6)


class CoresTest(unittest.TestCase):
    """Core files: taken, kept, examined, fetched, deleted."""

    def take(self, server, pid, **more):
        answer = server.post("/api/cores", {"processId": pid, **more})
        self.assertEqual(201, answer.status, answer)
        self.assertEqual(f"/api/cores/{answer.json()['name']}", answer.headers["location"])
        return answer.json()

    def examine(self, server, profiler, name):
        answer = server.post("/api/sessions", {"profilerGuid": profiler, "core": name})
        self.assertEqual(200, answer.status, answer)
        return server.finish(answer.json()["guid"])

    def test_the_life_of_a_core(self):
        with Home() as home, Patient("healthy-waits", fx=FRAMEWORKS[-1]) as patient, Server(home) as server:
            self.assertEqual([], server.get("/api/cores").json()["files"])
            core = self.take(server, patient.pid)
            self.assertRegex(core["name"], rf"^sick-{patient.pid}-\d{{8}}-\d{{6}}\.core$")
            self.assertLessEqual(core["diskBytes"], core["bytes"])
            listed = server.get("/api/cores").json()
            self.assertEqual(([core], str(home.path / "cores")), (listed["files"], listed["folder"]))
            self.assertEqual(0o600, (home.path / "cores" / core["name"]).stat().st_mode & 0o777)
            patient.stop()
            # Its process is gone; what it was is in the file.
            done = self.examine(server, "merged-call-stacks", core["name"])
            self.assertEqual(("done", "sick", patient.pid), (done["state"], done["processName"], done["processId"]), done)
            self.assertIn("Shop.Cafe.Waiter.ForMonitor", server.get(f"/api/sessions/{done['guid']}/report.txt").text())
            data = server.get(f"/api/cores/{core['name']}")
            self.assertEqual((200, core["bytes"], b"\x7fELF"), (data.status, len(data.body), data.body[:4]))
            self.assertEqual(204, server.ask("DELETE", f"/api/cores/{core['name']}").status)
            self.assertEqual(404, server.get(f"/api/cores/{core['name']}").status)
            self.assertEqual([], server.get("/api/cores").json()["files"])

    def test_what_is_no_core(self):
        with Home() as home, Patient("healthy-waits", fx=FRAMEWORKS[-1]) as patient, Server(home) as server:
            small = self.take(server, patient.pid, type="mini")
            folder = home.path / "cores"
            (folder / "nonsense.core").write_bytes(b"no core at all")
            (folder / "link.core").symlink_to(home.path / "index.db")
            (folder / ".hidden").write_bytes(b"")
            (folder / "folder").mkdir()
            self.assertEqual({small["name"], "nonsense.core"}, {f["name"] for f in server.get("/api/cores").json()["files"]})
            for name in ("link.core", ".hidden", "folder", "..", "%2e%2e%2findex.db", "x%2Fy", "no.such", "a" * 300):
                self.assertEqual(404, server.get(f"/api/cores/{name}").status, name)
                self.assertEqual(404, server.ask("DELETE", f"/api/cores/{name}").status, name)
            failed = self.examine(server, "crash", "nonsense.core")
            self.assertEqual("failed", failed["state"])
            self.assertIn("nonsense.core", failed["error"])
            order = {"profilerGuid": "heap-stats", "core": small["name"]}
            for body, status, words in (({**order, "processId": patient.pid}, 400, "either"), ({**order, "core": 1}, 400, "core"),
                                        ({**order, "profilerGuid": "exceptions"}, 400, "living process"),
                                        ({**order, "core": "../index.db"}, 404, "index.db"), ({**order, "core": "x"}, 404, "x")):
                answer = server.post("/api/sessions", body, Accept="application/problem+json")
                self.assertEqual(status, answer.status, body)
                self.assertIn(words, answer.detail())
            for body, status in (({}, 400), ({"processId": 1}, 404), ({"processId": patient.pid, "type": "odd"}, 400),
                                 ({"processId": patient.pid, "maxPauseMs": 0}, 400)):
                self.assertEqual(status, server.post("/api/cores", body).status, body)
            self.assertTrue(patient.alive())


if __name__ == "__main__":
    unittest.main()
