"""A process under a seccomp filter lives, whatever the filter forbids and whichever way is taken; and there is a report by
some way, or words that say why not.

DRDOTNET_SECCOMP_MATRIX=FILE writes the table of all runs there, for docs/quality.md; DRDOTNET_SECCOMP_CALLS="read write" runs
those only."""

import os
import re
import subprocess
import tempfile
import unittest
import zlib
from pathlib import Path

import filters
from drdotnet import Home, PROGRAM, ROOT, gone, wait_until
from patient import DAY, FRAMEWORKS, WHOLE_TABLES, Patient, PatientError, one_of

SIDE_BY_SIDE = True

DOTNET_CALLS = ROOT / "tests" / "tools" / "dotnet-calls"
PROBE, AGENT, FAULTY = (str(Path(PROGRAM).parent / name) for name in (
    "tests/attach_probe", "libdrdotnet-agent.so", "tests/libdrdotnet-agent-faulty.so"))
COPY_STEPS = 7
ACTIONS = ("kill", "errno")
SECONDS = 120
CONTROL_SECONDS = 10
# Calls of the runtime's own for those who listen to its events, so they are not in the list, which is of what all versions
# make without: .NET 10 calls lseek for a session (8 and 9 at their start), and flock for the counters, to which a server of
# another test may listen: it watches every process of the machine.
FOR_EVENTS = ["lseek", "flock"]
# As a sidecar is: no perf, no ptrace, and no filter can be read by who runs under one.
BLIND = filters.deny("errno", "ptrace", "perf_event_open")
STACKS, CPU = ("merged-call-stacks",), ("cpu-hotpaths", "-d", "1s")
# (name, prefix of drdotnet, profiler, way)
RUNS = (("stacks auto", (), STACKS, "auto"), ("stacks image", (), STACKS, "image"), ("stacks agent", (), STACKS, "agent"),
        ("cpu auto", (), CPU, "auto"), ("cpu agent", (), CPU, "agent"))
BLIND_RUNS = (("stacks auto, blind", BLIND, STACKS, "auto"), ("stacks agent, blind", BLIND, STACKS, "agent"),
              ("cpu auto, blind", BLIND, CPU, "auto"), ("cpu agent, blind", BLIND, CPU, "agent"))
# Not every .NET process makes these, though all of a web service's kind do; who kills for one of them and shows its filter
# to nobody is not proved against (docs/internals/agent.md).
NOT_OF_ALL = {"connect", "setsockopt", *FOR_EVENTS}


def outcome(home, patient, prefix, profiler, way):
    """'report', 'refused' with words, or what is wrong."""
    done = home.run("run", profiler[0], str(patient.pid), "--way", way, *profiler[1:], prefix=prefix)
    if not patient.alive():
        return "DEAD", done
    if done.code == 0:
        return "report", done
    last = [line for line in done.err.splitlines() if line.startswith("drdotnet: ")][-1:]
    return ("refused" if last and len(last[0]) > 30 else "SILENT"), done


def children(patient):
    return [c for task in Path(f"/proc/{patient.pid}/task").iterdir() for c in (task / "children").read_text().split()]


def quiet(patient, left=0):
    """Nothing of ours stays: no library, no child but one that could not be buried."""
    def look():
        try:
            return "agent.so" not in Path(f"/proc/{patient.pid}/maps").read_text() and len(children(patient)) <= left
        except FileNotFoundError:
            return False  # a thread that ended while we looked
    wait_until(look, "nothing is left in the process", 20)


def needs_root(test):
    return unittest.skipUnless(os.geteuid() == 0, "needs root")(test)


