"""The command line as a new user meets it: wrong words, help, completion, man page, pipes and terminals."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from drdotnet import PROGRAM, ROOT, Home, examine, wait_until
from patient import FRAMEWORKS, Patient

SIDE_BY_SIDE = True

FX = FRAMEWORKS[-1]
FAILED, USAGE, NOT_FOUND, DENIED = 1, 2, 3, 4
DEADLINE_SECONDS = 60
UTF8 = {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color", "NO_COLOR": ""}


def commands():
    """Every visible command, as the overview lists them."""
    text = subprocess.run([PROGRAM, "help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z-]+)  ", text.partition("\nCommands\n")[2], re.M)


def profilers():
    with Home() as home:
        return [p["id"] for p in home.run("profilers", "--json").json()]


def options():
    """Each profiler and the option of each of its parameters."""
    with Home() as home:
        for p in home.run("profilers", "--json").json():
            for key in (q["key"] for q in p["parameters"]):
                yield p["id"], "--duration" if key == "duration_seconds" else "--" + key.replace("_", "-")


def keys_of_parameters():
    """Each profiler that has parameters, and what completes its --param."""
    with Home() as home:
        for p in home.run("profilers", "--json").json():
            if p["parameters"]:
                yield p["id"], [q["key"] + "=" for q in p["parameters"]]


VERBS = {"trace": ["collect", "convert", "report"], "dump": ["collect", "open"], "symbols": ["fetch"],
         "config": ["check", "show"], "cpu": ["collect", "postprocess"], "completion": ["bash", "zsh", "fish"],
         "sessions": ["list", "show", "report", "export", "compare", "delete", "prune"]}


class Zsh:
    """An interactive zsh that tells what it offers: what its completion functions give to compadd goes into a file."""

    SETUP = """PROMPT= RPROMPT= PS2=
autoload -Uz compinit; compinit -u -D
compadd() {
	local -a found
	if [[ $*[(w)1,-1] == *-[OAD]\ * ]]; then builtin compadd "$@"; return; fi
	builtin compadd -A found "$@"
	print -rl -- $found >>$OUT
	builtin compadd "$@"
}
complete_and_tell() { _main_complete; print -r -- @@ >>$OUT; compstate[insert]= compstate[list]= }
zle -C complete_and_tell complete-word complete_and_tell
bindkey '^I' complete_and_tell
bindkey '^U' kill-whole-line
print -r -- ready >>$OUT
"""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        script = subprocess.run([PROGRAM, "completion", "zsh"], capture_output=True, text=True, check=True).stdout
        (folder / "_drdotnet").write_text(script)
        (folder / "setup").write_text(self.SETUP)
        self._out = folder / "out"
        self._out.write_text("")
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            ["zsh", "-f", "-i"], stdin=slave, stdout=slave, stderr=slave, start_new_session=True, cwd=folder,
            env={**os.environ, "TERM": "xterm", "OUT": str(self._out), "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}"})
        os.close(slave)
        self._type(f"fpath=({folder} $fpath); source {folder}/setup\n")
        self._wait("ready\n")
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._master)
        self._folder.cleanup()

    def _type(self, text):
        os.write(self._master, text.encode())

    def _wait(self, end):
        """What it draws is read, so that it never waits for us."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not self._out.read_text().endswith(end):
            if time.monotonic() > deadline:
                raise AssertionError(f"zsh did not answer: {self._out.read_text()}")
            if select.select([self._master], [], [], 0.02)[0]:
                os.read(self._master, 65536)

    def offers(self, line):
        self._out.write_text("")
        self._type(line + "\t")
        self._wait("@@\n")
        self._type("\x15")
        return list(dict.fromkeys(self._out.read_text().split("\n")[:-2]))


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


class Bystander:
    """This very process, looking like a .NET process that never answers; tells whether somebody whom it started has called. Others
    on the machine may list processes meanwhile."""

    def __enter__(self):
        stat = Path("/proc/self/stat").read_text()
        started = stat.rpartition(")")[2].split()[19]
        folder = os.environ.get("TMPDIR") or "/tmp"
        self._path = f"{folder}/dotnet-diagnostic-{os.getpid()}-{started}-socket"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self._path)
        self._socket.listen(50)
        self._callers = []
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        os.unlink(self._path)

    def _listen(self):
        """A caller waits for an answer, so it can be asked for its parent."""
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            with caller:
                pid = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                self._callers.append(parent(pid))

    def touched(self):
        return os.getpid() in self._callers


class WrongInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())

    def refused(self, code, *arguments, says=(), **where):
        done = self.home.run(*arguments, **where)
        self.assertEqual((done.code, done.out), (code, ""), done)
        self.assertRegex(done.err, r"\Adrdotnet: [^\n]+\n\Z", "one line")
        for words in says:
            self.assertIn(words, done.err)
        return done.err

    def test_before_anything_touches_the_target(self):
        pid = os.getpid()
        with Bystander() as bystander:
            for arguments, says in (
                (["frobnicate", pid], ["'frobnicate' is neither a command nor a profiler", "drdotnet help"]),
                (["run", "frobnicate", pid], ["frobnicate", "runtime-pauses", "exceptions"]),
                (["exception", pid], ["did you mean 'exceptions'?"]),
                (["cpu-hotpath", pid], ["did you mean 'cpu-hotpaths'?"]),
                (["Deadlock", pid], ["did you mean 'deadlocks'?"]),
                (["version"], ["did you mean '--version'?"]),
                (["help", "frobnicate"], ["'frobnicate' is neither a command nor a profiler"]),
                (["exceptions"], ["TARGET", "drdotnet ps"]),
                (["check"], ["TARGET"]),
                (["exceptions", pid, "extra"], ["'extra'"]),
                (["exceptions", pid, "--frob"], ["'--frob'", "--duration"]),
                (["exceptions", pid, "-x"], ["'-x'"]),
                (["ps", "--frob"], ["'--frob'", "--json"]),
                (["ps", "--jsn"], ["did you mean '--json'?"]),
                (["memory-leaks", pid, "--lokks", "6"], ["'--lokks'", "did you mean '--looks'?", "drdotnet help memory-leaks"]),
                (["memory-leaks", pid, "--looks", "60"], ["--looks takes a whole number from 2 to 20, not '60'"]),
                (["run", "memory-leaks", pid, "--looks", "60"], ["--looks takes a whole number from 2 to 20, not '60'"]),
                (["run", "--looks", "60", "memory-leaks", pid], ["--looks takes a whole number from 2 to 20, not '60'"]),
                (["run", "memory-leak", pid, "--looks", "6"], ["no profiler is called 'memory-leak'"]),
                (["deadlocks", pid, "--max-pause-ms", "2m"], ["--max-pause-ms", "0 to 60000 ms"]),
                (["gc-survivors", pid, "--generation", "young"], ["--generation takes one of all, old"]),
                (["heap-stats", pid, "--gcdump", "true"], ["--gcdump=true"]),
                (["exceptions", pid, "--param", "colour=red"], ["'colour'", "duration"]),
                (["exceptions", pid, "--param", "duration"], ["key=value"]),
                (["exceptions", pid, "--param"], ["KEY=VALUE"]),
                (["exceptions", pid, "--param", "duration=soon"], ["'soon'", "whole number", "1 to 86400"]),
                (["exceptions", pid, "--param", "duration=1e9"], ["'1e9'", "1 to 86400"]),
                (["exceptions", pid, "--param", "duration=0"], ["'0'", "1 to 86400"]),
                (["exceptions", pid, "--param", "duration=99999999999999999999"], ["1 to 86400"]),
                (["exceptions", pid, "--duration", "5x"], ["'5x'", "10s"]),
                (["exceptions", pid, "--duration", "2d"], ["'2d'"]),
                (["exceptions", pid, "--way", "magic"], ["'magic'", "events"]),
                (["exceptions", pid, "--way", "image"], ["'image'", "events"]),
                (["exceptions", pid, "--format", "pdf"], ["'pdf'", "html"]),
                (["exceptions", pid, "--json", "--format", "md"], ["--json", "md"]),
                (["exceptions", pid, "-o", "report.pdf"], ["'report.pdf'", ".html"]),
                (["exceptions", pid, "-o", "/nosuch/folder/report.html"], ["'/nosuch/folder'"]),
                (["exceptions", pid, "-o", "/nosuch\nforged: fine/report.html"], [r"'/nosuch\u{a}forged: fine'"]),
                (["exceptions", pid, "-o", "/tmp", "--format", "md"], ["'/tmp' is a folder"]),
                (["sessions", "frob"], ["'frob'", "prune"]),
                (["sessions", "show", "zzzz"], ["'zzzz'"]),
                (["completion", "tcsh"], ["'tcsh'", "bash"]),
            ):
                with self.subTest(arguments):
                    self.refused(USAGE, *arguments, says=says)
            self.assertFalse(bystander.touched())
            self.assertEqual(self.home.folders(), [])
            self.home.run("ps")
            wait_until(bystander.touched, "a call of ours is noticed")

    def test_a_target_that_is_not_there(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        for target, says in (("no-such-app", ["'no-such-app'"]), (gone.pid, [f"no process {gone.pid}"]),
                             ("999999999999", [])):
            with self.subTest(target):
                self.refused(NOT_FOUND, "exceptions", target, says=says)
                self.refused(NOT_FOUND, "check", target, says=says)
        self.refused(USAGE, "exceptions", "")

    def test_a_process_without_dotnet(self):
        other = subprocess.Popen(["sleep", "60"])
        try:
            for command in ("exceptions", "check"):
                self.refused(NOT_FOUND, command, other.pid, says=[f"{other.pid} (sleep)", "not a .NET process"])
        finally:
            other.kill()
            other.wait()

    def test_several_matches_are_listed(self):
        with Patient("healthy", fx=FX) as one, Patient("healthy", fx=FX) as two:
            done = self.home.run("exceptions", "sick")
            self.assertEqual((done.code, done.out), (USAGE, ""), done)
            for pid in (one.pid, two.pid):
                self.assertRegex(done.err, rf"\b{pid}\b")
        self.assertEqual(self.home.folders(), [])

    def test_sessions_that_are_not_there(self):
        for words in (["show", "abcd"], ["report", "abcd"], ["export", "abcd", "-o", "/tmp/abcd.zip"], ["delete", "abcd"]):
            self.refused(NOT_FOUND, "sessions", *words, says=["abcd"])
        self.refused(NOT_FOUND, "run", "exceptions", "--session", "abcd")
        self.refused(NOT_FOUND, "run", "exceptions", "--recording", "/nosuch")

    def test_a_copy_without_its_parts_says_what_is_missing(self):
        with Patient("healthy", fx=FX) as patient, tempfile.TemporaryDirectory() as folder:
            home = self.enterContext(Home(shutil.copy(PROGRAM, f"{folder}/drdotnet")))
            for words, part in ((("stacks", patient.pid), "drdotnet-dachost"), (("inspect", patient.pid, "-c", "heap"), "drdotnet-dachost"),
                                (("heap-stats", patient.pid, "-q", "--way", "agent"), "libdrdotnet-agent.so")):
                done = home.run(*words)
                self.assertNotEqual(done.code, 0, done)
                self.assertIn(f"'{folder}/{part}' is missing, the part of drdotnet that", done.err.splitlines()[-1])
                self.assertIn("install it beside drdotnet", done.err)
            checked = " ".join(home.run("check", patient.pid).out.split())
            for part in ("drdotnet-dachost", "libdrdotnet-agent.so"):
                self.assertIn(f"closed '{folder}/{part}' is missing", checked)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_without_the_right(self):
        with Patient("healthy", fx=FX) as patient, tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            program = shutil.copy(PROGRAM, f"{folder}/drdotnet")
            home = Path(folder) / "home"
            home.mkdir()
            shutil.chown(home, "nobody")
            closed = Path(folder) / "closed"
            closed.mkdir()

            def run(*arguments):
                return subprocess.run([program, *map(str, arguments)], user="nobody", extra_groups=[], text=True,
                                      env={**os.environ, "DRDOTNET_HOME": str(home)}, capture_output=True,
                                      timeout=DEADLINE_SECONDS)

            done = run("exceptions", patient.pid, "-d", "1s")
            self.assertEqual((done.returncode, done.stdout), (DENIED, ""), done)
            self.assertRegex(done.stderr, r"\Adrdotnet: [^\n]+\n\Z")
            self.assertRegex(done.stderr, "root", "says what would open it")
            done = run("exceptions", patient.pid, "-o", closed / "report.html")
            self.assertEqual((done.returncode, done.stdout), (DENIED, ""), done)
            self.assertIn("report.html", done.stderr)
            home.chmod(0)
            done = run("sessions")
            self.assertEqual((done.returncode, done.stdout), (DENIED, ""), done)


class Help(unittest.TestCase):
    def test_every_page_starts_with_an_example_and_fits(self):
        with Home() as home:
            names = commands() + profilers()
            self.assertIn("ps", names)
            self.assertIn("exceptions", names)
            for name in names:
                with self.subTest(name):
                    page = home.run("help", name)
                    self.assertEqual((page.code, page.err), (0, ""))
                    lines = page.out.splitlines()
                    self.assertRegex(lines[0], rf"^  .*\bdrdotnet {name}\b")
                    self.assertLessEqual(max(map(len, lines)), 100)
                    self.assertFalse([line for line in lines if line != line.rstrip()])
                    self.assertEqual(home.run(name, "--help").out, page.out)
                    self.assertEqual(home.run(name, "-h").out, page.out)
            self.assertEqual(home.run().out, home.run("help").out)
            self.assertEqual(home.run("--help").out, home.run("help").out)

    def test_a_profiler_shows_no_option_that_it_refuses(self):
        with Home() as home:
            shown = {name: set(re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+)", home.run("help", name).out)) for name in profilers()}
        for option, of in {"--all": "diagnose", "--before": "memory-leaks"}.items():
            self.assertEqual([name for name, options in shown.items() if option in options], [of])
        self.assertIn("--core", shown["heap-stats"])
        self.assertNotIn("--core", shown["exceptions"])
        self.assertNotIn("--way", shown["crash"])

    def test_readme_and_guide_name_only_what_exists(self):
        known = {*commands(), *profilers()}
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
        for page in ("README.md", "docs/guide.md", "CONTRIBUTING.md"):
            text = (ROOT / page).read_text()
            code = re.sub(r"#.*", "", "\n".join(re.findall(r"`+[^`]+`+", text)))
            said = set(re.findall(r"\bdrdotnet ([a-z]+(?:-[a-z]+)*)", code))
            with self.subTest(page):
                self.assertEqual({word for word in said if word not in known}, set())
                made = {word for line in re.findall(r"`+[^`]+`+", text)
                        for word in re.findall(r"\bmake ([a-z]+)\b", line)}
                self.assertEqual(made - targets, set())


class Generated(unittest.TestCase):
    def generated(self, what):
        return subprocess.run([PROGRAM, "_generate", what], capture_output=True, text=True, check=True).stdout

    def version(self):
        return subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]

    def test_the_pages_are_fresh(self):
        """`make docs` writes them."""
        self.assertEqual((ROOT / "docs/guide.md").read_text(), self.generated("guide"))
        self.assertIn(self.generated("symptoms"), (ROOT / "README.md").read_text())
        self.assertIn(self.generated("settings"), (ROOT / "docs/configuration.md").read_text())
        self.assertEqual((ROOT / "docs/drdotnet.1").read_text(), self.generated("man").replace(self.version(), "0.0.0.0"))

    def test_the_man_page_is_well_formed_and_whole(self):
        lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", ROOT / "docs/drdotnet.1"],
                              capture_output=True, text=True)
        self.assertEqual((lint.returncode, lint.stdout + lint.stderr), (0, ""))
        shown = subprocess.run(["mandoc", "-T", "ascii", ROOT / "docs/drdotnet.1"], capture_output=True, text=True)
        plain = re.sub(r".\x08", "", shown.stdout)
        for name in commands() + profilers():
            self.assertRegex(plain, rf"(?m)^ +(drdotnet )?{name}\b")
        self.assertIn("--duration TIME", plain)
        for name, option in options():
            section = re.search(rf"(?ms)^ {{7}}{name}\b(.*?)(?=^ {{7}}[a-z]|^\S)", plain)
            self.assertIn(f" {option}", section[1] if section else "", name)

    def test_the_man_page_has_every_variable(self):
        page = (ROOT / "docs/drdotnet.1").read_text().replace("\\-", "-")
        read = {name for path in (ROOT / "src").glob("*/*.c") for name in re.findall(r'getenv\("(\w+)"\)', path.read_text())}
        # Between our own processes, of systemd, and of a test.
        own = {"DRDOTNET_COLUMNS", "DRDOTNET_COLOUR", "NOTIFY_SOCKET", "DRDOTNET_BURST_RATE"}
        self.assertLess({"DRDOTNET_DACHOST", "NO_COLOR"}, read)
        self.assertEqual({name for name in read - own if f".B {name}\n" not in page}, set())
        for section in ("EXAMPLES", "FILES", "ENVIRONMENT", "SEE ALSO", "EXIT STATUS"):
            self.assertIn(f"\n.SH {section}\n", page)

    def test_completion_scripts_load(self):
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell), tempfile.NamedTemporaryFile("w") as script:
                script.write(subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True,
                                            check=True).stdout)
                script.flush()
                checked = subprocess.run([shell, "-n", script.name], capture_output=True, text=True)
                self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def bash(self, *words):
        """What bash offers for the last of the words."""
        line = " ".join(f"'{w}'" for w in words)
        script = (f'PATH="{Path(PROGRAM).parent}:$PATH"; source <(drdotnet completion bash); COMP_WORDS=({line}); '
                  f'COMP_CWORD={len(words) - 1}; _drdotnet; printf "%s\\n" "${{COMPREPLY[@]}}"')
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def test_bash_completes(self):
        self.assertEqual(sorted(self.bash("drdotnet", "")), sorted(commands() + profilers()))
        self.assertEqual(self.bash("drdotnet", "excep"), ["exceptions"])
        self.assertEqual(self.bash("drdotnet", "run", "runt"), ["runtime-pauses"])
        self.assertEqual(self.bash("drdotnet", "exceptions", "--dur"), ["--duration"])
        self.assertEqual(self.bash("drdotnet", "sessions", "ex"), ["export"])
        for command, verbs in VERBS.items():
            self.assertEqual(self.bash("drdotnet", command, ""), verbs)
        for name, keys in keys_of_parameters():
            for words in ((name,), ("run", name)):
                self.assertEqual(self.bash("drdotnet", *words, "-p", ""), keys)
        for name, option in options():
            for words in ((name,), ("run", name)):
                self.assertIn(option, [word.rstrip("=") for word in self.bash("drdotnet", *words, option)], words)
        with Patient("healthy", fx=FX) as patient:
            self.assertIn(str(patient.pid), self.bash("drdotnet", "exceptions", ""))
            for words in (("check",), ("run", "exceptions"), ("trace", "collect"), ("dump", "collect"), ("inspect",), ("top",)):
                self.assertIn(str(patient.pid), self.bash("drdotnet", *words, ""), words)
            self.assertIn("sick", self.bash("drdotnet", "exceptions", "si"))
            self.assertNotIn("sick", self.bash("drdotnet", "trace", "convert", "si"))

    def fish(self, *lines):
        """What fish offers at the end of each line."""
        asked = "; ".join(f"complete -C '{line}'; echo @@" for line in lines)
        script = f"set PATH {Path(PROGRAM).parent} $PATH; drdotnet completion fish | source; {asked}"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True,
                              timeout=DEADLINE_SECONDS)
        return [[line.split("\t")[0] for line in block.splitlines()] for block in done.stdout.split("@@\n")[:-1]]

    def test_fish_completes(self):
        self.assertEqual(self.fish("drdotnet excep", "drdotnet gc-survivors --generation "), [["exceptions"], ["all", "old"]])
        all_options = list(options())
        for verb in ("", "run "):
            offered = self.fish(*(f"drdotnet {verb}{name} {option}" for name, option in all_options))
            for (name, option), words in zip(all_options, offered, strict=True):
                self.assertIn(option, [word.partition("=")[0] for word in words], name)

    def test_fish_knows_verbs_targets_and_keys(self):
        for command, verbs in VERBS.items():
            offered, = self.fish(f"drdotnet {command} ")
            self.assertLessEqual(set(verbs), set(offered), command)
        lines = list(keys_of_parameters())
        for (name, keys), offered in zip(lines, self.fish(*(f"drdotnet {name} -p " for name, _ in lines)), strict=True):
            self.assertEqual(sorted(offered), sorted(keys), name)
        with Patient("healthy", fx=FX) as patient:
            for offered in self.fish("drdotnet exceptions ", "drdotnet check ", "drdotnet trace collect "):
                self.assertIn(str(patient.pid), offered)
                self.assertIn("sick", offered)

    def test_zsh_completes(self):
        with Patient("healthy", fx=FX) as patient, Zsh() as zsh:
            self.assertEqual(sorted(zsh.offers("drdotnet ")), sorted(commands() + profilers()))
            self.assertEqual(zsh.offers("drdotnet excep"), ["exceptions"])
            for command, verbs in VERBS.items():
                self.assertLessEqual(set(verbs), set(zsh.offers(f"drdotnet {command} ")), command)
            for name, keys in list(keys_of_parameters())[:5]:
                self.assertEqual(sorted(zsh.offers(f"drdotnet {name} -p ")), sorted(keys), name)
            for words in ("exceptions", "run exceptions", "check", "trace collect"):
                offered = zsh.offers(f"drdotnet {words} ")
                self.assertIn(str(patient.pid), offered, words)
                self.assertIn("sick", offered, words)
            self.assertEqual(sorted(zsh.offers("drdotnet gc-survivors --generation ")), ["all", "old"])

    def test_zsh_knows_the_options_of_parameters(self):
        script = subprocess.run([PROGRAM, "completion", "zsh"], capture_output=True, text=True, check=True).stdout
        for name, option in options():
            self.assertRegex(script, rf"(?m)^\t{name}\) _arguments .* '{option}(=-)?\[")


