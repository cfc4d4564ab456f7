"""The container image with a real engine: an app in its own container, drdotnet in another, nothing shared but /tmp."""

import http.cookiejar
import http.server
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from drdotnet import ROOT, Home, end_window, wait_until
from patient import PATIENTS, Patient

BUILD = Path(os.environ.get("DRDOTNET", ROOT / "build" / "drdotnet")).parent
IMAGE = "drdotnet/web"
BRIDGE = "drdotnet-test0"  # at most 15 characters
PORT, EXAMPLE_PORT = 19092, 19093
MAX_IMAGE_BYTES = 60_000_000
SECONDS = 120
# The eight of the contract.
GC_SURVIVORS, DUPLICATED_STRINGS = "805A307B-061C-47F3-9B30-F795C3186E86", "bdaba522-104c-4343-8952-036bed81527d"
EXCEPTIONS, MERGED_STACKS = "805A308B-061C-47F3-9B30-F785C3186E82", "9404d16c-b49e-11ed-afa1-0242ac120002"
ALLOCATIONS, MEMORY_LEAKS = "805A308B-061C-47F3-9B30-F785C3186E84", "805A308B-061C-47F3-9B30-F785C3186E83"
RUNTIME_PAUSES, CPU_HOTPATHS = "805A308B-061C-47F3-9B30-F785C3186E85", "805A308B-061C-47F3-9B30-A485B2056E71"

# Where its scripts look for the reports; "summary.md" of all others.
NAMES = {GC_SURVIVORS: {"summary.html"}, CPU_HOTPATHS: {"cpu_hotpaths.html"},
         MERGED_STACKS: {"pstacks.md", "collapsible_pstacks.html"}}


