"""Takes images with the probe (tests/tools/image_probe.c), starts the native patient, and looks at what a process is
like from outside.

    image = take(patient.pid)                      # a snapshot, dropped again
    with hold(patient.pid) as held: ...            # a snapshot that lives until the block ends
"""

import contextlib
import json
import os
import select
import subprocess
from pathlib import Path

from drdotnet import PROGRAM
from patient import _child_setup

TOOLS = Path(PROGRAM).parent / "tests"
PROBE = str(TOOLS / "image_probe")
SECONDS = 60


class Taken:
    """What the probe said."""

    def __init__(self, done):
        self.code, self.err = done.returncode, done.stderr
        lines = done.stdout.splitlines()
        self.facts = json.loads(lines[-1]) if lines else {}
        self.died = " dies: " in done.stderr
        self.passed = [tuple(line.split(" passes: ")) for line in done.stderr.splitlines() if " passes: " in line]

    def __repr__(self):
        return f"exit code {self.code}, {self.err.strip()}, {self.facts}"


def take(pid, *options, what="snapshot", fault=None, user=None, prefix=()):
    env = dict(os.environ)
    if fault:
        env["DRDOTNET_FAULT"] = fault
    return Taken(subprocess.run([*prefix, PROBE, what, str(pid), *map(str, options)], capture_output=True, text=True, env=env,
                                timeout=SECONDS, preexec_fn=_child_setup(user) if user else None))


def places(pid):
    """Every place at which the probe can die: (role, place, number)."""
    counts = {}
    for role, place in take(pid, fault="list").passed:
        counts[role, place] = counts.get((role, place), 0) + 1
    return [(role, place, n + 1) for (role, place), count in counts.items() for n in range(count)]


class Held:
    def __init__(self, process):
        self.process = process
        self.facts = json.loads(self._line())
        self.end = None

    def _line(self):
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            raise AssertionError("the probe says nothing")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"no image: {self.process.stderr.read()}")
        return line

    def enter(self):
        """Says that it may go on, and waits for its end."""
        out, err = self.process.communicate("\n", timeout=SECONDS)
        if self.process.returncode:
            raise AssertionError(err)
        return json.loads(out.splitlines()[-1])

    def finish(self):
        out, _ = self.process.communicate(timeout=SECONDS)
        self.end = json.loads(out.splitlines()[-1])
        return self.end


@contextlib.contextmanager
def hold(pid, *options, ms=10000):
    process = subprocess.Popen([PROBE, "snapshot", str(pid), "--hold", str(ms), *map(str, options)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield Held(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class State:
    """The native patient that compares its own registers, signals and timers."""

    def __init__(self, *words, prefix=()):
        self._process = subprocess.Popen([*prefix, str(TOOLS / "state"), *words], text=True, bufsize=1,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         preexec_fn=_child_setup(None))
        self.pid = json.loads(self._line("READY"))["pid"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _line(self, word):
        if not select.select([self._process.stdout], [], [], SECONDS)[0]:
            raise AssertionError(f"no {word}")
        line = self._process.stdout.readline().strip()
        if not line.startswith(word + " "):
            raise AssertionError(f"expected {word}, got: {line or 'its end'}")
        return line.split(" ", 1)[1]

    def check(self):
        """Its counts; fails when anything was not as it had been."""
        self._process.stdin.write("check\n")
        return json.loads(self._line("OK"))

    def stop(self):
        self._process.stdin.write("quit\n")
        return self._process.wait(SECONDS)


def children(pid, copies=False):
    """Pid to state letter, of every child of every thread; copies alone give no signal at their end."""
    found = {}
    for path in Path(f"/proc/{pid}/task").iterdir():
        try:
            for child in (path / "children").read_text().split():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                if not copies or fields[35] == "0":
                    found[int(child)] = fields[0]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def raised_threads(pid):
    """Threads that the kernel schedules in real time."""
    found = []
    for path in Path(f"/proc/{pid}/task").iterdir():
        try:
            if int((path / "stat").read_text().rpartition(")")[2].split()[15]) < 0:
                found.append(int(path.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def held_threads(pid, masks=True):
    """Threads that are stopped, traced, or (masks) have every signal blocked."""
    found = []
    for path in Path(f"/proc/{pid}/task").iterdir():
        try:
            status = dict(line.split(":\t", 1) for line in (path / "status").read_text().splitlines() if ":\t" in line)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if status["State"][0] in "tT" or status["TracerPid"].strip() != "0" or \
                masks and status["SigBlk"].startswith("ffff"):
            found.append(f"{path.name} {status['Name']}: {status['State']}, tracer {status['TracerPid']}, "
                         f"blocked {status['SigBlk']}")
    return found


def copies_of(pid):
    """Children that run the same program: copies of it (or one that is about to become another program)."""
    def program(one):
        try:
            return os.readlink(f"/proc/{one}/exe")
        except OSError:
            return None
    return [child for child in children(pid) if program(child) == program(pid)]


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
