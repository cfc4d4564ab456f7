"""Images of living processes: what they hold, whom they leave alone, and the core files written from them."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, look, wait_until
from groups import CGROUPS, MemoryGroup, remove_group, unified
from patient import FRAMEWORKS, Patient, diagonal, one_of
from probe import State, children, held_threads, hold, take

SIDE_BY_SIDE = True


def as_root(test):
    """Some of it needs root; without, it is said."""
    return unittest.skipIf(os.geteuid() != 0, "needs root")(test)


@contextlib.contextmanager
def native(code):
    """A Python process as a target: READY when it stands."""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               bufsize=1)
    try:
        assert process.stdout.readline().startswith("READY")
        yield process
    finally:
        process.kill()
        process.communicate()


class Content(unittest.TestCase):
    def test_snapshot_holds_runtime_threads_and_memory(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx=fx), Patient("churn", fx=fx) as patient:
                taken = take(patient.pid, "--read")
                self.assertEqual(taken.code, 0, taken)
                facts = taken.facts
                self.assertTrue(facts["whole"] and facts["runtime"])
                names = {thread["name"] for thread in facts["threads"]}
                self.assertTrue(any(name.startswith(".NET") for name in names), names)
                self.assertIn("churn-memory", names)
                # The runtime's own tables lie in memory that it shares with its copy.
                self.assertGreater(facts["saved_bytes"], 500_000)
                self.assertEqual(facts["left_bytes"], 0)
                self.assertGreater(facts["read_bytes"], 50 << 20)
                self.assertGreater(facts["copied_bytes"], 0)

    def test_without_the_debugger_threads_another_one_carries(self):
        without = ({"DOTNET_EnableDiagnostics": "0"}, {"DOTNET_EnableDiagnostics_Debugger": "0"})
        for fx, env in diagonal(FRAMEWORKS, without):
            with self.subTest(fx=fx, env=env), Patient("cpu", fx=fx, env=env) as patient:
                for _ in range(5):
                    taken = take(patient.pid)
                    self.assertEqual(taken.code, 0, taken)
                    self.assertTrue(taken.facts["carrier"].startswith(".NET"), taken)
                # It heals when it gets the processor, which others use here.
                wait_until(lambda: not held_threads(patient.pid), "every thread is as before")

    def test_live_stop_holds_and_lets_go(self):
        with Patient("churn") as patient:
            taken = take(patient.pid, what="stop")
            self.assertEqual(taken.code, 0, taken)
            self.assertGreater(len(taken.facts["threads"]), 5)
            wait_until(lambda: not held_threads(patient.pid), "every thread runs")
            self.assertEqual(children(patient.pid), {})
            self.assertTrue(patient.truth()["churn"]["right"])

    def test_a_copy_is_frozen(self):
        """What the process writes after the snapshot is not in it, shared or private. The runtime's own shared memory is
        in it, with its holes, also beside files that are too many to be saved."""
        code = """