class Tables(unittest.TestCase):
    """src/wire/calls.h against the source, and against what is traced."""

    def test_every_call_of_the_library_is_listed(self):
        made = set()
        for path in (ROOT / "src" / "agent").glob("*.[ch]"):
            text = path.read_text()
            # What only other machines have.
            text = re.sub(r"#else\n(\tstruct \{.*?SYS\(ppoll.*?|.*?SYS\(readlinkat.*?)#endif", "#endif", text, flags=re.S)
            made |= set(re.findall(r"\bSYS\((\w+)", text)) - {"name"}
        self.assertEqual(made - set(filters.our_names("LOAD", "IMAGE", "PLAIN", "CPU", "TICKS", "BURY")), set())

    def test_what_is_made_blindly_is_of_dotnet(self):
        # Where clone3 is unknown the C library makes threads by clone.
        self.assertEqual(set(filters.our_names("LOAD", "PLAIN", "TICKS")) - set(filters.of_dotnet()), {"clone"})

    def test_dotnet_makes_them(self):
        """Those that count; the whole list is made by the same tool."""
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx):
                seen = set(subprocess.run([DOTNET_CALLS, fx], capture_output=True, text=True, check=True,
                                          timeout=SECONDS).stdout.split())
                self.assertEqual(set(filters.our_names("LOAD", "PLAIN", "TICKS")) - {"clone"} - seen, set())

    @needs_root
    def test_the_library_makes_no_others(self):
        """Its thread and the copy, traced from the first call after it was loaded to the last; blindly and not."""
        for prefix, uses in (((), ("LOAD", "IMAGE")), (filters.deny("errno", "acct"), ("LOAD", "PLAIN", "BURY"))):
            with self.subTest(uses=uses), Patient("healthy", prefix=prefix) as patient:
                made = self.traced(patient)
                self.assertEqual(made - set(filters.our_names(*uses)), set())
                self.assertLessEqual({"sendto", "wait4", "exit"}, made)

    def traced(self, patient):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            tracer = subprocess.Popen(["strace", "-f", "-o", log, "-p", str(patient.pid)], stderr=subprocess.PIPE, text=True)
            try:
                tracer.stderr.readline()  # attached
                # By its socket alone: of a process that can be seen to be debugged no copy is made.
                done = subprocess.run([PROBE, str(patient.pid), "--unseen", "--send-dac"], capture_output=True, text=True,
                                      env={**os.environ, "DRDOTNET_AGENT": AGENT}, timeout=SECONDS)
                quiet(patient)
            finally:
                tracer.terminate()
                tracer.communicate()
            return self.calls_of_ours(log.read_text(errors="replace").splitlines(), done)

    def calls_of_ours(self, lines, done):
        """The thread is the one that opens our folder by O_PATH; the copy is its child."""
        opened = [i for i, line in enumerate(lines) if "O_PATH" in line and "drdotnet-" in line]
        self.assertTrue(opened, done)
        tids, found = {lines[opened[0]].split()[0]}, set()
        for line in lines[opened[0]:]:
            tid, _, rest = line.partition(" ")
            if tid not in tids:
                continue
            call = re.match(r" *(?:<\.\.\. )?(\w+)(?:\(| resumed>)", rest)
            if call:
                found.add(call[1])
            made = re.search(r"(?:clone3?)\b.*= (\d+)$", rest)
            if made:
                tids.add(made[1])
        self.assertIn("exit_group", found)
        return found


