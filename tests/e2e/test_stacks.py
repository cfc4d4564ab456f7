"""drdotnet stacks: against ClrMD, against what the patients know, and against everything that can be wrong."""

import json
import os
import pwd
import random
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, PROGRAM, wait_until
from patient import FRAMEWORKS, PATIENTS, Patient, diagonal, one_of

SIDE_BY_SIDE = True

DAC = "libmscordaccore.so"
SEED = int(os.environ.get("DRDOTNET_SEED", str(time.time_ns() % 1_000_000)))
DAMAGES = 10
SICK = Path(__file__).resolve().parents[1] / "patients" / "sick"
# Runtime packs of the patients' versions: where publishing them has put them.
PACKS = Path(os.environ.get("NUGET_PACKAGES", Path.home() / ".nuget/packages")) / "microsoft.netcore.app.runtime.linux-x64"


def dac_of(fx):
    return PATIENTS / "sick" / fx / DAC


def lines(stacks):
    """The JSON of `stacks` in the words of tests/oracle/clrmd."""
    result = []
    for thread in stacks["threads"]:
        result.append(f"thread {thread['managedId']} {thread['osId'] or 0}")
        result += [f"{f['ip'][2:]} {f['sp'][2:]} {f['frame'] or '-'} {f['method'] or '-'}" for f in thread["frames"]]
    return result