import ctypes, mmap, os, sys, tempfile
private = ctypes.create_string_buffer(b'before', 64)
shared = mmap.mmap(-1, 4096); shared[0:6] = b'before'
memory = os.memfd_create('doublemapper'); os.truncate(memory, 1 << 20)
runtime = mmap.mmap(memory, 1 << 20); runtime[0:6] = b'before'
files = [tempfile.TemporaryFile(buffering=0) for _ in range(17)]
large = [mmap.mmap(f.fileno(), f.write(b'x' * (4 << 20))) for f in files]
where = [ctypes.addressof(ctypes.c_char.from_buffer(m)) for m in (shared, runtime)]
print('READY', ctypes.addressof(private), *where, flush=True)
sys.stdin.readline()
private.value = b'after!'; shared[0:6] = b'after!'; runtime[0:6] = b'after!'
print('CHANGED', flush=True)
sys.stdin.readline()
"""
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, bufsize=1)
        try:
            _, private, shared, runtime = process.stdout.readline().split()
            with tempfile.TemporaryDirectory() as folder, hold(process.pid, "--write-on-enter", f"{folder}/core") as held:
                process.stdin.write("\n")
                self.assertEqual(process.stdout.readline(), "CHANGED\n")
                held.enter()
                hole = int(runtime) + (512 << 10)
                shown = subprocess.run(["gdb", "-batch", *(f"-ex=x/s {a}" for a in (private, shared, runtime)),
                                        f"-ex=x/xg {hole}", "-c", f"{folder}/core"],
                                       capture_output=True, text=True, timeout=60).stdout
                self.assertEqual(shown.count('"before"'), 3, shown)
                self.assertRegex(shown, rf"{hole:#x}:\s+0x0000000000000000")
        finally:
            process.kill()
            process.communicate()


class LeftAlone(unittest.TestCase):
    """Each is refused with its reason, within its time, and runs on."""

    def refused(self, pid, kind, words, *options, prefix=()):
        started = time.monotonic()
        taken = take(pid, *options, prefix=prefix)
        self.assertEqual(taken.code, 1, taken)
        self.assertTrue(taken.err.startswith(kind + ": "), taken)
        self.assertRegex(taken.err, words)
        seconds = time.monotonic() - started
        wait_until(lambda: not held_threads(pid, masks=False), "every thread runs")
        return seconds

    def test_one_under_gdb(self):
        with Patient("churn") as patient, subprocess.Popen(
                ["gdb", "-q", "-p", str(patient.pid), "-ex", "continue"], stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as gdb:
            try:
                wait_until(lambda: f"TracerPid:\t{gdb.pid}" in Path(f"/proc/{patient.pid}/status").read_text(), "gdb")
                taken = take(patient.pid)
                self.assertEqual(taken.code, 1)
                self.assertIn(f"process {gdb.pid} debugs it", taken.err)
                with Home() as home, tempfile.TemporaryDirectory() as folder:
                    done = home.run("dump", "collect", str(patient.pid), "--fast", "-o", f"{folder}/core")
                    self.assertEqual(done.code, 5, done)
                    self.assertEqual(os.listdir(folder), [])
                self.assertIsNone(gdb.poll())
            finally:
                gdb.kill()
        self.assertIsNotNone(gdb.returncode)

    def test_one_that_someone_else_examines(self):
        with Patient("churn") as patient, hold(patient.pid) as held:
            self.refused(patient.pid, "busy", "someone else examines it|is examining it")
            with Home() as home, tempfile.TemporaryDirectory() as folder:
                done = home.run("dump", "collect", str(patient.pid), "--fast", "-o", f"{folder}/core")
                self.assertEqual(done.code, 5, done)
                way = home.run("check", str(patient.pid), "--json").json()["ways"]["image"]
                self.assertFalse(way["open"])
                self.assertRegex(way["why"], "examin")
                self.assertIn("wait", way["fix"])
                # A copy is no process of its own.
                listed = {row["pid"] for row in home.run("ps", "--json").json()}
                self.assertIn(patient.pid, listed)
                copies = [pid for pid, state in children(patient.pid).items() if state != "Z"]
                self.assertEqual(len(copies), 1)
                self.assertNotIn(copies[0], listed)
                self.assertEqual(Path(f"/proc/{copies[0]}/oom_score_adj").read_text().strip(), "1000")
                self.assertRegex(Path(f"/proc/{copies[0]}/limits").read_text(), r"Max core file size\s+0\s+0")
            del held
        # Killed in between; the next one finds the way free.

    def test_one_in_vfork(self):
        with State("vfork") as state:
            self.assertLess(self.refused(state.pid, "timeout", "uninterruptible"), 5)
            state.check()

    def test_one_whose_filter_forbids(self):
        for word in ("forbid-errno", "forbid-kill"):
            with self.subTest(filter=word), State(word) as state:
                self.refused(state.pid, "unsupported", "seccomp filter forbids")
                state.check()
        with State("allow") as state:
            self.assertEqual(take(state.pid).code, 0)
            state.check()

    @as_root
    def test_a_filter_that_may_not_be_read(self):
        """Without CAP_SYS_ADMIN nobody knows what a filter does: then nothing is tried."""
        with State("allow", prefix=["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]) as state:
            taken = take(state.pid, user="nobody")
            self.assertEqual(taken.code, 1, taken)
            self.assertIn("CAP_SYS_ADMIN", taken.err)
            state.check()

    def test_one_without_a_fit_thread(self):
        with native("print('READY', flush=True)\nwhile True: pass") as busy:
            seconds = self.refused(busy.pid, "unsupported", "none of its threads")
            self.assertLess(seconds, 10)
            self.assertIsNone(busy.poll())

    def test_one_whose_heap_is_in_disorder(self):
        code = """
