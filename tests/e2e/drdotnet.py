"""Runs drdotnet for the end-to-end tests, with a home of its own.

    with Home() as home:
        done = home.run("run", "exceptions", str(patient.pid), "--duration", "2s")
        with home.start("run", ...) as job:
            job.wait_for("listening")         # a line on its standard error
            job.signal(signal.SIGINT)
            done = job.finish()
        report = examine(home, "exceptions", patient.pid, 2)
"""

import functools
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("DRDOTNET", str(ROOT / "build" / "drdotnet"))
DEADLINE_SECONDS = 120.0
LONG_SECONDS = 600  # a window that the test ends itself
CANCELLED = 130
MARK = "DRDOTNET_TESTED_BY"
os.environ[MARK] = str(os.getpid())


class Done:
    """An ended command."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Job:
    """A command that runs. Leaving the `with` block kills it."""

    def __init__(self, command, env):
        self._out = tempfile.TemporaryFile()
        self._err = b""
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self._out,
                                         stderr=subprocess.PIPE, start_new_session=True)
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._process.stderr.close()
        self._out.close()

    def wait_for(self, text, seconds=DEADLINE_SECONDS):
        deadline = time.monotonic() + seconds
        while text.encode() not in self._err:
            if not self._read(deadline):
                raise AssertionError(f"no '{text}' on stderr: {self._err.decode(errors='replace')}")

    def worker(self):
        """The pid of its worker, or None."""
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return int(children[0]) if children else None

    def signal(self, number):
        self._process.send_signal(number)

    def poll_within(self, seconds):
        """Its exit code, or None when it still runs after so long."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def finish(self, seconds=DEADLINE_SECONDS):
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        code = self._process.wait(max(1.0, deadline - time.monotonic()))
        self._out.seek(0)
        if b"after the session was saved" in self._err:
            raise AssertionError(f"the worker ended badly: {self._err.decode(errors='replace')}")
        return Done(code, self._out.read().decode(errors="replace"), self._err.decode(errors="replace"))

    def _read(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._process.stderr], [], [], left)[0]:
            raise AssertionError(f"still running; stderr so far: {self._err.decode(errors='replace')}")
        chunk = os.read(self._process.stderr.fileno(), 65536)
        self._err += chunk
        return chunk


