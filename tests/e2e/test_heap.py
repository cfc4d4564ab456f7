"""The heap as we walk it against ClrMD: every type's objects, bytes and references, and static fields."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, PROGRAM
from patient import FRAMEWORKS, PATIENTS, Patient

SIDE_BY_SIDE = True

# name -> (server GC, environment): the collectors that a runtime has
COLLECTORS = {
    "workstation": (False, {}),
    "server": (True, {"DOTNET_GCHeapCount": "2", "DOTNET_GCDynamicAdaptationMode": "0"}),
    "segments": (False, {"DOTNET_GCName": "libclrgc.so"}),
}


class AgainstClrmd(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-heap-")))

    def core(self, sickness, fx, collector, **keys):
        server_gc, env = COLLECTORS[collector]
        path = self.folder / f"{fx}.core"
        with Patient(sickness, fx=fx, server_gc=server_gc, env=env, **keys) as patient:
            done = self.home.run("dump", "collect", patient.pid, "--fast", "-o", path, "--max-pause", "10s", "--quiet")
            self.assertEqual(done.code, 0, done)
        return path

    def ours(self, what, core):
        helper = Path(PROGRAM).with_name("drdotnet-dachost")
        done = subprocess.run([Path(PROGRAM).parent / "tests" / "heap_facts", what, core], capture_output=True, text=True,
                              env={**os.environ, "DRDOTNET_DACHOST": str(helper)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def theirs(self, what, core, fx):
        return oracle.run("clrmd", what, core, PATIENTS / "sick" / fx / "libmscordaccore.so").splitlines()

    def compare(self, collector):
        for fx in FRAMEWORKS:
            with self.subTest(fx, collector=collector):
                core = self.core("leak,duplicate-strings,gc-pauses,stuck-tasks", fx, collector, **{"leak.initial": 2000})
                ours = sorted(line for line in self.ours("heap", core) if line.startswith("type"))
                self.assertEqual(ours, sorted(self.theirs("heap", core, fx)))
                self.assertGreater(len(ours), 200)
                # ClrMD leaves out types whose initialiser never ran, instances of generic types and those of threads.
                statics = {" ".join(line.split()[:4]) for line in self.ours("statics", core)}
                known = set(self.theirs("statics", core, fx))
                self.assertEqual(sorted(known - statics), [])
                self.assertGreater(len(known), 100)
                self.assertTrue(any(line.startswith("thread-static") for line in statics))
                # Reachability: roots, references and dependent handles all have to be right for this one number.
                graph = self.ours("graph" if fx == "net8.0" else "graph-plain", core)
                self.assertEqual(graph[0], self.theirs("graph", core, fx)[0])
                roots = [line.split(" ", 5) for line in graph if line.startswith("root ")]
                self.assertIn("Shop.Sessions.SessionStore._sessions", [root[5] for root in roots])
                self.assertGreaterEqual({int(root[1]) for root in roots}, {0, 1, 2, 3})

    def test_workstation(self):
        self.compare("workstation")

    def test_server(self):
        self.compare("server")

    def test_segments(self):
        self.compare("segments")


if __name__ == "__main__":
    unittest.main()