import ctypes, sys
word = ctypes.c_uint32(1)
print('READY', hex(ctypes.addressof(word)), flush=True)
sys.stdin.readline(); word.value = 0
print('ORDER', flush=True); sys.stdin.readline()
"""
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, bufsize=1)
        try:
            word = process.stdout.readline().split()[1]
            self.refused(process.pid, "busy", "collection", "--busy-word", word)
            process.stdin.write("\n")
            self.assertEqual(process.stdout.readline(), "ORDER\n")
            taken = take(process.pid, "--busy-word", word)
            self.assertEqual((taken.code, taken.facts["attempts"]), (0, 1), taken)
        finally:
            process.kill()
            process.communicate()

    def test_one_stopped_by_a_signal(self):
        with State() as state:
            os.kill(state.pid, signal.SIGSTOP)
            wait_until(lambda: "\nState:\tT" in Path(f"/proc/{state.pid}/status").read_text(), "it is stopped")
            taken = take(state.pid)
            self.assertEqual(taken.code, 1)
            self.assertIn("stopped by a signal", taken.err)
            self.assertIn("\nState:\tT", Path(f"/proc/{state.pid}/status").read_text())
            os.kill(state.pid, signal.SIGCONT)
            state.check()

    def test_check_says_what_will_be(self):
        with Patient("churn") as patient, Home() as home:
            way = home.run("check", str(patient.pid), "--json").json()["ways"]["image"]
            self.assertTrue(way["open"], way)
            self.assertRegex(way["how"], r"a pause of about [\d.]+ ms")
            # ... and so does an examination, before it begins.
            said = home.run("merged-call-stacks", patient.pid).err
            self.assertRegex(said.splitlines()[0], r"it will stand still for about [\d.]+ ms")
            os.kill(patient.pid, signal.SIGSTOP)
            wait_until(lambda: "\nState:\tT" in Path(f"/proc/{patient.pid}/status").read_text(), "it is stopped")
            way = home.run("check", str(patient.pid), "--json").json()["ways"]["image"]
            os.kill(patient.pid, signal.SIGCONT)
            self.assertFalse(way["open"])
            self.assertIn("SIGCONT", way["fix"])

    def test_too_long_a_pause_is_refused_beforehand(self):
        with Patient("churn") as patient:
            self.refused(patient.pid, "unsupported", "stand still for about .*; the limit is 1 ms", "--max-pause", 1)

    @as_root
    def test_one_in_a_frozen_cgroup(self):
        freezer = CGROUPS / "freezer"
        if not freezer.exists():
            self.skipTest("no freezer cgroup here")
        group = freezer / f"drdotnet-test-{os.getpid()}"
        group.mkdir()
        try:
            with State() as state:
                (group / "cgroup.procs").write_text(str(state.pid))
                (group / "freezer.state").write_text("FROZEN")
                try:
                    self.assertLess(self.refused(state.pid, "busy", "frozen"), 5)
                finally:
                    (group / "freezer.state").write_text("THAWED")
                state.check()
                self.assertEqual(take(state.pid).code, 0)
                state.check()
        finally:
            remove_group(group)

    @as_root
    def test_one_in_a_tight_memory_cgroup(self):
        with MemoryGroup() as group, Patient("churn", rate=50) as patient:
            group.add(patient.pid)
            # What it takes from now on counts: hardly any room above what it has.
            anon = rss_anon(patient.pid)
            for spare in (2 << 20, 8 << 20, 24 << 20, 200 << 20):
                group.limit(max(anon, group.used()) + spare)
                taken = take(patient.pid, "--read", "--hold", "100")
                if taken.code:
                    self.assertIn("its cgroup has only", taken.err)
                self.assertTrue(patient.alive())
                self.assertTrue(patient.truth()["churn"]["right"])
            self.assertEqual(taken.code, 0, taken)
            wait_until(lambda: not held_threads(patient.pid), "every thread is as before")
            self.assertEqual(group.killed(), 0)

    @as_root
    def test_one_whose_container_would_die_as_a_whole(self):
        """memory.oom.group: however much room there is, no copy; another way is taken or named."""
        with WholeGroup() as group, Patient("churn") as patient, Home() as home:
            group.add(patient.pid)
            self.refused(patient.pid, "unsupported", "memory.oom.group", prefix=group.prefix)
            way = home.run("check", patient.pid, "--json", prefix=group.prefix).json()["ways"]["image"]
            self.assertFalse(way["open"])
            self.assertIn("all of its container would be killed", way["why"])
            self.assertIn("memory.oom.group", way["fix"])
            # Nor one that the process makes of itself.
            report = look(home, "merged-call-stacks", patient.pid, prefix=group.prefix)
            self.assertEqual(report.how["Way"]["value"], "events")
            done = home.run("heap-stats", patient.pid, "--way", "agent", prefix=group.prefix)
            self.assertNotEqual(done.code, 0)
            self.assertIn("all of its container would be killed", done.err)
            self.assertTrue(patient.truth()["churn"]["right"])
            group.forget()
            self.assertEqual(take(patient.pid, prefix=group.prefix).code, 0)

    @as_root
    def test_one_with_large_pages(self):
        """A copy would need each of them a second time, and there is no second one: the kernel would kill for it."""
        with large_pages(LARGE_PAGES), Home() as home, \
                Patient("healthy", env={"DOTNET_GCLargePages": "1", "DOTNET_GCHeapHardLimit": LARGE_HEAP}) as patient:
            self.assertRegex(Path(f"/proc/{patient.pid}/status").read_text(), r"HugetlbPages:\s+[1-9]")
            self.refused(patient.pid, "unsupported", "MB of large pages")
            way = home.run("check", patient.pid, "--json").json()["ways"]["image"]
            self.assertFalse(way["open"])
            self.assertIn("large pages", way["why"])
            self.assertIn("DOTNET_GCLargePages", way["fix"])

    @as_root
    def test_one_that_may_start_nothing_more(self):
        """The kernel refuses the copy: the thread that asked for it heals."""
        pids = CGROUPS / "pids"
        if not pids.exists():
            self.skipTest("no pids cgroup here")
        group = pids / f"drdotnet-test-{os.getpid()}"
        group.mkdir()
        try:
            with State() as state:
                (group / "cgroup.procs").write_text(str(state.pid))
                (group / "pids.max").write_text((group / "pids.current").read_text())
                for _ in range(10):
                    self.refused(state.pid, "unsupported", "the kernel refused")
                state.check()
                (group / "pids.max").write_text("max")
                self.assertEqual(take(state.pid).code, 0)
                state.check()
        finally:
            remove_group(group)

    def test_one_that_is_stopped_and_continued_all_the_time(self):
        with State() as state:
            ending = threading.Event()

            def storm():
                while not ending.is_set():
                    os.kill(state.pid, signal.SIGSTOP)
                    time.sleep(0.001)
                    os.kill(state.pid, signal.SIGCONT)
                    time.sleep(0.002)

            thread = threading.Thread(target=storm)
            thread.start()
            try:
                codes = [take(state.pid).code for _ in range(60)]
            finally:
                ending.set()
                thread.join()
            os.kill(state.pid, signal.SIGCONT)
            wait_until(lambda: not held_threads(state.pid, masks=False), "every thread runs")
            state.check()
            self.assertEqual(take(state.pid).code, 0)
            self.assertEqual(children(state.pid), {})
            print(f"{codes.count(0)} of {len(codes)} snapshots between stops", flush=True)

    @as_root
    def test_a_copy_is_dropped_when_memory_becomes_short(self):
        with MemoryGroup() as group, Patient("churn", rate=20) as patient:
            group.add(patient.pid)
            group.limit(500 << 20)
            with hold(patient.pid, ms=3000) as held:
                group.limit(group.used() + (4 << 20))
                wait_until(lambda: children(patient.pid) == {}, "the copy is dropped", 2.5)
                group.limit(500 << 20)
                end = held.finish()
            self.assertFalse(end["whole"])
            self.assertIn("memory became short", end["lost"])
            self.assertTrue(patient.truth()["churn"]["right"])


def rss_anon(pid):
    return int(re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


class WholeGroup(MemoryGroup):
    """One with memory.oom.group. Only version 2 knows it: where memory is counted by version 1, its files are laid over
    the folder of a real group, in mounts that only those see who are started with the prefix."""

    FILES = {"memory.max": "max", "memory.current": 1 << 20, "memory.oom.group": 1}

    def __init__(self):
        super().__init__()
        self.folder = unified() / self.folder.name
        self.files, self.prefix = self.folder, ()

    def __enter__(self):
        super().__enter__()
        if not self.v2:
            self.over = tempfile.TemporaryDirectory(prefix="drdotnet-group-")
            self.files = Path(self.over.name)
            self.prefix = ("unshare", "--mount", "sh", "-ec", f'mount --bind "{self.files}" "{self.folder}"; exec "$0" "$@"')
            for name, value in self.FILES.items():
                (self.files / name).write_text(f"{value}\n")
        (self.files / "memory.oom.group").write_text("1\n")
        return self

    def __exit__(self, *_):
        super().__exit__()
        if not self.v2:
            self.over.cleanup()

    def forget(self):
        (self.files / "memory.oom.group").write_text("0\n")


LARGE_HEAP, LARGE_PAGES = "0x2000000", 40  # of 2 MB: the collector takes more than the heap may grow to


@contextlib.contextmanager
def large_pages(count):
    """So many more of them, while it lasts."""
    pool = Path("/proc/sys/vm/nr_hugepages")
    before = int(pool.read_text())
    pool.write_text(str(before + count))
    try:
        got = int(pool.read_text())
        assert got == before + count, f"only {got - before} of {count} large pages could be had"
        yield
    finally:
        pool.write_text(str(before))


class Lives(unittest.TestCase):
    """A process that ends, execs, forks or closes while a copy of it lives."""

    def test_a_closed_socket_is_closed_at_once(self):
        code = """
