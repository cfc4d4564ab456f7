"""drdotnet dump collect: every type, written by the runtime and from a copy, in every place a target can live."""

import os
import pwd
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, PROGRAM
from patient import FRAMEWORKS, PATIENTS, Patient, diagonal, one_of

SIDE_BY_SIDE = True

TYPES = ("mini", "heap", "full")
STILL = {"DOTNET_TieredCompilation": "0"}  # its thread comes and goes
as_root = unittest.skipUnless(os.geteuid() == 0, "only root can become someone else or mount")


def lines(stacks):
    """The JSON of `stacks` in the words of tests/oracle/clrmd."""
    result = []
    for thread in stacks["threads"]:
        result.append(f"thread {thread['managedId']} {thread['osId'] or 0}")
        result += [f"{f['ip'][2:]} {f['sp'][2:]} {f['frame'] or '-'} {f['method'] or '-'}" for f in thread["frames"]]
    return result


class Dumps(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-dumps-")))

    def collect(self, patient, *arguments, **where):
        patient.noise = b"[createdump]"
        done = self.home.run("dump", "collect", patient.pid, "--json", *arguments, **where)
        self.assertEqual(done.code, 0, done)
        return done.json()

    def stacks(self, *arguments):
        done = self.home.run("stacks", *arguments, "--json")
        self.assertEqual(done.code, 0, done)
        return done.json()


class EveryType(Dumps):
    """Nothing moves in a deadlock: all dumps and the living process must agree."""

    def test_both_ways(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Patient("deadlock", fx=fx, env=STILL) as patient:
                dac = PATIENTS / "sick" / fx / "libmscordaccore.so"
                live = self.stacks(patient.pid)
                sizes = {}
                for kind in TYPES:
                    for way, by in (("--by-runtime", "runtime"), ("", "copy")):
                        path = self.folder / f"{kind}{way}"
                        facts = self.collect(patient, "--type", kind, "-o", path, *filter(None, [way]), "--quiet")
                        self.assertEqual((facts["type"], facts["by"]), (kind, by))
                        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
                        sizes[kind, by] = path.stat().st_size
                        core = self.stacks("--core", path)
                        self.assertEqual(lines(core), lines(live), f"{kind} by {by}")
                        if (kind, by) != ("mini", "runtime"):  # which holds no names
                            self.assertEqual([t["name"] for t in core["threads"]], [t["name"] for t in live["threads"]])
                        self.assertEqual(core["noSourceLines"], [])
                        if by == "copy":
                            theirs = oracle.stacks(path, dac)
                            self.assertEqual(theirs, lines(live), f"{kind} in ClrMD")
                            self.gdb_opens(patient, path)
                self.assertEqual(sorted(p.name for p in self.folder.iterdir()),
                                 sorted(f"{kind}{way}" for kind in TYPES for way in ("--by-runtime", "")))
                for by in ("runtime", "copy"):
                    self.assertLess(sizes["mini", by] * 5, sizes["heap", by])
                    self.assertLess(sizes["heap", by], sizes["full", by])
                self.whole_heap(self.folder / "heap", self.folder / "full", dac)
                patient.truth()

    def gdb_opens(self, patient, path):
        program = os.readlink(f"/proc/{patient.pid}/exe")
        shown = subprocess.run(["gdb", "-batch", "-ex", "info threads", "-ex", "bt 6", program, path],
                               capture_output=True, text=True, timeout=120).stdout
        self.assertRegex(shown, r"#0 .*(futex|poll|read)")
        self.assertRegex(shown, r"#\d+ .* from .*/libcoreclr.so")

    def whole_heap(self, heap, full, dac):
        self.assertEqual(oracle.run("clrmd", "facts", heap, dac), oracle.run("clrmd", "facts", full, dac))


class DuringCollections(Dumps):
    """The collector says when it is at work; copies are taken at other times."""
    SIDE_BY_SIDE = "quietly"  # one that collects all the time comes to nothing else when it gets little of the processor

    def word_of(self, patient):
        helper = Path(PROGRAM).with_name("drdotnet-dachost")
        done = subprocess.run([Path(PROGRAM).parent / "tests" / "busy_word", str(patient.pid)], capture_output=True,
                              text=True, check=True, env={**os.environ, "DRDOTNET_DACHOST": str(helper)})
        return int(done.stdout, 16)

    def samples(self, patient, word, enough):
        """The word, read again and again while the process runs, until there is enough of it."""
        deadline, seen = time.monotonic() + 60, []
        with open(f"/proc/{patient.pid}/mem", "rb", buffering=0) as memory:
            while not enough(seen) and time.monotonic() < deadline:
                seen.append(int.from_bytes(os.pread(memory.fileno(), 4, word), "little"))
        return seen

    def test_the_word(self):
        for fx, server_gc in diagonal(FRAMEWORKS, (False, True)):
            with self.subTest(fx, server_gc=server_gc):
                with Patient("gc-pauses", fx=fx, server_gc=server_gc, induced=10, live_mb=20) as patient:
                    word = self.word_of(patient)
                    self.assertGreater(word, 0x10000)
                    seen = self.samples(patient, word, lambda v: 0 in v and any(v))
                    self.assertIn(0, seen)
                    self.assertTrue(any(seen), "a collection shows")
                    self.assertLess(max(seen), 4)
                    patient.truth()

    def test_a_dump_of_one_that_collects(self):
        """Five in a row: each heap is whole."""
        with Patient("gc-pauses", induced=20, live_mb=20) as patient:
            for _ in range(5):
                self.collect(patient, "--type", "heap", "-o", self.folder / "core", "-q", "--max-pause", "10s")
                done = self.home.run("dump", "open", self.folder / "core", "-c", "verify-heap")
                self.assertEqual(done.code, 0, done)
                self.assertIn("the heap is whole", done.out)
                self.assertNotIn("a collection was at work", done.out)
            patient.truth()


class Places(Dumps):
    @classmethod
    def setUpClass(cls):
        """As packages of a distribution have it; publishing leaves it executable for its owner only."""
        (PATIENTS / "sick" / "net10.0" / "createdump").chmod(0o755)

    def names(self, core):
        return [f["name"] for t in self.stacks("--core", core)["threads"] for f in t["frames"]]

    def test_without_a_socket(self):
        """A runtime that does not listen cannot be asked; a copy can be made of it all the same."""
        with Patient("deadlock", env={"DOTNET_EnableDiagnostics": "0"}) as patient:
            done = self.home.run("dump", "collect", patient.pid, "-o", self.folder / "core", "--by-runtime")
            self.assertEqual(done.code, 1, done)
            self.assertIn("without --by-runtime it is taken from a copy", done.err)
            self.assertEqual(os.listdir(self.folder), [])
            done = self.home.run("dump", "collect", patient.pid, "-o", self.folder / "core", "--type", "mini")
            self.assertEqual(done.code, 0, done)
            patient.truth()
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", self.names(self.folder / "core"))

    @as_root
    def test_of_another_user_in_other_mounts(self):
        """The runtime writes as nobody into a /tmp that only it sees; the file comes out, nothing stays there."""
        patients = PATIENTS.resolve()  # perhaps below /tmp themselves
        prefix = ("unshare", "--mount", "sh", "-c", f'mount --bind "{patients}" /mnt && mount -t tmpfs none /tmp && chmod 1777 /tmp '
                  f'&& mkdir -p "{patients}" && mount --bind /mnt "{patients}" && exec setpriv '
                  '--reuid=nobody --regid=nogroup --clear-groups "$0" "$@"')
        with Patient("deadlock", prefix=prefix) as patient:
            facts = self.collect(patient, "--by-runtime", "-o", self.folder / "core", "--type", "heap", "--quiet")
            self.assertEqual(facts["by"], "runtime")
            inside = os.listdir(f"/proc/{patient.pid}/root/tmp")
            ours = patients.parts[2] if patients.is_relative_to("/tmp") else None
            self.assertEqual([n for n in inside if not n.startswith(("dotnet-diagnostic", "clr-debug-pipe")) and n != ours], [])
            patient.truth()
        self.assertEqual((self.folder / "core").stat().st_uid, 0)
        self.assertEqual((self.folder / "core").stat().st_mode & 0o777, 0o600)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", self.names(self.folder / "core"))

    @as_root
    def test_of_another_user(self):
        with Patient("deadlock", user="nobody") as patient:
            self.collect(patient, "--by-runtime", "-o", self.folder / "core", "--type", "mini", "--quiet")
            patient.truth()
        self.assertEqual((self.folder / "core").stat().st_uid, pwd.getpwnam("root").pw_uid)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", self.names(self.folder / "core"))

    @as_root
    def test_where_no_copy_can_be_made(self):
        """Without the right to trace, our library in the process makes the copy; where that is not wanted, the error names the
        runtime's own way, which is not taken without its word: it would hold the process for long."""
        blind = ("setpriv", "--bounding-set=-sys_ptrace,-sys_admin,-perfmon", "--inh-caps=-sys_ptrace,-sys_admin,-perfmon")
        core = self.folder / "core"
        with Patient("deadlock", user="nobody") as patient:
            facts = self.collect(patient, "--type", "mini", "-o", core, "--quiet", prefix=blind)
            self.assertEqual(facts["by"], "agent")
            core.unlink()
            done = self.home.run("dump", "collect", patient.pid, "--way", "image", "-o", core, "--quiet", prefix=blind)
            self.assertEqual(done.code, 4, done)
            self.assertIn("--by-runtime has its own runtime write the file, which holds the process", done.err)
            self.assertEqual(os.listdir(self.folder), [])
            patient.truth()

    @as_root
    def test_full_disk(self):
        with Patient("deadlock") as patient:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", self.folder], check=True)
            try:
                for way in ([], ["--by-runtime"]):
                    done = self.home.run("dump", "collect", patient.pid, "-o", self.folder / "core", *way)
                    self.assertEqual(done.code, 1, done)
                    self.assertIn("has 8 MB left", done.err)
                    self.assertEqual(os.listdir(self.folder), [])
                patient.truth()
            finally:
                subprocess.run(["umount", self.folder], check=True)

    def test_default_name(self):
        here = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, here)
        with Patient("deadlock") as patient:
            # The word of earlier versions, in the scripts of others.
            facts = self.collect(patient, "--type", "mini", "--fast", "--quiet")
            path = facts["path"]
        self.assertEqual(facts["by"], "copy")
        self.assertRegex(path, rf"^dump-{patient.pid}-\d{{8}}-\d{{6}}\.core$")
        self.assertEqual(os.listdir(self.folder), [path])

    def test_cancelled_while_the_runtime_writes(self):
        """It cannot be stopped without a risk to the target: its end is waited for, then the file goes."""
        with Patient("deadlock") as patient:
            patient.noise = b"[createdump]"
            with self.home.start("dump", "collect", patient.pid, "--by-runtime", "-o", self.folder / "core") as job:
                job.wait_for("stands still")
                job.signal(signal.SIGINT)
                done = job.finish()
            self.assertIn(done.code, (0, 130), done)
            self.assertEqual(os.listdir(self.folder), [] if done.code else ["core"])
            patient.truth()

    def test_single_file(self):
        """Its runtime writes only full ones; what it says is passed on."""
        program = oracle.single_file_patient()
        process = subprocess.Popen([program, "deadlock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with process:
            try:
                self.assertTrue(process.stdout.readline().startswith("READY"))
                done = self.home.run("dump", "collect", process.pid, "--by-runtime", "-o", self.folder / "core", "--type", "heap")
                self.assertEqual(done.code, 1, done)
                self.assertIn("the runtime wrote no dump: ", done.err)
                self.assertEqual(os.listdir(self.folder), [])
            finally:
                process.kill()

    def test_usage(self):
        self.assertIn("not 'tiny'", self.home.run("dump", "collect", "1", "--type", "tiny").err)
        for words in (("--max-pause", "1s"), ("--way", "agent"), ("--fast",)):
            done = self.home.run("dump", "collect", "1", "--by-runtime", *words)
            self.assertEqual(done.code, 2, done)
            self.assertIn(words[0], done.err)
            self.assertIn("--by-runtime", done.err)


if __name__ == "__main__":
    unittest.main()
