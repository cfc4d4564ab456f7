"""drdotnet run crash: five deaths told apart, from cores of the runtime, the kernel and gdb."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, PROGRAM, Report, for_each_result, side_by_side
from patient import FRAMEWORKS, PATIENTS, Patient, diagonal

SIDE_BY_SIDE = True

SOURCE = (Path(__file__).resolve().parents[1] / "patients" / "sick" / "Crash.cs").read_text().splitlines()
# What the patient does: finding, a part of the verdict, and the text of the line that the verdict names.
DEATHS = {
    "unhandled": ("unhandled-exception", "System.InvalidOperationException: the books do not balance",
                  'throw new InvalidOperationException("the books do not balance", unreadable);'),
    "stackoverflow": ("stack-overflow", "calls itself", "RecurseForEver(page + 1) + 1;"),
    "oom": ("out-of-memory", "the managed heap held 1", "Papers.Add(new byte[1 << 20]);"),
    "segv": ("native-crash", "touched address 0x40, in ", "memset((void*)64, 0, 8);"),
    "failfast": ("fail-fast", "saying: the ledger is inconsistent", 'Environment.FailFast("the ledger is inconsistent"'),
}
SIGNALS = {"segv": "SIGSEGV"}
MINI, HEAP = 1, 2


def line_of(text):
    return next(i for i, line in enumerate(SOURCE, 1) if text in line)


def die(folder, fx, kind, dump_type):
    """The core that the runtime writes at its end, and who it was."""
    core = folder / f"{fx}-{kind}"
    env = {"DOTNET_DbgEnableMiniDump": "1", "DOTNET_DbgMiniDumpType": str(dump_type), "DOTNET_DbgMiniDumpName": str(core)}
    if kind == "stackoverflow":  # of a small one: the runtime takes its time over every frame
        env["DOTNET_DefaultStackSize"] = env["DOTNET_Thread_DefaultStackSize"] = "40000"
    with Patient("crash", fx=fx, env=env, kind=kind) as patient:
        truth = patient.truth()["crash"]
        patient.send("crash")
        patient.wait(300)
    return core, patient.pid, truth


def examine(home, core, *more):
    done = home.run("run", "crash", "--core", core, "--json", *more)
    if done.code:
        raise AssertionError(repr(done))
    return Report(done.json())


class Deaths(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-crash-")))

        def one(fx, kind):
            # The newest runtime's with the heap, the others' small, which lack the names of threads (and of methods,
            # when the stack is deep).
            heap = fx == FRAMEWORKS[-1] or kind in ("oom", "stackoverflow")
            core, pid, truth = die(folder, fx, kind, HEAP if heap else MINI)
            report = examine(cls.home, core)
            core.unlink()
            return report, pid, {**truth, "heap": heap}

        cls.results = side_by_side({(fx, kind): lambda fx=fx, kind=kind: one(fx, kind)
                                    for fx, kind in diagonal(FRAMEWORKS, DEATHS)}, workers=2)

    @for_each_result
    def test_what_it_died_of(self, key, report, pid, truth):
        fx, kind = key
        finding, words, text = DEATHS[kind]
        self.assertEqual(report.finding, finding, report.verdict)
        self.assertEqual(report.health, "bad")
        self.assertIn(words, report.verdict)
        self.assertIn(truth["method"], report.verdict)
        self.assertRegex(report.verdict, f"thread {truth['thread']}" if truth["heap"] else r"thread \d+")
        self.assertIn(f"Crash.cs:{line_of(text)}", report.verdict)
        self.assertEqual(report.figures["Signal"], SIGNALS.get(kind, "SIGABRT"))
        self.assertEqual(report.data["facts"]["targetId"], pid)

    @for_each_result
    def test_inner_exceptions(self, key, report, pid, truth):
        fx, kind = key
        if kind == "unhandled":
            rows = report.rows("Exceptions, each caused by the next")
            self.assertEqual([(r["Type"], r["Message"]) for r in rows],
                             [("System.InvalidOperationException", "the books do not balance"),
                              ("System.FormatException", "page 17 is unreadable")])
            self.assertEqual(rows[1]["lines"][:2],
                             ["Shop.Accounting.Auditor.ReadBooks", "Shop.Accounting.Auditor.FindMistake"])
            self.assertIn(f"Crash.cs:{line_of('page 17 is unreadable')}", report.verdict)
        elif kind == "failfast":
            rows = report.rows("Exceptions, each caused by the next")
            self.assertIn(("System.InvalidOperationException", "debit is not credit"),
                          [(r["Type"], r["Message"]) for r in rows])

    @for_each_result
    def test_recursion_is_folded(self, key, report, pid, truth):
        if key[1] == "stackoverflow":
            rows = report.rows("Stack of the thread that died")
            self.assertLess(len(rows), 20)
            self.assertGreater(max(r["Times"] for r in rows), 1000)

    @for_each_result
    def test_memory_at_the_end(self, key, report, pid, truth):
        if key[1] == "oom":
            self.assertGreater(report.figures["Managed heap"], 150 << 20)


class AgainstClrmd(unittest.TestCase):
    def test_exceptions(self):
        """Type, message, inner ones and every frame of the stacks that they carry."""
        with tempfile.TemporaryDirectory(prefix="drdotnet-crash-") as folder:
            for fx in FRAMEWORKS:
                with self.subTest(fx):
                    core, _, _ = die(Path(folder), fx, "unhandled", HEAP)
                    done = subprocess.run([Path(PROGRAM).parent / "tests" / "dac_facts", core, "exceptions"], capture_output=True, text=True,
                                          env={**os.environ, "DRDOTNET_DACHOST": str(Path(PROGRAM).with_name("drdotnet-dachost"))})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    theirs = oracle.run("clrmd", "exceptions", core, PATIENTS / "sick" / fx / "libmscordaccore.so")
                    core.unlink()
                    mine = done.stdout.splitlines()
                    self.assertEqual(mine, theirs.splitlines())
                    self.assertEqual(sum(line.startswith("exception ") for line in mine), 2)
                    self.assertGreater(len(mine), 5)


class OtherCores(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-crash-")))

    def test_of_the_kernel(self):
        """Pages of assemblies are not in it: they come from disk, and it is said that nothing proves them."""
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        if pattern.startswith(("|", "/")):
            self.skipTest(f"the kernel hands cores to '{pattern}'")
        prefix = ("sh", "-c", f'ulimit -c unlimited; cd {self.folder}; exec "$0" "$@"')
        with Patient("crash", prefix=prefix, kind="unhandled") as patient:
            patient.send("crash")
            patient.wait(300)
        core, = self.folder.iterdir()
        report = examine(self.home, core)
        self.assertEqual(report.finding, "unhandled-exception")
        self.assertIn("System.InvalidOperationException: the books do not balance", report.verdict)
        self.assertIn("Shop.Accounting.Auditor.FindMistake", report.verdict)
        self.assertIn("System.FormatException: page 17 is unreadable", report.verdict)
        self.assertGreater(report.how["Assemblies"]["value"], 0)
        self.assertEqual(report.figures["Signal"], "SIGABRT")

    def test_of_gdb(self):
        with Patient("deadlock") as patient:
            subprocess.run(["gcore", "-o", self.folder / "core", str(patient.pid)], check=True, capture_output=True)
        self.assert_alive(self.folder / f"core.{patient.pid}")

    def test_of_a_living_process(self):
        with Patient("deadlock") as patient:
            done = self.home.run("dump", "collect", patient.pid, "--fast", "--type", "mini", "-o", self.folder / "core", "-q")
            self.assertEqual(done.code, 0, done)
        self.assert_alive(self.folder / "core")

    def assert_alive(self, core):
        report = examine(self.home, core)
        self.assertEqual((report.finding, report.health), ("alive", "info"))
        self.assertIn("It had not died", report.verdict)

    def test_replayed_and_damaged(self):
        """What was read is kept: the report can be made again without the core. A damaged core never hangs us."""
        core, pid, _ = die(self.folder, FRAMEWORKS[-1], "unhandled", MINI)
        first = examine(self.home, core)
        session = self.home.sessions()[0]
        size = core.stat().st_size
        for part in (0.9, 0.5, 0.1):
            os.truncate(core, int(size * part))
            done = self.home.run("run", "crash", "--core", core)
            self.assertIn(done.code, (0, 1, 3), done)
            self.assertTrue(done.out or done.err)
        core.unlink()
        again = self.home.run("run", "crash", "--session", session["guid"], "--json")
        self.assertEqual(again.code, 0, again)
        self.assertEqual(Report(again.json()).verdict, first.verdict)

    def test_without_source(self):
        """Another build's PDB is named and not used."""
        folder = self.folder / "app"
        shutil.copytree(PATIENTS / "sick" / "net10.0", folder, copy_function=os.link)
        (folder / "sick.pdb").unlink()
        shutil.copy(PATIENTS / "sick" / "net9.0" / "sick.pdb", folder / "sick.pdb")
        env = {**os.environ, "DOTNET_DbgEnableMiniDump": "1", "DOTNET_DbgMiniDumpType": "1",
               "DOTNET_DbgMiniDumpName": str(self.folder / "core")}
        subprocess.run([folder / "sick", "crash", "kind=unhandled", "after=0.1"], env=env, stdin=subprocess.PIPE,
                       capture_output=True, timeout=120)
        report = examine(self.home, self.folder / "core")
        self.assertNotIn("Crash.cs", report.verdict)
        self.assertIn("another build", report.how["No source lines"]["value"])


if __name__ == "__main__":
    unittest.main()
