"""Limits that are real: control groups of our own around patients, and what the kernel itself says of them."""

import os
import re
import subprocess
import unittest

from drdotnet import LONG_SECONDS, Home, end_window, examine, side_by_side, wait_until
from groups import CGROUPS, CpuGroup, MemoryGroup, remove_group
from patient import FRAMEWORKS, Patient, one_of

SIDE_BY_SIDE = True
FX = FRAMEWORKS[-1]
LIMITS, MEMORY, CPU = ("Nearest to their limits", "Memory of its control groups, its own first",
                       "CPU limits of its control groups, its own first")
# What the machine that the tests run on may be short of by itself.
OF_THE_MACHINE = ("memory of the machine", "threads of the machine", "open files of the machine")


def as_root(test):
    return unittest.skipIf(os.geteuid() != 0, "needs root to make control groups")(test)


def limit(report, what):
    return next(row for row in report.rows(LIMITS) if row["What"] == what)


def number(cell):
    return cell["value"] if isinstance(cell, dict) else cell


def of_group(report, folder):
    """The rows of a group, by the last part of its path: above it stands what the machine has around the tests."""
    return [row for row in report.rows(LIMITS) if (row["Where"] or "").endswith(folder.name)]


def stopped(group):
    """In how many periods its limit has stopped it so far."""
    return int(re.search(r"^nr_throttled (\d+)", (group.folder / "cpu.stat").read_text(), re.M)[1])