import socket, sys
s = socket.create_server(('127.0.0.1', 0))
print('READY', s.getsockname()[1], flush=True)
c, _ = s.accept()
print('ACCEPTED', flush=True)
sys.stdin.readline()
c.close()
print('CLOSED', flush=True)
sys.stdin.readline()
"""
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, bufsize=1)
        try:
            port = int(process.stdout.readline().split()[1])
            with socket.create_connection(("127.0.0.1", port)) as peer:
                self.assertEqual(process.stdout.readline(), "ACCEPTED\n")
                with hold(process.pid, ms=20000) as held:
                    process.stdin.write("\n")
                    self.assertEqual(process.stdout.readline(), "CLOSED\n")
                    peer.settimeout(5)
                    self.assertEqual(peer.recv(1), b"")
                    self.assertIsNone(held.process.poll(), "the copy lived all the time")
        finally:
            process.kill()
            process.communicate()

    def test_the_copy_ends_with_its_process(self):
        code = """
import socket, sys
s = socket.create_server(('127.0.0.1', 0))
print('READY', s.getsockname()[1], flush=True)
sys.stdin.readline()
"""
        process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, bufsize=1)
        port = int(process.stdout.readline().split()[1])
        with hold(process.pid, ms=3000) as held:
            copy = [pid for pid, state in children(process.pid).items() if state != "Z"]
            self.assertEqual(len(copy), 1)
            process.kill()
            process.communicate()
            wait_until(lambda: not Path(f"/proc/{copy[0]}").exists(), "the copy is gone", 2.5)
            with socket.create_server(("127.0.0.1", port)):
                pass  # its port is free again
            end = held.finish()
        self.assertFalse(end["whole"])
        self.assertIn("ended", end["lost"])

    def test_a_process_that_starts_others(self):
        """Threads in vfork again and again: some attempts give up, nobody is hurt."""
        code = """
