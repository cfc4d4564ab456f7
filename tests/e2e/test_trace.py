"""drdotnet trace: what is collected is what TraceEvent reads, what is converted is what the other programs open, the ring
holds what it must, and programs are traced from their first instruction."""

import base64
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from drdotnet import PROGRAM, Home, Report, event_streams, gone, wait_until
from patient import FRAMEWORKS, PATIENTS, ROOM_FOR_ANSWERS, Patient, WebPatient, diagonal, one_of
from peers import dotnet_trace, speedscope_page, speedscope_totals, trace_event
from test_report_html import Browser, Page

RUNTIME = "Microsoft-Windows-DotNETRuntime"
HOSTING = "Microsoft.AspNetCore.Hosting"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
SAMPLER = "Microsoft-DotNETCore-SampleProfiler"
NAMES = [SAMPLER, "Microsoft-DotNETCore-EventPipe", "System.Runtime", "System.Threading.Tasks.TplEventSource"]
NEWEST = FRAMEWORKS[-1]


SIDE_BY_SIDE = True


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="drdotnet-trace-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.home = Home()
        self.addCleanup(self.home.__exit__)

    def path(self, name):
        return self.folder / name

    def trace(self, *arguments, code=0, **how):
        done = self.home.run("trace", *arguments, **how)
        self.assertEqual(done.code, code, done)
        return done

    def report(self, path, *more):
        return Report(self.trace("report", path, "--json", *more).json())

    def events(self, path, *more):
        """All events of a trace, through `--to json`."""
        self.trace("convert", path, "--to", "json", "-o", self.path("events.jsonl"), "-q", *more)
        with open(self.path("events.jsonl")) as lines:
            return [json.loads(line) for line in lines]


def seconds(event):
    """Its time as seconds of a day, to the nanosecond."""
    hours, minutes, rest = event["time"][11:-1].split(":")
    return int(hours) * 3600 + int(minutes) * 60 + float(rest)


