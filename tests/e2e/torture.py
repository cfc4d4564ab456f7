"""What tests/e2e/test_torture.py needs to fail one system call or one allocation of a command of ours, and to judge what comes
of it. The failing itself is done by tests/tools/torture.c (system calls) and tests/tools/torture_alloc.c (allocations)."""

import dataclasses
import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from drdotnet import PROGRAM, Home, event_streams, gone
from patient import Patient

TOOLS = Path(PROGRAM).resolve().parent / "tests"
LONGEST_SECONDS = 90  # of a command whose session looks for one second: longer is a hang
SETTLE_SECONDS = 20
LEFT_CODE, MISUSED_CODE = 250, 251


@dataclasses.dataclass(frozen=True)
class Try:
    """The `nth` call or allocation of a place fails."""
    role: str
    place: str
    nth: int
    error: str  # ENOSPC, SHORT ...; "memory" for an allocation
    name: str  # of the system call, or "malloc"
    at: str = ""  # for people: where in our code, see `addr2line -e drdotnet`

    def key(self):
        return f"{self.role}:{self.place}:{self.nth}:{self.error}"


@dataclasses.dataclass
class End:
    """What a command with a failure in it left: an exit code and words."""
    code: int
    out: str
    err: str
    reached: bool
    hang: bool = False
    signal: int = 0


