"""The heap as we walk it against ClrMD: every type's objects, bytes and references, and static fields."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, PROGRAM
from patient import FRAMEWORKS, PATIENTS, Patient, one_of

SIDE_BY_SIDE = True

# name -> (server GC, environment): the collectors that a runtime has
COLLECTORS = {
    "workstation": (False, {}),
    "server": (True, {"DOTNET_GCHeapCount": "2", "DOTNET_GCDynamicAdaptationMode": "0"}),
    "segments": (False, {"DOTNET_GCName": "libclrgc.so"}),
    "server with segments": (True, {"DOTNET_GCHeapCount": "2", "DOTNET_GCName": "libclrgc.so"}),
}

TRIES = 5
IN_DISORDER = "a garbage collection was at work"


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

    def core_and_ours(self, sickness, fx, collector, *more, **keys):
        """A core file and what we see in it. One that was taken while a collection was at work is refused, as it must be:
        then another one is taken."""
        helper = Path(PROGRAM).with_name("drdotnet-dachost")
        for _ in range(TRIES):
            core = self.core(sickness, fx, collector, **keys)
            done = subprocess.run([Path(PROGRAM).parent / "tests" / "heap_facts", "memory", core, *more],
                                  capture_output=True, text=True, env={**os.environ, "DRDOTNET_DACHOST": str(helper)})
            if IN_DISORDER not in done.stderr:
                break
            core.unlink()
        self.assertEqual(done.returncode, 0, done.stderr)
        return core, self.by_kind(done.stdout)

    def theirs(self, core, fx):
        return self.by_kind(oracle.run("clrmd", "memory", core, PATIENTS / "sick" / fx / "libmscordaccore.so"))

    def by_kind(self, text):
        kinds = {}
        for line in text.splitlines():
            kinds.setdefault(line.partition(" ")[0], []).append(line)
        return kinds

    def compare(self, collector):
        for fx in one_of(FRAMEWORKS, list(COLLECTORS).index(collector)):
            with self.subTest(fx, collector=collector):
                # ClrMD does not know the static fields of threads, which since .NET 9 no handle holds.
                core, ours = self.core_and_ours("leak,duplicate-strings,gc-pauses,stuck-tasks", fx, collector,
                                                *([] if fx == "net8.0" else ["without-threads"]), **{"leak.initial": 2000})
                self.assertEqual(ours["layout"], [f"layout {'segments' if 'segments' in collector else 'regions'} "
                                                  f"{'server' if 'server' in collector else 'workstation'}"])
                theirs = self.theirs(core, fx)
                # Objects, bytes, references and their sum, by type.
                self.assertEqual(sorted(ours["type"]), sorted(theirs["type"]))
                self.assertGreater(len(ours["type"]), 200)
                # ClrMD leaves out types whose initialiser never ran, instances of generic types and those of threads.
                statics = {" ".join(line.split()[:4]) for line in ours["static"]}
                self.assertEqual(sorted(set(theirs["static"]) - statics), [])
                self.assertGreater(len(theirs["static"]), 100)
                self.assertTrue(ours["thread-static"])
                # Reachability: roots, references and dependent handles all have to be right for this one number.
                self.assertEqual(ours["reached"], theirs["reached"])
                # Roots by kind: how many different objects, and the sum of their addresses.
                self.assertEqual(sorted(ours["roots"]), sorted(theirs["roots"]))
                self.assertLessEqual({"stack", "strong"}, {line.split()[1] for line in ours["roots"]})
                # Objects taken away at random: with each goes what it retains.
                taken, several, wrong = map(int, ours["removed"][0].split()[1:])
                self.assertGreaterEqual(min(taken, several), 20)
                self.assertEqual(wrong, 0)
                ways, wrong = map(int, ours["paths"][0].split()[1:])
                self.assertGreater(ways, 1000)
                self.assertEqual(wrong, 0)
                roots = [line.split(" ", 5) for line in ours["root"]]
                self.assertIn("Shop.Sessions.SessionStore._sessions", [root[5] for root in roots])
                self.assertGreaterEqual({int(root[1]) for root in roots}, {0, 1, 2, 3})

    def test_workstation(self):
        self.compare("workstation")

    def test_server(self):
        self.compare("server")

    def test_segments(self):
        self.compare("segments")

    def test_server_with_segments(self):
        self.compare("server with segments")


if __name__ == "__main__":
    unittest.main()