import subprocess, sys, threading, time
count = 0
def spawn():
    global count
    while True:
        subprocess.run(['/bin/true'], check=True)
        count += 1
for _ in range(2):
    threading.Thread(target=spawn, daemon=True).start()
print('READY', flush=True)
for line in sys.stdin:
    print(count, flush=True)
"""
        with native(code) as process:
            good = 0
            for _ in range(15):
                good += take(process.pid).code == 0
            process.stdin.write("\n")
            before = int(process.stdout.readline())

            def more():
                process.stdin.write("\n")
                return int(process.stdout.readline()) > before + 3

            wait_until(more, "it goes on starting processes")
            self.assertGreater(good, 0)
            self.assertEqual(children(process.pid, copies=True), {})

    def test_a_process_that_becomes_others(self):
        """It execs itself without pause: whatever a snapshot meets, the process goes on."""
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "again.py"
            script.write_text("import os, sys, time\n"
                              "n = int(sys.argv[1]) + 1\n"
                              f"open({folder!r} + '/count', 'w').write(str(n))\n"
                              "time.sleep(0.002)\n"
                              "os.execv(sys.executable, [sys.executable, sys.argv[0], str(n)])\n")
            process = subprocess.Popen([sys.executable, str(script), "0"])
            try:
                count = Path(folder) / "count"

                def number():
                    text = count.read_text() if count.exists() else ""
                    return int(text or 0)

                wait_until(lambda: number() > 2, "it has begun")
                for _ in range(25):
                    take(process.pid)
                    self.assertIsNone(process.poll())
                before = number()
                wait_until(lambda: number() > before + 2, "it goes on")
            finally:
                process.kill()
                process.wait()

    def test_a_process_that_ends_at_any_moment(self):
        for delay in range(12):
            with State() as state:
                timer = threading.Timer(delay / 1000, os.kill, (state.pid, signal.SIGKILL))
                timer.start()
                taken = take(state.pid)
                timer.join()
                if taken.code:
                    self.assertRegex(taken.err, "ended|has become|not found|No such|no process|is gone|killed|stop|memory")

    def test_a_copy_does_not_live_too_long(self):
        with Patient("churn") as patient, hold(patient.pid, "--max-life", 200, ms=1500) as held:
            wait_until(lambda: children(patient.pid) == {}, "the copy is dropped", 1.2)
            end = held.finish()
            self.assertFalse(end["whole"])
            self.assertIn("too long", end["lost"])


@as_root
class Users(unittest.TestCase):
    def test_own_processes_yes_others_no(self):
        with tempfile.TemporaryDirectory() as tmp:
            os.chmod(tmp, 0o777)
            with Patient("churn", user="nobody", env={"TMPDIR": tmp}) as own, Patient("churn") as of_root:
                taken = take(own.pid, user="nobody")
                self.assertEqual(taken.code, 0, taken)
                self.assertTrue(own.truth()["churn"]["right"])
                taken = take(of_root.pid, user="nobody")
                self.assertEqual(taken.code, 1)
                self.assertTrue(taken.err.startswith("denied: "), taken)
                # Everybody sees the same lock.
                with hold(own.pid):
                    taken = take(own.pid, user="nobody")
                    self.assertTrue(taken.err.startswith("busy: "), taken)


class Dump(unittest.TestCase):
    def test_gdb_opens_it(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx=fx), Patient("churn", fx=fx) as patient, Home() as home, \
                    tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/shop.core"
                done = home.run("dump", "collect", str(patient.pid), "--fast", "-o", path, "--json")
                self.assertEqual(done.code, 0, done)
                facts = done.json()
                self.assertEqual(os.listdir(folder), ["shop.core"])
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                self.assertGreater(facts["pauseMs"], 0)
                self.assertGreater(facts["copyLifetimeMs"], 0)
                self.assertEqual(facts["leftBytes"], 0)
                program = os.readlink(f"/proc/{patient.pid}/exe")
                shown = subprocess.run(["gdb", "-batch", "-ex", "info threads", "-ex", "bt 6", program, path],
                                       capture_output=True, text=True, timeout=120).stdout
                self.assertGreaterEqual(shown.count("LWP"), facts["threads"])
                # Names out of the C library and the runtime's mapping: registers, memory, files and threads fit together.
                self.assertRegex(shown, r"#0 .*(futex|poll|read)")
                self.assertRegex(shown, r"#\d+ .* from .*/libcoreclr.so")
                self.assertEqual(children(patient.pid), {})
                self.assertTrue(patient.truth()["churn"]["right"])

    def test_clrmd_opens_it(self):
        for fx in one_of(FRAMEWORKS, 1):
            with self.subTest(fx=fx), Patient("churn", fx=fx) as patient, Home() as home, \
                    tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/shop.core"
                done = home.run("dump", "collect", str(patient.pid), "--fast", "-o", path, "-q")
                self.assertEqual(done.code, 0, done)
                dac = Path(os.readlink(f"/proc/{patient.pid}/exe")).parent / "libmscordaccore.so"
                shown = oracle.run("clrmd", "stacks", path, dac)
                self.assertIn("Patients.Program.Main(System.String[])", shown)
                self.assertRegex(shown, r"Shop\.Mall\.|Patients\.Worker")

    def test_wrong_words_and_places(self):
        with Patient("churn") as patient, Home() as home, tempfile.TemporaryDirectory() as folder:
            target = str(patient.pid)
            cases = [
                (("dump",), 2), (("dump", "collect"), 2), (("dump", "eat", target), 2),
                (("dump", "collect", target, "--fast", "-o", f"{folder}/x", "--max-pause", "soon"), 2),
                (("dump", "collect", target, "--fast", "-o", f"{folder}/none/x"), 3),
                (("dump", "collect", target, "--fast", "-o", folder), 2),
                (("dump", "collect", "999999999", "--fast", "-o", f"{folder}/x"), 3),
                (("dump", "collect", target, "--fast", "-o", f"{folder}/x", "--max-pause", "1ms"), 1),
            ]
            for words, code in cases:
                with self.subTest(words=words):
                    done = home.run(*words)
                    self.assertEqual(done.code, code, done)
                    self.assertEqual(done.out, "")
                    self.assertEqual(os.listdir(folder), [])

    @as_root
    def test_a_full_disk_is_seen_before(self):
        with Patient("churn") as patient, Home() as home, tempfile.TemporaryDirectory() as folder:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", folder], check=True)
            try:
                done = home.run("dump", "collect", str(patient.pid), "--fast", "-o", f"{folder}/core")
                self.assertEqual(done.code, 1, done)
                self.assertIn("has 8 MB left", done.err)
                self.assertEqual(os.listdir(folder), [])
                self.assertEqual(children(patient.pid), {})
            finally:
                subprocess.run(["umount", folder], check=True)

    def test_interrupted(self):
        with Patient("churn") as patient, Home() as home, tempfile.TemporaryDirectory() as folder:
            with home.start("dump", "collect", str(patient.pid), "--fast", "-o", f"{folder}/core") as job:
                job.wait_for("stand still")
                job.signal(signal.SIGINT)
                done = job.finish()
            self.assertIn(done.code, (0, 130), done)
            if done.code:
                self.assertEqual(os.listdir(folder), [])
            wait_until(lambda: children(patient.pid) == {}, "the copy is gone")
            self.assertTrue(patient.truth()["churn"]["right"])


if __name__ == "__main__":
    unittest.main()
