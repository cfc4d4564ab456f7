"""Starts patients (see tests/patients) for the end-to-end tests and talks to them.

    with Patient("exceptions", fx="net8.0", rate=100) as patient:
        patient.mark()
        ...                                   # examine patient.pid
        patient.truth()["exceptions"]["objects"]

Every wait has a deadline and wakes up by the pipe itself: nothing here sleeps. A patient dies with
the thread that started it (PR_SET_PDEATHSIG), so a killed test leaves nothing behind; a prefix that
forks must pass that on (unshare --fork --kill-child).
"""

import contextlib
import ctypes
import datetime
import http.client
import itertools
import json
import os
import pwd
import select
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENTS = Path(os.environ.get("DRDOTNET_PATIENTS", ROOT / "build" / "patients"))

# Every runtime: for a truth that the version of the runtime decides, such as the events it writes and where it keeps what. All
# else is tried on one (`one_of`) or in a diagonal of its table (`diagonal`), another each day: `tests/run --day` repeats a day.
ALL_FRAMEWORKS = ["net8.0", "net9.0", "net10.0"]
FRAMEWORKS = [
    fx for fx in ALL_FRAMEWORKS
    if fx in os.environ.get("DRDOTNET_TEST_FX", " ".join(ALL_FRAMEWORKS)).replace(",", " ").split()
]
DAY = int(os.environ.get("DRDOTNET_TEST_DAY") or datetime.date.today().toordinal())
WHOLE_TABLES = bool(os.environ.get("DRDOTNET_TEST_MATRIX"))  # make matrix


def one_of(values, shift=0):
    """A list of one value, the next one each day; `make matrix` has them all. Tests with different shifts get different ones."""
    values = list(values)
    return values if WHOLE_TABLES or not values else [values[(DAY + shift) % len(values)]]


def diagonal(*axes):
    """Of the table of all combinations as many as the longest axis has values, so that each value of each axis is there.
    Which of them meet changes by the day, until all have met; `make matrix` has the whole table."""
    axes = [list(axis) for axis in axes]
    if WHOLE_TABLES or not all(axes):
        return list(itertools.product(*axes))
    longest, shifts, day = max(range(len(axes)), key=lambda k: len(axes[k])), [], DAY
    for k, axis in enumerate(axes):
        shifts.append(0 if k == longest else day)
        day //= 1 if k == longest else len(axis)
    return [tuple(axis[(i + shift) % len(axis)] for axis, shift in zip(axes, shifts)) for i in range(len(axes[longest]))]


# The runtime takes the budget of its youngest generation from the processor's cache, and so the number of collections. A
# test that wants another budget sets it in `env`; `tests/run --gen0size` varies it for all others.
GEN0_SIZE = os.environ.get("DRDOTNET_TEST_GEN0SIZE", "0x1000000")
# For a truth that counts collections: answers to the test are garbage too, and must not make one while the patient stands
# still.
ROOM_FOR_ANSWERS = {"DOTNET_GCgen0size": "0x1000000"}

START_SECONDS = 60.0  # a cold start on a loaded two-core machine
ANSWER_SECONDS = 20.0
STOP_SECONDS = 10.0
LONGEST_SECONDS = 600.0  # of a request that is never answered

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG = 1


class PatientError(Exception):
    """The patient did not start, did not answer, or died."""


