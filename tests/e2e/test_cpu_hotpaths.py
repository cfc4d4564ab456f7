"""The CPU profiler against the patients' own CPU clocks, on every runtime."""

import json
import os
import re
import shutil
import tempfile
import time
import unittest
import xml.etree.ElementTree
from pathlib import Path

import oracle
from drdotnet import LONG_SECONDS, Home, end_window, examine, for_each_result, wait_until
from groups import CpuGroup
from patient import FRAMEWORKS, PATIENTS, Patient, cpu_ns, one_of, run_delay_ns

SIDE_BY_SIDE = True
FX = FRAMEWORKS[-1]
METHODS, YOURS, THREADS = "Hottest methods", "Your methods with all they call", "By thread"
ENOUGH = 5000
BUSY = ("hot-path", "starved")  # the second when others leave it little of the machine


class Result:
    """A future that is done: the tests run one after the other, since they measure the processor."""

    def __init__(self, *values):
        self._values = values

    def result(self):
        return self._values


def stacks(home):
    """The folded stacks of the newest session: list of (frames from the root, count)."""
    folder = home.path / "sessions" / home.sessions()[0]["guid"]
    lines = (folder / "folded_stacks.out").read_text().splitlines()
    return [(line.rpartition(" ")[0].split(";"), int(line.rpartition(" ")[2])) for line in lines]


def share(rows, method, column):
    return next((row[column] for row in rows if row["Method"] == method), 0)


def facts(home):
    """What the newest recording keeps beside its parts."""
    folder = home.path / "sessions" / home.sessions()[0]["guid"]
    return json.loads((folder / "recording" / "manifest.json").read_text())["facts"]


def complete(home):
    """The share of stacks below the copy's size that were unwound to their root, by the newest recording."""
    ends = facts(home)["sampling"]["ends"]
    root, cut, deep, lost = ends
    return root / (root + lost)


def of_the_last(report, seconds, method):
    """The CPU time below that method in the last seconds of the window: {frame right below it: weight}."""
    flame = next(block for block in report.data["blocks"] if block["block"] == "flame")
    names, rows = [name for name, _ in flame["frames"]], 20  # of a column
    below, stack = [], []
    for frame, depth, *_ in flame["nodes"]:
        stack[depth:] = [names[frame]]
        at = stack.index(method) if method in stack else len(stack)
        below.append(stack[at + 1] if at + 1 < len(stack) else "" if at < len(stack) else None)
    found, column = {}, flame["heat"]["seconds"]
    end = report.data["facts"]["windowNs"] / 1e9
    for x, y, node, weight in flame["heat"]["cells"]:
        if below[node] is not None and (x + y / rows) * column >= end - seconds:
            found[below[node]] = found.get(below[node], 0) + weight
    return found


def with_end(report):
    """Stacks that ended before their root without being longer than the copy."""
    text = report.how["Whole stacks"]["context"] or ""
    m = re.search(r"([\d.]+|below [\d.]+) % without a rule", text)
    return float(m[1].removeprefix("below ")) / 100 if m else 0


