"""What root writes for a target of another user is written with that user's rights: nothing appears where that user may
not write, whatever was mounted in the way; and where they may, every command works and leaves nothing behind."""

import ctypes
import os
import pwd
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from drdotnet import Home, wait_until
from patient import FRAMEWORKS, PATIENTS, Patient, one_of

SIDE_BY_SIDE = True

NOBODY = pwd.getpwnam("nobody")
AS_NOBODY = ("setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups")
OWN_MOUNTS = (*AS_NOBODY, "unshare", "--user", "--map-root-user", "--mount")
IN_CREATE, IN_MOVED_TO, IN_NONBLOCK = 0x100, 0x80, 0o4000
DENIED = 4
libc = ctypes.CDLL(None, use_errno=True)


def can_mount():
    """Some systems do not let everybody have mounts of their own."""
    return os.geteuid() == 0 and subprocess.run([*OWN_MOUNTS, "true"], capture_output=True).returncode == 0


class Watch:
    """Names that appear in a folder, also when they are gone again."""

    def __init__(self, folder):
        self._fd = libc.inotify_init1(IN_NONBLOCK)
        if libc.inotify_add_watch(self._fd, str(folder).encode(), IN_CREATE | IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._fd)

    def seen(self):
        names = []
        try:
            while data := os.read(self._fd, 65536):
                while data:
                    size = int.from_bytes(data[12:16], sys.byteorder)
                    names.append(data[16:16 + size].rstrip(b"\0").decode())
                    data = data[16 + size:]
        except BlockingIOError:
            pass
        return names


