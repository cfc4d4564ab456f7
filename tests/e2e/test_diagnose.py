"""Diagnose: the cause in the first sentence on sick patients, none on healthy ones, on every runtime."""

import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from drdotnet import PROGRAM, ROOT, Home, Report, end_window, for_each_result, side_by_side
from groups import CpuGroup
from patient import FRAMEWORKS, PATIENTS, ROOM_FOR_ANSWERS, Patient, WebPatient, diagonal, one_of
from server import Server

SIDE_BY_SIDE = "quietly"
SECONDS = "5s"
# True wherever other tests run beside this one: what is found of a busy thread that gets no CPU.
OF_THE_MACHINE = {"cpu-hotpaths.starved": "cpu-hotpaths.hot-path"}


def diagnose(home, target, *more):
    """The report, with its text form; raises what went wrong."""
    done = home.run("diagnose", target, "--duration", SECONDS, "--json", *more)
    assert done.code == 0, repr(done)
    report = Report(done.json())
    report.news = done.err
    return report


def findings(report, title):
    return {f["finding"]: f for b in report.data["blocks"] if b["block"] == "findings" and b["title"] == title
            for f in b["findings"]}


def notes(report):
    return ["".join(p["text"] for p in b["text"]) for b in report.data["blocks"] if b["block"] == "note"]


def never_wrong(test, report, truth):
    """Right, or it says what could not be looked at: a sick one is never healthy, a healthy one never sick."""
    if report.finding == truth:
        return
    if truth == "healthy":
        test.assertEqual(report.finding, "little-seen", report.verdict)
    else:
        test.assertIn(truth.split(".")[0], findings(report, "Could not be looked at"), report.verdict)
        test.assertNotEqual(report.health, "ok", report.verdict)


def sections(report):
    return {b["profiler"]: b for b in report.data["blocks"] if b["block"] == "section"}


# sickness and its keys -> finding of the cause, health, what the first sentence must name
SICK = {
    ("deadlock",): ("deadlocks.deadlock", "bad", "Shop.Bank.Ledger"),
    ("starvation",): ("thread-pool.starvation", "bad", "Shop.Api.Handler.HandleByResult"),
    ("leak",): ("memory-leaks.leak", None, "keeps growing"),
    ("exceptions", ("rate", 2000)): ("exceptions.many-exceptions", None, "Shop."),
    ("contention",): ("lock-contention.convoy", None, "Shop.Inventory.Stock"),
    ("gc-pauses",): ("gc-stats.induced-collections", None, "Shop.Reports.MonthEnd.CloseBooks"),
    ("stuck-tasks",): ("stuck-tasks.stuck", None, "Shop.Orders.OrderFlow"),
    ("cpu",): ("cpu-hotpaths.hot-path", "info", "Shop."),
    ("descriptors", ("what", "close-wait")): ("open-files.not-closed", None, "127.0.0.1:"),
    ("descriptors", ("what", "files"), ("count", 400), ("prefix", ("prlimit", "--nofile=500:500"))):
        ("open-files.near-limit", None, "shop-uploads-"),
}


class Sick(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, key): lambda fx=fx, key=key: cls.examined(fx, key)
                                    for fx, key in diagonal(FRAMEWORKS, SICK)}, workers=2)

    @classmethod
    def examined(cls, fx, key):
        # With another budget its collections by allocation take more time than those that it asks for.
        env = ROOM_FOR_ANSWERS if key[0] == "gc-pauses" else {}
        with Patient(key[0], fx=fx, env=env, **dict(key[1:])) as patient:
            report = diagnose(cls.home, patient.pid)
        finding, health, place = SICK[key]
        if OF_THE_MACHINE.get(report.finding) == finding:
            finding = report.finding
        return report, (finding, health, place)

    @for_each_result
    def test_the_cause_comes_first(self, _key, report, truth):
        finding, health, place = truth
        self.assertEqual(report.finding, finding, report.verdict)
        self.assertIn(place, report.verdict)
        if health:
            self.assertEqual(report.health, health)
        else:
            self.assertIn(report.health, ("warn", "bad"), report.verdict)

    @for_each_result
    def test_what_to_do_is_said(self, _key, report, _truth):
        self.assertTrue(report.data["next"])

    @for_each_result
    def test_nothing_else_serious_is_claimed(self, _key, report, _truth):
        for finding, item in findings(report, "Also seen").items():
            self.assertLess(item["severity"], 75, (finding, item["plain"]))

    @for_each_result
    def test_every_sentence_has_its_weight(self, _key, report, truth):
        chain = findings(report, "How it hangs together")
        self.assertEqual(next(iter(chain)), truth[0])
        for item in chain.values():
            self.assertTrue(25 <= item["severity"] <= 100 and item["confidence"].split(":")[0] in
                            ("Certain", "Probable", "Doubtful"), item)

    @for_each_result
    def test_each_examination_is_a_section(self, _key, report, truth):
        profiler, finding = truth[0].split(".")
        self.assertEqual(sections(report)[profiler]["finding"], finding)

    @for_each_result
    def test_there_was_a_first_impression(self, _key, report, _truth):
        self.assertIn("First impression", report.news)


