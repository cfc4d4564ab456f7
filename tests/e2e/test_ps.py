"""`drdotnet ps` and `drdotnet check` on real processes: everywhere a .NET process can hide, and however it behaves."""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from drdotnet import Home  # noqa: E402
from patient import FRAMEWORKS, PATIENTS, ROOT, Patient  # noqa: E402
from server import Server  # noqa: E402

DRDOTNET = os.environ.get("DRDOTNET", str(ROOT / "build" / "drdotnet"))
FX = FRAMEWORKS[-1]
COMMAND_SECONDS = 60
NOT_FOUND, USAGE = 3, 2
PTRACE_SEIZE, PTRACE_DETACH = 0x4206, 17

SIDE_BY_SIDE = True

# A process that looks like a patient from outside: it listens on a socket of the right name and never answers.
SILENT = """
import ctypes, os, socket, sys, threading
ctypes.CDLL(None).prctl(15, sys.argv[2].encode("latin-1"))
ctypes.CDLL(None).prctl(1, 9)
threading.Thread(target=threading.Event().wait, daemon=True).start()
started = open("/proc/self/stat", "rb").read().rpartition(b")")[2].split()[19].decode()
s = socket.socket(socket.AF_UNIX)
s.bind(f"{sys.argv[1]}/dotnet-diagnostic-{os.getpid()}-{started}-socket")
s.listen(50)
print("READY", flush=True)
sys.stdin.read()
"""

# It has threads, as a runtime has, and says its pid and start time as it knows them itself.
THREADED = """
import os, sys, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(os.getpid(), open("/proc/self/stat").read().rpartition(")")[2].split()[19], flush=True)
sys.stdin.read()
"""

# A /tmp of its own; a clone of the project that lies below /tmp stays where it is.
OWN_TMP = "mount -t tmpfs none /tmp"
if ROOT.is_relative_to("/tmp"):
    OWN_TMP = f"mount --rbind {ROOT} /mnt; {OWN_TMP}; mkdir -p {ROOT}; mount --rbind /mnt {ROOT}"


def drdotnet(*arguments, prefix=(), env=None, user=None):
    return subprocess.run([*prefix, DRDOTNET, *map(str, arguments)], capture_output=True, timeout=COMMAND_SECONDS,
                          env={**os.environ, **(env or {})}, user=user, extra_groups=[] if user else None)


def ps(*arguments, **where):
    done = drdotnet("ps", "--json", *arguments, **where)
    if done.returncode:
        raise AssertionError(f"ps ended with {done.returncode}: {done.stderr.decode()}")
    return {row["id"]: row for row in json.loads(done.stdout)}


def check(target, **where):
    done = drdotnet("check", target, "--json", **where)
    if done.returncode:
        raise AssertionError(f"check ended with {done.returncode}: {done.stderr.decode()}")
    return json.loads(done.stdout)


class Silent:
    def __init__(self, folder, name="silent"):
        self._process = subprocess.Popen([sys.executable, "-c", SILENT, folder, name], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder})
        assert self._process.stdout.readline() == b"READY\n"
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()