class _App:
    """One running app that speaks the patients' protocol."""

    def __init__(self, app, arguments, fx, server_gc, env, user, prefix, start_seconds, folder=None):
        program = (folder or PATIENTS / app / fx) / app
        if not program.exists():
            raise PatientError(f"{program} does not exist: run tests/patients/build")
        self.fx = fx
        self.noise = None  # lines on its standard output that begin so are not its own
        self._stderr = tempfile.TemporaryFile()
        self._pending = b""
        self._process = subprocess.Popen(
            [*prefix, str(program), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, bufsize=0,
            env=_environment(server_gc, env), preexec_fn=_child_setup(user))
        try:
            self.ready = self._expect("READY", start_seconds)
        except BaseException:
            self._kill()
            self._close()
            raise
        self.pid = self._host_pid()
        self._leftovers = self._files_of_the_runtime(env)
        self.look_old()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def look_old(self, seconds=3600):
        """It has said that it is ready: nobody need wait until it has started, which is judged by the age of its socket."""
        try:
            os.utime(self._leftovers[0], (time.time() - seconds,) * 2)
        except OSError:
            pass  # in a namespace of its own: it is waited for

    def mark(self):
        return self.ask("mark", "MARKED")

    def truth(self):
        return self.ask("truth", "TRUTH")

    def pause(self):
        return self.ask("pause", "PAUSED")

    def resume(self):
        return self.ask("resume", "RESUMED")

    def collect(self):
        """One collection of each generation: what is alive is old afterwards."""
        return self.ask("collect", "COLLECTED")

    def ask(self, command, answer, seconds=ANSWER_SECONDS):
        self.send(command)
        return self._expect(answer, seconds)

    def send(self, command):
        try:
            self._process.stdin.write(command.encode() + b"\n")
        except BrokenPipeError:
            raise PatientError(f"patient is gone: {self._obituary()}") from None

    def alive(self):
        return self._process.poll() is None

    def wait(self, seconds=ANSWER_SECONDS):
        """Waits until the patient has ended; returns its exit code (negative: signal)."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise PatientError(f"patient still runs after {seconds} s") from None

    def stderr(self):
        # pread: the patient writes through the same file offset.
        size = os.fstat(self._stderr.fileno()).st_size
        return os.pread(self._stderr.fileno(), size, 0).decode(errors="replace")

    def stop(self, seconds=STOP_SECONDS):
        """Asks the patient to quit, kills it after the deadline; returns its exit code."""
        if self._stderr.closed:
            return self._process.returncode
        try:
            if self.alive():
                self.send("quit")
                self._process.wait(seconds)
        except (PatientError, subprocess.TimeoutExpired):
            pass
        finally:
            self._kill()
            self._close()
            for path in self._leftovers:
                path.unlink(missing_ok=True)
        return self._process.returncode

    def _kill(self):
        if not self.alive():
            return
        # Behind a prefix such as unshare the patient is a grandchild with a pid of its own.
        for pid in {self._host_pid(), self._process.pid}:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()

    def _close(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._stderr.close()

    def _host_pid(self):
        """The patient's pid as seen from here: it knows only that of its own pid namespace."""
        pid = self._process.pid
        while os.path.basename(_command_name(pid)) not in ("sick", "web", "healthy", "modern", "field"):
            try:
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except FileNotFoundError:
                children = []
            if not children:
                break
            pid = int(children[0])
        return pid

    def _files_of_the_runtime(self, env):
        """The sockets and pipes that a runtime leaves behind when it is killed."""
        folder = Path((env or {}).get("TMPDIR") or os.environ.get("TMPDIR") or "/tmp")
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        started = stat.rpartition(")")[2].split()[19]  # field 22, in clock ticks
        name = f"{self.ready['pid']}-{started}"
        return [folder / f"dotnet-diagnostic-{name}-socket",
                folder / f"clr-debug-pipe-{name}-in", folder / f"clr-debug-pipe-{name}-out"]

    def _expect(self, word, seconds):
        deadline = time.monotonic() + seconds
        while True:
            line, newline, rest = self._pending.partition(b"\n")
            if newline:
                self._pending = rest
                if self.noise and line.startswith(self.noise):
                    continue
                got, _, body = line.decode().partition(" ")
                if got != word:
                    raise PatientError(f"expected {word}, got: {line.decode()}")
                return json.loads(body)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise PatientError(f"no {word} within {seconds} s; stderr: {self.stderr()}")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise PatientError(f"patient ended before {word}: {self._obituary()}")
            self._pending += chunk

    def _obituary(self):
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
        return f"exit code {code}, stderr: {self.stderr().strip()}"


class Patient(_App):
    """A sick console app, where it was published or in a folder that is given. Further keyword arguments are the sickness's
    keys (`_` means `-`)."""

    def __init__(self, sickness, fx="net10.0", server_gc=False, env=None, user=None, prefix=(),
                 start_seconds=START_SECONDS, folder=None, **keys):
        self.sickness = sickness
        arguments = [sickness, *(f"{key.replace('_', '-')}={value}" for key, value in keys.items())]
        super().__init__("sick", arguments, fx, server_gc, env, user, prefix, start_seconds, folder)


class WebPatient(_App):
    """The web API, listening on a free port of 127.0.0.1, where it was published or in a folder that is given."""

    def __init__(self, fx="net10.0", server_gc=False, env=None, user=None, prefix=(),
                 start_seconds=START_SECONDS, max_seconds=600, folder=None, **settings):
        arguments = ["--urls", "http://127.0.0.1:0", "--max-seconds", str(max_seconds)]
        for key, value in settings.items():  # peer: the URL of another one; database: the folder of a socket
            arguments += [f"--{key}", value]
        super().__init__("web", arguments, fx, server_gc, env, user, prefix, start_seconds, folder)
        self.url = self.ready["url"]

    def load(self, route, rate=50, seconds=5, concurrency=4):
        """Sends requests to a route until they are done; returns the load generator's figures."""
        return self.start_load(route, rate, seconds, concurrency).result()

    def start_load(self, route, rate=50, seconds=5, concurrency=4):
        """The same in the background; `.result()` waits for it, leaving the `with` block ends it."""
        url = f"{self.url}/{route.lstrip('/')}"
        return Load(self.fx, url, rate, seconds, concurrency)


class HealthyPatient(_App):
    """An app with nothing wrong: api, mvc, hub, worker or batch."""

    ROUTES = {"api": ("orders/17/total", "orders/18", "buy/200", "healthz"), "mvc": ("articles/17", "articles/search/ticle")}
    VISITORS = 20

    def __init__(self, kind, fx="net10.0", server_gc=False, env=None, max_seconds=600, start_seconds=START_SECONDS):
        self.kind = kind
        super().__init__("healthy", [kind, str(max_seconds)], fx, server_gc, env, None, (), start_seconds)

    @contextlib.contextmanager
    def under_load(self, rate=100):
        """Ordinary traffic while the `with` block lasts: requests, visitors, or work of its own."""
        with contextlib.ExitStack() as stack:
            for route in self.ROUTES.get(self.kind, ()):
                stack.enter_context(Load(self.fx, f"{self.ready['url']}/{route}", rate / 2, 600, 2))
            if self.kind == "hub":
                stack.enter_context(self._visitors())
            if self.kind in ("worker", "batch"):
                self.ask("work", "DONE")
                stack.callback(lambda: self.alive() and self.ask("rest", "DONE"))
            yield

    @contextlib.contextmanager
    def _visitors(self):
        url = self.ready["url"].replace("http:", "ws:") + "/chat"
        with subprocess.Popen([str(PATIENTS / "healthy" / self.fx / "healthy"), "visitors", url, str(self.VISITORS)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=_environment(False, None), preexec_fn=_child_setup(None)) as visitors:
            try:
                yield
            finally:
                visitors.kill()


class ModernPatient(_App):
    """A web app of today's shapes, listening on a free port of 127.0.0.1."""

    def __init__(self, fx="net10.0", max_seconds=600, **options):
        arguments = ["--urls", "http://127.0.0.1:0", "--max-seconds", str(max_seconds)]
        super().__init__("modern", arguments, fx, False, options.get("env"), None, (), START_SECONDS)
        self.url = self.ready["url"]

    def requests(self, method, path, concurrency=1):
        """Sends such requests one after the other until the `with` block is left."""
        return Requests(method, self.url + path, concurrency)

    def began(self, route):
        """How many requests of a route have begun."""
        return self.truth()["modern"]["requests"].get(route, 0)


class FieldPatient(_App):
    """A service as it is met in the field, under the load that it makes itself; what is wrong with it stands in TRUTHS."""

    FOLDER = ROOT / "tests" / "patients" / "field"
    TRUTHS = json.loads((FOLDER / "truths.json").read_text())

    def __init__(self, name, fx="net10.0", load=100, server_gc=False, env=None, prefix=(), max_seconds=600, folder=None):
        arguments = [name, "--load", str(load), "--max-seconds", str(max_seconds)]
        super().__init__("field", arguments, fx, server_gc, env, None, prefix, START_SECONDS, folder)


class Requests:
    """Threads that send requests, again and again."""

    def __init__(self, method, url, concurrency):
        self._ends = threading.Event()
        self.answered = 0
        self._threads = [threading.Thread(target=self._send, args=(method, url), daemon=True) for _ in range(concurrency)]
        for thread in self._threads:
            thread.start()

    def _send(self, method, url):
        while not self._ends.is_set():
            try:
                with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=LONGEST_SECONDS) as answer:
                    answer.read()
                self.answered += 1
            except (OSError, http.client.HTTPException):
                return  # the patient has ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._ends.set()


class Load:
    """A running load generator."""

    def __init__(self, fx, url, rate, seconds, concurrency):
        program = PATIENTS / "sick" / fx / "sick"
        self._seconds = seconds
        self._process = subprocess.Popen(
            [str(program), "load", f"url={url}", f"rate={rate}", f"seconds={seconds}",
             f"concurrency={concurrency}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=_environment(False, None), preexec_fn=_child_setup(None))
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def result(self):
        with self:
            output, errors = self._process.communicate(timeout=self._seconds + START_SECONDS)
        word, _, body = output.decode().partition(" ")
        if word != "DONE":
            raise PatientError(f"load failed: {errors.decode().strip()}")
        return json.loads(body)


def run_delay_ns(pid):
    """How long its threads were able to run but had no cpu, by the kernel's own count."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return total


def cpu_ns(pid):
    """CPU time of all its threads, those that have ended too, in the kernel's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def _environment(server_gc, extra):
    environment = {**os.environ, "DOTNET_gcServer": "1" if server_gc else "0",
                   "DOTNET_GCgen0size": GEN0_SIZE}
    environment.update(extra or {})
    return environment


def _child_setup(user):
    """What the child does before it becomes the patient. Only system calls: we are between fork and exec."""
    account = pwd.getpwnam(user) if user else None
    parent = os.getpid()

    def setup():
        if account:
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
        # After the change of user, which clears it.
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return setup


def _command_name(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
    except FileNotFoundError:
        return ""