class Healthy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        tasks = {(fx, kind): lambda fx=fx, kind=kind: (cls.examined(fx, kind),)
                 for fx, kind in diagonal(FRAMEWORKS, ("healthy", "healthy-waits", "web"))}
        cls.results = side_by_side(tasks, workers=2)

    @classmethod
    def examined(cls, fx, kind):
        if kind != "web":
            with Patient(kind, fx=fx) as patient:
                return diagnose(cls.home, patient.pid)
        with WebPatient(fx=fx) as patient, patient.start_load("healthy", rate=50, seconds=120):
            return diagnose(cls.home, patient.pid)

    @for_each_result
    def test_healthy_is_an_answer(self, _key, report):
        self.assertEqual((report.finding, report.health), ("healthy", "ok"), report.verdict)
        self.assertIn("things were looked at, none unusual", report.verdict)

    @for_each_result
    def test_what_was_ruled_out_is_listed(self, _key, report):
        # A machine that is busy with other tests is seen, and told beside it.
        out = findings(report, "Ruled out") | findings(report, "Also seen")
        for finding in ("cpu-busy", "memory-limit", "gc-pressure", "descriptors", "deadlocks"):
            self.assertIn(finding, out)
        self.assertRegex(out["descriptors"]["plain"], r"descriptors \([\d,]+ of [\d,]+\)")

    @for_each_result
    def test_nothing_serious_beside_it(self, _key, report):
        for finding, item in findings(report, "Also seen").items():
            self.assertLess(item["severity"], 50, (finding, item["plain"]))