class Places(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-places-")))
        self.folder.chmod(0o755)
        self.victim = self.folder / "only-root"
        self.victim.mkdir(mode=0o755)
        self.watch = self.enterContext(Watch(self.victim))

    @classmethod
    def setUpClass(cls):
        """As packages of a distribution have it; publishing leaves it executable for its owner only."""
        for fx in FRAMEWORKS:
            (PATIENTS / "sick" / fx / "createdump").chmod(0o755)

    def commands(self, pid):
        """Every command that writes for a target or near it, by what it writes there."""
        core = self.folder / "core"
        return {
            "dump by runtime": ("dump", "collect", pid, "--by-runtime", "--type", "mini", "-o", core, "-q"),
            "dump": ("dump", "collect", pid, "--type", "mini", "-o", core, "-q", "--max-pause", "10s"),
            "dump by agent": ("dump", "collect", pid, "--way", "agent", "--type", "mini", "-o", core, "-q", "--max-pause", "10s"),
            "stacks by agent": ("stacks", pid, "--way", "agent"),
            "run by agent": ("run", "merged-call-stacks", pid, "--way", "agent", "-q"),
            "samples by agent": ("run", "cpu-hotpaths", pid, "--way", "agent", "-d", "1s", "-q"),
            "cpu collect": ("cpu", "collect", "--pid", pid, "-d", "1s", "-o", self.folder / "cpu.svg", "-q"),
            "inspect": ("inspect", pid, "-c", "threads"),
        }

    def nothing_for_root_only(self):
        self.assertEqual(self.watch.seen(), [])
        self.assertEqual(os.listdir(self.victim), [])

    def only_of_the_runtime(self, folder):
        """Its library leaves by itself, and so do its files."""
        def left():
            return [n for n in os.listdir(folder) if not n.startswith(("dotnet-diagnostic-", "clr-debug-pipe-"))]
        wait_until(lambda: not left(), f"nothing but the runtime's own files is in {folder}")


@unittest.skipUnless(can_mount(), "needs root, and mount namespaces for everybody")
class HostileMounts(Places):
    def patient(self, fx):
        """A real one: /tmp is a folder in which its user may not write, its socket lies elsewhere. It runs from a place of
        its own, for the patients may lie below /tmp."""
        patients = PATIENTS.resolve()
        script = (f'mount --bind "{patients}" /srv && mount -t tmpfs -o mode=1777 none /mnt && mount --bind "{self.victim}" /tmp '
                  f'&& program="$0" && exec "/srv${{program#{PATIENTS}}}" "$@"')
        return Patient("deadlock", fx=fx, prefix=(*OWN_MOUNTS, "sh", "-c", script), env={"TMPDIR": "/mnt"})

    def test_a_tmp_of_root(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), self.patient(fx) as patient:
                patient.noise = b"[createdump]"
                self.assertTrue(Path(f"/proc/{patient.pid}/root/tmp").samefile(self.victim))
                done = self.home.run("perf-map", patient.pid)
                self.assertEqual(done.code, DENIED, done)
                self.assertIn("with the rights of its user", done.err)
                self.nothing_for_root_only()
                for name, words in self.commands(patient.pid).items():
                    with self.subTest(name):
                        done = self.home.run(*words)
                        self.assertEqual(done.code, 0, done)
                        self.nothing_for_root_only()
                        self.only_of_the_runtime(f"/proc/{patient.pid}/root/mnt")
                patient.truth()

    def test_swapped_while_it_answers(self):
        """Its folder is another one by the time that we write: between any two of our questions."""
        for name in self.commands(0):
            for when in range(1, 5):
                with self.subTest(name, when=when):
                    self.swapped(name, when)

    def swapped(self, name, when):
        # Its user may be unable to read our files, or to run the Python that runs the tests.
        program = Path(__file__).with_name("hostile_runtime.py").read_text()
        runtime = subprocess.Popen([*OWN_MOUNTS, "python3", "-c", program, self.victim, str(when)],
                                   env={**os.environ, "TMPDIR": "/mnt"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(runtime.stdout.readline(), "READY\n")
            done = self.home.run(*self.commands(runtime.pid)[name])
            # Samples from outside do not need its folder.
            self.assertEqual(done.code == 0, name == "cpu collect", done)
            self.assertTrue(done.code in (0, 1, 3, 4) and (done.code == 0 or done.err.strip()), done)
        finally:
            runtime.stdin.close()
            runtime.wait(20)
        swapped = runtime.stdout.read()
        runtime.stdout.close()
        if when == 1:
            self.assertEqual(swapped, "SWAPPED\n")
        self.nothing_for_root_only()


@unittest.skipUnless(os.geteuid() == 0, "only root can become someone else")
class AnotherUser(Places):
    def patient(self, fx, folder):
        folder.mkdir()
        folder.chmod(0o1777)
        return Patient("deadlock", fx=fx, user="nobody", env={"TMPDIR": str(folder)})

    def test_every_command(self):
        for fx in one_of(FRAMEWORKS, 1):
            with self.subTest(fx), self.patient(fx, self.folder / fx) as patient:
                patient.noise = b"[createdump]"
                for name, words in self.commands(patient.pid).items():
                    with self.subTest(name):
                        done = self.home.run(*words)
                        self.assertEqual(done.code, 0, done)
                        self.only_of_the_runtime(self.folder / fx)
                patient.truth()
                self.map_is_theirs(patient)

    def map_is_theirs(self, patient):
        done = self.home.run("perf-map", patient.pid)
        self.assertEqual(done.code, 0, done)
        path = Path(done.out.strip())
        self.addCleanup(path.unlink)
        self.assertEqual(path, Path(f"/tmp/perf-{patient.pid}.map"))
        self.assertEqual((path.stat().st_uid, path.stat().st_gid), (NOBODY.pw_uid, NOBODY.pw_gid))
        self.assertEqual(path.stat().st_mode & 0o777, 0o644)
        self.assertIn("Shop.Bank.Ledger", path.read_text())

    def test_a_folder_that_others_may_rearrange(self):
        """Anybody could put a folder of theirs into the place of the one that the runtime is to write into."""
        folder = self.folder / "tmp"
        with self.patient("net10.0", folder) as patient, Watch(folder) as seen:
            for mode, words in ((0o777, "others may write to its folder"), (0o1777, None)):
                folder.chmod(mode)
                done = self.home.run(*self.commands(patient.pid)["dump by runtime"])
                patient.noise = b"[createdump]"
                self.assertEqual(done.code, DENIED if words else 0, done)
                self.assertIn(words or "", done.err)
                self.assertEqual(len(seen.seen()), 0 if words else 1)
            os.chown(folder, 4711, 4711)
            done = self.home.run(*self.commands(patient.pid)["dump by runtime"])
            self.assertEqual(done.code, DENIED, done)
            self.assertIn("belongs to user 4711", done.err)
            self.assertEqual(seen.seen(), [])
            os.chown(folder, 0, 0)
            patient.truth()


if __name__ == "__main__":
    unittest.main()