class Memory(unittest.TestCase):
    @as_root
    def test_a_limit_that_is_nearly_reached_is_named_with_its_group(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx=fx), Home() as home, MemoryGroup() as group, Patient("leak", fx=fx, rate=2000) as patient:
                group.add(patient.pid)
                wait_until(lambda: group.used() > 30 << 20, "it has taken memory since")
                patient.pause()
                size = (int(group.used() * 1.05) >> 12) << 12
                group.limit(size)
                report = examine(home, "limits", patient.pid, 2)
                self.assertIn(report.finding, ("near-limit", "killed-before"), report.verdict)
                row = of_group(report, group.folder)[0]
                self.assertEqual(number(row["Of"]), size)
                self.assertGreater(row["Share"], 0.8)
                self.assertIn(group.folder.name, report.verdict)
                self.assertEqual(report.rows(MEMORY)[0]["Limit"], size)
                self.assertEqual(report.how["Way"]["value"], "proc")
                again = home.run("run", "limits", "--session", home.sessions()[0]["guid"], "--json").json()
                self.assertEqual(again["verdict"]["plain"], report.verdict)
                self.assertEqual(again["blocks"], report.data["blocks"])

    @as_root
    def test_the_limit_of_a_level_above_holds_too(self):
        with Home() as home, MemoryGroup() as outer, MemoryGroup(outer) as inner, Patient("churn", fx=FX) as patient:
            inner.add(patient.pid)
            outer.limit(3 << 30)
            inner.limit(2 << 30)
            report = examine(home, "limits", patient.pid, 1)
            self.assertEqual([number(row["Of"]) for row in of_group(report, inner.folder)], [2 << 30, 3 << 30])
            self.assertEqual([row["Limit"] for row in report.rows(MEMORY)][:2], [2 << 30, 3 << 30])

    @as_root
    def test_a_kill_in_its_group_is_told(self):
        """Another process of the group dies of it, and the patient lives."""
        eater = "x = []\nwhile True: x.append(bytearray(1 << 20))"
        with Home() as home, MemoryGroup() as group, Patient("healthy", fx=FX) as patient:
            group.add(patient.pid)
            group.limit(group.used() + (48 << 20))
            with home.start("limits", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
                job.wait_for("reading limits")
                child = subprocess.Popen(["/bin/sh", "-c", 'read go; echo 1000 >/proc/self/oom_score_adj; exec python3 -c "$0"',
                                          eater], stdin=subprocess.PIPE)
                group.add(child.pid)
                child.communicate(b"go\n")
                self.assertNotEqual(child.returncode, 0)
                self.assertEqual(group.killed(), 1)
                report = end_window(job)
            self.assertTrue(patient.alive())
            self.assertEqual((report.finding, report.health), ("killed", "bad"), report.verdict)
            self.assertIn("1 process was killed for lack of memory", report.verdict)
            later = examine(home, "limits", patient.pid, 1)
            self.assertEqual(later.finding, "killed-before", later.verdict)
            self.assertEqual(later.rows(MEMORY)[0]["Killed"], 1)


class Cpu(unittest.TestCase):
    @as_root
    def test_throttling_is_seen_over_the_window(self):
        with Home() as home, CpuGroup(0.05) as group:
            if not group.folder:
                self.skipTest(f"no CPU group can be made here: {group.error}")
            with Patient("cpu", fx=FX) as patient:
                group.take(patient.pid)
                with home.start("limits", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
                    job.wait_for("reading limits")
                    before = stopped(group)
                    wait_until(lambda: stopped(group) > before + 30, "the limit has stopped it thirty times")
                    report = end_window(job)
                self.assertEqual(report.finding, "throttled", report.verdict)
                self.assertRegex(report.verdict, r"^Its CPU limit of 0\.05 cores stopped it in \d+ % of all periods")
                row = report.rows(CPU)[0]
                self.assertEqual((row["Cores"], row["Group"].endswith(group.folder.name)), (0.05, True))
                self.assertGreaterEqual(row["Stopped in"] * row["Periods"], 29)
                self.assertGreaterEqual(row["Periods"], row["Stopped in"] * row["Periods"])
                self.assertLess(report.figures["CPU used"], 0.1)


class Others(unittest.TestCase):
    def test_descriptors_against_the_limit_that_it_was_started_with(self):
        with Home() as home, Patient("healthy", fx=FX, prefix=("prlimit", "--nofile=1000:1000")) as patient:
            report = examine(home, "limits", patient.pid, 1)
            row = limit(report, "descriptors it may open")
            self.assertEqual(row["Of"], 1000)
            self.assertAlmostEqual(row["Used"], len(os.listdir(f"/proc/{patient.pid}/fd")), delta=8)

    @as_root
    def test_threads_of_a_group(self):
        pids = CGROUPS / "pids"
        folder = pids / f"drdotnet-limits-{os.getpid()}"
        if not pids.exists():
            self.skipTest("no pids cgroup of version 1 here")
        folder.mkdir()
        try:
            with Home() as home, Patient("healthy", fx=FX) as patient:
                (folder / "cgroup.procs").write_text(str(patient.pid))
                (folder / "pids.max").write_text("5000")
                report = examine(home, "limits", patient.pid, 1)
                row = of_group(report, folder)[0]
                self.assertEqual(row["Of"], 5000)
                self.assertAlmostEqual(row["Used"], int((folder / "pids.current").read_text()), delta=8)
                (folder / "pids.max").write_text((folder / "pids.current").read_text())
                report = examine(home, "limits", patient.pid, 1)
                self.assertIn(report.finding, ("near-limit", "refused"), report.verdict)
        finally:
            remove_group(folder)

    def test_the_runtime_may_be_told_of_more_processors_than_there_are(self):
        with Home() as home, Patient("healthy", fx=FX, env={"DOTNET_PROCESSOR_COUNT": "999"}) as patient:
            report = examine(home, "limits", patient.pid, 1)
            text = home.run("run", "limits", "--session", home.sessions()[0]["guid"]).out
            self.assertIn("Its runtime counts on 999 processors", " ".join(text.split()))
            self.assertIn(report.health, ("info", "warn"), report.verdict)
            self.assertEqual({row["Variable"]: row["Value"] for row in report.rows("Settings of its environment")}
                             ["DOTNET_PROCESSOR_COUNT"], "999")

    def test_one_that_cannot_answer_is_examined_all_the_same(self):
        with Home() as home, Patient("healthy", fx=FX) as patient:
            os.kill(patient.pid, 19)
            try:
                ways = home.run("check", patient.pid, "--json").json()["ways"]
                self.assertTrue(ways["proc"]["open"])
                self.assertFalse(ways["events"]["open"])
                done = home.run("limits", patient.pid, "-d", "1s", "--json")
                self.assertEqual(done.code, 0, done)
            finally:
                os.kill(patient.pid, 18)


class Healthy(unittest.TestCase):
    def test_nothing_is_found(self):
        def look(fx):
            with Home() as home, Patient("healthy", fx=fx) as patient:
                return examine(home, "limits", patient.pid, 3)

        for fx, future in side_by_side({fx: lambda fx=fx: look(fx) for fx in FRAMEWORKS}).items():
            report = future.result()
            with self.subTest(fx=fx):
                if report.rows(LIMITS)[0]["What"] in OF_THE_MACHINE and report.finding != "nothing-found":
                    self.assertEqual(report.health, "info", report.verdict)
                    continue
                self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)


if __name__ == "__main__":
    unittest.main()