class Version(unittest.TestCase):
    def test_the_script(self):
        def said(**env):
            clean = {k: v for k, v in os.environ.items() if k not in ("VERSION", "BUILD_NUMBER")}
            return subprocess.run([ROOT / "tools/version"], cwd="/", env={**clean, **env}, text=True,
                                  capture_output=True, check=True).stdout.strip()

        self.assertEqual(said(), "0.0.0.0")
        self.assertEqual(said(VERSION="1.2.3", BUILD_NUMBER="4"), "1.2.3.4")
        self.assertEqual(said(VERSION="1.2.3"), "1.2.3.0")

    def test_one_version_everywhere(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            done = home.run("--version")
            self.assertRegex(done.out, r"\Adrdotnet \d+\.\d+\.\d+\.\d+\n\Z")
            version = done.out.split()[1]
            report = examine(home, "runtime-pauses", patient.pid, 1)
            self.assertEqual(report.data["facts"]["version"], version)
            folder = home.path / "sessions" / report.data["facts"]["session"]
            self.assertEqual(json.loads((folder / "session.json").read_text())["version"], version)
            self.assertIn(f"drdotnet {version}", (folder / "report.html").read_text())


class Terminal(unittest.TestCase):
    """What is drawn where: on a terminal, in a pipe, in a pipe that nobody reads."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("exceptions", fx=FX))

    def on_terminal(self, *arguments, env=None, stdout=True):
        """Exit code and all that the terminal got; stdout may go elsewhere."""
        master, slave = pty.openpty()
        try:
            process = subprocess.Popen(
                [PROGRAM, *map(str, arguments)], stdin=slave, stderr=slave,
                stdout=slave if stdout else subprocess.DEVNULL, start_new_session=True,
                env={**os.environ, **UTF8, "DRDOTNET_HOME": str(self.home.path), **(env or {})})
            os.close(slave)
            slave, text, deadline = -1, b"", time.monotonic() + DEADLINE_SECONDS
            while select.select([master], [], [], max(0, deadline - time.monotonic()))[0]:
                try:
                    chunk = os.read(master, 65536)
                except OSError:  # the other side is closed
                    break
                text += chunk
            return process.wait(DEADLINE_SECONDS), text.decode()
        finally:
            os.close(master)
            if slave >= 0:
                os.close(slave)

    def test_colour_and_a_bar_on_a_terminal(self):
        code, text = self.on_terminal("exceptions", self.patient.pid, "-d", "1s")
        self.assertEqual(code, 0, text)
        self.assertIn("\x1b[", text.rpartition("\x1b[K")[2], "the report has colour")
        self.assertRegex(text, r"\r\x1b\[K[^\r\n]*━", "a bar is drawn")
        self.assertIn("left", text)

    def test_no_colour_when_asked(self):
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            with self.subTest(env):
                code, text = self.on_terminal("exceptions", self.patient.pid, "-d", "1s", "-q", env=env)
                self.assertEqual(code, 0, text)
                self.assertNotIn("\x1b", text)

    def test_the_bar_leaves_nothing_behind(self):
        code, text = self.on_terminal("exceptions", self.patient.pid, "-d", "1s", stdout=False)
        self.assertEqual(code, 0, text)
        self.assertRegex(text.rpartition("\x1b[K")[2], r"\ASaved as session [^\r\n]+\r\n\Z")

    def test_quiet_is_quiet(self):
        code, text = self.on_terminal("exceptions", self.patient.pid, "-d", "1s", "-q", stdout=False)
        self.assertEqual((code, text), (0, ""))

    def test_plain_lines_in_a_pipe(self):
        done = self.home.run("exceptions", self.patient.pid, "-d", "1s", env=UTF8)
        self.assertEqual(done.code, 0, done)
        self.assertNotIn("\x1b", done.out + done.err)
        self.assertNotIn("\r", done.out + done.err)
        self.assertLessEqual(max(map(len, done.out.splitlines())), 100)
        self.assertLess(len(done.err.splitlines()), 8, "a line for each step, not for each tick")
        as_json = self.home.run("exceptions", self.patient.pid, "-d", "1s", "--json")
        self.assertEqual(as_json.json()["format"], "drdotnet-report")

    def test_a_place_without_utf8_gets_ascii(self):
        done = self.home.run("exceptions", self.patient.pid, "-d", "1s", env={"LC_ALL": "C"})
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.out.isascii(), done)

    def test_a_pipe_that_nobody_reads(self):
        for arguments in (["help"], ["ps"], ["profilers"], ["exceptions", str(self.patient.pid), "-d", "1s", "-q"]):
            with self.subTest(arguments):
                read, write = os.pipe()
                os.close(read)
                done = subprocess.run([PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE, text=True,
                                      env={**os.environ, "DRDOTNET_HOME": str(self.home.path)}, timeout=DEADLINE_SECONDS)
                os.close(write)
                self.assertEqual((done.returncode, done.stderr), (0, ""), "it is no error of anybody")
        self.assertTrue(self.patient.alive())

    def test_the_first_lines_only(self):
        for words in ("help", "ps", f"exceptions {self.patient.pid} -d 1s -q", f"stacks {self.patient.pid}", "config"):
            with self.subTest(words):
                done = subprocess.run(["bash", "-c", f'set -o pipefail; "{PROGRAM}" {words} | head -n 1'], capture_output=True, text=True,
                                      env={**os.environ, "DRDOTNET_HOME": str(self.home.path)}, timeout=DEADLINE_SECONDS)
                self.assertEqual((done.returncode, done.stderr, len(done.stdout.splitlines())), (0, "", 1), done)

    def test_alone_it_shows_the_patients_and_what_to_type_next(self):
        code, text = self.on_terminal()
        lines = text.splitlines()
        self.assertEqual(code, 0, text)
        self.assertEqual(lines[0].split(), ["PID", "PROCESS", "CPU", "%", "RSS", "THREADS"])
        row = next(line.split() for line in lines if line.split()[:1] == [str(self.patient.pid)])
        self.assertEqual(row[1], "sick")
        self.assertGreaterEqual(float(row[2]), 0)
        self.assertGreater(int(row[-1]), 3, "threads")
        self.assertRegex(text, r"(?m)^  drdotnet \d+ +what is wrong with it\?")
        self.assertRegex(text, r"(?m)^  drdotnet check \d+ ")
        self.assertLessEqual(max(map(len, lines)), 110)

    def test_what_was_asked_for_is_shown_when_nothing_is_wrong(self):
        with Patient("healthy", fx=FX) as patient:
            plain = self.home.run("duplicated-strings", patient.pid, "-q", env=UTF8)
            asked = self.home.run("duplicated-strings", patient.pid, "-q", "--top-count", "7", env=UTF8)
            self.assertIn("No problem here", asked.out)
            self.assertRegex(asked.out, r"(?m)^  Values\n  Value ")
            self.assertNotRegex(plain.out, r"(?m)^  Values$")
            heap = self.home.run("heap-stats", patient.pid, "-q", "--type", "System.String", env=UTF8)
            self.assertRegex(heap.out, r"(?m)^  System\.String +[\d,]+ ")
            self.assertRegex(heap.out, r"(?m)^  Generations\n  Where ")

    def test_a_full_disk_is_said(self):
        """Shorter than a buffer, longer than one, and much longer."""
        for words in (("profilers",), ("help",), ("profilers", "--json")):
            with self.subTest(words=words), open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *words], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, FAILED, done)
                self.assertIn("cannot write", done.stderr)

    def test_an_interrupt_reports_what_was_seen(self):
        with self.home.start("exceptions", self.patient.pid, "-d", "60s") as job:
            job.wait_for("listening")
            job.signal(signal.SIGINT)
            done = job.finish()
        self.assertEqual(done.code, 130, done)
        self.assertIn("cancelled after", done.out)
        self.assertTrue(self.patient.alive())


if __name__ == "__main__":
    unittest.main()