class Split(unittest.TestCase):
    """Two threads that do the same 70/30 split."""
    SIDE_BY_SIDE = False  # shares of the processor, which others would take

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = {fx: Result(*cls.examined(fx)) for fx in FRAMEWORKS}

    @classmethod
    def examined(cls, fx):
        with Patient("cpu", fx=fx, threads=2) as patient:
            for seconds in (4, 14, 28):  # others use the machine too
                patient.mark()
                report = examine(cls.home, "cpu-hotpaths", patient.pid, seconds, "-p", "time_interval_ms=1")
                truth = patient.truth()["cpu"]
                if report.how["Samples"]["value"] >= ENOUGH:
                    break
            return report, truth, stacks(cls.home), complete(cls.home)

    @for_each_result
    def test_there_are_enough_samples(self, _, report, truth, folded, completeness):
        self.assertGreaterEqual(report.how["Samples"]["value"], ENOUGH)

    @for_each_result
    def test_the_split_within_two_points(self, _, report, truth, folded, completeness):
        rows = report.rows(YOURS)
        total = sum(share(rows, path["method"], "With callees") for path in truth["paths"].values())
        self.assertGreater(total, 0.8)
        for path in truth["paths"].values():
            self.assertAlmostEqual(share(rows, path["method"], "With callees") / total, path["share"], delta=0.02)

    @for_each_result
    def test_each_thread_within_three_points_of_its_own_clock(self, _, report, truth, folded, completeness):
        rows = {row["Thread"]: row for row in report.rows(THREADS)}
        ours = sum(rows[t["name"]]["Time"] for t in truth["threads"])
        clocks = sum(rows[t["name"]]["By the kernel's clock"] for t in truth["threads"])
        for t in truth["threads"]:
            row = rows[t["name"]]
            self.assertAlmostEqual(row["Time"] / ours, row["By the kernel's clock"] / clocks, delta=0.03)
            # The patient's own span is longer than the window, and who gets how much changes while others use the machine.
            self.assertAlmostEqual(row["Time"] / ours, t["cpu_ns"] / truth["cpu_ns"], delta=0.06)
            self.assertEqual(rows[t["name"]]["Id"], str(t["tid"]))

    @for_each_result
    def test_the_time_agrees_with_the_kernels_clock(self, _, report, truth, folded, completeness):
        clock = report.how["CPU time by the kernel's clock"]["value"]
        self.assertAlmostEqual(report.figures["CPU time"] / clock, 1, delta=0.1)

    @for_each_result
    def test_the_verdict_names_the_path_and_the_cores(self, _, report, truth, folded, completeness):
        self.assertIn(report.finding, BUSY)
        self.assertRegex(report.verdict, r"^[\d.]+ of \d+ cores? busy\. (It wanted more.*CPU\. )?\d+ % of (that|what it got) is "
                                         r"Shop\.Pricing\.Quote\.Total → Shop\.Pricing\.Tax\.Compute")

    @for_each_result
    def test_stacks_reach_the_threads_root(self, _, report, truth, folded, completeness):
        self.assertGreaterEqual(completeness, 0.995)
        self.assertLess(with_end(report), 0.005)

    @for_each_result
    def test_the_lines_are_those_of_the_loop(self, _, report, truth, folded, completeness):
        source = (Path(__file__).parents[1] / "patients" / "sick" / "Cpu.cs").read_text().split("\n")
        first = next(i for i, line in enumerate(source, 1) if "ulong Compute(int steps)" in line)
        row = next(row for row in report.rows(METHODS) if row["Method"] == "Shop.Pricing.Tax.Compute")
        self.assertTrue(row["lines"])
        for line in row["lines"]:
            name, number = line.split(":")
            self.assertEqual(name, "Cpu.cs")
            self.assertIn(int(number), range(first, first + 7), source[int(number) - 1])

    @for_each_result
    def test_every_caller_is_there(self, _, report, truth, folded, completeness):
        paths = [frames for frames, _ in folded if "Shop.Pricing.Tax.Compute" in frames]
        self.assertTrue(paths)
        for frames in paths:
            if "[truncated]" not in frames:
                at = frames.index("Shop.Pricing.Tax.Compute")
                self.assertEqual(frames[at - 1], "Shop.Pricing.Quote.Total", frames)
                self.assertIn("Patients.Cpu.Burn", frames[:at])


class Native(unittest.TestCase):
    """Time in libz and in a libc that calls back into managed code belongs to who called them."""
    SIDE_BY_SIDE = False  # shares of the processor, which others would take

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = {fx: Result(*cls.examined(fx)) for fx in FRAMEWORKS}

    @classmethod
    def examined(cls, fx):
        with Patient("cpu", fx=fx, path="native") as patient:
            patient.mark()
            report = examine(cls.home, "cpu-hotpaths", patient.pid, 4, "-p", "time_interval_ms=1")
            return report, patient.truth()["cpu"], stacks(cls.home)

    @for_each_result
    def test_the_callers_have_their_shares(self, _, report, truth, folded):
        rows = report.rows(YOURS)
        total = sum(share(rows, path["method"], "With callees") for path in truth["paths"].values())
        self.assertGreater(total, 0.5)  # the rest is the JIT's, all the more where the machine leaves us little
        for path in truth["paths"].values():
            self.assertAlmostEqual(share(rows, path["method"], "With callees") / total, path["share"], delta=0.05)

    @for_each_result
    def test_the_callback_is_rooted_in_its_managed_caller(self, _, report, truth, folded):
        called_back = [(frames, n) for frames, n in folded if "Shop.Archive.Sorter.Compare" in frames]
        rooted = sum(n for frames, n in called_back
                     if "Shop.Archive.Sorter.Sort" in frames[:frames.index("Shop.Archive.Sorter.Compare")])
        self.assertGreater(rooted, 20)
        self.assertGreater(rooted / sum(n for _, n in called_back), 0.99)

    @for_each_result
    def test_checksums_are_rooted_too(self, _, report, truth, folded):
        native = [(frames, n) for frames, n in folded if any(re.match("crc32", f) for f in frames)]
        self.assertGreater(sum(n for _, n in native), 20)
        rooted = sum(n for frames, n in native if "Shop.Archive.Checksum.Sum" in frames)
        self.assertGreater(rooted / sum(n for _, n in native), 0.99)