class Collect(Folder):
    def test_trace_event_reads_the_same(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("exceptions,gc-pauses", fx=fx, rate=200) as patient:
                path = self.path(f"{fx}.nettrace")
                done = self.trace("collect", patient.pid, "--profile", "cpu,gc,exceptions,threading", "--providers",
                                  "System.Runtime:1:4:EventCounterIntervalSec=1", "-d", "2s", "-o", path)
                self.assertIn(f"Written to {path}", done.err)
                wait_until(lambda: event_streams(patient.pid) == 0, "the runtime's thread for the stream ends")
                total, lost, kinds = trace_event(path, NAMES)
                ours = Counter(f"{e['provider']}/{e['id']}" for e in self.events(path))
                self.assertEqual(dict(ours), kinds)
                self.assertEqual(lost, 0)
                report = self.report(path)
                self.assertEqual(report.figures["Events"], total)
                self.assertEqual(report.finding, "trace-whole")
                self.assertGreater(kinds[f"{RUNTIME}/80"], 100)
                self.assertGreater(kinds[f"{SAMPLER}/0"], 100)
                self.assertGreater(kinds[f"{RUNDOWN}/144"], 500)
                self.assertEqual(sorted(p.name for p in self.folder.glob("*.partial")), [])

    def test_counts_are_the_patients(self):
        with Patient("exceptions", rate=200, fx=NEWEST) as patient:
            path = self.path("exact.nettrace")
            patient.pause()
            patient.mark()
            with self.home.start("trace", "collect", patient.pid, "--profile", "exceptions", "-o", path) as job:
                job.wait_for("Collecting")
                patient.resume()
                wait_until(lambda: patient.truth()["exceptions"]["objects"] > 300, "exceptions come")
                patient.pause()
                truth = patient.truth()["exceptions"]
                job.signal(signal.SIGINT)
                done = job.finish()
            self.assertEqual(done.code, 0, done)
            thrown = [e for e in self.events(path) if e["event"] == "ExceptionThrown"]
            self.assertEqual(len(thrown), truth["events"])
            self.assertTrue(any("Shop.Orders.Validator.Check" in e["stack"] for e in thrown))

    def test_requests_of_a_web_application(self):
        """Every one, by its method and path; no stacks, so nothing to name either."""
        for fx in FRAMEWORKS:
            with self.subTest(fx), WebPatient(fx) as patient:
                path = self.path(f"web-{fx}.nettrace")
                patient.load("/on-cpu?ms=1", rate=5, seconds=1)  # its sources are there from the first request on
                with self.home.start("trace", "collect", patient.pid, "--profile", "http", "-o", path) as job:
                    job.wait_for("Collecting")
                    figures = patient.load("/on-cpu?ms=1", rate=30, seconds=2)
                    job.signal(signal.SIGINT)
                    done = job.finish()
                self.assertEqual(done.code, 0, done)
                events = self.events(path)
                starts = [e for e in events if (e["provider"], e["event"]) == (HOSTING, "RequestStart")]
                self.assertEqual(len(starts), figures["ok"])
                self.assertEqual({(e["payload"]["method"], e["payload"]["path"]) for e in starts}, {("GET", "/on-cpu")})
                if fx != "net8.0":  # which cannot leave them out
                    self.assertFalse([e for e in events if e.get("stack") or e["provider"] == RUNDOWN])

    def test_ids(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("exceptions", rate=200, fx=fx) as patient:
                path = self.path(f"ids-{fx}.nettrace")
                done = self.trace("collect", patient.pid, "--providers", f"{RUNTIME}:8000:4", "--only-ids", "80", "-d",
                                  "1s", "-o", path)
                kinds = Counter(e["id"] for e in self.events(path) if e["provider"] == RUNTIME)
                self.assertGreater(kinds[80], 50)
                if fx == "net10.0":
                    self.assertEqual(set(kinds), {80})
                    self.assertNotIn("cannot choose", done.err)
                else:
                    self.assertIn("cannot choose events by number", done.err)
                    self.assertGreater(kinds[250], 0)
                only = Counter(e["id"] for e in self.events(path, "--only-ids", f"{RUNTIME}/80"))
                self.assertEqual(only, {80: kinds[80]})
                if fx == "net10.0":
                    self.trace("collect", patient.pid, "--providers", f"{RUNTIME}:8000:4", "--skip-ids", "80", "-d",
                               "1s", "-o", path)
                    kinds = Counter(e["id"] for e in self.events(path) if e["provider"] == RUNTIME)
                    self.assertNotIn(80, kinds)
                    self.assertGreater(kinds[250], 50)

    def test_unknown_provider(self):
        with Patient("healthy", fx=NEWEST) as patient:
            path = self.path("empty.nettrace")
            done = self.trace("collect", patient.pid, "--providers", "No.Such.Provider", "--no-rundown", "-d", "500ms",
                              "-o", path)
            self.assertIn("nothing came from 'No.Such.Provider'", done.err)
            self.assertEqual(trace_event(path, NAMES)[2].get("No.Such.Provider/1"), None)
            self.assertIn("holds no stack samples", self.trace("convert", path, "--to", "folded", code=3).err)

    def test_wrong_words_touch_nobody(self):
        with Patient("healthy", fx=NEWEST) as patient:
            for words, says in (
                    (("--providers", "A:zz"), "hexadecimal"),
                    (("--providers", "A:1:9"), "level"),
                    (("--providers", ""), "no name"),
                    (("--profile", "everything"), "there is no trace profile 'everything'; there are cpu, gc"),
                    (("--stop-on", "monday"), "--stop-on takes"),
                    (("--only-ids", "80,x"), "event numbers"),
                    (("--only-ids", "80", "--skip-ids", "81"), "exclude each other"),
                    (("--duration", "soon"), "--duration takes a time"),
                    (("--ring", "0"), "--ring takes a time"),
                    (("--buffer", "0"), "--buffer takes"),
                    (("--to", "folded"), "has no --to"),
                    (("-o", "/nowhere/x.nettrace"), "no folder")):
                with self.subTest(words):
                    done = self.trace("collect", patient.pid, *words, code=2)
                    self.assertIn(says, done.err)
                    self.assertEqual(len(done.err.splitlines()), 1, done)
            self.assertEqual(self.trace("collect", 999999999, code=3).out, "")
            self.assertIn("needs one TARGET", self.trace("collect", code=2).err)
            self.assertIn("'nothing'", self.trace("nothing", "x", code=2).err)
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_full_disk(self):
        """Everything that was written stays, under a name that says it is not all."""
        if os.geteuid() != 0:
            self.skipTest("needs root, for a file system of its own")
        small = self.path("small")
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", small], check=True)
        try:
            with Patient("exceptions", rate=1000, fx=NEWEST) as patient:
                done = self.trace("collect", patient.pid, "-d", "60s", "-o", small / "x.nettrace", code=1)
                self.assertIn("No space left on device", done.err)
                self.assertIn("x.nettrace.partial", done.err)
                self.assertEqual([p.name for p in small.iterdir()], ["x.nettrace.partial"])
                self.assertTrue(patient.alive())
                wait_until(lambda: event_streams(patient.pid) == 0, "our session ends")
                self.assertEqual(self.report(small / "x.nettrace.partial").finding, "trace-cut")
                with (small / "x.nettrace.partial").open("ab", buffering=0) as rest, contextlib.suppress(OSError):
                    while True:
                        rest.write(b"x")
                done = self.trace("collect", patient.pid, "-d", "60s", "-o", small / "y.nettrace", code=1)
                self.assertIn("nothing could be written", done.err)
                self.assertEqual([p.name for p in small.iterdir()], ["x.nettrace.partial"])
        finally:
            subprocess.run(["umount", small], check=True)

    def test_second_interrupt_is_at_once(self):
        with Patient("healthy", fx=NEWEST) as patient:
            path = self.path("fast.nettrace")
            with self.home.start("trace", "collect", patient.pid, "-o", path) as job:
                job.wait_for("Collecting")
                os.kill(patient.pid, signal.SIGSTOP)  # so that the first cannot be answered
                try:
                    job.signal(signal.SIGINT)
                    job.wait_for("Stopping")
                    job.signal(signal.SIGINT)
                    done = job.finish(30)
                finally:
                    os.kill(patient.pid, signal.SIGCONT)
            self.assertIn(done.code, (0, 1), done)
            self.assertEqual(list(self.folder.glob("*.partial")), [])
            if done.code == 0:
                self.assertIn("broke off", done.err)
                trace_event(path, NAMES)
            self.assertTrue(patient.alive())

    def test_the_process_is_killed(self):
        with Patient("exceptions", rate=500, fx=NEWEST) as patient:
            path = self.path("killed.nettrace")
            with self.home.start("trace", "collect", patient.pid, "--profile", "exceptions", "-o", path) as job:
                job.wait_for("Collecting")
                wait_until(lambda: path.with_name("killed.nettrace.partial").stat().st_size > 50000, "events come")
                self.assertFalse(path.exists())
                os.kill(patient.pid, signal.SIGKILL)
                done = job.finish()
            self.assertEqual(done.code, 0, done)
            self.assertIn("broke off", done.err)
            total, lost, kinds = trace_event(path, NAMES)
            self.assertGreater(kinds[f"{RUNTIME}/80"], 50)
            self.assertEqual(self.report(path).figures["Events"], total)

    def test_no_process_no_file(self):
        done = self.trace("collect", os.getpid(), "-o", self.path("x"), code=3)
        self.assertIn("is not a .NET process", done.err)
        self.assertEqual(list(self.folder.iterdir()), [])


class Ring(Folder):
    def test_on_signal(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Patient("exceptions", rate=300, fx=fx) as patient:
                path = self.path(f"{fx}.nettrace")
                with self.home.start("trace", "collect", patient.pid, "--ring", "2s", "--profile", "cpu,exceptions", "-o",
                                     path) as job:
                    job.wait_for("Collecting")
                    self.assertIsNone(job.poll_within(7))
                    rss = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{job.pid}/status").read_text())[1])
                    job.signal(signal.SIGUSR1)
                    done = job.finish()
                self.assertEqual(done.code, 0, done)
                self.assertIn("Stopped by SIGUSR1", done.err)
                self.assertLess(rss, 100_000)
                total, lost, kinds = trace_event(path, NAMES)
                self.assertEqual(lost, 0)
                report = self.report(path)
                self.assertEqual((report.figures["Events"], report.figures["Lost"]), (total, 0))
                live = [seconds(e) for e in self.events(path) if e["provider"] == RUNTIME]
                self.assertGreaterEqual(live[-1] - live[0], 2)
                self.assertLess(live[-1] - live[0], 6)
                thrown = [e for e in self.events(path, "--only-ids", "80") if e["provider"] == RUNTIME]
                named = [e for e in thrown if "stack" in e and not any(f.startswith("[unknown") for f in e["stack"])]
                self.assertGreater(len(named), 0.95 * len(thrown))

    def check_trigger(self, patient, when, profile, tripped):
        """The file holds the event, and the asked seconds before it."""
        path = self.path("ring.nettrace")
        with self.home.start("trace", "collect", patient.pid, "--ring", "2s", "--profile", profile, "--stop-on", when,
                             "-o", path) as job:
            job.wait_for("Collecting")
            self.assertIsNone(job.poll_within(4), "it struck although nothing happened")
            patient.resume()
            done = job.finish()
        self.assertEqual(done.code, 0, done)
        self.assertIn(f"Stopped by {when}", done.err)
        self.assertEqual(trace_event(path, NAMES)[1], 0)
        events = [e for e in self.events(path) if e["provider"] in (RUNTIME, SAMPLER)]
        hits = [e for e in events if tripped(e)]
        self.assertGreater(len(hits), 0)
        self.assertGreaterEqual(seconds(hits[0]) - seconds(events[0]), 2)

    def test_exception(self):
        for fx in one_of(FRAMEWORKS, 1):
            with self.subTest(fx), Patient("exceptions", rate=20, fx=fx) as patient:
                patient.pause()
                self.check_trigger(patient, "exception:TimeoutException", "cpu", lambda e: (
                    e["event"] == "ExceptionThrown" and e["payload"]["ExceptionType"] == "System.TimeoutException"))

    def test_gc_pause(self):
        for fx in one_of(FRAMEWORKS, 2):
            with self.subTest(fx), Patient("gc-pauses", fx=fx, env=ROOM_FOR_ANSWERS, induced=2, live_mb=20) as patient:
                patient.pause()
                self.check_trigger(patient, "gc-pause>2ms", "cpu", lambda e: (
                    e["event"] == "GCSuspendEEBegin" and e["payload"]["Reason"] == 1))

    def test_another_exception_does_not_strike(self):
        with Patient("exceptions", rate=200, fx=NEWEST) as patient, \
                self.home.start("trace", "collect", patient.pid, "--profile", "exceptions", "--stop-on",
                                "exception:No.SuchException", "-o", self.path("x.nettrace")) as job:
            job.wait_for("Collecting")
            self.assertIsNone(job.poll_within(2))
            job.signal(signal.SIGINT)
            self.assertNotIn("Stopped by", job.finish().err)


class Convert(Folder):
    """One trace of a patient that burns CPU on known paths, opened by everybody."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory(prefix="drdotnet-trace-")
        cls.addClassCleanup(cls.shared.cleanup)
        cls.file = Path(cls.shared.name) / "cpu.nettrace"
        with Patient("cpu", fx=NEWEST, path="split") as patient:
            subprocess.run([PROGRAM, "trace", "collect", str(patient.pid), "-d", "3s", "-o", cls.file, "-q"], check=True,
                           timeout=120)

    def convert(self, name, *more):
        self.trace("convert", self.file, "-o", self.path(name), *more)
        return self.path(name)

    def burners(self):
        """The methods of the patient that run, with their samples, from the folded stacks."""
        self_counts = Counter()
        for line in self.convert("x.folded").read_text().splitlines():
            stack, count = line.rsplit(" ", 1)
            leaf = stack.split(";")[-1]
            if not leaf.startswith("["):
                self_counts[leaf] += int(count)
        return self_counts

    def test_folded(self):
        burners = self.burners()
        self.assertGreater(sum(n for name, n in burners.items() if name.startswith("Shop.")), 0.8 * sum(burners.values()))
        self.assertTrue(all(re.fullmatch(r"[^;]+(;[^;]+)* \d+", line)
                            for line in self.path("x.folded").read_text().splitlines()))

    @unittest.skipUnless(shutil.which("go"), "go is not installed")
    def test_pprof(self):
        top = subprocess.run(["go", "tool", "pprof", "-top", "-nodecount=50", "-sample_index=samples",
                              self.convert("profile.pb.gz")], capture_output=True, text=True, check=True, timeout=120).stdout
        shown = {m[2]: int(m[1]) for m in re.finditer(r"^\s*(\d+)\s+\S+%\s+\S+%\s+\d+\s+\S+%\s+(.*)$", top, re.M)}
        for name, count in self.burners().most_common(2):
            self.assertEqual(shown[name], count, top)
        tags = subprocess.run(["go", "tool", "pprof", "-tags", self.path("profile.pb.gz")], capture_output=True, text=True,
                              check=True, timeout=120).stdout
        self.assertIn("thread", tags)

    def test_chromium(self):
        data = json.loads(self.convert("x.chromium.json").read_text())
        threads, spans = {}, Counter()
        for event in data["traceEvents"]:
            self.assertIn(event["ph"], "XM")
            if event["ph"] == "M":
                threads[event["tid"]] = event["args"]["name"]
                continue
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            self.assertIn(event["tid"], threads)
            spans[event["name"]] += 1
        self.assertTrue(any(name.startswith("Shop.") for name in spans))

    @unittest.skipUnless(shutil.which("chromium") and shutil.which("npm"), "chromium or npm is not installed")
    def test_speedscope_page(self):
        path = self.convert("x.speedscope.json")
        script = self.path("load.js")
        script.write_text("speedscope.loadFileFromBase64('x.speedscope.json', '%s')" %
                          base64.b64encode(path.read_bytes()).decode())

        class Url(str):
            def as_uri(self):
                return self

        browser = Browser(self.path("browser"))
        try:
            url = Url(f"{speedscope_page().as_uri()}#localProfilePath={script}&view=sandwich")
            with Page(browser, url) as page:
                wait_until(lambda: "Total\tSelf\tSymbol Name" in page.js("document.body.innerText"), "speedscope shows it")
                text = page.js("document.body.innerText")
                self.assertEqual(page.seen("Runtime.exceptionThrown"), [])
                # It opens with the busiest thread, whose busiest method stands on top.
                self.assertIn(self.burners().most_common(1)[0][0], text)
                self.assertIn(f"/{len(speedscope_totals(path))})", text)
        finally:
            browser.close()

    def test_totals_are_those_of_dotnet_trace(self):
        ours = speedscope_totals(self.convert("x.speedscope.json"))
        subprocess.run([dotnet_trace(), "convert", self.file, "--format", "Speedscope", "-o", self.path("theirs")],
                       check=True, capture_output=True, timeout=120)
        theirs = speedscope_totals(self.path("theirs.speedscope.json"))
        numbers = {re.sub(r"\D", "", t) for t in theirs}
        gap_ms = longest_gap_ms(self.path("x.speedscope.json"))
        # A thread of one sample has no time there, and no line.
        for short in [t for t in ours if re.sub(r"\D", "", t) not in numbers]:
            self.assertLessEqual(sum(ours.pop(short).values()), gap_ms * 1e6, short)
        self.assertEqual({re.sub(r"\D", "", t) for t in ours}, numbers)
        compare_totals(self, ours, theirs, gap_ms)

    def test_from_a_pipe(self):
        with open(self.file, "rb") as file:
            done = subprocess.run([PROGRAM, "trace", "convert", "-", "--to", "folded", "-o", "-"], stdin=file,
                                  capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.convert("x.folded")
        self.assertEqual(done.stdout, self.path("x.folded").read_bytes())

    def test_report(self):
        report = self.report(self.file)
        self.assertEqual(report.figures["Lost"], 0)
        rows = report.rows("Where the threads were")
        self.assertTrue(rows[0]["Method"].startswith("Shop."), rows[0])
        self.assertGreater(rows[0]["Ran itself"], 0.3)
        text = self.trace("report", self.file).out
        self.assertRegex(text, r"\Asick \(pid \d+\)")
        self.assertIn("None was lost", text)
        # The runtime's sampler says where threads are, whether they run or wait: these are no samples of the CPU.
        self.assertIn("of every managed thread, running or waiting", " ".join(text.split()))
        for words in (text, self.home.run("help", "trace").out):
            self.assertNotIn("cpu samples", " ".join(words.lower().split()))
        page = self.path("report.html")
        self.trace("report", self.file, "-o", page)
        self.assertIn("<!doctype html>", page.read_text()[:100].lower())

    def test_a_file_that_grows(self):
        growing = self.path("growing.nettrace")
        growing.write_bytes(self.file.read_bytes()[:200000])
        self.assertIn("still being written", self.trace("convert", growing, "--to", "folded").err)
        self.assertIn("still being written", self.trace("report", growing).out)

    def test_files_that_are_none(self):
        for name, data, says in (("empty", b"", "it is empty"), ("text", b"hello, world", "expected 'Nettrace'"),
                                 ("gzip", b"\x1f\x8b\x08\0", "gzip"), ("v7", b"Nettrace" + struct.pack("<III", 0, 7, 0), "version 7"),
                                 ("big", b"Nettrace" + struct.pack(">I", 20) + b"!FastSerialization.1", "big-endian")):
            with self.subTest(name):
                self.path(name).write_bytes(data)
                for verb in (("convert", self.path(name), "--to", "folded"), ("report", self.path(name))):
                    done = self.trace(*verb, code=1)
                    self.assertIn(says, done.err)
                    self.assertEqual(done.out, "")
        self.assertIn("no such", self.trace("report", self.path("absent"), code=3).err.lower())
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["big", "empty", "gzip", "text", "v7"])

    def test_wrong_words(self):
        for words, says in ((("convert", self.file, "-o", "x.what"), "does not tell the format"),
                            (("convert", self.file), "say the format"),
                            (("convert",), "needs the nettrace file"),
                            (("convert", self.file, "--to", "folded", "--duration", "3s"), "has no --duration"),
                            (("report", self.file, "--to", "folded"), "has no --to"),
                            (("report", self.file, "-o", "x.zip"), "one file")):
            with self.subTest(words):
                self.assertIn(says, self.trace(*words, code=2).err)


def longest_gap_ms(path):
    """Between two times at which the stack of some thread changed: no round of samples of a busy process was longer."""
    data = json.loads(Path(path).read_text())
    times = sorted({event["at"] * {"nanoseconds": 1e-6, "milliseconds": 1}[profile["unit"]]
                    for profile in data["profiles"] for event in profile["events"]})
    return max(b - a for a, b in zip(times, times[1:]))


def compare_totals(test, ours, theirs, interval_ms):
    """Per thread: time of all, of native code, and by the depth of the stack; theirs has four frames of its own in front
    and one behind. The last sample of a thread has no end: it may differ by an interval, a few milliseconds, and more where
    the runtime's sampler got no processor."""
    def number(thread):
        return re.sub(r"\D", "", thread)

    def summed(totals, front, native):
        result = Counter()
        for stack, ns in totals.items():
            leaf = stack[-1]
            # What has no managed leaf of its own is native or waiting.
            is_native = leaf == native
            pseudo = leaf in (native, "CPU_TIME")
            result["all"] += ns
            result["native"] += ns if is_native else 0
            result[len(stack) - front - pseudo] += ns
        return result

    theirs = {number(t): summed(s, 4, "UNMANAGED_CODE_TIME") for t, s in theirs.items()}
    for thread, totals in ours.items():
        mine = summed(totals, 0, "[native code or waiting]")
        yours = theirs[number(thread)]
        for key in set(mine) | set(yours):
            test.assertAlmostEqual(mine[key] / 1e6, yours[key] / 1e6, delta=max(15, interval_ms, 0.002 * mine["all"] / 1e6),
                                   msg=f"{thread}: {key}")


class Launch(Folder):
    def program(self, fx):
        return str(PATIENTS / "sick" / fx / "sick")

    def start(self, *arguments, **how):
        return subprocess.Popen([PROGRAM, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, start_new_session=True,
                                env={**os.environ, "DRDOTNET_HOME": str(self.home.path), "TMPDIR": str(self.folder), **how})

    def ready(self, process):
        line = process.stdout.readline()
        self.assertTrue(line.startswith("READY "), line or process.stderr.read())
        return json.loads(line[len("READY "):])["pid"]

    def finish(self, process, text=None):
        try:
            out, err = process.communicate(text, timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, out, err

    def nothing_left(self):
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("drdotnet-")], [])

    def test_from_the_first_instruction(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                path = self.path(f"{fx}.nettrace")
                process = self.start("trace", "collect", "--profile", "startup", "-o", path, "--", self.program(fx),
                                     "healthy")
                pid = self.ready(process)
                self.assertEqual(self.port_in_environment(pid), [])
                code, _, err = self.finish(process, "quit\n")
                self.assertEqual(code, 0, err)
                events = self.events(path)
                jitted = {e["payload"].get("MethodName") for e in events if e["event"] == "MethodJittingStarted"}
                self.assertIn("Main", jitted)
                self.assertEqual(trace_event(path, NAMES)[0], len(events))
                self.nothing_left()

    def port_in_environment(self, pid):
        """Asked of the runtime itself (ProcessEnvironment): what a child of it would inherit."""
        path = next(self.folder.glob(f"dotnet-diagnostic-{pid}-*-socket"))
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(20)
            s.connect(str(path))
            s.sendall(b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20, 4, 2, 0))
            data = b""
            while chunk := s.recv(65536):
                data += chunk
        return re.findall(r"DOTNET_DiagnosticPorts=[^\0]*", data[26:].decode("utf-16-le", errors="replace"))

    def test_run(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                process = self.start("run", "exceptions", "-d", "60s", "--json", "-o", self.path("report.json"), "--",
                                     self.program(fx), "exceptions", "rate=200", "count=20")
                self.ready(process)
                wait_until(lambda: self.ask(process, "truth", "TRUTH")["exceptions"]["rounds_total"] == 20, "20 rounds")
                code, _, err = self.finish(process, "quit\n")
                self.assertEqual(code, 0, err)
                report = Report(json.loads(self.path("report.json").read_text()))
                self.assertIn("the process ended", report.partial)
                rows = [r for r in report.rows("By type and place") if "OrderRejected" in r["Exception"]]
                self.assertEqual([r["Count"] for r in rows], [20], rows)
                self.nothing_left()

    def ask(self, process, word, answer):
        process.stdin.write(f"{word}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        self.assertTrue(line.startswith(f"{answer} "), line)
        return json.loads(line[len(answer):])

    def test_exit_codes(self):
        for program, want in ((["/bin/sh", "-c", "exit 7"], 7), (["/bin/sh", "-c", "kill -9 $$"], 137)):
            code, _, err = self.finish(self.start("trace", "collect", "-o", self.path("x"), "--", *program))
            self.assertEqual(code, want, err)
            self.assertIn("no .NET runtime", err)
        code, _, err = self.finish(self.start("trace", "collect", "-o", self.path("x"), "--", "/no/such/program"))
        self.assertEqual(code, 3, err)
        code, _, err = self.finish(self.start("trace", "collect", "-o", self.path("x"), "--"))
        self.assertEqual(code, 2, err)
        # A .NET program that fails by itself.
        code, _, err = self.finish(self.start("trace", "collect", "-o", self.path("y"), "--", self.program(NEWEST),
                                              "no-such-sickness"))
        self.assertEqual(code, subprocess.run([self.program(NEWEST), "no-such-sickness"], capture_output=True).returncode)
        self.assertNotEqual(code, 0)
        self.assertGreater(trace_event(self.path("y"), NAMES)[0], 0)
        self.nothing_left()

    def test_signals_are_passed_on(self):
        commands = (("trace", "collect", "-o", self.path("s.nettrace")), ("run", "exceptions", "-d", "60s"))
        for fx, command in diagonal(FRAMEWORKS, commands):
            with self.subTest(fx, command=command[0]):
                process = self.start(*command, "--", self.program(fx), "healthy")
                pid = self.ready(process)
                process.send_signal(signal.SIGTERM)
                code, _, err = self.finish(process)
                self.assertTrue(gone(pid))
                # .NET turns SIGTERM into an orderly end with 143.
                self.assertEqual(code, 143, err)
                self.nothing_left()

    def test_duration_ends_before_the_program(self):
        path = self.path("d.nettrace")
        process = self.start("trace", "collect", "-d", "1s", "-o", path, "--", self.program(NEWEST), "healthy")
        pid = self.ready(process)
        wait_until(path.exists, "the trace is written")
        self.assertFalse(gone(pid))
        self.assertIsNone(process.poll())
        self.assertEqual(self.finish(process, "quit\n")[0], 0)

    def test_children_are_let_go(self):
        """A runtime that the program starts does not wait for anybody."""
        path = self.path("c.nettrace")
        program = self.program(NEWEST)
        process = self.start("trace", "collect", "-o", path, "--", "/bin/sh", "-c",
                             f"echo quit | {program} healthy; echo quit | {program} healthy")
        code, out, err = self.finish(process)
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("READY"), 2)
        self.assertIn("Written to", err)
        self.nothing_left()

    def test_killed_at_any_time_the_program_goes_on(self):
        for delay in (0.001, 0.003, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.3):
            with self.subTest(delay):
                process = self.start("trace", "collect", "-o", self.path("k.nettrace"), "--", self.program(NEWEST),
                                     "healthy", "max-seconds=60")
                time.sleep(delay)
                process.kill()
                process.wait()
                # Killed before it started anything, there is nothing to wait for.
                line = process.stdout.readline()
                if line:
                    self.assertTrue(line.startswith("READY"), line)
                try:
                    process.stdin.write("quit\n")
                    process.stdin.close()
                except BrokenPipeError:
                    pass
                process.stdout.read()  # until the last who could write to it is gone
                process.stdout.close()
                process.stderr.close()
                wait_until(lambda: not any(self.folder.glob("drdotnet-*")), "the watcher tidies up")


if __name__ == "__main__":
    unittest.main()