def call_tries(role, text):
    """Of what `torture --count` wrote: each place with each of its errors, at its first call and in the middle of many. A call
    that does not come from our code is the loader's, before ours begins."""
    tries = []
    for line in text.splitlines():
        place, name, calls, errors, *at = line.split()
        calls = int(calls.removeprefix("calls="))
        if name.startswith("unknown-"):
            raise AssertionError(f"{name}: a system call that tests/tools/torture.c does not list")
        for error in filter(None, at[1:] and errors.removeprefix("errors=").split(",")):
            tries += [Try(role, place, nth, error, name, " ".join(at[1:])) for nth in sorted({1, 1 + calls // 2})]
    return tries


def allocation_tries(role, text):
    tries = []
    for place, calls, _, _, *at in map(str.split, text.splitlines()):
        if not at:
            continue
        half = 1 + int(calls.removeprefix("calls=")) // 2
        tries += [Try(role, place, nth, "memory", "malloc", " ".join(at)) for nth in sorted({1, half})]
    return tries


def words_of(error):
    """What a person must be told of it; "" for what may be told in any words."""
    if error in ("SHORT", "EINTR"):
        return ""
    return "out of memory" if error == "memory" else os.strerror(getattr(errno, error))


class Lane:
    """A patient of its own, a home with an earlier finished session, and a folder for temporary files: one failure at a time."""

    made = 0

    def __init__(self, sickness, **keys):
        Lane.made += 1
        self.mark = f"TORTURE_LANE={os.getpid()}.{Lane.made}"
        self.tmp = Path(tempfile.mkdtemp(prefix="torture-"))
        (self.tmp / "ours").mkdir()
        (self.tmp / "theirs").mkdir()
        name, _, value = self.mark.partition("=")
        self.env = {name: value, "TMPDIR": str(self.tmp / "theirs")}
        self.home = Home()
        self.dead_allowed = False  # a dead copy, which the next look buries
        self._start_patient = lambda: Patient(sickness, env=self.env, max_seconds=36000, **keys)
        self.begin()

    def begin(self):
        """A target as a visit of our library leaves it: the runtime keeps a thread for event streams from then on."""
        self.patient = self._start_patient()
        done = self.home.run("heap-stats", self.patient.pid, "--way", "agent", env=self.env)
        if done.code != 0:
            raise AssertionError(repr(done))
        self.streams, self.files = event_streams(self.patient.pid), self._target_files()

    def renew(self):
        """Another target, for the next failure, in place of one that is not as it was."""
        self.patient.stop()
        for mark in self.others():
            os.kill(int(mark.split()[0]), signal.SIGKILL)
        self.begin()
        self.tidy()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.patient.stop()
        self.home.__exit__()
        shutil.rmtree(self.tmp, ignore_errors=True)

    def keep(self, *command):
        """The earlier session, which nothing may touch from now on."""
        for guid in self.home.folders():
            self.home.run("sessions", "delete", guid)
        done = self.home.run(*command, env=self.env)
        if done.code != 0:
            raise AssertionError(repr(done))
        self.kept, = self.home.folders()
        self.kept_files = self._contents()

    def _contents(self):
        folder = self.home.path / "sessions" / self.kept
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def _target_files(self):
        return sorted(p.name for p in (self.tmp / "theirs").iterdir())

    # ---- one run ----

    def count(self, kind, role, command):
        """What a good run does: the text of the counting tool."""
        out = self.tmp / "count"
        out.unlink(missing_ok=True)
        prefix, env = self._means(kind, Try(role, "", 0, "", ""), out, counting=True)
        end = self._run([*prefix, PROGRAM, *map(str, command)], env, None)
        if end.code != 0 or not out.exists():
            raise AssertionError(f"a run without a failure: {end}")
        self.tidy()
        text = out.read_text()
        if not text:
            raise AssertionError(f"no {kind} of the {role} were seen")
        return text

    def _means(self, kind, one, out, counting=False):
        if kind == "calls":
            wish = [] if counting else ["--fail", f"{one.place}:{one.nth}:{one.error}"]
            return [str(TOOLS / "torture"), "--role", one.role, *wish, "--count", str(out)], {}
        env = {"TORTURE_ROLE": one.role, "TORTURE_COUNT": str(out), "LD_PRELOAD": str(TOOLS / "libtorture_alloc.so")}
        return ["setarch", "-R"], env if counting else {**env, "TORTURE_FAIL": f"{one.place}:{one.nth}"}

    def means(self, one, out, counting=False):
        return self._means("allocations" if one.error == "memory" else "calls", one, out, counting)

    def run(self, one, command):
        out = self.tmp / "failed"
        prefix, env = self.means(one, out)
        seen = out if prefix[0] != "setarch" else out.with_suffix(".failed")
        for path in (out, seen):
            path.unlink(missing_ok=True)
        return self._run([*prefix, PROGRAM, *map(str, command)], env, seen)

    def _run(self, command, env, seen):
        env = {**os.environ, **self.env, "TMPDIR": str(self.tmp / "ours"), "DRDOTNET_HOME": str(self.home.path), **env}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
            hang = False
            try:
                code = process.wait(LONGEST_SECONDS)
            except subprocess.TimeoutExpired:
                hang, code = True, -9
                process.kill()
                process.wait()
            texts = [os.pread(f.fileno(), os.fstat(f.fileno()).st_size, 0).decode(errors="replace") for f in (out, err)]
        died = -code if code < 0 else code - 128 if 128 < code < 128 + 65 and code != 130 else 0
        return End(code, *texts, reached=seen is None or seen.exists(), hang=hang, signal=died)

    # ---- what must be true afterwards ----

    def others(self):
        """Processes of this lane beside the patient."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self.patient.pid:
                try:
                    if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(f"{entry.name} {(entry / 'cmdline').read_bytes().replace(bytes(1), b' ').decode()}")
                except OSError:
                    pass
        return found

    def target_wrong(self):
        """What is not as it was with the target; "" when all is."""
        pid = self.patient.pid
        if not self.patient.alive():
            return f"the target has ended: {self.patient.stderr()[-500:]}"
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
                children = (task / "children").read_text().split()
            except OSError:
                continue
            if status["State"][0] in "Tt":
                return f"thread {task.name} of the target is stopped"
            if status["TracerPid"] != "0":
                return f"thread {task.name} of the target is traced"
            if children and not (self.dead_allowed and all(gone(int(child)) for child in children)):
                return f"the target has children: {children}"
        if event_streams(pid) > self.streams:
            return "an event stream is left in the target"
        if self._target_files() != self.files:
            return f"files beside the target: {self._target_files()}"
        return ""

    def wrong(self):
        """The first thing that is not in order, after what may need a moment has had it; "" when all is."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (bad := self.target_wrong() or " and ".join(f"still runs: {p}" for p in self.others())):
            if time.monotonic() > deadline or not self.patient.alive():
                return bad
            time.sleep(0.05)
        if not self.patient.truth():
            return "the target does not answer"
        if left := sorted(p.name for p in (self.tmp / "ours").iterdir()):
            return f"temporary files: {left}"
        return self.store_wrong()

    def store_wrong(self):
        done = self.home.run("sessions", "--json", "--limit", "1000", env=self.env)
        if done.code != 0 or done.err:
            return f"the store does not open: {done!r}"
        rows = {row["guid"]: row for row in json.loads(done.out)}
        if sorted(rows) != self.home.folders():
            return f"rows and folders differ: {sorted(rows)} {self.home.folders()}"
        if rows.get(self.kept, {}).get("state") != "done" or self._contents() != self.kept_files:
            return "the earlier session is not what it was"
        for guid, row in rows.items():
            names = {p.name for p in (self.home.path / "sessions" / guid).iterdir()}
            if row["state"] not in ("done", "failed", "cancelled"):
                return f"a session is left {row['state']}"
            if row["state"] == "done" and not names >= {"report.json", "report.md", "report.html", "report.txt"}:
                return f"half a session passes as done: {sorted(names)}"
            if "session.json" not in names or [n for n in names if n.endswith(".tmp")]:
                return f"a session's folder: {sorted(names)}"
        return ""

    def new_rows(self):
        return [row for row in self.home.sessions() if row["guid"] != self.kept]

    def tidy(self):
        for row in self.new_rows():
            self.home.run("sessions", "delete", row["guid"], env=self.env)
        for path in (self.tmp / "ours").iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def judge(lane, one, end, finds_session):
    """(outcome, detail): survived, failed (with the reason), otherwise (failed in other words), unreached, or defect."""
    rows = lane.new_rows() if not lane.store_wrong() else []
    # A worker that ends at once, as by a signal, leaves its copy to be reaped (docs/internals/snapshot.md).
    lane.dead_allowed = one.error == "memory"
    wrong = lane.wrong()
    lane.dead_allowed = False
    if lane.target_wrong() or lane.others():
        lane.renew()
    told = " ".join(filter(None, [end.err, *(row.get("error") or "" for row in rows)]))
    lane.tidy()
    if end.hang:
        return "defect", f"hangs; {told[-600:]}"
    if end.code in (LEFT_CODE, MISUSED_CODE):
        return "defect", f"a process is left: {end.err[-600:]}"
    if wrong:
        return "defect", f"{wrong}; exit code {end.code}; {told[-400:]}"
    if not end.reached:
        return "unreached", ""
    if end.signal:
        return "defect", f"ended by {signal.Signals(end.signal).name}; {told[-600:]}"
    if "ended by signal" in told or "after the session was saved" in told:
        return "defect", f"the worker crashed: {told[-600:]}"
    if end.code == 0 and all(row["state"] == "done" for row in rows) and (rows or not finds_session):
        return "survived", ""
    if not told.strip():
        return "defect", f"exit code {end.code} without a word"
    return ("failed" if words_of(one.error) in told else "otherwise"), f"exit code {end.code}; {told[-400:]}"