@needs_root
class EachCall(unittest.TestCase):
    """One run for each call that code of ours makes in a process, denied to that process alone."""
    rows, alive, runs = [], 0, 0

    @classmethod
    def tearDownClass(cls):
        print(f"targets alive / runs: {cls.alive} / {cls.runs}", flush=True)
        path = os.environ.get("DRDOTNET_SECCOMP_MATRIX")
        if path:
            heads = ["call", "action", *(name for name, *_ in RUNS + BLIND_RUNS)]
            lines = ["| " + " | ".join(row) + " |" for row in [heads, ["---"] * len(heads), *cls.rows]]
            Path(path).write_text("\n".join(lines) + f"\n\nTargets alive / runs: {cls.alive} / {cls.runs}\n")

    def start(self, action, call):
        """None: the runtime itself cannot live so, at its start, or when it is asked who it is."""
        try:
            patient = Patient("healthy", prefix=filters.deny(action, call), start_seconds=15)
        except (PatientError, OSError):
            return None
        subprocess.run([PROGRAM, "check", str(patient.pid)], capture_output=True, timeout=SECONDS)
        try:
            patient.truth()
            return patient
        except PatientError:
            patient.stop()
            return None

    def lives(self, action, call):
        """Without us: collections suspend a busy thread, threads end; connections only where they are not the question."""
        sickness = "cpu,gc-pauses" + ("" if call in NOT_OF_ALL else ",churn")
        try:
            with Patient(sickness, prefix=filters.deny(action, call)) as patient:
                try:
                    patient.wait(CONTROL_SECONDS)
                except PatientError:
                    return patient.alive()
        except PatientError:
            pass
        return False

    @staticmethod
    def calls():
        """All of them take ten minutes: those named, or every eighth, others each day. `make matrix` and `make soak` have all."""
        names, named = filters.our_names(), os.environ.get("DRDOTNET_SECCOMP_CALLS", "").split()
        if WHOLE_TABLES and not named:
            return names
        return named or [name for i, name in enumerate(names) if (i + DAY) % 8 == 0]

    def test_each_call(self):
        with Home() as home:
            for call in self.calls():
                for action in ACTIONS:
                    with self.subTest(call=call, action=action):
                        self.one(home, call, action)

    def one(self, home, call, action):
        row, patient = [call, action], self.start(action, call)
        words, done = self.run_all(home, patient, call, action) if patient else (["DEAD"], None)
        if words[-1] == "DEAD" and (not patient or not self.lives(action, call)):
            words = ["the runtime itself cannot live so"]
        else:
            type(self).runs += sum(word != "not run" for word in words)
            type(self).alive += sum(word not in ("not run", "DEAD") for word in words)
        self.rows.append(row + words + [""] * (len(RUNS + BLIND_RUNS) - len(words)))
        self.assertLessEqual(set(words) & {"DEAD", "SILENT"}, set(), done)

    def run_all(self, home, patient, call, action):
        words, done = [], None
        with patient:
            for _, prefix, profiler, way in RUNS + BLIND_RUNS:
                if prefix and action == "kill" and call in NOT_OF_ALL:
                    words.append("not run")
                    continue
                word, done = outcome(home, patient, prefix, profiler, way)
                words.append(word)
                if word not in ("report", "refused"):
                    break
        return words, done