class Engine:
    """A Docker engine of its own, with a bridge of its own: it needs root and nothing else."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="drdotnet-docker-"))
        # One that a killed run left behind would be in the way.
        subprocess.run(["ip", "link", "del", BRIDGE], stderr=subprocess.DEVNULL)
        # Ports are published by its proxy, without a rule of a firewall and without a way out.
        for words in (("link", "add", BRIDGE, "type", "bridge"), ("addr", "add", "172.29.253.1/24", "dev", BRIDGE),
                      ("link", "set", BRIDGE, "up")):
            subprocess.run(["ip", *words], check=True, capture_output=True)
        self.host = f"unix://{self.folder}/socket"
        self.log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec", "-H", self.host,
             "-p", self.folder / "pid", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
             f"--bridge={BRIDGE}"], stdout=self.log, stderr=self.log)
        wait_until(lambda: self.process.poll() is not None or self.docker("version", check=False).returncode == 0,
                   "the engine answers", 60)
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text()[-2000:])

    def docker(self, *arguments, check=True):
        return subprocess.run(["docker", *map(str, arguments)], env={**os.environ, "DOCKER_HOST": self.host},
                              capture_output=True, text=True, timeout=SECONDS, check=check)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()
        subprocess.run(["ip", "link", "del", BRIDGE], stderr=subprocess.DEVNULL)
        # The engine leaves the mount of its network namespace behind.
        subprocess.run(["umount", self.folder / "exec" / "netns" / "default"], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.folder, ignore_errors=True)


def build_id(library):
    notes = subprocess.run(["readelf", "-n", PATIENTS / "sick" / "net10.0" / library], capture_output=True, text=True).stdout
    return re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


class Listener:
    """A symbol server that has nothing, and keeps what it was asked for."""

    def __enter__(self):
        asked = self.asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                self.send_error(404)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Docker(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("dockerd") or not shutil.which("docker-compose"):
            raise unittest.SkipTest("needs root, docker.io and docker-compose")
        cls.engine = Engine()
        cls.addClassCleanup(cls.engine.stop)
        cls.docker = cls.engine.docker
        cls.environment = {"DOCKER_HOST": cls.engine.host}
        subprocess.run([ROOT / "deploy" / "image", BUILD, IMAGE], check=True, capture_output=True,
                       env={**os.environ, **cls.environment})
        cls.docker("volume", "create", "diagnostics")

    def app(self, sickness, name, *options, **keys):
        """A patient as process 1 of a container; it speaks through the client's pipes."""
        prefix = ["docker", "run", "--rm", "-i", "--name", name, "--network", "none", "-v", "diagnostics:/tmp",
                  "-v", f"{PATIENTS.resolve()}:{PATIENTS}:ro", "-e", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1",
                  *options, "--entrypoint", "", IMAGE]
        patient = self.enterContext(Patient(sickness, prefix=prefix, env=self.environment, **keys))
        self.assertEqual(patient.ready["pid"], 1)
        return patient

    def doctor(self, *options, name="drdotnet", command=()):
        self.docker("run", "-d", "--rm", "--name", name, "--network", "host", "-e", f"DRDOTNET_LISTEN=127.0.0.1:{PORT}",
                    *options, IMAGE, *command)
        self.addCleanup(self.docker, "rm", "-f", name, check=False)
        wait_until(lambda: "token=" in self.docker("logs", name).stdout, "it prints its link", SECONDS)
        link = self.docker("logs", name).stdout.strip()
        self.assertEqual(link, self.docker("exec", name, "drdotnet", "serve", "--link").stdout.strip())
        self.token = link.split("token=")[1]

    def call(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode() if body else None,
                                         {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def reachable(self):
        try:
            return self.call("/api/processes") is not None
        except (urllib.error.URLError, ConnectionError):
            return False

    def examine(self, guid, process, **parameters):
        body = {"profilerGuid": guid, "processId": process,
                "parameters": [{"key": key, "value": str(value)} for key, value in parameters.items()]}
        session = self.call("/api/sessions", body)
        deadline = time.monotonic() + SECONDS
        while not (session := self.call(f"/api/sessions/{session['guid']}"))["isCompleted"]:
            self.assertLess(time.monotonic(), deadline, session)
            time.sleep(0.1)
        self.assertEqual(session["state"], "done", session)
        files = {f["name"] for f in self.call(f"/api/sessions/{session['guid']}/files")}
        self.assertLessEqual(NAMES.get(guid, {"summary.md"}), files)
        return session

    def verdict(self, guid, process, **parameters):
        return self.examine(guid, process, **parameters)["verdict"]

    def test_only_a_volume_is_shared(self):
        """The recipe of the README: three apps on one volume, told apart; one without rights and with a read-only root. All
        eight profilers of the contract, against what the apps know of themselves."""
        hung = self.app("deadlock", "app-1")
        busy = self.app("exceptions,cpu,gc-pauses,allocations", "app-2", "--user", "1000:1000", "--read-only",
                        "--cap-drop", "ALL", rate=100)
        full = self.app("leak,duplicate-strings", "app-3", copies=20000)
        self.doctor("-v", "diagnostics:/tmp")
        wait_until(self.reachable, "the server answers", 30)
        processes = {p["commandLine"].split()[2]: p["id"] for p in self.call("/api/processes")}
        self.assertEqual(set(processes), {"deadlock", "exceptions,cpu,gc-pauses,allocations", "leak,duplicate-strings"})
        self.assertEqual(len(set(processes.values())), 3)
        one, two, three = (processes[app] for app in sorted(processes))
        for process in (one, two, three):
            check = json.loads(self.docker("exec", "drdotnet", "drdotnet", "check", process, "--json").stdout)
            ways = check.get("ways", check)
            self.assertEqual([ways[w]["open"] for w in ("events", "samples", "image", "agent")], [True, False, False, True])

        self.assertIn("threads wait for Shop.Bank.", self.verdict(MERGED_STACKS, one))
        self.examine(MERGED_STACKS, two)
        self.busy_app(two, busy)
        self.full_app(three, full)
        stacks = json.loads(self.docker("exec", "drdotnet", "drdotnet", "stacks", one, "--json").stdout)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor",
                      {f["name"] for t in stacks["threads"] for f in t["frames"]})
        for bad in ("abc", "-1"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.examine(EXCEPTIONS, two, duration=bad)
            self.assertEqual(refused.exception.code, 400)

        self.assertEqual(self.docker("exec", "drdotnet", "drdotnet", "_health").returncode, 0)
        volume = Path(self.docker("volume", "inspect", "-f", "{{.Mountpoint}}", "diagnostics").stdout.strip())
        # Of ours nothing stays there, and never was the token or a session: who is root in an app could read them.
        # The patients may lie below /tmp themselves: then the engine makes the folder on which it mounts them.
        mounted = PATIENTS.resolve().relative_to("/tmp").parts[:1] if PATIENTS.resolve().is_relative_to("/tmp") else ()
        self.assertEqual([p.name for p in volume.iterdir() if p.name not in mounted and
                          not p.name.startswith(("clr-debug-pipe-", "dotnet-", ".dotnet"))], [])
        self.assertFalse([p for p in volume.rglob("*") if p.is_file() and self.token.encode() in p.read_bytes()])
        home = self.docker("inspect", "-f", "{{range .Mounts}}{{if eq .Destination \"/var/lib/drdotnet\"}}{{.Source}}{{end}}{{end}}",
                           "drdotnet").stdout.strip()
        self.assertEqual((Path(home).stat().st_mode & 0o777, Path(home, "token").stat().st_mode & 0o777), (0o700, 0o600))
        for patient in (hung, busy, full):
            self.assertFalse(patient.truth()["paused"])

    def busy_app(self, process, patient):
        patient.mark()
        thrown = self.verdict(EXCEPTIONS, process, duration=2)
        truth = patient.truth()
        rate = truth["exceptions"]["events"] * 1e9 / truth["since_mark_ns"]
        seen = re.match(r"([\d,]+) (?:exceptions|throws) in .* \(([\d.,]+)/s\)", thrown)
        self.assertAlmostEqual(float(seen[2].replace(",", "")) / rate, 1, delta=0.4)
        self.assertRegex(self.verdict(ALLOCATIONS, process, duration=2), r"\d+ % of it is System\.Byte\[\], allocated in Shop\.")
        self.assertIn("induced by GC.Collect", self.verdict(RUNTIME_PAUSES, process, duration=2))
        self.assertIn("Shop.Pricing.Quote.Total → Shop.Pricing.Tax.Compute",
                      self.verdict(CPU_HOTPATHS, process, duration_seconds=3))

    def full_app(self, process, patient):
        holders = {h["field"]: h["type"].rpartition(".")[2] for h in patient.truth()["leak"]["holders"].values()}
        # What does not grow may still be what is kept most of.
        kept_most = holders | {patient.truth()["duplicate-strings"]["holder"]: "OrderLine"}
        for guid, parameters, known in ((MEMORY_LEAKS, {"duration": 3, "looks": 3}, holders), (GC_SURVIVORS, {}, kept_most)):
            field, kept = re.match(r"(\S+) .*? ([A-Z]\w+)(?: alive| in )", self.verdict(guid, process, **parameters)).groups()
            self.assertEqual(known.get(field), kept)
        strings = self.verdict(DUPLICATED_STRINGS, process)
        truth = patient.truth()["duplicate-strings"]
        self.assertIn(f"held by static {truth['holder']}", strings)
        wasted = float(re.match(r"Copies of equal strings take ([\d.]+) MB", strings)[1])
        self.assertAlmostEqual(wasted * 2 ** 20 / truth["wasted_bytes"], 1, delta=0.05)

    def recipe(self):
        """The commands of README's block that ends with the log, without their comments."""
        blocks = re.findall(r"```\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
        block = next(b for b in blocks if "docker logs drdotnet" in b)
        return [shlex.split(line, comments=True) for line in block.splitlines()]

    def shop(self):
        """An app under the name that README gives it: it lives without anybody at its standard input."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PATIENTS / "sick" / "net10.0", Path(folder) / "app")
            (Path(folder) / "Dockerfile").write_text(
                f'FROM {IMAGE}\nCOPY app /shop\nENV DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1\nENTRYPOINT ["/shop/sick"]\n'
                'CMD ["deadlock"]\n')
            subprocess.run(["docker", "build", "-q", "-t", "shop/api", folder], check=True, capture_output=True,
                           env={**os.environ, **self.environment, "DOCKER_BUILDKIT": "0"})

    def test_the_recipe_of_the_readme_opens(self):
        """Word by word, but for standard input: a test patient ends with it. The link of the log leads to the pages."""
        self.shop()
        *steps, log = self.recipe()
        self.assertEqual(["docker", "logs", "drdotnet"], log)
        published = next(words[words.index("-p") + 1] for words in steps if "-p" in words)
        self.assertEqual("127.0.0.1:8000:92", published)
        for words in steps:
            words = [*words[:2], "-i", *words[2:]] if words[-1] == "shop/api" else words
            made = self.docker(*words[1:]).stdout.strip()
            if words[1] == "run":
                self.addCleanup(self.docker, "rm", "-f", made, check=False)
        wait_until(lambda: "token=" in self.docker(*log[1:]).stdout, "it prints its link", SECONDS)
        link = self.docker(*log[1:]).stdout.strip()
        self.assertRegex(link, r"^http://localhost:8000/\?token=[0-9a-f]+$")
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        with browser.open(link, timeout=30) as page:
            self.assertEqual(("http://localhost:8000/", "text/html"), (page.url, page.headers.get_content_type()))
        with browser.open("http://localhost:8000/api/processes", timeout=30) as answer:
            apps = json.loads(answer.read())
        self.assertEqual(["deadlock"], [p["commandLine"].split()[-1] for p in apps])
        # It is process 1 where it runs, and named so here: none that we see has that number.
        self.assertIn("TransferByMonitor", self.docker("exec", "drdotnet", "drdotnet", "stacks", "1").stdout)
        # Who comes without the link gets the page that says where to find it, and no data.
        with urllib.request.urlopen("http://localhost:8000", timeout=30) as page:
            self.assertEqual(200, page.status)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen("http://localhost:8000/api/processes", timeout=30)
        self.assertEqual(401, refused.exception.code)
        again = self.docker("exec", "drdotnet", "drdotnet", "serve", "--link").stdout.strip()
        self.assertEqual(link, again)

    def test_without_a_token_when_it_is_said(self):
        name = "drdotnet-open"
        self.docker("run", "-d", "--name", name, "-p", "127.0.0.1:8001:92", "-e", "DRDOTNET_AUTH=none", IMAGE)
        self.addCleanup(self.docker, "rm", "-f", name, check=False)
        wait_until(lambda: self.docker("logs", name).stdout, "it prints its address", SECONDS)
        with urllib.request.urlopen("http://localhost:8001/api/processes", timeout=30) as answer:
            self.assertEqual(200, answer.status)
        log = self.docker("logs", name).stderr
        self.assertIn("no token is asked for", log)
        # Without DRDOTNET_PUBLIC_URL it cannot know the published port: it says which part to replace.
        self.assertIn("in place of 0.0.0.0:92", log)

    def test_other_recipes(self):
        self.app("deadlock", "app-3")
        # Its pid namespace, with and without rights: it has the pid that it has for itself.
        for rights in ((), ("--cap-add", "SYS_PTRACE")):
            seen = self.docker("run", "--rm", "--network", "none", "--pid", "container:app-3", *rights, IMAGE, "stacks", "1",
                               "--json")
            self.assertIn("TransferByMonitor", seen.stdout)
        # Nothing shared: nothing seen, and said so.
        alone = self.docker("run", "--rm", "--network", "none", IMAGE, "ps", check=False)
        self.assertNotIn("sick", alone.stdout)
        self.assertIn("needs a volume that is /tmp in both", alone.stderr)
        # The volume, but not for writing: it is said which folder that is, and what for it is needed.
        shared = ("run", "--rm", "--network", "none", "-v", "diagnostics:/tmp:ro", IMAGE)
        listed = json.loads(self.docker(*shared, "ps", "--json").stdout)
        app = next(p["id"] for p in listed if p["commandLine"].endswith(" deadlock"))
        closed = json.loads(self.docker(*shared, "check", app, "--json", check=False).stdout)
        self.assertEqual(closed.get("ways", closed)["agent"]["why"], "its temporary folder is mounted read-only here")
        with tempfile.TemporaryDirectory() as home, Listener() as symbols:
            env = {**os.environ, **self.environment, "HOME": home, "DRDOTNET_SYMBOL_SERVERS": symbols.url}
            script = ROOT / "deploy" / "examine-container.sh"
            done = subprocess.run([script, "-c", "app-3", "-s", "-k", "5.10", "--", "run", "merged-call-stacks", "1"], env=env,
                                  capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(done.returncode, 0, done)
            self.assertIn("/app-3 (drdotnet/web)", done.stdout)
            self.assertIn("on /tmp", done.stdout)
            self.assertIn("threads wait for Shop.Bank.", done.stdout)
            self.assertTrue(any((Path(home) / "perf-profilings").iterdir()))
            self.assertTrue(any(build_id("libcoreclr.so") in path for path in symbols.asked), symbols.asked)  # -s
            self.assertEqual(subprocess.run([script], env=env, capture_output=True).returncode, 2)
            told = subprocess.run([script, "-h"], env=env, capture_output=True, text=True)
            self.assertEqual((told.returncode, told.stdout.split()[0]), (0, "examine-container.sh"))
            self.assertEqual(subprocess.run([script, "-c", "nobody"], env=env, capture_output=True).returncode, 1)

    def test_the_example(self):
        """The web API of examples/, on our own image instead of a base from a registry."""
        context = (PATIENTS / "web" / "net10.0").resolve()
        subprocess.run(["docker", "build", "-q", "-t", "web-api", "--build-arg", f"BASE={IMAGE}", "-f",
                        ROOT / "examples" / "web-api" / "Dockerfile", context], check=True, capture_output=True,
                       env={**os.environ, **self.environment, "DOCKER_BUILDKIT": "0"})
        url = f"http://127.0.0.1:{EXAMPLE_PORT}"
        self.docker("run", "-d", "-i", "--rm", "--name", "web-api", "--network", "host", "web-api", "--urls", url, "--max-seconds",
                    "300")
        self.addCleanup(self.docker, "rm", "-f", "web-api", check=False)
        pid = self.docker("inspect", "-f", "{{.State.Pid}}", "web-api").stdout.strip()

        def ask(route):
            try:
                return urllib.request.urlopen(f"{url}/{route}", timeout=SECONDS).status
            except (urllib.error.URLError, ConnectionError):
                return None

        wait_until(lambda: ask("healthy") == 200, "the example answers", SECONDS)
        with Home() as home, home.start("cpu-hotpaths", pid, "-d", "60s", "--json") as job:
            job.wait_for("sampling")
            self.assertEqual(ask("on-cpu?ms=1500"), 200)
            report = end_window(job)
        self.assertIn("Shop.Web.Routes.OnCpu", report.verdict)

    def compose(self, folder, profile, *arguments):
        """deploy/compose.yaml as it is, but for what this engine without networks, and Debian's old compose, cannot do."""
        text = (ROOT / "deploy" / "compose.yaml").read_text()
        text = re.sub(r"    ports:\n      - .*\n", "    network_mode: host\n", text).replace("    cgroup: host\n", "")
        (folder / "compose.yaml").write_text(text)
        listen = {"environment": {"DRDOTNET_LISTEN": f"127.0.0.1:{PORT}", "DRDOTNET_TOKEN": self.token}}
        app = {"entrypoint": [str(PATIENTS / "sick" / "net10.0" / "sick"), "deadlock"], "stdin_open": True,
               "network_mode": "none", "environment": {"DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
               "volumes": [f"{PATIENTS.resolve()}:{PATIENTS}:ro"]}
        services = {"app": app, **{name: listen for name in ("drdotnet", "drdotnet-pid", "drdotnet-host")}}
        (folder / "more.yaml").write_text(json.dumps({"services": services}))
        return subprocess.run(["docker-compose", "-f", folder / "compose.yaml", "-f", folder / "more.yaml", "--project-name", "shop",
                               "--profile", profile, *arguments], capture_output=True, text=True, timeout=SECONDS,
                              env={**os.environ, **self.environment, "APP_IMAGE": IMAGE})

    def test_compose(self):
        """Each of the three recipes is started, and a look by the best way that it opens is right."""
        with tempfile.TemporaryDirectory() as name:
            folder, self.token = Path(name), "a-token-of-the-test"
            for profile, ways in (("volume", {"events", "agent"}), ("pid", {"events", "agent", "samples"}),
                                  ("host", {"events", "agent", "image", "samples"})):
                with self.subTest(profile):
                    # That of the host brings no app along: it sees those of this machine.
                    here = self.enterContext(Patient("deadlock")).pid if profile == "host" else None
                    up = self.compose(folder, profile, "up", "-d")
                    try:
                        self.assertEqual(up.returncode, 0, up)
                        wait_until(self.reachable, "the server answers", 60)
                        wait_until(lambda: self.deadlocked(here) is not None, "the app is listed", 60)
                        self.assertIn("threads wait for Shop.Bank.", self.verdict(MERGED_STACKS, self.deadlocked(here)))
                        doctor = {"volume": "drdotnet"}.get(profile, f"drdotnet-{profile}")
                        seen = self.compose(folder, profile, "exec", "-T", doctor, "drdotnet", "check",
                                            str(self.deadlocked(here)), "--json")
                        checks = json.loads(seen.stdout)
                        checks = checks.get("ways", checks)
                        self.assertLessEqual(ways, {way for way in checks if checks[way]["open"]}, seen.stdout)
                    finally:
                        down = self.compose(folder, profile, "down", "--timeout", "1")
                    self.assertEqual(down.returncode, 0, down)

    def deadlocked(self, pid):
        return next((p["id"] for p in self.call("/api/processes") if p["commandLine"].endswith(" deadlock") and
                     pid in (None, p["id"])), None)

    def test_size(self):
        size = int(self.docker("image", "inspect", "-f", "{{.Size}}", IMAGE).stdout)
        self.assertLess(size, MAX_IMAGE_BYTES)


if __name__ == "__main__":
    unittest.main()