class Special(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())

    def test_one_busy_thread_among_a_hundred_that_wait(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Patient("blocked", fx=fx, threads=100, busy=1) as patient:
                report = examine(self.home, "cpu-hotpaths", patient.pid, 3, "-p", "time_interval_ms=2")
                # What the JIT and others really used is not the busy method's: the kernel's clock says how much that is.
                clocks = {row["Thread"]: row["By the kernel's clock"] or 0 for row in report.rows(THREADS)}
                most = clocks["scanner"] / sum(clocks.values())
                got = share(report.rows(METHODS), "Shop.Warehouse.Hall.ScanShelves", "With callees")
                self.assertGreaterEqual(got, 0.95 * most)
                self.assertGreater(most, 0.8)

    def test_a_very_deep_recursion_is_folded_and_what_was_cut_is_marked(self):
        for fx in one_of(FRAMEWORKS, 1):
            with self.subTest(fx), Patient("cpu", fx=fx, path="deep") as patient:
                report = examine(self.home, "cpu-hotpaths", patient.pid, 3, "-p", "time_interval_ms=2")
                folded = stacks(self.home)
                deep = [(frames, n) for frames, n in folded if "Shop.Search.CategoryTree.Leaf" in frames]
                for frames, _ in deep:
                    self.assertEqual(frames[0], "[truncated]")
                    self.assertEqual(frames.count("Shop.Search.CategoryTree.Descend"), 1)
                self.assertGreater(share(report.rows(METHODS), "Shop.Search.CategoryTree.Leaf", "Self"), 0.8)
                self.assertTrue(patient.alive())
                self.assertRegex(report.verdict, r"Shop\.Search\.CategoryTree\.Leaf")

    def test_without_perf_the_runtimes_sampler_and_proc_tell(self):
        """Threads that wait are in every sample of the runtime's, and weigh nothing."""
        with Patient("blocked", threads=100, busy=1) as patient:
            waiting = patient.truth()["blocked"]["waiting"]
            report = examine(self.home, "cpu-hotpaths", patient.pid, 4, "--way", "events")
        rows = report.rows(METHODS)
        self.assertGreater(share(rows, "Shop.Warehouse.Hall.ScanShelves", "With callees"), 0.5)
        for method in waiting:
            self.assertLess(share(report.rows(YOURS), method, "With callees"), 0.02)
        self.assertIn("the runtime's own sampling", report.how["Way"]["context"])

    def test_the_collectors_share_is_told_apart(self):
        with Patient("gc-pauses", induced=5, allocate_mb=200) as patient:
            report = examine(self.home, "cpu-hotpaths", patient.pid, 3, "-p", "time_interval_ms=1")
        parts = {row["Subsystem"]: row["CPU"] for row in report.rows("By subsystem")}
        self.assertGreater(parts.get("garbage collection", 0), 0.3)

    def test_the_first_seconds(self):
        """Tiering and on-stack replacement go on while we look."""
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("cpu", fx=fx, path="all", threads=2) as patient:
                report = examine(self.home, "cpu-hotpaths", patient.pid, 2, "-p", "time_interval_ms=1")
                self.assertGreaterEqual(complete(self.home), 0.98)
                self.assertLess(with_end(report), 0.02)

    def test_idle_is_idle(self):
        for sickness in ("healthy", "blocked"):
            with self.subTest(sickness), Patient(sickness) as patient:
                before, cpu_before = run_delay_ns(patient.pid), cpu_ns(patient.pid)
                report = examine(self.home, "cpu-hotpaths", patient.pid, 2)
                used = (cpu_ns(patient.pid) - cpu_before) / 2e9
                if report.finding == "starved":  # others use this machine: then the kernel must say so too
                    self.assertGreater(run_delay_ns(patient.pid) - before, 0.4e9)
                    continue
                if used >= 0.05:  # it has only just begun, and code is still compiled: that is no alarm either
                    self.assertNotIn(report.finding, ("jit-heavy", "gc-heavy"), report.verdict)
                    self.assertIn(report.health, ("ok", "info"), report.verdict)
                    continue
                self.assertEqual(report.finding, "idle")
                self.assertEqual(report.health, "ok")

    def test_the_target_ends_in_the_window(self):
        with Patient("cpu", threads=2) as patient:
            with self.home.start("cpu-hotpaths", patient.pid, "-d", "20s", "--json") as job:
                job.wait_for("sampling")
                wait_until(lambda: patient.truth()["cpu"]["cpu_ns"] > 1e9, "a second of work")
                patient.stop()
                done = job.finish()
        self.assertEqual(done.code, 0, done)
        report = done.json()
        self.assertRegex(report["facts"]["partial"], "^the process ended after")
        self.assertIn("Shop.Pricing", report["verdict"]["plain"])

    def test_the_target_becomes_another_program(self):
        """Its pid and start time stay: what the other program does is not told as its own."""
        with Patient("cpu,exec", threads=2) as patient:
            with self.home.start("cpu-hotpaths", patient.pid, "-d", "60s", "--json") as job:
                job.wait_for("sampling")
                wait_until(lambda: patient.truth()["cpu"]["cpu_ns"] > 1e9, "a second of work")
                patient.send("exec")
                done = job.finish()
            self.assertTrue(patient.alive())
        self.assertEqual(done.code, 0, done)
        report = done.json()
        self.assertRegex(report["facts"]["partial"], "^it became another program after")
        self.assertIn("Shop.Pricing", report["verdict"]["plain"])
        self.assertFalse([frames for frames, _ in stacks(self.home) if "sleep" in ";".join(frames)])

    def test_code_that_is_unloaded(self):
        """Load contexts come, work and go, and their places are used again: the work keeps its name, up to the end."""
        for fx in one_of(FRAMEWORKS, 2):
            with self.subTest(fx), Patient("contexts", fx=fx, keep=0, rate=50, max=10000, work=4000) as patient:
                with self.home.start("cpu-hotpaths", patient.pid, "-d", f"{LONG_SECONDS}s", "-p", "time_interval_ms=1",
                                     "--json") as job:
                    job.wait_for("sampling")
                    patient.mark()
                    wait_until(lambda: patient.truth()["contexts"]["loaded"] > 40, "forty contexts")
                    report = end_window(job)
                truth = patient.truth()["contexts"]
                self.assertTrue(patient.alive())
            rows = report.rows(YOURS)
            # Of what the patient's own method did, all is this work.
            work, whole = share(rows, truth["work"], "With callees"), share(rows, "Shop.Plugins.PluginHost.Price", "With callees")
            self.assertGreater(work, 0.05)
            self.assertGreater(work / whole, 0.95)
            # And so is that of the last moments, though the runtime tells of new code only ten times a second.
            late = of_the_last(report, 0.2, "Shop.Plugins.PluginHost.Price")
            self.assertGreater(late.get(truth["work"], 0), 0)
            self.assertLess(late.get("[stub]", 0), 0.1 * sum(late.values()), late)
            self.assertGreaterEqual(complete(self.home), 0.98)

    def test_a_thousand_threads_begin_and_end(self):
        with Patient("churn", rate=500) as patient:
            patient.mark()
            with self.home.start("cpu-hotpaths", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
                job.wait_for("sampling")
                held = [descriptors(job.worker())]
                while patient.truth()["churn"]["parts"]["thread"]["rounds"] < 1000:
                    held.append(descriptors(job.worker()))
                    time.sleep(0.2)  # nothing announces a thread's end
                report = end_window(job)
            self.assertTrue(patient.alive())
        self.assertLess(max(held), held[0] + 50)
        self.assertEqual(report.how["Lost samples"]["value"], 0)
        self.assertGreater(complete(self.home), 0.95)

    def test_threads_that_come_and_go(self):
        """Each of many short threads is sampled; what we hold open does not grow with them."""
        with Patient("cpu,zombie-threads") as patient:
            report = examine(self.home, "cpu-hotpaths", patient.pid, 3)
            self.assertTrue(patient.alive())
            self.assertIn(report.finding, BUSY)

    def test_everything_at_once_comes_out_right(self):
        """Threads by the hundred, exceptions, collections, tasks and sockets: nothing breaks, and the stacks stay whole."""
        with Patient("churn") as patient:
            patient.mark()
            report = examine(self.home, "cpu-hotpaths", patient.pid, 5, "-p", "time_interval_ms=1")
            self.assertTrue(patient.alive())
        self.assertGreater(complete(self.home), 0.95)
        # The kernel drops samples that are not read in time: a machine that is busy with other things.
        self.assertLess(report.how["Lost samples"]["value"], report.how["Samples"]["value"] / 100)


class Manners(unittest.TestCase):
    """Nothing here depends on how much of the processor it gets."""

    def setUp(self):
        self.home = self.enterContext(Home())

    def test_a_recursion_is_one_frame(self):
        with Patient("cpu", path="recursion") as patient:
            examine(self.home, "cpu-hotpaths", patient.pid, 2, "-p", "time_interval_ms=2")
        walks = [frames.count("Shop.Search.CategoryTree.Walk") for frames, _ in stacks(self.home)]
        self.assertEqual(max(walks, default=0), 1)

    def test_the_recording_gives_the_same_report_again(self):
        with Patient("cpu") as patient:
            first = examine(self.home, "cpu-hotpaths", patient.pid, 2)
        guid = self.home.sessions()[0]["guid"]
        done = self.home.run("run", "cpu-hotpaths", "--session", guid, "--json")
        self.assertEqual(done.code, 0, done)
        again = done.json()
        self.assertEqual([b for b in again["blocks"]], [b for b in first.data["blocks"]])
        self.assertEqual(again["verdict"], first.data["verdict"])

    def test_the_flame_graph_file_is_one_svg_with_the_hot_path(self):
        with Patient("cpu") as patient:
            examine(self.home, "cpu-hotpaths", patient.pid, 2)
        folder = self.home.path / "sessions" / self.home.sessions()[0]["guid"]
        svg = (folder / "flamegraph.svg").read_text()
        root = xml.etree.ElementTree.fromstring(svg)
        names = [g.get("data-n") for g in root.iter("{http://www.w3.org/2000/svg}g")]
        self.assertIn("Shop.Pricing.Tax.Compute", names)
        self.assertNotRegex(svg.replace("http://www.w3.org/2000/svg", ""), "https?://")
        self.assertTrue((folder / "cpu_hotpaths.html").exists())

    def test_bad_parameters_are_refused_before_anything_is_touched(self):
        with Patient("healthy") as patient:
            for parameter in ("time_interval_ms=0", "time_interval_ms=x", "duration_seconds=0", "max_stacks=-1"):
                done = self.home.run("cpu-hotpaths", patient.pid, "-p", parameter)
                self.assertEqual(done.code, 2, done)
                self.assertIn(parameter.partition("=")[0], done.err)

    def test_the_process_is_never_stopped(self):
        """No ptrace, and no suspension of the runtime by us: the sampled loop is never held."""
        with Patient("cpu") as patient:
            with self.home.start("cpu-hotpaths", patient.pid, "-d", "2s", "--json") as job:
                job.wait_for("sampling")
                states = set()
                wait_until(lambda: states.add(state(patient.pid)) or job.poll_within(0.01) is not None, "the end")
                job.finish()
        self.assertEqual(states & {"t", "T"}, set())


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


class Limited(unittest.TestCase):
    def test_a_cpu_limit_is_what_is_busy_and_what_stops_it(self):
        with Home() as home, CpuGroup(0.1) as group:
            if not group.folder:
                self.skipTest(f"no CPU group can be made here: {group.error}")
            with Patient("cpu", fx=FX) as patient:
                group.take(patient.pid)
                report = examine(home, "cpu-hotpaths", patient.pid, 3)
                self.assertEqual((report.finding, report.health), ("throttled", "warn"), report.verdict)
                self.assertRegex(report.verdict, r"^0\.\d+ of the 0\.1 cores of its CPU limit busy\. That limit stopped all "
                                                 r"its threads in \d+ % of its periods\. \d+ % of what it got is ")
                again = home.run("run", "cpu-hotpaths", "--session", home.sessions()[0]["guid"], "--json").json()
                self.assertEqual(again["verdict"]["plain"], report.verdict)


class Nameless(unittest.TestCase):
    def test_without_names_nobody_knows_whose_code_it_is(self):
        with Home() as home, Patient("cpu", fx=FX, env={"DOTNET_EnableDiagnostics": "0"}) as patient:
            report = examine(home, "cpu-hotpaths", patient.pid, 2)
            self.assertIn(report.finding, ("no-names", "starved"))
            self.assertIn("no names here", report.verdict)
            self.assertNotIn("your code", report.verdict)
            self.assertNotIn("Your code", report.figures)


class SingleFile(unittest.TestCase):
    def test_lines_and_the_compiler_are_known_though_all_is_one_file(self):
        program = oracle.single_file_patient()
        with Home() as home, Patient("cpu", folder=program.parent) as patient:
            report = examine(home, "cpu-hotpaths", patient.pid, 4, "-p", "time_interval_ms=1")
            code = facts(home)["code"]
        self.assertIn("Shop.Pricing", code["yours"])
        self.assertFalse(code["packages"])
        rows = {row["Method"]: row for row in report.rows("Hottest methods")}
        self.assertTrue(all(line.startswith("Cpu.cs:") for line in rows["Shop.Pricing.Tax.Compute"]["lines"]), rows)
        self.assertTrue(rows["Shop.Pricing.Tax.Compute"]["lines"], rows)
        self.assertIn("JIT compiler", {row["Subsystem"] for row in report.rows("By subsystem")})

    def test_precompiled_code_inside_of_it_is_unwound_and_named_from_its_first_use(self):
        program = oracle.single_file_patient()
        with Home() as home:
            done = home.run("cpu-hotpaths", "-d", "2s", "-p", "time_interval_ms=1", "--json", "--", program, "cpu", "max-seconds=6")
            # The exit code is the program's own, which its clock has ended.
            self.assertIn("Saved as session", done.err)
            sampling = facts(home)["sampling"]
            seen = {frame for frames, _ in stacks(home) for frame in frames}
        # Without the tables of the assemblies inside, nine of ten are guessed.
        self.assertLess(sampling["guessed"], sampling["samples"] / 10, sampling)
        self.assertIn("System.Threading.Thread.StartCallback", seen)


class WhoseCode(unittest.TestCase):
    def test_the_program_itself_says_what_came_as_a_package(self):
        with tempfile.TemporaryDirectory() as folder, Home() as home:
            folder = self.as_a_package(PATIENTS / "sick" / FX, Path(folder))
            with Patient("cpu", fx=FX, folder=folder) as patient:
                report = examine(home, "cpu-hotpaths", patient.pid, 2)
        rows = {row["Method"]: row for row in report.rows(METHODS)}
        self.assertEqual(rows["Shop.Pricing.Tax.Compute"]["Kind"], "framework", rows)
        self.assertEqual(report.figures["Your code"], 0)
        # There is nothing nearer to the user: it is named all the same.
        self.assertIn("Shop.Pricing.Tax.Compute", report.verdict)

    @staticmethod
    def as_a_package(published, folder):
        """The same program in another folder; its deps.json calls the program's own assembly a package."""
        for path in published.iterdir():
            (folder / path.name).symlink_to(path)
        for name in ("sick", "sick.dll", "sick.deps.json"):
            (folder / name).unlink()
            shutil.copy(published / name, folder / name)
        deps = json.loads((folder / "sick.deps.json").read_text())
        deps["libraries"]["sick/1.0.0"]["type"] = "package"
        (folder / "sick.deps.json").write_text(json.dumps(deps))
        return folder


class Unprivileged(unittest.TestCase):
    def test_the_same_user_gets_user_frames_and_is_told_so(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become somebody else")
        with open("/proc/sys/kernel/perf_event_paranoid") as f:
            if int(f.read()) > 2:
                self.skipTest("this kernel lets only root sample")
        user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
        with Home() as home, Patient("cpu", user="nobody") as patient:
            shutil.chown(home.path, "nobody")
            done = home.run("cpu-hotpaths", patient.pid, "-d", "3s", "--json", prefix=user)
            self.assertEqual(done.code, 0, done)
            report = done.json()
            self.assertIn("user frames only", json.dumps(report["how"]))
            self.assertIn("Shop.Pricing.Tax.Compute", report["verdict"]["plain"])
            kinds = {row["cells"][3] for block in report["blocks"] if block["title"] == METHODS for row in block["rows"]}
            self.assertNotIn("kernel", kinds)


if __name__ == "__main__":
    unittest.main()