@needs_root
class Profiles(unittest.TestCase):
    """Filters as they are met with."""
    # Without wait4 a copy can be made but not be buried: that is found out once, at the cost of the copy.
    CLOSED = dict.fromkeys(("stacks image", "stacks agent", "stacks agent, blind"), "refused")

    def all_ways(self, prefix, runs, expected=(), left=0):
        for fx in one_of(FRAMEWORKS, zlib.crc32(self.id().encode())):
            with self.subTest(fx), Home() as home, Patient("healthy,cpu", fx=fx, prefix=prefix) as patient:
                for name, blind, profiler, way in runs:
                    word, done = outcome(home, patient, blind, profiler, way)
                    self.assertEqual(word, dict(expected).get(name, "report"), (name, done))
                quiet(patient, left)
                patient.truth()

    def test_system_service(self):
        self.all_ways(filters.allow_only(filters.system_service()), RUNS + BLIND_RUNS)

    def test_exactly_what_dotnet_needs(self):
        """Whoever can read the filter sees that a stop would be deadly (restart_syscall); who cannot takes what .NET does."""
        self.all_ways(filters.allow_only([*filters.of_dotnet(), *FOR_EVENTS]), RUNS + BLIND_RUNS,
                      self.CLOSED | {"cpu agent": "refused"}, left=1)

    def test_exactly_what_dotnet_needs_and_stops(self):
        self.all_ways(filters.allow_only([*filters.of_dotnet(), *FOR_EVENTS, "restart_syscall"]), RUNS + BLIND_RUNS,
                      self.CLOSED, left=1)

    def test_without_the_right_to_read(self):
        """No CAP_SYS_ADMIN instead of a filter of our own."""
        weak = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]
        self.all_ways(filters.allow_only([*filters.of_dotnet(), *FOR_EVENTS]), [("stacks agent", weak, STACKS, "agent")],
                      self.CLOSED, left=1)
        self.all_ways(filters.allow_only([*filters.of_dotnet(), *FOR_EVENTS, "wait4"]), [("by agent", weak, STACKS, "agent")])

    def test_namespaces_are_restricted(self):
        """As Docker does: clone3 is unknown, and clone makes no namespaces."""
        flags = f"{filters.number('clone')}:0:{0x7e020000}:0"
        prefix = filters.under("allow", {"enosys": ["clone3"], "allow": flags, "kill": ["clone", "unshare", "setns"]})
        self.all_ways(prefix, RUNS + BLIND_RUNS)

    def test_one_that_kills_at_the_last_step(self):
        """wait4, which only the copy has tried: it is the copy that dies, once; after that no other is made."""
        with Home() as home, Patient("healthy", prefix=filters.deny("kill", "wait4")) as patient:
            for words in ("does not let it wait for a child", "an earlier copy of it is still"):
                word, done = outcome(home, patient, BLIND, STACKS, "agent")
                self.assertEqual(word, "refused", done)
                self.assertIn(words, done.err)
            word, done = outcome(home, patient, BLIND, STACKS, "auto")
            self.assertEqual(word, "report", done)
            self.assertEqual(len(children(patient)), 1)

    def test_the_words_of_check(self):
        with Home() as home, Patient("healthy", prefix=filters.deny("kill", "acct")) as patient:
            ways = home.run("check", str(patient.pid), "--json").json()["ways"]
            for way in ("image", "agent"):
                self.assertIn("an examination reads it first", ways[way]["how"])
            blind = home.run("check", str(patient.pid), "--json", prefix=BLIND).json()["ways"]
            self.assertFalse(blind["image"]["open"])
            self.assertIn("only calls are made that .NET makes by itself", blind["agent"]["how"])


@needs_root
class PlainCalls(unittest.TestCase):
    """The copy by calls of .NET's own: whoever dies or hangs when, nothing is left."""

    def take(self, patient, *options):
        return subprocess.run([PROBE, str(patient.pid), "--unseen", *map(str, options)], capture_output=True, text=True,
                              env={**os.environ, "DRDOTNET_AGENT": FAULTY}, timeout=SECONDS)

    def test_the_copy_dies_or_hangs(self):
        with Patient("healthy", prefix=filters.deny("errno", "acct")) as patient:
            for fault in (*range(1, COPY_STEPS), 101, 105):
                with self.subTest(fault):
                    taken = self.take(patient, "--fault", fault, "--max-life", 2000)
                    self.assertEqual(taken.returncode, 1, taken)
                    self.assertIn("the copy of the process was killed", taken.stderr)
                    quiet(patient)
            self.assertEqual(self.take(patient).returncode, 0)

    def test_we_die_while_it_is_copied(self):
        with Patient("healthy", prefix=filters.deny("errno", "acct")) as patient:
            held = subprocess.Popen([PROBE, str(patient.pid), "--unseen", "--fault", "105"], stderr=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, env={**os.environ, "DRDOTNET_AGENT": FAULTY})
            wait_until(lambda: children(patient), "there is a copy", 20)
            copy = int(children(patient)[0])
            held.kill()
            held.wait()
            quiet(patient)
            wait_until(lambda: gone(copy), "the copy is gone", 20)


if __name__ == "__main__":
    unittest.main()
