"""`drdotnet counters`: values against the patient's truth, its forms, other listeners, the screen, and manners."""

import csv
import fcntl
import io
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from datetime import datetime
from pathlib import Path

from drdotnet import PROGRAM, Home, event_streams, for_each_result, side_by_side, stand_still, wait_until
from patient import FRAMEWORKS, ROOM_FOR_ANSWERS, Patient, WebPatient
from terminal import Terminal

FX = FRAMEWORKS[-1]
USAGE = 2
DEADLINE_SECONDS = 60.0
F_SETPIPE_SZ = 1031


def has_runtime_meter(fx):
    return fx != "net8.0"


class Listening:
    """`counters --json` that runs; its objects one by one."""

    def __init__(self, pid, *arguments):
        self._process = subprocess.Popen([PROGRAM, "counters", str(pid), "--json", *arguments],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def next(self, seconds=DEADLINE_SECONDS):
        deadline = time.monotonic() + seconds
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise AssertionError("no further object")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk:
                raise AssertionError(f"it has ended: {self._process.stderr.read().decode()}")
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return Interval(json.loads(line))

    def skip(self, n):
        for _ in range(n):
            last = self.next()
        return last

    def until(self, condition, tries=60):
        for _ in range(tries):
            interval = self.next()
            if condition(interval):
                return interval
        raise AssertionError(f"in vain, last: {interval.data}")

    def stop(self, number=signal.SIGINT):
        """Exit code and standard error."""
        self._process.send_signal(number)
        _, err = self._process.communicate(timeout=DEADLINE_SECONDS)
        return self._process.returncode, err.decode()


class Interval:
    def __init__(self, data):
        self.data = data
        self.seconds = data["intervalMs"] / 1000
        self.by = {(c["provider"], c["name"], c["tags"]): c for c in data["counters"]}

    def get(self, provider, name, tags=None):
        return self.by[provider, name, tags]

    def all(self, provider, name):
        return [c for c in self.data["counters"] if (c["provider"], c["name"]) == (provider, name)]

    def has(self, provider, name):
        return bool(self.all(provider, name))


def once(pid, *arguments):
    done = subprocess.run([PROGRAM, "counters", str(pid), "--once", *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    if done.returncode != 0:
        raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
    return done


class Truth(unittest.TestCase):
    """The patient stands still while listening begins and ends, so sums must be exact."""
    SIDE_BY_SIDE = True

    @classmethod
    def setUpClass(cls):
        cls.results = side_by_side({fx: lambda fx=fx: cls.heard(fx) for fx in FRAMEWORKS}, workers=2)

    @classmethod
    def heard(cls, fx):
        with Patient("meters,exceptions,allocations,healthy", fx=fx, env=ROOM_FOR_ANSWERS,
                     **{"exceptions.kind": "simple"}) as patient:
            stand_still(patient)
            more = [] if has_runtime_meter(fx) else ["--counter", "System.Runtime"]
            arguments = ["--meter", "Shop.Meters", "--meter", "System.Runtime", "--counter", "Shop-Events", *more]
            with Listening(patient.pid, *arguments) as listening:
                first = listening.until(lambda i: cls.complete(i, fx))
                patient.mark()
                patient.resume()
                patient.collect()
                busy = cls.busy(listening)
                stand_still(patient)
                truth = patient.truth()
                rest = []
                listening.until(lambda i: rest.append(i) or (len(rest) >= 4 and cls.complete(i, fx)))
                # Timers go on while the patient stands still.
                truth["late"] = patient.truth()["runtime"]
                code, err = listening.stop()
            if code != 0:
                raise AssertionError(err)
            return first, busy, rest, truth, err

    @staticmethod
    def complete(interval, fx):
        return (interval.has("Shop.Meters", "shop.visits") and interval.has("Shop-Events", "visits") and
                interval.has("System.Runtime", "dotnet.gc.pause.time" if has_runtime_meter(fx) else "time-in-gc"))

    @staticmethod
    def busy(listening):
        """Intervals until there were enough with many orders: on a busy machine one may come with few or none of them."""
        intervals = []

        def full(interval):
            return sum(c["perSecond"] or 0 for c in interval.all("Shop.Meters", "shop.orders")) * interval.seconds > 60

        listening.until(lambda i: intervals.append(i) or
                        sum(full(a) and full(b) for a, b in zip(intervals, intervals[1:])) >= 3)
        return intervals

    @for_each_result
    def test_counters_of_the_app_are_exact(self, _, first, busy, rest, truth, err):
        orders, last = truth["meters"]["orders"], rest[-1]
        for kind in ("web", "phone"):
            before = [c["total"] for c in first.all("Shop.Meters", "shop.orders") if c["tags"] == f"kind={kind}"]
            total = last.get("Shop.Meters", "shop.orders", f"kind={kind}")["total"]
            self.assertEqual(total - sum(before), orders[kind])
        self.assertEqual(last.get("Shop.Meters", "shop.visits")["total"], truth["meters"]["visits_ever"])
        self.assertEqual(last.get("Shop-Events", "orders")["total"], sum(orders.values()))
        self.assertEqual(last.get("Shop-Events", "visits")["total"], truth["meters"]["visits"])
        self.assertEqual(last.data["lostEvents"], 0)

    @for_each_result
    def test_other_instruments_of_the_app(self, _, first, busy, rest, truth, err):
        last = rest[-1]
        self.assertEqual(last.get("Shop.Meters", "shop.temperature")["value"], 21.5)
        self.assertEqual(last.get("Shop-Events", "temperature")["value"], 21.5)
        self.assertEqual(last.get("Shop.Meters", "shop.cart.items")["value"], 42)
        self.assertEqual(last.get("Shop.Meters", "shop.free", "disk=b")["value"], 3 << 20)
        self.assertEqual(last.get("Shop.Meters", "shop.backlog")["value"], sum(truth["meters"]["orders"].values()))
        middle = busy[-1]  # a full one
        histogram = middle.get("Shop.Meters", "shop.order.duration", "route=/orders")
        for name, value in (("p50", 0.050), ("p95", 0.095), ("p99", 0.099), ("mean", 0.0505)):
            self.assertAlmostEqual(histogram[name], value, delta=value * 0.1)
        counted = sum((c["perSecond"] or 0) * i.seconds for i in busy + rest for c in i.all("Shop.Meters", "shop.order.duration"))
        self.assertAlmostEqual(counted, sum(truth["meters"]["orders"].values()), places=3)
        self.assertAlmostEqual(middle.get("Shop-Events", "order-size")["value"], 50.5, delta=10)
        self.assertEqual((histogram["kind"], histogram["unit"], histogram["source"]), ("histogram", "s", "meter"))
        display = middle.get("Shop-Events", "orders")["displayName"]
        self.assertEqual(display, "Orders taken")

    @for_each_result
    def test_rates_are_those_of_the_totals(self, _, first, busy, rest, truth, err):
        pairs = [(a, b) for a, b in zip(busy, busy[1:]) if a.has("Shop.Meters", "shop.visits") and b.has("Shop.Meters", "shop.visits")]
        self.assertGreaterEqual(len(pairs), 3)
        for before, after in pairs:
            a, b = (i.get("Shop.Meters", "shop.visits") for i in (before, after))
            self.assertAlmostEqual(b["perSecond"] * after.seconds, b["total"] - a["total"], places=3)

    @for_each_result
    def test_what_the_runtime_says_about_itself(self, fx, first, busy, rest, truth, err):
        runtime, last = truth["runtime"], rest[-1]

        def grown(name, tags=None):
            return (last.get("System.Runtime", name, tags)["total"] - first.get("System.Runtime", name, tags)["total"])

        if has_runtime_meter(fx):
            for generation in (0, 1, 2):
                got = grown("dotnet.gc.collections", f"gc.heap.generation=gen{generation}")
                self.assertEqual(got, runtime[f"gen{generation}"])
            self.assertAlmostEqual(grown("dotnet.gc.heap.total_allocated"), runtime["allocated_bytes"],
                                   delta=runtime["allocated_bytes"] * 0.05)
            self.assertAlmostEqual(grown("dotnet.gc.pause.time") * 1e9, runtime["gc_pause_ns"],
                                   delta=runtime["gc_pause_ns"] * 0.05)
            exceptions = sum(c["total"] for c in last.all("System.Runtime", "dotnet.exceptions"))
            before = sum(c["total"] for c in first.all("System.Runtime", "dotnet.exceptions"))
            self.assertEqual(exceptions - before, truth["exceptions"]["raised"])
            items, threads = grown("dotnet.thread_pool.work_item.count"), "dotnet.thread_pool.thread.count"
        else:
            self.assertEqual(grown("gen-2-gc-count"), runtime["gen2"])
            self.assertEqual(grown("gen-1-gc-count"), runtime["gen1"] + runtime["gen2"])
            self.assertEqual(grown("gen-0-gc-count"), runtime["gen0"] + runtime["gen1"] + runtime["gen2"])
            self.assertAlmostEqual(grown("alloc-rate"), runtime["allocated_bytes"],
                                   delta=runtime["allocated_bytes"] * 0.05)
            self.assertEqual(grown("exception-count"), truth["exceptions"]["raised"])
            items, threads = grown("threadpool-completed-items-count"), "threadpool-thread-count"
        self.assertTrue(all(runtime[f"gen{generation}"] > 0 for generation in (0, 1, 2)), runtime)
        self.assertGreater(truth["exceptions"]["raised"], 100)
        completed = truth["late"]["pool_completed"]
        self.assertAlmostEqual(items, completed, delta=completed * 0.05 + 40)
        self.assertEqual(busy[-1].get("System.Runtime", threads)["kind"], "gauge")
        self.assertGreater(busy[-1].get("System.Runtime", threads)["value"], 0)

    @for_each_result
    def test_what_is_not_there_is_said(self, fx, first, busy, rest, truth, err):
        last = rest[-1]
        if has_runtime_meter(fx):
            self.assertEqual((last.data["missing"], err), ([], ""))
        else:
            self.assertEqual(len(last.data["missing"]), 1)
            self.assertIn("no meter called 'System.Runtime' in this process; it has: Shop.Meters", err)


class Web(unittest.TestCase):
    """Meters and EventCounters of ASP.NET Core and Kestrel under load."""
    SIDE_BY_SIDE = True

    def test_requests_are_counted(self):
        def heard(fx):
            with WebPatient(fx=fx) as patient:
                patient.load("healthy", rate=20, seconds=1)
                with Listening(patient.pid, "--meter", "Microsoft.AspNetCore.Hosting", "--meter",
                               "Microsoft.AspNetCore.Server.Kestrel", "--counter", "Microsoft.AspNetCore.Hosting",
                               "--counter", "Microsoft-AspNetCore-Server-Kestrel") as listening:
                    listening.until(lambda i: i.has("Microsoft.AspNetCore.Hosting", "requests-per-second") and
                                    i.has("Microsoft-AspNetCore-Server-Kestrel", "current-connections"))
                    with patient.start_load("healthy", rate=50, seconds=4) as load:
                        seen = [listening.next() for _ in range(5)]
                        figures = load.result()
                    seen += [listening.next() for _ in range(3)]
                    code, err = listening.stop()
                return figures, seen, code, err

        for fx, future in side_by_side({fx: lambda fx=fx: heard(fx) for fx in FRAMEWORKS}, workers=2).items():
            with self.subTest(fx):
                figures, seen, code, err = future.result()
                self.assertEqual((code, err, figures["failed"]), (0, "", 0))
                counted = seen[-1].get("Microsoft.AspNetCore.Hosting", "requests-per-second")["total"]
                self.assertEqual(counted, figures["ok"])
                durations = [c for i in seen for c in i.all("Microsoft.AspNetCore.Hosting", "http.server.request.duration")]
                measured = sum(c["perSecond"] or 0 for c in durations) * seen[0].seconds
                self.assertAlmostEqual(measured, figures["ok"], delta=figures["ok"] * 0.02 + 1)
                self.assertTrue(all(0 < c["p50"] <= c["p99"] < 10 for c in durations if c["p50"] is not None), durations)
                self.assertTrue(any("http.route=" in c["tags"] for c in durations))
                self.assertTrue(any((c["value"] or 0) > 0 for i in seen for c in
                                    i.all("Microsoft.AspNetCore.Server.Kestrel", "kestrel.active_connections")))


class Forms(unittest.TestCase):
    SIDE_BY_SIDE = True

    @classmethod
    def setUpClass(cls):
        cls.patient = cls.enterClassContext(Patient("meters", fx=FX))

    def test_once_is_complete(self):
        shown = once(self.patient.pid, "--meter", "Shop.Meters").stdout
        self.assertRegex(shown, rf"^\d+-\d\d-\d\d \d\d:\d\d:\d\dZ  sick \({self.patient.pid}\)  \.NET \d+\.")
        self.assertRegex(shown, r"\n  shop\.temperature +21\.5 Cel\n")
        self.assertRegex(shown, r"\n  shop\.orders\n    kind=phone +\d+/s   total \d+\n    kind=web +\d+/s")
        self.assertRegex(shown, r"\n    disk=b +3 MB\n")
        self.assertRegex(shown, r"\n      p95 +9\d(\.\d)? ms\n")
        self.assertNotRegex(shown, r" -\n")

    def test_csv(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.csv"
            done = subprocess.run([PROGRAM, "counters", str(self.patient.pid), "--meter", "Shop.Meters", "--csv", path,
                                   "--duration", "4s"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
            rows = list(csv.DictReader(io.StringIO(path.read_text())))
        times = {row["time"] for row in rows}
        self.assertGreaterEqual(len(times), 2)
        free = [row for row in rows if row["counter"] == "shop.free"]
        self.assertEqual({(row["tags"], float(row["value"]), row["unit"]) for row in free},
                         {("disk=a", 1048576.0, "By"), ("disk=b", 3145728.0, "By")})
        self.assertTrue(all(float(r["p50"]) <= float(r["p99"]) for r in rows if r["p50"]))
        to_stdout = once(self.patient.pid, "--meter", "Shop.Meters", "--csv", "-").stdout
        self.assertEqual(to_stdout.splitlines()[0].split(",")[:3], ["time", "provider", "counter"])

    def test_prometheus(self):
        text = once(self.patient.pid, "--prometheus", "--meter", "Shop.Meters", "--counter", "Shop-Events").stdout
        types, samples, name = {}, {}, None
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.assertNotIn(name, types, "a metric is described once")
                types[name] = kind
                continue
            match = re.fullmatch(r'([a-zA-Z_:][\w:]*)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)+)\} (\S+)', line)
            self.assertIsNotNone(match, line)
            self.assertEqual(match[1], name, "samples stand below their description")
            self.assertNotIn((match[1], match[2]), samples)
            samples[match[1], match[2]] = float(match[3])
        self.assertEqual(samples["shop_temperature_celsius", 'meter="Shop.Meters"'], 21.5)
        self.assertEqual(samples["shop_free_bytes", 'meter="Shop.Meters",disk="a"'], 1 << 20)
        self.assertEqual((types["shop_orders_total"], types["shop_order_duration_seconds"]), ("counter", "summary"))
        self.assertIn(("shop_order_duration_seconds", 'meter="Shop.Meters",route="/orders",quantile="0.95"'), samples)
        self.assertGreater(samples["shop_orders_total", 'meter="Shop.Meters",kind="web"'], 0)

    def test_all(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("meters", fx=fx) as patient:
                interval = Interval(json.loads(once(patient.pid, "--all", "--json").stdout))
                self.assertEqual(interval.get("Shop.Meters", "shop.temperature")["value"], 21.5)
                self.assertTrue(interval.has("System.Runtime", "dotnet.assembly.count" if has_runtime_meter(fx)
                                             else "assembly-count"))
                self.assertEqual(interval.data["missing"], [])

    def test_without_words_it_is_the_runtime(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("healthy", fx=fx) as patient:
                interval = Interval(json.loads(once(patient.pid, "--json").stdout))
                self.assertEqual({key[0] for key in interval.by}, {"System.Runtime"})
                self.assertGreater(len(interval.by), 20)

    def test_intervals_follow_the_order(self):
        with Listening(self.patient.pid, "--meter", "Shop.Meters", "--interval", "2s") as listening:
            intervals = []
            listening.until(lambda i: intervals.append(i) or all(j.has("Shop.Meters", "shop.visits") for j in intervals[-3:])
                            and len(intervals) > 3)
            started, ended = (datetime.fromisoformat(intervals[at].data["time"]) for at in (0, -1))
            self.assertGreater((ended - started).total_seconds(), 2 * (len(intervals) - 2))
            intervals = intervals[-2:]
            self.assertEqual({i.data["intervalMs"] for i in intervals}, {2000})
            a, b = (i.get("Shop.Meters", "shop.visits") for i in intervals)
            self.assertAlmostEqual(b["perSecond"] * 2, b["total"] - a["total"], places=3)
            self.assertEqual(listening.stop(), (0, ""))

    def test_unknown_names_say_what_there_is(self):
        done = once(self.patient.pid, "--json", "--meter", "Shop.Meterz", "--meter", "Shop.Meters[shop.orders,shop.typo]",
                    "--counter", "No-Such-Source", "--counter", "Shop-Events[visits,typo]")
        interval = Interval(json.loads(done.stdout))
        self.assertEqual({key[1] for key in interval.by}, {"shop.orders", "visits"})
        for words in ("no meter called 'Shop.Meterz' in this process; it has: Shop.Meters",
                      "Shop.Meters has no instrument called 'shop.typo'; it has: shop.orders,",
                      "nothing was heard from 'No-Such-Source'",
                      "Shop-Events has no counter called 'typo'; it has:"):
            self.assertIn(words, done.stderr)
            self.assertTrue(any(words in line for line in interval.data["missing"]), words)
        nothing = once(self.patient.pid, "--counter", "No-Such-Source")
        self.assertIn("nothing was heard\n", nothing.stdout)
        self.assertIn("'No-Such-Source'", nothing.stderr)

    def test_wrong_words_are_refused(self):
        with Home() as home:
            for arguments, says in ((["--interval", "1ms"], "500 ms"), (["--interval", "x"], "'x'"),
                                    (["--meter", "a;b"], "'a;b'"), (["--meter", ""], "''"),
                                    (["--counter", "a[b"], "'a[b'"), (["--counter", "[b]"], "'[b]'"),
                                    (["--counter", "a[]"], "'a[]'"), (["--json", "--prometheus"], "one of"),
                                    (["--json", "--csv", "-"], "standard output"), (["--duration", "0"], "'0'")):
                with self.subTest(arguments):
                    done = home.run("counters", self.patient.pid, *arguments)
                    self.assertEqual((done.code, done.out), (USAGE, ""), done)
                    self.assertIn(says, done.err)
            done = home.run("counters", self.patient.pid, "--csv", "/nosuch/file.csv")
            self.assertEqual((done.code, done.out), (USAGE, ""), done)  # 3 would mean that there is no such process


class OthersListen(unittest.TestCase):
    SIDE_BY_SIDE = True

    def test_two_of_us(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("meters", fx=fx) as patient, \
                    Listening(patient.pid, "--meter", "Shop.Meters", "--interval", "2s") as one:
                one.skip(2)
                with Listening(patient.pid, "--meter", "Shop.Meters[shop.visits]") as two:
                    seen = two.skip(3)
                    self.assertEqual({key[1] for key in seen.by}, {"shop.visits"})
                    self.assertEqual(seen.data["intervalMs"], 2000, "the pace of who came first")
                    self.assertEqual((seen.data["notes"], seen.data["missing"]), ([], []))
                    self.assertTrue(one.next().has("Shop.Meters", "shop.orders"))
                    self.assertEqual(two.stop(), (0, ""))
                before = one.next().get("Shop.Meters", "shop.visits")["total"]
                after = one.skip(2).get("Shop.Meters", "shop.visits")["total"]
                self.assertGreater(after, before, "the first goes on when the second has left")
                self.assertEqual(one.stop(), (0, ""))

    def test_another_pace_is_refused_in_words(self):
        with Patient("meters", fx=FX) as patient, Listening(patient.pid, "--meter", "Shop.Meters") as one:
            one.skip(2)
            with Listening(patient.pid, "--meter", "Shop.Meters", "--interval", "5s") as two:
                seen = two.until(lambda i: i.has("Shop.Meters", "shop.visits"))
                self.assertIn("another tool listens to the meters of this process every 1 s", seen.data["notes"][0])
                code, err = two.stop()
                self.assertEqual(code, 0)
                self.assertIn("leave out --interval", err)
            self.assertTrue(one.skip(2).has("Shop.Meters", "shop.orders"))
            self.assertEqual(one.stop()[0], 0)

    def test_one_who_does_not_share(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("meters", fx=fx) as patient, Selfish(patient.pid):
                arguments = ["--meter", "System.Runtime"] if has_runtime_meter(fx) else ["--meter", "Shop.Meters"]
                done = once(patient.pid, *arguments, "--json")
                self.assertIn("does not share", done.stderr)
                if has_runtime_meter(fx):
                    self.assertIn("EventCounters of System.Runtime are shown instead", done.stderr)
                    self.assertTrue(Interval(json.loads(done.stdout)).has("System.Runtime", "working-set"))


class Selfish:
    """A listener with a session of its own that it shares with nobody."""

    def __init__(self, pid):
        # With its start time: a process that was killed may have left a socket under the same pid.
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        path = Path(os.environ.get("TMPDIR") or "/tmp") / f"dotnet-diagnostic-{pid}-{started}-socket"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))

        def text(s):
            return struct.pack("<I", len(s) + 1) + s.encode("utf-16-le") + b"\0\0"

        body = struct.pack("<IIBI", 16, 1, 0, 1) + struct.pack("<QI", 7, 4) + text("System.Diagnostics.Metrics") + \
            text("SessionId=mine;Metrics=Other;RefreshInterval=1")
        self._socket.sendall(b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20 + len(body), 2, 3, 0) + body)
        if self._socket.recv(20)[16] != 0xFF:
            raise AssertionError("refused")
        # Its reader must see a collection before it may be closed.
        data = b""
        while "Nettrace".encode() not in data:
            data += self._socket.recv(65536)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()


class OnScreen(unittest.TestCase):
    SIDE_BY_SIDE = True

    @classmethod
    def setUpClass(cls):
        cls.patient = cls.enterClassContext(Patient("meters,exceptions", fx=FX))

    def open(self, *arguments, rows=24, columns=80, **env):
        command = [PROGRAM, "counters", str(self.patient.pid), *arguments]
        return Terminal(command, rows, columns, env)

    def test_at_80_by_24(self):
        with self.open("--meter", "Shop.Meters", "--meter", "System.Runtime") as terminal:
            terminal.wait_for(lambda text: re.search(r"shop\.visits +\d+/s +\d+/s +[\d,]+  [▁▂▃▄▅▆▇█]{2}", text))
            text = terminal.text()
            lines = text.split("\n")
            self.assertRegex(lines[0], rf"^sick \({self.patient.pid}\)  \.NET \d+\.\S+  every 1 s  window \d+ s$")
            self.assertRegex(lines[1], r"^counter +now +highest +total +whole window$")
            self.assertEqual(lines[2], "Shop.Meters")
            self.assertRegex(text, r"\n    disk=b +3 MB +3 MB +█+\n")
            self.assertRegex(lines[23], r"^q quit  p pause  / filter  s sort \(name\)  r reset  \? help +1-21/\d+$")
            terminal.type("\x1bOF")  # end
            terminal.wait_for("dotnet.timer.count")
            terminal.type("\x1bOH")  # home
            terminal.wait_for("shop.cart.items")
            terminal.type("\x1bOB")
            terminal.wait_for(lambda t: t.split("\n")[2] != "Shop.Meters")
            terminal.type("\x1bOA")
            terminal.wait_for(lambda t: t.split("\n")[2] == "Shop.Meters")
            terminal.type("q")
            self.assertEqual(terminal.finish(), 0)
        self.assertIn(b"\x1b[?1049l", terminal.raw, "the terminal is given back")

    def test_filter_sort_pause_reset_help(self):
        with self.open("--meter", "Shop.Meters") as terminal:
            terminal.wait_for("shop.visits")
            terminal.type("/VISIT")
            terminal.wait_for("/VISIT_")
            terminal.type("\r")
            terminal.wait_for(lambda t: "filter: VISIT" in t and "shop.visits" in t and "shop.orders" not in t)
            terminal.type("/zzz\r")
            terminal.wait_for("nothing matches the filter")
            terminal.type("\x1b")
            terminal.wait_for("shop.orders")
            terminal.type("s")
            terminal.wait_for(lambda t: "sort (value)" in t and t.index("shop.free") < t.index("shop.cart.items"))
            terminal.type("?")
            terminal.wait_for("not measured")
            terminal.type(" ")
            terminal.wait_for(lambda t: "shop.orders" in t and "not measured" not in t)
            terminal.type("p")
            terminal.wait_for("paused")
            frozen = re.search(r"shop\.visits.*", terminal.text())[0]
            with Listening(self.patient.pid, "--meter", "Shop.Meters") as other:
                other.skip(3)
                other.stop()
            terminal.type("s")
            text = terminal.wait_for("sort (name)")
            self.assertEqual(re.search(r"shop\.visits +\S+", text)[0], re.search(r"shop\.visits +\S+", frozen)[0])
            terminal.type("p")
            terminal.wait_for(lambda t: "paused" not in t)
            text = terminal.wait_for(lambda t: int(re.search(r"window (\d+)", t)[1]) > 3)
            before = int(re.search(r"window (\d+)", text)[1])
            terminal.type("r")
            terminal.wait_for(lambda t: (now := re.search(r"window (\d+)", t)) and int(now[1]) < before)
            terminal.type("\x03")
            self.assertEqual(terminal.finish(), 0)

    def test_sizes(self):
        with self.open("--meter", "Shop.Meters", rows=40, columns=200) as terminal:
            terminal.wait_for("shop.visits")
            for rows, columns in ((24, 80), (5, 40), (2, 10), (1, 1), (30, 120)):
                terminal.resize(rows, columns)
                wanted = "shop.backlog" if rows > 3 and columns > 30 else ""
                terminal.wait_for(lambda t: wanted in t and (columns < 30 or "whole" in t or columns < 60))
            terminal.type("q")
            self.assertEqual(terminal.finish(), 0)

    def test_without_utf8(self):
        with self.open("--meter", "Shop.Meters", LC_ALL="C") as terminal:
            terminal.wait_for(lambda text: re.search(r"shop\.cart\.items +42 +42 +##", text))
            self.assertTrue(terminal.text().isascii())
            terminal.type("q")
            self.assertEqual(terminal.finish(), 0)

    def test_a_terminal_that_cannot(self):
        for term in ("dumb", "no-such-terminal"):
            with self.subTest(term), self.open("--meter", "Shop.Meters", "--duration", "4s", TERM=term) as terminal:
                self.assertEqual(terminal.finish(), 0)
                self.assertIn(b"shop.visits", terminal.raw)
                self.assertNotIn(b"\x1b[", terminal.raw)

    def test_hostile_names_stay_harmless(self):
        with self.open("--meter", "Shop\u202eMeters\u200b", "--counter", "x\u009bm") as terminal:
            terminal.wait_for("no meter called")
            terminal.type("q")
            self.assertEqual(terminal.finish(), 0)
            self.assertNotIn("\u202e".encode(), terminal.raw)


class Manners(unittest.TestCase):
    SIDE_BY_SIDE = True

    def test_the_process_ends(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("meters", fx=fx) as patient, \
                    Listening(patient.pid, "--meter", "Shop.Meters", "--counter", "Shop-Events") as listening:
                listening.skip(2)
                os.kill(patient.pid, signal.SIGKILL)
                _, err = listening._process.communicate(timeout=DEADLINE_SECONDS)
                self.assertEqual((listening._process.returncode, err), (0, b"drdotnet: the process has ended\n"))

    def test_a_process_that_does_not_answer(self):
        with Patient("meters", fx=FX) as patient, Home() as home:
            os.kill(patient.pid, signal.SIGSTOP)
            try:
                done = home.run("counters", patient.pid)
            finally:
                os.kill(patient.pid, signal.SIGCONT)
            self.assertEqual((done.code, done.out), (1, ""), done)
            self.assertRegex(done.err, rf"\Adrdotnet: sick \({patient.pid}\) does not answer.*; the kernel shows .*MB of memory")

    def test_nobody_reads_any_more(self):
        with Patient("meters", fx=FX) as patient:
            listening = subprocess.Popen([PROGRAM, "counters", str(patient.pid), "--plain"], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            listening.stdout.readline()
            listening.stdout.close()
            self.assertEqual(listening.wait(DEADLINE_SECONDS), 0)
            listening.stderr.close()
            wait_until(lambda: event_streams(patient.pid) == 0, "the sessions have ended")

    def test_a_reader_that_stands_still_does_not_keep_it(self):
        with Patient("meters", fx=FX) as patient:
            listening = subprocess.Popen([PROGRAM, "counters", str(patient.pid), "--json", "--all"], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            fcntl.fcntl(listening.stdout, F_SETPIPE_SZ, 4096)
            wait_until(lambda: struct.unpack("i", fcntl.ioctl(listening.stdout, termios.FIONREAD, b"1234"))[0] == 4096,
                       "the pipe is full")
            listening.send_signal(signal.SIGTERM)
            self.assertEqual(listening.wait(DEADLINE_SECONDS), 0)
            listening.communicate()
            wait_until(lambda: event_streams(patient.pid) == 0, "the sessions have ended")

    def test_a_full_disk_is_said(self):
        with Patient("meters", fx=FX) as patient, Home() as home:
            done = home.run("counters", patient.pid, "--csv", "/dev/full")
            self.assertEqual((done.code, done.err), (1, "drdotnet: cannot write what was heard: No space left on device\n"))

    def test_twenty_times_leave_nothing_behind(self):
        """Ended at any moment, also before the first value: it answers as before and has no thread more."""
        def cycles(fx):
            with Home() as home, Patient("meters", fx=fx) as patient:
                arguments = ["--meter", "Shop.Meters", "--counter", "Shop-Events"]
                once(patient.pid, *arguments)
                wait_until(lambda: event_streams(patient.pid) == 0, "the first session has ended")
                threads = len(os.listdir(f"/proc/{patient.pid}/task"))
                for i in range(20):
                    listening = subprocess.Popen([PROGRAM, "counters", str(patient.pid), "--plain", *arguments],
                                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.PIPE)
                    wait_until(lambda: event_streams(patient.pid) == 2, "it listens")
                    time.sleep(0.07 * i)  # another moment of the interval each time
                    listening.send_signal(signal.SIGTERM if i % 2 else signal.SIGINT)
                    _, err = listening.communicate(timeout=DEADLINE_SECONDS)
                    if (listening.returncode, err) != (0, b""):
                        raise AssertionError(f"round {i}: {listening.returncode} {err}")
                    ids = home.run("ps", "--json", "--timeout", "2s").json()
                    if not any(p["id"] == patient.pid and p["answered"] for p in ids):
                        raise AssertionError(f"round {i}: it does not answer any more")
                wait_until(lambda: event_streams(patient.pid) == 0, "all sessions have ended")
                wait_until(lambda: len(os.listdir(f"/proc/{patient.pid}/task")) <= threads, "no thread is left")
                return True

        for fx, future in side_by_side({fx: lambda fx=fx: cycles(fx) for fx in FRAMEWORKS}, workers=3).items():
            with self.subTest(fx):
                self.assertTrue(future.result())


if __name__ == "__main__":
    unittest.main()
