"""Samples as files for other programs."""

import base64
import gzip
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from drdotnet import PROGRAM, Home, Report, examine, wait_until
from patient import FRAMEWORKS, Patient
from peers import speedscope_page
from test_report_html import Browser, Page

SIDE_BY_SIDE = True

FX = FRAMEWORKS[-1]
HOT = "Shop.Pricing.Tax.Compute"


class Devices(unittest.TestCase):
    """-o /dev/null as root: what is no file is written to or refused, never replaced by one."""

    ORDERS = [(("perf-map", "PID", "-o"), 0), (("cpu-hotpaths", "PID", "-d", "1s", "--format", "html", "-o"), 0),
              (("trace", "collect", "PID", "-d", "1s", "-o"), 0), (("counters", "PID", "--once", "--csv"), 0),
              (("cpu", "collect", "-pid", "PID", "-d", "1s", "-o"), 2), (("dump", "collect", "PID", "-o"), 2)]

    def test_a_device_stays_one(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            device = home.path / "null"
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            for order, code in self.ORDERS:
                with self.subTest(order):
                    done = home.run(*(patient.pid if word == "PID" else word for word in order), device)
                    self.assertEqual(done.code, code, done)
                    self.assertTrue(stat.S_ISCHR(device.lstat().st_mode))
                    self.assertEqual(sorted(p.name for p in home.path.iterdir() if p.name.startswith("null")), ["null"])


class Exports(unittest.TestCase):
    """One session in every form; the ending of the file says which."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        with Patient("cpu", fx=FX, threads=2) as patient:
            cls.pid = patient.pid
            cls.path = cls.home.path / "first.speedscope.json"
            cls.done = cls.home.run("cpu-hotpaths", patient.pid, "-d", "2s", "-o", cls.path)
            cls.wrong = cls.home.run("exceptions", patient.pid, "-d", "1s", "-o", cls.home.path / "x.pb.gz")
        with Patient("cpu", fx=FX, threads=2, path="recursion") as patient:  # the known change
            cls.home.run("cpu-hotpaths", patient.pid, "-d", "2s", "-q")
        cls.later, cls.guid = (session["guid"] for session in cls.home.sessions())
        cls.report = json.loads((cls.home.path / "sessions" / cls.guid / "report.json").read_text())

    def exported(self, ending):
        path = self.home.path / f"again{ending}"
        done = self.home.run("sessions", "export", self.guid, "-o", path)
        self.assertEqual(done.code, 0, done)
        return path.read_bytes()

    def cpu_ns(self):
        return next(f["value"] for f in self.report["figures"] if f["label"] == "CPU time")

    def test_speedscope_has_all_the_time(self):
        self.assertEqual(self.done.code, 0, self.done)
        data = json.loads(self.path.read_text())
        names = [f["name"] for f in data["shared"]["frames"]]
        self.assertIn(HOT, names)
        self.assertIn(str(self.pid), data["name"])
        spent = 0
        for profile in data["profiles"]:
            depth, since = 0, 0
            for event in profile["events"]:
                if event["type"] == "O":
                    since = event["at"] if depth == 0 else since
                    depth += 1
                else:
                    depth -= 1
                    spent += event["at"] - since if depth == 0 else 0
            self.assertEqual(depth, 0)
        unit = {"nanoseconds": 1, "microseconds": 1e3}[data["profiles"][0]["unit"]]
        self.assertAlmostEqual(spent * unit / self.cpu_ns(), 1, delta=0.02)
        self.assertEqual(json.loads(self.exported(".speedscope.json")), data)

    def test_pprof_folded_svg_and_reports(self):
        self.assertIn(HOT.encode(), gzip.decompress(self.exported(".pb.gz")))
        self.assertRegex(self.exported(".folded").decode(), rf"(?m)^\S.*;{HOT} \d+$")
        self.assertTrue(self.exported(".svg").startswith(b"<?xml"))
        self.assertTrue(self.exported(".html").startswith(b"<!doctype html>"))
        self.assertEqual(json.loads(self.exported(".json")), self.report)
        self.assertIn(HOT.encode(), self.exported(".md"))
        self.assertIn(HOT.encode(), self.exported(".txt"))

    def test_a_profiler_without_samples_says_so_beforehand(self):
        self.assertEqual(self.wrong.code, 2)
        self.assertIn("takes no samples", self.wrong.err)
        self.assertEqual(len(self.home.sessions()), 2)

    def open(self, path):
        browser = Browser(self.home.path / "browser")
        self.addCleanup(browser.close)
        return Page(browser, path)

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_the_svg_is_searched_zoomed_and_tells(self):
        self.exported(".svg")
        shown = "[...document.querySelectorAll('g.f')].filter(g => g.style.display !== 'none')"
        with self.open(self.home.path / "again.svg") as page:
            before = page.js(f"{shown}.length")
            page.js(f"flame.search('{HOT}')")
            share = float(re.search(r": ([\d.]+) %$", page.js("flame.status()"))[1])
            self.assertGreater(share, 40)
            self.assertGreater(page.js("document.querySelectorAll('g.hit').length"), 0)
            box = f"[...document.querySelectorAll('g.f')].find(g => g.dataset.n === '{HOT}')"
            page.js(f"{box}.dispatchEvent(new MouseEvent('mouseover', {{bubbles: true}}))")
            self.assertRegex(page.js("flame.status()"), rf"^{re.escape(HOT)} \([\d.]+ m?s, \d+ %")
            page.js(f"{box}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
            self.assertLess(page.js(f"{shown}.length"), before)
            self.assertGreater(page.js(f"+{box}.querySelector('rect').getAttribute('width')"), 1100)
            page.js("flame.reset()")
            self.assertEqual(page.js(f"{shown}.length"), before)
            self.assertEqual(page.seen("Runtime.exceptionThrown"), [])

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_a_range_of_the_heatmap_is_a_flame_graph_of_its_own(self):
        self.exported(".html")
        now = "document.querySelector('.fl-now').textContent"
        share = f"""(() => {{ const b = [...document.querySelectorAll('.flame svg svg')].find(
            b => b.querySelector('title').textContent === '{HOT}'); b.dispatchEvent(new MouseEvent('mouseover',
            {{bubbles: true}})); return {now}; }})()"""
        cells = "document.querySelectorAll('.heat rect')"
        said = "document.querySelector('.heat output').textContent"
        with self.open(self.home.path / "again.html") as page:
            whole = page.js(share)
            self.assertIn(page.js(f"{cells}.length"), (40, 60))  # two seconds of 20 cells; three when the window ran late
            # The whole window as a range is the whole window.
            page.js(f"{cells}[0].dispatchEvent(new MouseEvent('click'))")
            self.assertIn("0.00 s to 0.05 s: ", page.js(said))
            page.js(f"{cells}[{cells}.length - 1].dispatchEvent(new MouseEvent('click'))")
            self.assertRegex(page.js(said), r"^0\.00 s to [23]\.00 s: \d+ ms$")
            self.assertAlmostEqual(float(re.search(r": (\d+) ms", page.js(said))[1]), self.cpu_ns() / 1e6, delta=2)
            self.assertEqual(page.js(share), whole)
            # One cell with a single sample: everything on its path is all of it.
            page.js("document.querySelector('.heat button').click()")
            page.js(f"[...{cells}].find(r => !r.classList.contains('h0')).dispatchEvent(new MouseEvent('click'))")
            widths = page.js("""[...document.querySelectorAll('.flame svg svg')].filter(b => b.style.display !== 'none')
                .map(b => parseFloat(b.getAttribute('width')))""")
            self.assertTrue(widths and max(widths) == 100 and min(widths) > 0, widths)
            page.js("document.querySelector('.heat button').click()")
            self.assertEqual(page.js(said), "")
            self.assertEqual(page.js(share), whole)
            page.js(f"{cells}[0].focus()")
            page.key("ArrowRight")
            page.key("Enter")
            self.assertIn("1.00 s to 1.05 s", page.js(said))
            self.assertEqual(page.seen("Runtime.exceptionThrown"), [])

    @unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
    def test_a_comparison_shows_the_known_change_first(self):
        done = self.home.run("sessions", "compare", self.guid[:8], self.later[:8], "--json")
        self.assertEqual(done.code, 0, done)
        changes = Report(done.json())
        rows = changes.rows("Hottest methods: Self")
        self.assertEqual({row["Method"] for row in rows[:2]}, {"Shop.Search.CategoryTree.Walk", HOT})
        # One took the place of the other; which share was the larger depends on what else ran.
        self.assertRegex(changes.verdict, r"Shop\.Search\.CategoryTree\.Walk grew most: from 0 % to|"
                                          + re.escape(HOT) + r" shrank most: from \d+ % to 0 %")
        self.assertEqual(self.home.run("sessions", "compare", self.guid, self.guid).out.count("Nothing of note changed"), 1)
        path = self.home.path / "diff.html"
        self.assertEqual(self.home.run("sessions", "compare", self.guid, self.later, "-o", path).code, 0)
        with self.open(path) as page:
            colour = page.js("""[...document.querySelectorAll('.flame svg svg')].find(b => b.querySelector('title').textContent
                === 'Shop.Search.CategoryTree.Walk').querySelector('rect').className.baseVal""")
            self.assertEqual(colour, "c-up3")
            page.js("""document.querySelectorAll('.flame svg svg')[1].dispatchEvent(new MouseEvent('click', {bubbles: true}))""")
            self.assertRegex(page.js("document.querySelector('.fl-now').textContent"), "before [\\d.]+ % with callees")
            self.assertEqual(page.seen("Runtime.exceptionThrown"), [])
        self.assertEqual(self.home.run("sessions", "compare", self.guid).code, 2)
        self.assertEqual(self.home.run("sessions", "compare", self.guid, self.later, "-o", "x.svg").code, 2)


def perf(*arguments):
    """linux-perf's own word on a file. Its warnings about the kernel's symbols are its own."""
    done = subprocess.run(["perf", *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    return done.stdout


def folded(folder):
    """The folded stacks: frames -> count."""
    lines = (folder / "folded_stacks.out").read_text().splitlines()
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in lines}


class Folder(unittest.TestCase):
    """What `profcpu` makes, made again elsewhere, and what linux-perf and its friends say of it."""

    FILES = {"perf.data", "perf_script.out", "folded_stacks.out", "flamegraph.svg", "prof.tar.gz", "symbols"}

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-cpu-")))
        (cls.folder / "profcpu").symlink_to(PROGRAM)
        # Without W^X the JIT's memory has no file behind it: only there perf itself looks into a map.
        with Patient("cpu", fx=FX, threads=1, env={"DOTNET_EnableWriteXorExecute": "0"}) as patient:
            cls.pid = patient.pid
            done = subprocess.run([cls.folder / "profcpu", "collect", "-pid", str(patient.pid), "-duration", "3"],
                                  cwd=cls.folder, capture_output=True, text=True, check=True)
            cls.collected = cls.folder / done.stdout.strip()
            cls.map = Path(cls.home.run("perf-map", patient.pid).out.strip())
            (cls.folder / "theirs").mkdir()
            perf("record", "-q", "-g", "-F", "199", "-p", patient.pid, "-o", cls.folder / "theirs" / "perf.data", "sleep", "3")
            cls.reported = perf("report", "-i", cls.folder / "theirs" / "perf.data", "--stdio", "--no-children", "-g", "none")
            shutil.copy(cls.map, cls.folder / "theirs")
            cls.map.unlink()

    def postprocess(self, folder):
        done = self.home.run("cpu", "postprocess", "-dir", folder)
        self.assertEqual(done.code, 0, done)

    def test_the_folder_is_named_after_the_time_and_holds_all(self):
        self.assertRegex(self.collected.name, r"^\d\d-\d\d-\d\d_\d{4}-\d\d-\d\d$")
        self.assertEqual(self.collected.parent, self.folder / "profilings")
        self.assertEqual({p.name for p in self.collected.iterdir()}, self.FILES)
        self.assertEqual(list((self.home.path / "sessions").glob("*")), [])

    def test_linux_perf_shows_managed_names(self):
        report = perf("report", "-i", self.collected / "perf.data", "--stdio", "--no-children", "-g", "none")
        self.assertRegex(report, rf"(?m)^ +\d\d\.\d+% +burner-0 +your-code.elf +\[\.\] {re.escape(HOT)}")
        script = perf("script", "-i", self.collected / "perf.data")
        self.assertIn(f"{HOT}+0x8", script)
        ours = (self.collected / "perf_script.out").read_text()
        self.assertEqual(script.count("cpu-clock:"), ours.count("cpu-clock:"))

    def test_the_script_is_what_importers_expect(self):
        blocks = (self.collected / "perf_script.out").read_text().strip().split("\n\n")
        times = []
        for block in blocks:
            first, *frames = block.split("\n")
            start = re.match(r"^(\S.+?)\s+(\d+)(?:/?(\d+))?\s+", first)  # speedscope's
            self.assertEqual(int(start[2]), self.pid)
            times.append(float(re.search(r" +([0-9.]+): .+?:", first)[1]))  # FlameScope's
            for frame in frames:
                self.assertRegex(frame, r"^[\t ]*[0-9a-fA-F]+ (.+) \(\S+\)$")
        self.assertEqual(times, sorted(times))
        self.assertEqual(sum(folded(self.collected).values()), len(blocks))

    @unittest.skipUnless(shutil.which("chromium") and shutil.which("npm"), "chromium or npm is not installed")
    def test_speedscope_imports_the_script(self):
        script = self.folder / "load.js"
        data = base64.b64encode((self.collected / "perf_script.out").read_bytes()).decode()
        script.write_text(f"speedscope.loadFileFromBase64('perf_script.out', '{data}')")

        class Url(str):
            def as_uri(self):
                return self

        browser = Browser(self.folder / "browser")
        self.addCleanup(browser.close)
        with Page(browser, Url(f"{speedscope_page().as_uri()}#localProfilePath={script}&view=sandwich")) as page:
            wait_until(lambda: "Total\tSelf\tSymbol Name" in page.js("document.body.innerText"), "speedscope shows it")
            self.assertEqual(page.seen("Runtime.exceptionThrown"), [])
            self.assertIn(f"pid: {self.pid}", page.js("document.body.innerText"))
            # It opens the thread that came first; "n" goes to the next.
            for _ in range(20):
                if "Patients.Worker" in page.js("document.body.innerText"):
                    break
                page.js("window.dispatchEvent(new KeyboardEvent('keypress', {key: 'n'}))")
            self.assertIn("Patients.Worker", page.js("document.body.innerText"))

    def test_it_is_made_again_elsewhere(self):
        moved = self.folder / "moved"
        moved.mkdir()
        with tarfile.open(self.collected / "prof.tar.gz") as tar:
            tar.extractall(moved)
        before = folded(self.collected)
        for name in ("folded_stacks.out", "flamegraph.svg", "perf_script.out"):
            (moved / name).unlink()
        self.postprocess(moved)
        self.assertEqual({p.name for p in moved.iterdir()}, self.FILES)
        self.assertEqual(folded(moved), before)
        self.assertIn(str(moved), perf("script", "-i", moved / "perf.data"))

    def test_linux_perf_reads_the_map(self):
        self.assertRegex(self.reported, rf"(?m)\[JIT\] tid {self.pid} +\[\.\] {re.escape(HOT)}")
        self.assertFalse(self.map.exists())

    def test_a_recording_of_linux_perf_gets_its_names(self):
        theirs = self.folder / "theirs"
        before = (theirs / "perf.data").read_bytes()
        self.postprocess(theirs)
        self.assertEqual((theirs / "perf.data").read_bytes(), before)
        stacks = folded(theirs)
        hot = sum(n for frames, n in stacks.items() if HOT in frames.split(";"))
        self.assertGreater(hot / sum(stacks.values()), 0.4)
        self.assertTrue(any("Patients.Cpu.Burn;" in frames and "start_thread" in frames for frames in stacks))

    def test_profcpu_alone_says_how_to_use_it(self):
        done = subprocess.run([self.folder / "profcpu"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("profcpu collect [-pid N=1] [-duration S=30]", done.stdout)
        self.assertIn("profcpu postprocess -dir DIR", done.stdout)
        done = subprocess.run([self.folder / "profcpu", "explode"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)

    def test_wrong_words(self):
        for words, text in ((["collect", "-duration", "0"], "100ms to 1h"), (["collect", "-frequency", "x"], "10000"),
                            (["postprocess"], "-dir"), (["explode"], "postprocess"), (["postprocess", "-pid", "1"], "-dir")):
            done = self.home.run("cpu", *words)
            self.assertEqual(done.code, 2, done)
            self.assertIn(text, done.err)
        (self.folder / "perf.data").write_text("nonsense")
        done = self.home.run("cpu", "postprocess", "-dir", self.folder)
        self.assertEqual(done.code, 1)
        self.assertIn("no perf.data", done.err)


class WithoutEvents(unittest.TestCase):
    """The diagnostics socket is closed, but the runtime wrote a map or a jitdump."""

    def check(self, kind, fx):
        env = {"DOTNET_EnableDiagnostics_IPC": "0", "DOTNET_PerfMapEnabled": kind}
        with Home() as home, Patient("cpu", fx=fx, threads=1, env=env) as patient:
            report = examine(home, "cpu-hotpaths", patient.pid, 2)
            for name in (f"/tmp/perf-{patient.pid}.map", f"/tmp/jit-{patient.pid}.dump"):
                Path(name).unlink(missing_ok=True)
        self.assertEqual(report.how["Managed names"]["value"], "from the runtime's perf map")
        self.assertIn(HOT, [row["Method"] for row in report.rows("Hottest methods")])

    def test_a_perf_map(self):
        self.check("3", FX)

    def test_a_jitdump(self):
        # .NET 10.0 ends its jitdump with the second record.
        self.check("2", FRAMEWORKS[0])


if __name__ == "__main__":
    unittest.main()