class Rights(unittest.TestCase):
    """With less of them it is right, or says what it could not look at: never wrong."""
    TRUTHS = {("deadlock",): "deadlocks.deadlock", ("exceptions", ("rate", 2000)): "exceptions.many-exceptions",
              ("healthy",): "healthy"}

    def each(self, diagnosed, **options):
        for key, truth in self.TRUTHS.items():
            with self.subTest(key[0]), Patient(key[0], fx=one_of(FRAMEWORKS)[0], **options, **dict(key[1:])) as patient:
                never_wrong(self, diagnosed(patient), truth)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_the_same_user(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            for name in ("drdotnet", "drdotnet-dachost", "libdrdotnet-agent.so"):
                shutil.copy(Path(PROGRAM).parent / name, folder)
            home = Path(folder) / "home"
            home.mkdir()
            shutil.chown(home, "nobody")

            def diagnosed(patient):
                done = subprocess.run([f"{folder}/drdotnet", "diagnose", str(patient.pid), "--duration", SECONDS,
                                       "--max-pause", "10s", "--json"],
                                      user="nobody", extra_groups=[], text=True, capture_output=True, timeout=120,
                                      env={**os.environ, "DRDOTNET_HOME": str(home)})
                self.assertEqual(done.returncode, 0, done)
                return Report(json.loads(done.stdout))
            self.each(diagnosed, user="nobody")

    def test_its_socket_only(self):
        apart = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
        with tempfile.TemporaryDirectory() as folder, Home() as home:
            env = {"TMPDIR": folder}

            def diagnosed(_patient):
                seen = home.run("ps", "--json", prefix=apart, env=env).json()
                own, = [p for p in seen if (p["socket"] or "").startswith(folder)]
                self.assertIsNone(own["pid"])
                done = home.run("diagnose", own["id"], "--duration", SECONDS, "--json", prefix=apart, env=env)
                self.assertEqual(done.code, 0, done)
                return Report(done.json())
            self.each(diagnosed, env=env)


class Frozen(unittest.TestCase):
    """Scripts rely on the ids of findings: the page is the list of them."""
    SIDE_BY_SIDE = True  # nothing is examined

    def test_rules_and_their_page(self):
        code = [i for path in sorted((ROOT / "src" / "diagnose").glob("rules_*.c"))
                for i in re.findall(r'\.id = "([a-z-]+)"', path.read_text())]
        page = (ROOT / "docs" / "profilers" / "diagnose.md").read_text()
        listed = re.findall(r"^\| `([a-z][a-z-]+)` \|", page, re.M)
        own = {"healthy", "little-seen", "nothing-found"}
        self.assertGreater(len(code), 30)
        self.assertEqual(len(code), len(set(code)))
        self.assertEqual(set(listed) - own, set(code))
        self.assertLessEqual(own, set(listed))

    def test_what_explains_what_names_findings_that_exist(self):
        table = (ROOT / "src" / "diagnose" / "verdict.c").read_text().split("explained[] = {")[1].split("};")[0]
        page = (ROOT / "docs" / "profilers" / "diagnose.md").read_text()
        names = set(re.findall(r'"([a-z.-]+)"', table))
        self.assertGreater(len(names), 40)
        for name in names:
            profiler, dot, finding = name.partition(".")
            with self.subTest(name):
                if dot:
                    known = (ROOT / "docs" / "profilers" / f"{profiler}.md").read_text()
                    self.assertTrue(not finding or f"`{finding}`" in known)
                else:
                    self.assertIn(f"| `{name}` |", page)


class Forms(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def test_a_target_alone_is_diagnosed(self):
        with Patient("healthy", fx=FRAMEWORKS[-1]) as patient:
            done = self.home.run(patient.pid, "--duration", "2s", "--gentle")
            self.assertEqual(done.code, 0, done)
            self.assertIn("Diagnosis", done.out)

    def test_a_typo_examines_nobody(self):
        done = self.home.run("diagnos")
        self.assertEqual(done.code, 2, done)
        self.assertIn("did you mean 'diagnose'", done.err)
        self.assertEqual(self.home.sessions(), [])

    def test_the_exit_code_that_was_asked_for(self):
        for sickness, level, code in (("deadlock", "warning", 6), ("deadlock", "bad", 6), ("healthy", "info", 0)):
            with self.subTest(level), Patient(sickness, fx=FRAMEWORKS[-1]) as patient:
                self.assertEqual(self.home.run("deadlocks", patient.pid, "--fail-on", level).code, code)
        self.assertEqual(self.home.run("deadlocks", 1, "--fail-on", "rain").code, 2)

    def test_all_in_turn(self):
        """In a world of their own, where neither other processes nor their sockets can be seen."""
        kept = [str(folder) for folder in (self.home.path, Path(PROGRAM).parent, PATIENTS)]
        hide = ("mount -t tmpfs none /mnt; n=0; for d in $KEPT; do n=$((n+1)); mkdir /mnt/$n; mount --bind $d /mnt/$n; done; "
                "mount -t tmpfs none /tmp; chmod 1777 /tmp; "
                "n=0; for d in $KEPT; do n=$((n+1)); mkdir -p $d; mount --bind /mnt/$n $d; done; exec \"$@\"")
        world = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", hide, "sh")
        with Patient("healthy", fx=FRAMEWORKS[-1], prefix=world, env={"KEPT": " ".join(kept)}) as healthy:
            inside = ("nsenter", "-t", str(healthy.pid), "-p", "-m")

            def diagnosed(*words):
                return self.home.run("diagnose", "-d", "2s", "-q", *words, prefix=inside)

            one = diagnosed("--gentle")
            self.assertEqual((one.code, one.out.count("Diagnosis")), (0, 1), one)
            with Patient("deadlock", fx=FRAMEWORKS[-1], prefix=inside):
                table = diagnosed()
                self.assertEqual((table.code, len(table.out.splitlines())), (0, 2), table)
                self.assertIn("--all for each in turn", table.err)
                every = diagnosed("--all", "--fail-on", "bad")
                self.assertEqual((every.code, every.out.count("Diagnosis")), (6, 2), every)
                self.assertIn("Shop.Bank", every.out)
                self.assertIn("nothing unusual in what the kernel shows", every.err)
                self.assertNotIn("nothing unusual in what the kernel shows", every.out)
                refused = diagnosed("--all", "-o", "x.html")
                self.assertEqual(refused.code, 2, refused)

    def test_no_prefix_of_a_name(self):
        with Patient("healthy", fx=FRAMEWORKS[-1]):
            done = self.home.run("sic", "--duration", "2s")
            self.assertEqual(done.code, 2, done)
            self.assertEqual(self.home.sessions(), [])

    def test_gentle_never_stops(self):
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            report = diagnose(self.home, patient.pid, "--gentle")
        self.assertEqual(report.how["Target paused"]["context"], "no look was taken")
        self.assertIn("deadlocks", findings(report, "Could not be looked at"))
        self.assertNotIn("deadlocks", findings(report, "Ruled out"))
        self.assertEqual(report.finding, "little-seen", "no all-clear for a deadlock")

    def test_its_recording_gives_the_same_report(self):
        with Patient("exceptions", fx=FRAMEWORKS[-1], rate=500) as patient:
            first = diagnose(self.home, patient.pid)
        guid = first.data["facts"]["session"]
        again = Report(self.home.run("diagnose", "--session", guid, "--json").json())
        self.assertEqual((first.finding, first.partial), (again.finding, again.partial))
        self.assertEqual(json.dumps(first.data["verdict"]), json.dumps(again.data["verdict"]))
        self.assertEqual(json.dumps(first.data["blocks"]), json.dumps(again.data["blocks"]))

    def test_a_cpu_limit_is_the_cause(self):
        with CpuGroup(0.1) as group:
            if not group.folder:
                self.skipTest(f"no CPU group can be made here: {group.error}")
            with Patient("cpu", fx=FRAMEWORKS[-1]) as patient:
                group.take(patient.pid)
                report = diagnose(self.home, patient.pid)
        self.assertEqual((report.finding, report.health), ("cpu-hotpaths.throttled", "bad"), report.verdict)
        chain = findings(report, "How it hangs together")
        self.assertRegex(chain["cpu-throttled"]["plain"], r"CPU limit of 0\.1 cores is used up in \d+ % of all periods")

    def test_a_process_that_ends_meanwhile(self):
        with Patient("healthy", fx=FRAMEWORKS[-1]) as patient:
            with self.home.start("diagnose", patient.pid, "--duration", "60s", "--json") as job:
                job.wait_for("First impression")
                patient.stop()
                done = job.finish()
        self.assertEqual(done.code, 0, done)
        report = Report(done.json())
        self.assertEqual(report.finding, "little-seen", report.verdict)
        self.assertIn("ended", report.partial)
        self.assertIn("deadlocks", findings(report, "Could not be looked at"))

    def test_cancelled_it_says_what_is_known(self):
        with Patient("exceptions", fx=FRAMEWORKS[-1], rate=2000) as patient:
            with self.home.start("diagnose", patient.pid, "--duration", "60s", "--json") as job:
                job.wait_for("First impression")
                report = end_window(job)
        self.assertEqual(report.finding, "exceptions-many", report.verdict)
        self.assertIn("Probable", findings(report, "How it hangs together")["exceptions-many"]["confidence"])

    def test_cancelled_between_examinations_it_keeps_both(self):
        """What the vital signs showed, and what the examination that was under way has seen."""
        with Patient("exceptions", fx=FRAMEWORKS[-1], rate=2000) as patient:
            with self.home.start("diagnose", patient.pid, "--duration", SECONDS, "--json") as job:
                job.wait_for("exceptions, because of")
                report = end_window(job)
        self.assertIn(report.finding, ("exceptions-many", "exceptions.many-exceptions"), report.verdict)
        self.assertIn("exceptions-many", findings(report, "How it hangs together"))
        self.assertTrue(report.partial)
        self.assertIn("deadlocks", findings(report, "Could not be looked at"))
        self.assertNotIn("deadlocks", findings(report, "Ruled out"))

    def test_a_process_that_ends_while_it_is_examined(self):
        with Patient("exceptions", fx=FRAMEWORKS[-1], rate=2000) as patient:
            with self.home.start("diagnose", patient.pid, "--duration", SECONDS, "--json") as job:
                job.wait_for("exceptions, because of")
                patient.stop()
                done = job.finish()
        self.assertEqual(done.code, 0, done)
        report = Report(done.json())
        self.assertIn(report.finding, ("exceptions-many", "exceptions.many-exceptions"), report.verdict)
        self.assertIn("ended", report.partial)
        self.assertIn("deadlocks", findings(report, "Could not be looked at"))

    def test_the_core_of_one_that_dies_meanwhile(self):
        with tempfile.TemporaryDirectory() as folder:
            env = {"DOTNET_DbgEnableMiniDump": "1", "DOTNET_DbgMiniDumpType": "2", "DOTNET_DbgMiniDumpName": f"{folder}/core.%p"}
            with Patient("crash", fx=FRAMEWORKS[-1], env=env, kind="unhandled") as patient:
                with self.home.start("diagnose", patient.pid, "--duration", "60s", "--json") as job:
                    job.wait_for("First impression")
                    patient.send("crash")
                    done = job.finish()
        self.assertEqual(done.code, 0, done)
        report = Report(done.json())
        self.assertIn("left a core file", done.err)
        self.assertEqual((report.finding, report.health), ("crash.unhandled-exception", "bad"), report.verdict)
        self.assertIn("ended", report.partial)
        self.assertIn("deadlocks", findings(report, "Could not be looked at"))

    def test_a_core_file(self):
        """One that a crash left, and copies of processes that live: the cause, or that nothing is unusual in it."""
        with tempfile.TemporaryDirectory() as folder:
            env = {"DOTNET_DbgEnableMiniDump": "1", "DOTNET_DbgMiniDumpType": "2", "DOTNET_DbgMiniDumpName": f"{folder}/crash"}
            with Patient("crash", fx=FRAMEWORKS[-1], env=env, kind="unhandled") as patient:
                patient.send("crash")
                patient.wait(120)
            for sickness in ("deadlock", "healthy"):
                with Patient(sickness, fx=FRAMEWORKS[-1]) as patient:
                    done = self.home.run("dump", "collect", patient.pid, "-o", f"{folder}/{sickness}")
                    self.assertEqual(done.code, 0, done)
            for name, finding in (("crash", "crash.unhandled-exception"), ("deadlock", "deadlocks.deadlock"), ("healthy", "nothing-found")):
                with self.subTest(name):
                    done = self.home.run("diagnose", "--core", f"{folder}/{name}", "--json")
                    self.assertEqual(done.code, 0, done)
                    report = Report(done.json())
                    self.assertEqual(report.finding, finding, report.verdict)
                    self.assertEqual(report.how["Way"]["value"], "core file")
                    self.assertEqual((report.figures, report.partial), ({}, None))
                    self.assertNotIn("Target paused", report.how)
                    out = findings(report, "Ruled out")
                    self.assertEqual("deadlocks" in out, name != "deadlock")
                    if "deadlocks" in out:
                        self.assertIn("no threads wait for each other in a circle", out["deadlocks"]["plain"])

    def test_two_at_once(self):
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            with self.home.start("diagnose", patient.pid, "--duration", SECONDS, "--json") as one:
                one.wait_for("vital signs")
                with self.home.start("diagnose", patient.pid, "--duration", SECONDS, "--json") as other:
                    reports = [Report(job.finish().json()) for job in (one, other)]
                    self.assertIn("diagnoses the same process", other.finish().err)
        self.assertIn("deadlocks.deadlock", [r.finding for r in reports])
        for report in reports:
            never_wrong(self, report, "deadlocks.deadlock")

    def test_it_remembers_the_last(self):
        with Patient("healthy", fx=FRAMEWORKS[-1]) as patient:
            first = diagnose(self.home, patient.pid, "--gentle")
            second = diagnose(self.home, patient.pid, "--gentle")
        self.assertEqual(notes(first), [])
        self.assertRegex(notes(second)[0], r"^Since the diagnosis of \d\d:\d\d: .*\.$")
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            other = diagnose(self.home, patient.pid)
        self.assertEqual(notes(other), [], "of another process")
        guids = [r.data["facts"]["session"] for r in (second, other)]
        done = self.home.run("sessions", "compare", *guids, "--json")
        worse = Report(done.json())
        self.assertEqual((worse.finding, worse.health), ("got-worse", "warn"), worse.verdict)
        self.assertIn("deadlocks.deadlock", worse.verdict)
        better = Report(self.home.run("sessions", "compare", *reversed(guids), "--json").json())
        self.assertEqual(better.finding, "got-better", better.verdict)

    def test_the_first_impression_is_told_over_rest(self):
        with Server(self.home) as server, Patient("exceptions", fx=FRAMEWORKS[-1], rate=2000) as patient:
            session = server.start("diagnose", patient.pid, duration=6, gentle="true")
            self.assertIsNone(session["news"])
            with server.events(f"/api/sessions/{session['guid']}/events") as events:
                told = [data["news"] for name, data in events if name == "session"]
        self.assertIn("First impression, which can still change: ", "".join(filter(None, told)))

    def test_a_sickness_keeps_when_it_was_first_seen(self):
        """Over REST, on the page and through three diagnoses, the last one in the terminal; each is a session of its own."""
        with Server(self.home) as server, Patient("deadlock", fx=FRAMEWORKS[-1]) as patient:
            sessions = [server.examine("diagnose", patient.pid, duration=2)["guid"] for _ in range(2)]
            reports = [Report(server.get(f"/api/sessions/{guid}/report.json").json()) for guid in sessions]
            page = server.get(f"/api/sessions/{sessions[1]}/report.html").text()
            reports.append(diagnose(self.home, patient.pid))
            between = server.get(f"/api/sessions/{sessions[0]}/compare/{sessions[1]}")
        first, *others = ([f for f in findings(r, "How it hangs together").values()][0] for r in reports)
        self.assertNotIn("firstSeenUnixNs", first)
        for report, item in zip(reports[1:], others):
            self.assertEqual(item["firstSeenUnixNs"], reports[0].data["facts"]["whenUnixNs"])
            self.assertRegex(notes(report)[0], r"still there: deadlocks\.deadlock")
        self.assertRegex(notes(reports[2])[0], r"deadlocks\.deadlock \(first seen \d\d:\d\d\)")
        self.assertIn("Since the diagnosis of", page)
        self.assertEqual(between.status, 200, between)

    def test_the_looks_are_shared(self):
        with Patient("stuck-tasks", fx=FRAMEWORKS[-1]) as patient:
            report = diagnose(self.home, patient.pid)
        self.assertIn("saw the same looks", report.how["Target paused"]["context"])
        for profiler in ("stuck-tasks", "deadlocks", "zombie-threads"):
            self.assertIn(profiler, report.how["Target paused"]["context"])
        self.assertEqual(report.finding, "stuck-tasks.stuck", report.verdict)

    def test_two_sicknesses_at_once(self):
        with Patient("leak,exceptions", fx=FRAMEWORKS[-1], **{"exceptions.rate": 2000}) as patient:
            report = diagnose(self.home, patient.pid)
        both = {report.finding} | set(findings(report, "Also seen")) | set(findings(report, "How it hangs together"))
        self.assertLessEqual({"exceptions.many-exceptions", "memory-leaks.leak"}, both, report.verdict)
        said = report.verdict + "".join(p["text"] for p in report.data["effect"])
        self.assertIn("throws", said)
        self.assertRegex(said, "And beside it: .*Shop\\.")
        self.assertIn("keeps growing", said)


if __name__ == "__main__":
    unittest.main()