class Stacks(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-stacks-")))

    def stacks(self, *arguments, **where):
        done = self.home.run("stacks", *arguments, "--json", **where)
        self.assertEqual(done.code, 0, done)
        return done.json()

    def core_of(self, patient, name="core"):
        path = self.folder / name
        done = self.home.run("dump", "collect", patient.pid, "--fast", "-o", path, "--max-pause", "10s", "--quiet")
        self.assertEqual(done.code, 0, done)
        return path

    def refused(self, code, *words, arguments, env=None):
        done = self.home.run("stacks", *arguments, env=env)
        self.assertEqual(done.code, code, done)
        self.assertEqual(done.out, "")
        for word in words:
            self.assertIn(str(word), done.err)


class AgainstClrmd(Stacks):
    """Every frame of every thread: address, stack pointer, kind, method. From a core, and from a copy of the process."""

    def compare(self, sickness, fx, server_gc, **keys):
        with Patient(sickness, fx=fx, server_gc=server_gc, **keys) as patient:
            core = self.core_of(patient)
        ours = lines(self.stacks("--core", core))
        theirs = oracle.stacks(core, dac_of(fx))
        self.assertEqual(ours, theirs)
        self.assertGreater(len(ours), 20)

    def test_busy_core_workstation(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                self.compare("cpu,exceptions,starvation", fx, False, **{"cpu.path": "all"})

    def test_busy_core_server(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                self.compare("cpu,gc-pauses,stuck-tasks", fx, True, **{"cpu.path": "generic"})

    def test_copy_and_core_of_a_still_process(self):
        """Nothing moves in a deadlock: the living process, our core and the runtime's own core must agree."""
        for fx, server_gc in diagonal(FRAMEWORKS, (False, True)):
            with self.subTest(fx, server_gc=server_gc), Patient("deadlock", fx=fx, server_gc=server_gc) as patient:
                live, core, runtimes_own = self.still(patient, fx)
                self.assertEqual(patient.truth()["deadlock"], patient.truth()["deadlock"])
                theirs = oracle.stacks(core, dac_of(fx))
                self.assertEqual(live, theirs)
                self.check_lines(self.stacks("--core", core))
                self.assertEqual(lines(self.stacks("--core", core)), theirs)
                self.assertEqual(lines(self.stacks("--core", runtimes_own)), theirs)

    def still(self, patient, fx):
        """The three, while no thread came or went: the runtime has some of its own for a while after a start."""
        def threads():
            return sorted(os.listdir(f"/proc/{patient.pid}/task"))

        for _ in range(10):
            before = threads()
            for name in ("core", "createdump"):
                (self.folder / name).unlink(missing_ok=True)
            live = lines(self.stacks(patient.pid))
            core = self.core_of(patient)
            runtimes_own = self.folder / "createdump"
            subprocess.run([PATIENTS / "sick" / fx / "createdump", "-h", "-f", runtimes_own, str(patient.pid)],
                           check=True, stdout=subprocess.DEVNULL)
            if threads() == before:
                return live, core, runtimes_own
        self.fail("its threads never stay the same")

    def check_lines(self, found):
        """The frame that waits stands at the inner lock; its own assembly has lines, the framework none."""
        source = (SICK / "Deadlocks.cs").read_text().splitlines()
        frames = [f for t in found["threads"] for f in t["frames"] if f["name"] == "Shop.Bank.Ledger.TransferByMonitor"]
        self.assertEqual({source[f["line"] - 1].strip() for f in frames}, {"lock (to.Gate)"})
        self.assertTrue(all(f["file"].endswith("/Deadlocks.cs") for f in frames))
        self.assertEqual(found["noSourceLines"], [])
        self.assertTrue(all(f["file"] is None for t in found["threads"] for f in t["frames"]
                            if (f["module"] or "").endswith("System.Private.CoreLib.dll")))


class Lines(Stacks):
    def test_against_the_metadata_reader(self):
        for fx in ("net8.0", "net10.0"):
            pdb = PATIENTS / "sick" / fx / "sick.pdb"
            theirs = oracle.run("pdb", pdb)
            ours = subprocess.run([Path(PROGRAM).parent / "tests" / "pdb_facts", pdb], input=theirs, text=True,
                                  capture_output=True, check=True).stdout
            self.assertEqual(ours.splitlines(), theirs.splitlines())
            kinds = [line.split()[0] for line in ours.splitlines()]
            self.assertGreater(kinds.count("line"), 1000)
            self.assertGreater(kinds.count("local"), 100)
            self.assertGreater(kinds.count("kickoff"), 5)

    def test_of_another_build(self):
        """It is said, and not used."""
        folder = self.folder / "app"
        shutil.copytree(PATIENTS / "sick" / "net10.0", folder, copy_function=os.link)
        (folder / "sick.pdb").unlink()
        os.link(PATIENTS / "sick" / "net9.0" / "sick.pdb", folder / "sick.pdb")
        process = subprocess.Popen([folder / "sick", "deadlock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            try:
                self.assertTrue(process.stdout.readline().startswith("READY"))
                done = self.home.run("stacks", process.pid)
                found = self.stacks(process.pid)
            finally:
                process.kill()
        self.assertIn(f"no source lines: '{folder}/sick.pdb': it belongs to another build", done.out)
        self.assertEqual(len(found["noSourceLines"]), 1)
        self.assertTrue(all(f["file"] is None for t in found["threads"] for f in t["frames"]))


class FactsAgainstClrmd(Stacks):
    """Modules, segments, handles, types with their fields, locks, stack references, IL maps."""

    KINDS = {"module", "segment", "handle", "type", "field", "sync", "ref", "il"}

    def compare(self, fx, server_gc, env=None, handles_hidden=False):
        with Patient("deadlock,leak,stuck-tasks", fx=fx, server_gc=server_gc, env=env) as patient:
            core = self.core_of(patient)
        helper = Path(PROGRAM).with_name("drdotnet-dachost")
        done = subprocess.run([Path(PROGRAM).parent / "tests" / "dac_facts", core], capture_output=True, text=True,
                              env={**os.environ, "DRDOTNET_DACHOST": str(helper)})
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = set(done.stdout.splitlines())
        theirs = set(oracle.run("clrmd", "facts", core, dac_of(fx)).splitlines())
        more = {line.split()[0] for line in ours - theirs} if handles_hidden else set()
        self.assertLessEqual(more, {"handle", "type", "field"}, "handles, and the types of what they hold")
        self.assertEqual(sorted(line for line in ours - theirs if line.split()[0] not in more), [], "only we see")
        self.assertEqual(sorted(theirs - ours), [], "only ClrMD sees")
        self.assertEqual({line.split()[0] for line in ours}, self.KINDS)

    def test_workstation(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                self.compare(fx, False)

    def test_server(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx):
                self.compare(fx, True, env={"DOTNET_GCDynamicAdaptationMode": "0"})

    def test_server_that_adapts(self):
        """With fewer heaps than processors, ClrMD sees the handles of as many processors as there are heaps."""
        for fx in FRAMEWORKS[-1:]:
            with self.subTest(fx):
                self.compare(fx, True, handles_hidden=True)


class AgainstThePatient(Stacks):
    def test_threads_that_begin_and_end(self):
        """Before its first managed frame and after its last a thread has none, and not one at address 0."""
        with Patient("churn") as patient:
            for _ in range(8):
                frames = [f for t in self.stacks(patient.pid, "--max-pause", "10s")["threads"] for f in t["frames"]]
                self.assertGreater(len(frames), 20)
                self.assertFalse([f for f in frames if int(f["ip"], 16) == 0])
            patient.truth()

    def test_blocked_threads(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("blocked", fx=fx, threads=30) as patient:
                found = self.stacks(patient.pid)
                shop = [t for t in found["threads"] if any((f["name"] or "").startswith("Shop.") for f in t["frames"])]
                self.assertEqual(len(shop), 30)
                self.assertFalse(any(t["incomplete"] or t["failure"] for t in found["threads"]))
                self.assertTrue(all(t["name"] for t in shop), "the patient names its threads")
                self.assertTrue(all("waiting" in t["state"] or "background" in t["state"] for t in shop))
                self.assertGreater(found["pauseMs"], 0)
                managed = [f for t in shop for f in t["frames"] if not f["frame"]]
                self.assertTrue(all(f["nativeOffset"] is not None and f["method"] for f in managed))
                with_il = sum(f["ilOffset"] is not None for f in managed)
                self.assertGreater(with_il, len(managed) * 0.8)
                self.assertTrue(any((f["module"] or "").endswith("sick.dll") for f in managed))

    def test_exceptions_in_flight(self):
        with Patient("exceptions", rate=0, kind="simple") as patient:
            seen = []
            for _ in range(10):
                seen += [t["exception"] for t in self.stacks(patient.pid)["threads"] if t["exception"]]
            self.assertTrue(seen)
            self.assertTrue(all(e["type"].startswith("Shop.") or e["type"].startswith("System.") for e in seen), seen)
            patient.truth()

    def test_deep_stack(self):
        with Patient("cpu", path="deep", depth=20000) as patient:
            # At most instants it is at the bottom; at some it is on its way there.
            wait_until(lambda: max(len(t["frames"]) for t in self.stacks(patient.pid)["threads"]) > 20000, "it is at the bottom")

    def test_text(self):
        with Patient("deadlock") as patient:
            done = self.home.run("stacks", patient.pid)
        self.assertEqual(done.code, 0, done)
        self.assertIn(f"sick ({patient.pid}): ", done.out)
        self.assertRegex(done.out, r'thread \d+ "transfer-savings" · tid \d+ · background · waiting\n')
        self.assertRegex(done.out, r"    Shop\.Bank\.Ledger\.TransferByMonitor +Deadlocks\.cs:\d+\n")
        self.assertNotIn("\t", done.out)

    def test_in_another_pid_namespace(self):
        with Patient("deadlock", prefix=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")) as patient:
            found = self.stacks(patient.pid)
        names = [f["name"] for t in found["threads"] for f in t["frames"]]
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", names)
        busy = [t for t in found["threads"] if t["osId"] == 1]
        self.assertEqual(len(busy), 1, "the main thread is 1 there")

    @unittest.skipUnless(os.geteuid() == 0, "only root can become someone else")
    def test_as_an_ordinary_user(self):
        """His own process yes, another's no."""
        nobody = pwd.getpwnam("nobody")
        prefix = ("setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups")
        with Patient("deadlock", user="nobody") as own, Patient("healthy") as foreign, \
                tempfile.TemporaryDirectory() as home:
            os.chown(home, nobody.pw_uid, nobody.pw_gid)
            # Nobody goes first on a busy machine: he allows a long pause instead.
            found = self.stacks(own.pid, "--max-pause", "10s", prefix=prefix, env={"DRDOTNET_HOME": home})
            self.assertIn("Shop.Bank.Ledger.TransferByMonitor", [f["name"] for t in found["threads"] for f in t["frames"]])
            done = self.home.run("stacks", foreign.pid, prefix=prefix, env={"DRDOTNET_HOME": home})
            self.assertEqual(done.code, 4, done)
            self.assertEqual(done.out, "")
            foreign.truth()
            own.truth()

    def test_nothing_is_left(self):
        with Patient("healthy") as patient:
            for _ in range(3):
                self.stacks(patient.pid)
            children = Path(f"/proc/{patient.pid}/task/{patient.pid}/children").read_text().split()
            self.assertEqual(children, [])
            patient.truth()


class TheRightLibrary(Stacks):
    """The data-access library is found, or the file that would help is named."""

    def without_library(self, fx="net10.0"):
        """A copy of the patient without it; hard links, so that it is quick."""
        folder = self.folder / "app"
        shutil.copytree(PATIENTS / "sick" / fx, folder, copy_function=os.link)
        (folder / DAC).unlink()
        return folder

    def start(self, folder):
        process = subprocess.Popen([folder / "sick", "deadlock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertTrue(process.stdout.readline().startswith("READY"))
        return process.pid

    def version(self, fx):
        config = json.loads((PATIENTS / "sick" / fx / "sick.runtimeconfig.json").read_text())
        return config["runtimeOptions"]["includedFrameworks"][0]["version"]

    def test_missing(self):
        pid = self.start(self.without_library())
        self.refused(3, "libmscordaccore.so' is not there", "DRDOTNET_RUNTIME_PACKS", arguments=[pid])
        image = self.home.run("check", pid, "--json").json()["ways"]["image"]
        self.assertFalse(image["open"])
        self.assertIn("libmscordaccore.so' is not there", image["why"])
        core = self.core_of_pid(pid)
        self.refused(3, "libmscordaccore.so' is not there", f"of .NET {self.version('net10.0')}", "DRDOTNET_RUNTIME_PACKS",
                     arguments=["--core", core])

    def core_of_pid(self, pid):
        path = self.folder / "core"
        done = self.home.run("dump", "collect", pid, "--fast", "-o", path, "--max-pause", "10s", "--quiet")
        self.assertEqual(done.code, 0, done)
        return path

    def test_from_a_runtime_pack(self):
        pack = self.folder / "packs" / "some.pack" / "1.0" / "native"
        pack.mkdir(parents=True)
        for name in (DAC, "libcoreclr.so"):
            os.link(PATIENTS / "sick" / "net10.0" / name, pack / name)
        other = self.folder / "packs" / "other.pack"
        other.mkdir()
        for name in (DAC, "libcoreclr.so"):
            os.link(PATIENTS / "sick" / "net8.0" / name, other / name)
        pid = self.start(self.without_library())
        core = self.core_of_pid(pid)
        env = {"DRDOTNET_RUNTIME_PACKS": str(self.folder / "packs")}
        found = self.stacks("--core", core, env=env)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", [f["name"] for t in found["threads"] for f in t["frames"]])
        live = self.stacks(pid, env=env)
        self.assertEqual(lines(live), lines(found))

    def test_single_file(self):
        """It carries no library: the pack of its version has it, found by the build id in its memory."""
        program = oracle.single_file_patient()
        pid = self.start(program.parent)
        self.refused(3, "a single-file application", f"of .NET {self.version('net10.0')} (build id ", arguments=[pid])
        self.assertTrue(PACKS.exists(), "publishing it has fetched the runtime pack")
        env = {"DRDOTNET_RUNTIME_PACKS": str(PACKS)}
        self.assertTrue(self.home.run("check", pid, "--json", env=env).json()["ways"]["image"]["open"])
        live = self.stacks(pid, env=env)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", [f["name"] for t in live["threads"] for f in t["frames"]])
        self.assertEqual(lines(self.stacks("--core", self.core_of_pid(pid), env=env)), lines(live))

    def test_of_another_build(self):
        folder = self.without_library()
        os.link(PATIENTS / "sick" / "net9.0" / DAC, folder / DAC)
        pid = self.start(folder)
        self.refused(3, "another build", "what would help", arguments=[pid])
        # Replaced together, as an upgrade does, while the process runs on.
        (folder / "libcoreclr.so").unlink()
        os.link(PATIENTS / "sick" / "net9.0" / "libcoreclr.so", folder / "libcoreclr.so")
        self.refused(3, "another build", "what would help", arguments=[pid])

    def test_not_a_library(self):
        folder = self.without_library()
        (folder / DAC).write_text("not an ELF file")
        self.refused(1, "cannot be loaded", arguments=[self.start(folder)])

    def test_hostile_library(self):
        """A link out of the target's root leads nowhere, a pipe does not block."""
        folder = self.without_library()
        pid = self.start(folder)
        os.mkfifo(folder / DAC)
        self.refused(3, "not there", arguments=[pid])


class BadInput(Stacks):
    def test_usage(self):
        self.refused(2, "TARGET or --core", arguments=[])
        self.refused(2, "TARGET or --core", arguments=["1", "--core", "x"])
        self.refused(2, "--max-pause", arguments=["1", "--max-pause", "soon"])

    def test_no_core(self):
        text = self.folder / "text"
        text.write_text("hello\n" * 1000)
        self.refused(3, "nowhere", arguments=["--core", self.folder / "nowhere"])
        self.refused(1, "text", arguments=["--core", text])
        self.refused(1, arguments=["--core", "/proc/self/exe"])

    def test_core_without_dotnet(self):
        core = self.folder / "core"
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        subprocess.run(["gcore", "-o", core, str(sleeper.pid)], check=True, capture_output=True)
        self.refused(3, "no .NET runtime", arguments=["--core", f"{core}.{sleeper.pid}"])

    def test_core_without_code(self):
        """gdb leaves file pages out. Assemblies have no build id: their pages come from files that have not changed since,
        which is said; from files that have, they do not come, and the frames are said to be missing."""
        prefix = self.folder / "core"
        with Patient("deadlock", env={"DOTNET_TieredCompilation": "0"}) as patient:
            live = self.stacks(patient.pid)
            subprocess.run(["gcore", "-o", prefix, str(patient.pid)], check=True, capture_output=True)
        core = f"{prefix}.{patient.pid}"
        self.assertEqual(lines(self.stacks("--core", core)), lines(live))
        self.assertIn("nothing proves that they are of the same build", self.home.run("stacks", "--core", core).out)
        os.utime(core, (1, 1))
        cut = [t for t in self.stacks("--core", core)["threads"] if t["incomplete"]]
        self.assertTrue(cut)
        self.assertTrue(all("not in the image" in t["incomplete"] for t in cut))
        self.assertIn("(and more, which cannot be read: ", self.home.run("stacks", "--core", core).out)

    def test_truncated_core(self):
        """As far as it goes, or a reason; never a hang, never a crash of ours."""
        with Patient("deadlock") as patient:
            core = self.core_of(patient)
        size = core.stat().st_size
        for part in (0.9, 0.5, 0.1, 0.01):
            os.truncate(core, int(size * part))
            done = self.home.run("stacks", "--core", core)
            self.assertIn(done.code, (0, 1, 3), done)
            self.assertTrue(done.out or done.err)

    def test_damaged_core(self):
        """Random hits in the memory: the library may crash or loop, we say what is left or why there is nothing."""
        chance = random.Random(SEED)
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            core = self.core_of(patient)
        codes = []
        for _ in range(DAMAGES):
            with open(core, "r+b") as file:
                size = file.seek(0, os.SEEK_END)
                for _ in range(300):
                    file.seek(chance.randrange(8192, size - 8))
                    file.write(chance.randbytes(8))
            done = self.home.run("stacks", "--core", core)
            self.assertIn(done.code, (0, 1, 3), f"seed {SEED}: {done}")
            self.assertNotIn("AddressSanitizer", done.err)
            codes.append(done.code)
        self.assertTrue(codes)

    def test_dead_target(self):
        with Patient("healthy") as patient:
            pid = patient.pid
        self.refused(3, pid, arguments=[pid])


if __name__ == "__main__":
    unittest.main()