class Home:
    """A home for sessions in a temporary folder."""

    def __init__(self, program=PROGRAM):
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="drdotnet-home-")
        self.path = Path(self._folder.name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._folder.cleanup()

    def start(self, *arguments, prefix=(), env=None):
        return Job([*prefix, self._program, *map(str, arguments)], {**os.environ, "DRDOTNET_HOME": str(self.path), **(env or {})})

    def run(self, *arguments, prefix=(), env=None):
        with self.start(*arguments, prefix=prefix, env=env) as job:
            return job.finish()

    def sessions(self):
        """All sessions, newest first, as `sessions --json` tells them."""
        done = self.run("sessions", "--json", "--limit", "100000")
        if done.code != 0:
            raise AssertionError(repr(done))
        return json.loads(done.out)

    def folders(self):
        folder = self.path / "sessions"
        return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def _parents():
    """pid -> pid of the parent, of all processes."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                pass
    return found


def _is_ours(pid, parents):
    """Did this test start it, or what it started? Who has lost its parent is known by its environment."""
    try:
        if f"{MARK}={os.getpid()}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return True
    except OSError:
        pass
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = parents.get(pid, 0)
    return False


def listeners(pid):
    """Pids of those who hold a connection to the diagnostics socket of the process, each as often as it has one."""
    rows = re.findall(r"(?m)^u_str +ESTAB +\d+ +\d+ +(.*?) +(\d+) +\S+ +(\d+) *(.*)$",
                      subprocess.run(["ss", "-xHpn"], capture_output=True, text=True, check=True).stdout)
    holders = {inode: [int(p) for p in re.findall(r"pid=(\d+)", users)] for _, inode, _, users in rows}
    return [holder for path, _, peer, users in rows if "dotnet-diagnostic-" in path and f"pid={pid}," in users
            for holder in holders.get(peer, [])[:1]]


def event_streams(pid):
    """How many event streams the process serves: a thread each, beside that of its diagnostics server. Those of other tests'
    servers, which listen to every process that they see, do not count."""
    count = -1
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            count += (task / "comm").read_text().startswith(".NET EventPipe")
        except (FileNotFoundError, ProcessLookupError):
            pass
    if count <= 0:
        return count
    parents = _parents()
    return max(0, count - sum(not _is_ours(holder, parents) for holder in listeners(pid)))


def wait_until(condition, what, seconds=DEADLINE_SECONDS):
    """For states of other processes that nothing announces: looks again every 20 ms."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def gone(pid):
    """Ended, or a zombie that somebody else has to bury."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Report:
    """A report as `--json` gives it."""

    def __init__(self, data):
        self.data = data
        self.finding, self.health = data["verdict"]["finding"], data["verdict"]["health"]
        self.verdict, self.partial = data["verdict"]["plain"], data["facts"]["partial"]
        self.figures = {f["label"]: f["value"] for f in data["figures"]}
        self.how = {f["label"]: f for f in data["how"]}

    def block(self, title):
        found = [b for b in self.data["blocks"] if b.get("title") == title]
        if not found:
            raise AssertionError(f"no block '{title}' among {[b.get('title') for b in self.data['blocks']]}: {self.verdict} {self.how}")
        return found[0]

    def rows(self, title):
        """The rows of a table, each as column -> value; its lines stand under "lines"."""
        table = self.block(title)
        names = [column["name"] for column in table["columns"]]
        return [{**dict(zip(names, row["cells"])), "lines": [line["text"] for line in row.get("lines", [])]}
                for row in table["rows"]]


def examine(home, profiler, target, seconds, *more, **where):
    """One examination with `--json`; fails unless it ends well."""
    done = home.run(profiler, target, "-d", f"{seconds}s", "--json", *more, **where)
    if done.code != 0:
        raise AssertionError(repr(done))
    return Report(done.json())


def look(home, profiler, *target, **where):
    """The same of a profiler that looks at an instant; the target may be ("--core", path)."""
    done = home.run(profiler, *target, "--json", **where)
    if done.code != 0:
        raise AssertionError(repr(done))
    return Report(done.json())


def stand_still(patient):
    """Pauses the patient until none of its producers moves, however busy the machine is."""
    wait_until(lambda: patient.pause()["quiet"], "the patient stands still")


def end_window(job):
    """Ends the window of an examination now, as Ctrl-C does; returns its report."""
    job.signal(signal.SIGINT)
    done = job.finish()
    if done.code != CANCELLED:
        raise AssertionError(repr(done))
    return Report(done.json())


def examine_exactly(home, profiler, patient, enough, **where):
    """An examination whose window holds all that the patient did since its mark: it stands still while the window
    opens and again before it closes. Returns the report and the truth. `enough(truth)` says when to stop it."""
    stand_still(patient)
    patient.mark()
    with home.start(profiler, patient.pid, "-d", f"{LONG_SECONDS}s", "--json", **where) as job:
        job.wait_for("listening")
        patient.resume()
        wait_until(lambda: enough(patient.truth()), f"the patient has done enough for {profiler}")
        stand_still(patient)
        report = end_window(job)
        truth = patient.truth()
    patient.resume()
    return report, truth


def side_by_side(tasks, workers=6):
    """Runs functions that mostly wait, each in a thread of its own; key -> future whose result() also raises."""
    with ThreadPoolExecutor(workers) as pool:
        return {key: pool.submit(task) for key, task in tasks.items()}


def for_each_result(test):
    """Runs a test method once for every entry of self.results, with its key and what its future gave."""
    @functools.wraps(test)
    def run(self):
        for key, future in self.results.items():
            with self.subTest(key):
                test(self, key, *future.result())
    return run