class World:
    """Namespaces of its own, kept by a process: what runs in it sees only itself."""

    def __init__(self, *unshare, setup="true"):
        self._process = subprocess.Popen(
            ["unshare", *unshare, "sh", "-ec", f"{setup}; echo READY; exec cat"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"READY\n", "the namespaces could not be made"
        child = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        self.pid = int(child[0]) if child else self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(COMMAND_SECONDS)
        self._process.stdout.close()

    def prefix(self, *spaces):
        return ["nsenter", f"--target={self.pid}", *spaces]


class InChroot(Patient):
    """A patient whose program lies elsewhere for itself."""

    def __init__(self, *sicknesses, prefix, **keys):
        super().__init__(*sicknesses, prefix=[*prefix, "sh", "-c", 'shift; exec /app/sick "$@"', "sh"], **keys)


class Listed(unittest.TestCase):
    def assert_listed(self, row, patient, fx=FX):
        self.assertTrue(row["answered"], row)
        self.assertEqual(row["pid"], patient.pid)
        self.assertEqual(row["name"], "sick")
        self.assertEqual(row["assembly"], "sick")
        self.assertTrue(row["runtime"].startswith(fx.removeprefix("net")), row["runtime"])
        self.assertIn(row["architecture"], ("x64", "arm64"))
        self.assertGreater(row["uptimeSeconds"], 0)
        self.assertGreater(row["rssBytes"], 10 << 20)
        self.assertGreater(row["cpuSeconds"], 0)

    def test_every_runtime(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Patient("healthy", fx=fx) as patient:
                row = ps()[patient.pid]
                self.assert_listed(row, patient, fx)
                self.assertIsNone(row["remark"])
                self.assertIsNone(row["container"])
                self.assertEqual(row["namespacePid"], patient.pid)
                self.assertEqual(row["uid"], os.getuid())
                self.assertIsNone(row["cpuWindowMs"])
                status = Path(f"/proc/{patient.pid}/status").read_text()
                rss = int(status.split("VmRSS:")[1].split()[0]) * 1024
                self.assertAlmostEqual(row["rssBytes"] / rss, 1, delta=0.5)
                ways = check(patient.pid)["ways"]
                self.assertTrue(ways["events"]["open"], ways)

    def test_started_by_dotnet(self):
        """`dotnet` starts any program: the name shown is the program's, in the list, by REST, in reports and in their headers."""
        with Patient("healthy", fx=FX, prefix=["sh", "-c", 'exec dotnet "$0.dll" "$@"']) as patient, Home() as home, \
             Server(home) as server:
            self.assertEqual("dotnet\n", Path(f"/proc/{patient.pid}/comm").read_text())
            self.assert_listed(ps()[patient.pid], patient)
            told, = (p for p in server.get("/api/processes").json() if p["id"] == patient.pid)
            self.assertEqual(("sick", "sick"), (told["name"], told["managedAssemblyName"]))
            trace = home.path / "by-name.nettrace"
            home.run("trace", "collect", patient.pid, "--profile", "gc", "-d", "1s", "-o", trace)
            for words in (["runtime-pauses", patient.pid, "-d", "1s", "-q"], ["trace", "report", trace]):
                self.assertRegex(home.run(*words).out, rf"\Asick \(pid {patient.pid}\b")
            self.assertRegex(home.run("sessions").out, r"(?m)^[0-9a-f]{8} .* sick +runtime-pauses ")

    def test_table(self):
        with Patient("healthy", fx=FX) as patient:
            lines = drdotnet("ps").stdout.decode().splitlines()
            self.assertEqual(lines[0].split()[:4], ["PID", "NAME", "ASSEMBLY", "RUNTIME"])
            row = next(line for line in lines if line.split()[0] == str(patient.pid))
            self.assertEqual(row.split()[1:3], ["sick", "sick"])
            self.assertEqual(row.index("sick"), lines[0].index("NAME"))

    def test_cpu_is_measured_when_asked(self):
        with Patient("cpu", fx=FX) as busy, Patient("healthy", fx=FX) as calm:
            rows = ps("--cpu", "500ms")
            for patient in busy, calm:
                self.assertGreaterEqual(rows[patient.pid]["cpuWindowMs"], 500)
            self.assertGreater(rows[busy.pid]["cpuPercent"], rows[calm.pid]["cpuPercent"])

    def test_ends_without_a_trace(self):
        with Patient("healthy", fx=FX) as patient:
            pid = patient.pid
            os.kill(pid, signal.SIGKILL)
            patient.wait()
            self.assertNotIn(pid, {row["namespacePid"] for row in ps().values()})
            self.assertEqual(drdotnet("check", pid).returncode, NOT_FOUND)


class Behaving(unittest.TestCase):
    def test_stopped(self):
        with Patient("healthy", fx=FX) as patient, Patient("healthy", fx=FX) as other:
            os.kill(patient.pid, signal.SIGSTOP)
            try:
                rows = ps()
                self.assertIn("SIGSTOP", rows[patient.pid]["remark"])
                self.assertFalse(rows[patient.pid]["answered"])
                self.assertTrue(rows[other.pid]["answered"])
                events = check(patient.pid)["ways"]["events"]
                self.assertFalse(events["open"])
                self.assertEqual(events["fix"], f"kill -CONT {patient.pid}")
            finally:
                os.kill(patient.pid, signal.SIGCONT)
            self.assertTrue(ps()[patient.pid]["answered"])

    def test_stopped_costs_less_than_a_timeout(self):
        with Patient("healthy", fx=FX) as patient:
            os.kill(patient.pid, signal.SIGSTOP)
            try:
                started = time.monotonic()
                ps("--timeout", "2s")
                stopped = time.monotonic() - started
            finally:
                os.kill(patient.pid, signal.SIGCONT)
            with tempfile.TemporaryDirectory() as folder, Silent(folder):
                started = time.monotonic()
                ps("--timeout", "2s")
                silent = time.monotonic() - started
            self.assertLess(stopped, silent)

    def test_many_silent_cost_one_timeout(self):
        def seconds(n):
            with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
                silent = [stack.enter_context(Silent(folder)) for _ in range(n)]
                started = time.monotonic()
                rows = ps("--timeout", "500ms")
                took = time.monotonic() - started
                for each in silent:
                    self.assertIn("does not answer", rows[each.pid]["remark"])
                return took

        one = seconds(1)
        self.assertLess(seconds(10), one * 4)

    def test_hostile_name_is_shown_harmlessly(self):
        with tempfile.TemporaryDirectory() as folder, Silent(folder, "a\x1b[31mb\xff") as hostile:
            shown = drdotnet("ps", "--timeout", "100ms").stdout
            self.assertNotIn(b"\x1b", shown)
            self.assertIn(b"u{1b}", shown.lower())
            self.assertIn(hostile.pid, ps("--timeout", "100ms"))

    def test_diagnostics_switched_off(self):
        with Patient("healthy", fx=FX, env={"DOTNET_EnableDiagnostics": "0"}) as patient:
            row = ps()[patient.pid]
            self.assertFalse(row["answered"])
            self.assertIn("switched off", row["remark"])
            ways = check(patient.pid)["ways"]
            self.assertFalse(ways["events"]["open"])
            self.assertIn("DOTNET_EnableDiagnostics", ways["events"]["fix"])
            self.assertFalse(ways["agent"]["open"])

    def test_socket_deleted(self):
        with Patient("healthy", fx=FX) as patient:
            os.unlink(ps()[patient.pid]["socket"])
            self.assertIn("missing", ps()[patient.pid]["remark"])
            self.assertFalse(check(patient.pid)["ways"]["events"]["open"])

    def test_diagnostic_ports(self):
        ports = "/nowhere/port.sock,nosuspend"
        with Patient("healthy", fx=FX, env={"DOTNET_DiagnosticPorts": ports}) as patient:
            row = ps()[patient.pid]
            self.assertTrue(row["answered"])
            self.assertEqual(row["diagnosticPorts"], ports)
            self.assertIn("dials out", row["remark"])

    def test_profiler_since_start(self):
        env = {"CORECLR_ENABLE_PROFILING": "1", "CORECLR_PROFILER": "{00000000-1111-2222-3333-444444444444}",
               "CORECLR_PROFILER_PATH": "/nowhere.so"}
        with Patient("healthy", fx=FX, env=env) as patient:
            # Ours is loaded beside it, as one that is only notified.
            self.assertTrue(check(patient.pid)["ways"]["agent"]["open"])

    def test_debugger(self):
        with Patient("healthy", fx=FX) as patient:
            libc = ctypes.CDLL(None, use_errno=True)
            self.assertEqual(libc.ptrace(PTRACE_SEIZE, patient.pid, None, None), 0, os.strerror(ctypes.get_errno()))
            try:
                row = ps()[patient.pid]
                self.assertIn(f"debugger (process {os.getpid()})", row["remark"])
                self.assertTrue(row["answered"], "it is held, not stopped")
                image = check(patient.pid)["ways"]["image"]
                self.assertFalse(image["open"])
                self.assertEqual(image["fix"], f"detach process {os.getpid()}")
            finally:
                os.kill(patient.pid, signal.SIGSTOP)
                os.waitpid(patient.pid, 0x40000000)
                libc.ptrace(PTRACE_DETACH, patient.pid, None, None)
                os.kill(patient.pid, signal.SIGCONT)
            self.assertIsNone(ps()[patient.pid]["remark"])


@unittest.skipIf(os.getuid() != 0, "namespaces and other users need root")
class Hidden(unittest.TestCase):
    def assert_found(self, patient, **where):
        row = ps(**where)[patient.pid]
        self.assertTrue(row["answered"], row)
        self.assertEqual(row["assembly"], "sick")
        ways = check(patient.pid, **where)["ways"]
        self.assertTrue(ways["events"]["open"], ways)
        return row

    def test_mount_namespace(self):
        prefix = ["unshare", "--mount", "sh", "-ec", OWN_TMP + '; exec "$0" "$@"']
        with Patient("healthy", fx=FX, prefix=prefix) as patient:
            row = self.assert_found(patient)
            self.assertTrue(row["socket"].startswith(f"/proc/{patient.pid}/root/tmp/"), row["socket"])
            self.assertTrue(check(patient.pid)["ways"]["image"]["open"])

    def test_pod_of_kubernetes(self):
        """The id stands in the name of the control group, the pod's names in that of the log file."""
        container = os.urandom(32).hex()
        parents = [p for p in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")) if (p / "cgroup.procs").exists()]
        group = parents[0] / container
        group.mkdir()
        self.addCleanup(group.rmdir)
        log = f"api-7c9f-x2_shop_api-{container}.log"
        on_a_node = ["unshare", "--mount", "sh", "-ec",
                     f'mount -t tmpfs none /var/log; mkdir /var/log/containers; : >/var/log/containers/{log}; exec "$0" "$@"']
        with Patient("healthy", fx=FX, prefix=["sh", "-ec", f'echo $$ >{group}/cgroup.procs; exec "$0" "$@"']) as patient:
            self.assertIsNone(ps()[patient.pid]["pod"])
            row = ps(prefix=on_a_node)[patient.pid]
            self.assertEqual((row["container"], row["pod"]), (container[:12], "shop/api-7c9f-x2/api"))
            self.assertRegex(drdotnet("ps", prefix=on_a_node).stdout.decode(), r"(?m)^ *\d+ +sick .* shop/api-7c9f-x2/api ")
            with Home() as home:
                done = drdotnet("heap-stats", patient.pid, prefix=on_a_node, env={"DRDOTNET_HOME": str(home.path)})
                self.assertIn("pod shop/api-7c9f-x2/api", done.stdout.decode().splitlines()[0])
            for name in ("shop/api-7c9f-x2", "shop/api-7c9f-x2/api"):
                self.assertEqual(check(name, prefix=on_a_node)["id"], patient.pid)
            for name in ("shop/api-7c9f", "api-7c9f-x2", "shop/", "shop/api-7c9f-x2/ap"):
                self.assertEqual(drdotnet("check", name, prefix=on_a_node).returncode, NOT_FOUND, name)

    def test_path_longer_than_a_socket_address(self):
        folder = "/tmp/" + "x" * 54
        prefix = ["unshare", "--mount", "sh", "-ec", f'{OWN_TMP}; mkdir {folder}; exec "$0" "$@"']
        with Patient("healthy", fx=FX, prefix=prefix, env={"TMPDIR": folder + "/"}) as patient:
            row = self.assert_found(patient)
            self.assertGreater(len(row["socket"]), 108)

    def test_linked_temporary_folder_in_another_root(self):
        prefix = ["unshare", "--mount", "sh", "-ec",
                  OWN_TMP + '; mkdir /tmp/real; ln -s /tmp/real /tmp/link; exec "$0" "$@"']
        with Patient("healthy", fx=FX, prefix=prefix, env={"TMPDIR": "/tmp/link"}) as patient:
            row = self.assert_found(patient)
            self.assertIn("/root/tmp/real/", row["socket"])

    def test_chroot(self):
        # The bind mounts live in a mount namespace that drdotnet enters too: only the root differs.
        with tempfile.TemporaryDirectory() as root:
            setup = (f"mount -t tmpfs none {root}; mkdir {root}/tmp; "
                     f"for d in /usr /lib /lib64 /etc /proc /dev {PATIENTS.resolve()}; do "
                     f"mkdir -p {root}$d; mount --rbind $d {root}$d; done")
            with World("--mount", setup=setup) as world:
                prefix = [*world.prefix("--mount"), "chroot", root]
                with Patient("healthy", fx=FX, prefix=prefix) as patient:
                    row = self.assert_found(patient, prefix=world.prefix("--mount"))
                    self.assertIn("/root/tmp/", row["socket"])
                    # and from outside, where the mount namespace differs as well
                    self.assert_found(patient)

    def test_chroot_is_examined(self):
        """Its files have two names there, that of /proc/PID/maps and its own. By every way, and by the one that is taken by itself."""
        with tempfile.TemporaryDirectory() as root, Home() as home:
            # What is not below: no path of it means anything outside.
            setup = (f"mount -t tmpfs none {root}; mkdir {root}/tmp; "
                     f"for d in /usr /lib /lib64 /etc /proc /dev; do mkdir -p {root}$d; mount --rbind $d {root}$d; done; "
                     f"mkdir {root}/app; mount --bind {PATIENTS.resolve()}/sick/{FX} {root}/app")
            with World("--mount", setup=setup) as world:
                inside = world.prefix("--mount")
                with InChroot("deadlock", fx=FX, prefix=[*inside, "chroot", root]) as patient:
                    for where in (inside, []):
                        for way in ("image", "agent", "auto"):
                            with self.subTest(way=way, inside=bool(where)):
                                done = home.run("run", "merged-call-stacks", patient.pid, "--way", way, prefix=where)
                                self.assertEqual(done.code, 0, done)
                                self.assertIn("threads wait for Shop.Bank.", done.out)
                                self.assertNotIn("Why not by", done.out)

    def test_pid_namespace(self):
        prefix = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with Patient("healthy", fx=FX, prefix=prefix) as patient:
            row = self.assert_found(patient)
            self.assertNotEqual(row["namespacePid"], patient.pid)

    def test_the_pid_in_the_name_of_a_socket(self):
        """From another pid namespace only sockets are seen: the pid that a process has for itself names it, if it is the only one."""
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with tempfile.TemporaryDirectory() as folder, ExitStack() as patients:
            env = {"TMPDIR": folder}

            def check():
                return subprocess.run([*alone, DRDOTNET, "check", "1", "--json"], env={**os.environ, **env}, capture_output=True,
                                      text=True, timeout=COMMAND_SECONDS)
            nobody = check()
            self.assertEqual(nobody.returncode, NOT_FOUND, nobody)
            self.assertIn("process 1 (", nobody.stderr)
            patients.enter_context(Patient("healthy", fx=FX, prefix=alone, env=env))
            one = check()
            checked = json.loads(one.stdout)
            self.assertTrue(checked.get("ways", checked)["events"]["open"], one)
            patients.enter_context(Patient("healthy", fx=FX, prefix=alone, env=env))
            two = check()
            self.assertEqual(two.returncode, USAGE, two)
            self.assertRegex(two.stderr, r"several processes are 1 where they run.*:\n  \d{10} \S+.*\n  \d{10} \S+")

    def test_a_socket_that_could_be_that_of_a_process_here(self):
        """Two processes in different pid namespaces have the same pid and began in the same tick, as the first ones of two
        containers do that are started together: the socket is that of the one that listens, which is not seen from here."""
        with tempfile.TemporaryDirectory() as folder, World("--pid", "--fork", "--kill-child", "--mount-proc") as world:
            inside, env = world.prefix("--pid", "--mount"), {"TMPDIR": folder}
            here = {"prefix": inside, "env": env}
            patient = self.enterContext(Patient("healthy", fx=FX, env=env))
            other = subprocess.Popen([*inside, sys.executable, "-c", THREADED], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     env={**os.environ, **env}, text=True)
            self.addCleanup(other.communicate)
            pid, started = other.stdout.readline().split()
            own, = Path(folder).glob("dotnet-diagnostic-*-socket")
            own.rename(own.with_name(f"dotnet-diagnostic-{pid}-{started}-socket"))
            row, = (row for row in ps(**here).values() if (row["socket"] or "").startswith(folder))
            self.assertEqual((row["pid"], row["answered"], row["assembly"]), (None, True, "sick"), row)
            for target in (row["id"], pid):
                self.assertTrue(check(target, **here)["ways"]["events"]["open"])
            self.assertTrue(patient.alive())

    def test_time_namespace(self):
        # The start time in the socket's name is not the one that we read.
        prefix = ["unshare", "--time", "--boottime=100000", "--fork", "--kill-child"]
        with Patient("healthy", fx=FX, prefix=prefix) as patient:
            row = self.assert_found(patient)
            self.addCleanup(Path(row["socket"]).unlink, missing_ok=True)
            # One that an earlier process of this pid left behind is not taken for its own.
            with socket.socket(socket.AF_UNIX) as other:
                stale = f"/tmp/dotnet-diagnostic-{patient.pid}-1-socket"
                other.bind(stale)
                self.addCleanup(os.unlink, stale)
                os.utime(stale, (0, 0))
                self.assertEqual(self.assert_found(patient)["socket"], row["socket"])
            started = Path(f"/proc/{patient.pid}/stat").read_text().rpartition(")")[2].split()[19]
            self.assertNotIn(f"-{started}-", row["socket"])

    def test_temporary_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            with Patient("healthy", fx=FX, env={"TMPDIR": folder}) as patient:
                row = self.assert_found(patient)
                self.assertTrue(row["socket"].startswith(folder), row["socket"])

    def test_other_user(self):
        with Patient("healthy", fx=FX, user="nobody") as patient:
            self.assertEqual(self.assert_found(patient)["user"], "nobody")

    def test_without_the_right(self):
        with Patient("healthy", fx=FX) as patient:
            row = ps(user="nobody")[patient.pid]
            self.assertFalse(row["answered"])
            self.assertEqual(row["remark"], "needs root")
            ways = check(patient.pid, user="nobody")["ways"]
            for way in "events", "samples", "image", "agent":
                self.assertFalse(ways[way]["open"], way)
                self.assertTrue(ways[way]["why"] and ways[way]["fix"], way)
            self.assertIn("root", ways["events"]["fix"])
            self.assertIn("CAP_SYS_PTRACE", ways["image"]["fix"])

    def test_own_user_without_privileges(self):
        with Patient("healthy", fx=FX, user="nobody") as patient:
            self.assertTrue(ps(user="nobody")[patient.pid]["answered"])
            ways = check(patient.pid, user="nobody")["ways"]
            self.assertTrue(ways["events"]["open"])
            self.assertTrue(ways["agent"]["open"], ways["agent"])

    def test_hidden_from_us_and_in_another_folder(self):
        # Neither its environment nor its folder can be read: only the names of its threads tell.
        with tempfile.TemporaryDirectory() as folder:
            with Patient("healthy", fx=FX, env={"TMPDIR": folder}) as patient:
                self.assertEqual(ps(user="nobody")[patient.pid]["remark"], "needs root")

    def test_stale_sockets(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "dotnet-diagnostic-1-77-socket", f"dotnet-diagnostic-{os.getpid()}-77-socket":
                with socket.socket(socket.AF_UNIX) as left_over:
                    left_over.bind(f"{folder}/{name}")
            (Path(folder) / "dotnet-diagnostic-2-77-socket").write_text("not a socket")
            sockets = {row["socket"] for row in ps(env={"TMPDIR": folder}).values()}
            self.assertFalse([s for s in sockets if s and s.startswith(folder)])

    def test_socket_without_a_process(self):
        # drdotnet in a pid namespace of its own shares nothing with the patient but a folder.
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with tempfile.TemporaryDirectory() as folder:
            here = {"prefix": alone, "env": {"TMPDIR": folder}}
            with Patient("healthy", fx=FX, env={"TMPDIR": folder}) as patient:
                row = next(r for r in ps(**here).values() if r["socket"].startswith(folder))
                self.assertGreaterEqual(row["id"], 1 << 30)
                self.assertIsNone(row["pid"])
                self.assertIsNone(row["rssBytes"])
                self.assertEqual(row["namespacePid"], patient.pid)
                self.assertEqual(row["assembly"], "sick")
                self.assertIn(row["id"], ps(**here), "the id is not stable")
                ways = check(row["id"], **here)["ways"]
                self.assertTrue(ways["events"]["open"], ways)
                self.assertTrue(ways["agent"]["open"], ways)
                for way in "samples", "image":
                    self.assertIn("shareProcessNamespace", ways[way]["fix"])
            self.assertEqual(drdotnet("check", row["id"], **here).returncode, NOT_FOUND)

    def test_a_folder_that_we_may_not_write_to(self):
        # The socket answers, but no library can be put beside it: it is said whose folder that is, and who we are.
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        with tempfile.TemporaryDirectory() as folder:
            here = {"prefix": ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *nobody], "env": {"TMPDIR": folder}}
            os.chmod(folder, 0o777)
            with Patient("healthy", fx=FX, env={"TMPDIR": folder}, user="nobody"):
                os.chmod(folder, 0o755)
                row = next(r for r in ps(**here).values() if r["socket"].startswith(folder))
                ways = check(row["id"], **here)["ways"]
                self.assertTrue(ways["events"]["open"], ways)
                self.assertEqual(ways["agent"]["why"], "its temporary folder belongs to user 0 with mode 755, and user 65534, "
                                                       "as whom we write there, may not write to it")
                os.chmod(folder, 0o777)
                self.assertTrue(check(row["id"], **here)["ways"]["agent"]["open"])


@unittest.skipIf(os.getuid() != 0, "namespaces need root")
class Named(unittest.TestCase):
    """In a world of its own, because the names of patients are the same everywhere."""

    def setUp(self):
        world = World("--pid", "--fork", "--kill-child", "--mount-proc", setup=OWN_TMP)
        self.addCleanup(world.__exit__)
        self.prefix = world.prefix("--mount", "--pid")

    def start(self):
        patient = Patient("healthy", fx=FX, prefix=self.prefix)
        self.addCleanup(patient.stop)
        return patient

    def run_check(self, target):
        return drdotnet("check", target, prefix=self.prefix)

    def test_by_name(self):
        self.start()
        for name in "sick", "SICK", "sick.dll":
            self.assertEqual(self.run_check(name).returncode, 0, name)

    def test_several(self):
        self.start()
        self.start()
        done = self.run_check("sick")
        self.assertEqual(done.returncode, USAGE)
        rows = ps(prefix=self.prefix)
        self.assertEqual(len(rows), 2)
        lines = done.stderr.decode().splitlines()
        for pid in rows:
            self.assertTrue([line for line in lines if line.split()[0] == str(pid)], lines)

    def test_none(self):
        self.start()
        done = self.run_check("nobody-is-called-that")
        self.assertEqual(done.returncode, NOT_FOUND)
        self.assertIn("sick", done.stderr.decode())
        self.assertEqual(len(done.stderr.decode().splitlines()), 1)

    def test_not_dotnet(self):
        done = self.run_check("1")
        self.assertEqual(done.returncode, NOT_FOUND)
        self.assertIn("not a .NET process", done.stderr.decode())

    def test_empty_world(self):
        self.assertEqual(ps(prefix=self.prefix), {})
        done = drdotnet("ps", prefix=self.prefix)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        self.assertIn("no .NET process", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
