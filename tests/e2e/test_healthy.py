"""Apps with nothing wrong, in the shapes that services have: no profiler of the registry may accuse them of anything.

The table is kind × state × profiler on each framework, in the first minute of the process and later. It takes hours, so
an ordinary run takes a cell of it that changes from day to day and prints it; `make matrix` takes the whole table, five times.
"""

import contextlib
import os
import unittest

from drdotnet import Home, Report, wait_until
from patient import DAY, FRAMEWORKS, WHOLE_TABLES, HealthyPatient

SIDE_BY_SIDE = "quietly"

KINDS = ("api", "mvc", "hub", "worker", "batch")
STATES = ("rest", "load")
AGES = ("first minute", "later")
REPETITIONS = 5
LATER_SECONDS = 60

NEEDS_A_CORE = {"crash"}
# What a report says that only describes: it is neither good nor bad.
DESCRIBES = {"seen", "not-slow", "no-requests"}
# It says so itself, and then what there is.
ASSURES = ("No problem here", "Little is used: ")
BEGINS = "as every process does at first"
# A program that computes all the time has a path that is the hottest, and a rate of allocation: told, without alarm.
WORKS = {("batch", "load"): {"hot-path", "spread-out", "outside-your-code", "high-allocation-rate"}}
# True wherever other tests run beside this one.
OF_THE_MACHINE = {"starved", "cpu-starved"}

CELLS = [(kind, state, age) for kind in KINDS for state in STATES for age in AGES]


def uptime_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat, open("/proc/uptime", encoding="utf-8") as uptime:
        started = int(stat.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return float(uptime.read().split()[0]) - started


def arguments(profiler):
    keys = {parameter["key"] for parameter in profiler["parameters"]}
    yield from ("-d", "4s") if any(key.startswith("duration") for key in keys) else ()
    yield from ("--param", "max_pause_ms=10000") if "max_pause_ms" in keys else ()


def accusation(report, kind, state):
    """What a reader would take for one, or None."""
    mild = report.finding in DESCRIBES | WORKS.get((kind, state), set()) or report.verdict.startswith(ASSURES) or BEGINS in report.verdict
    if report.health == "ok" or (report.health == "info" and mild) or report.finding in OF_THE_MACHINE:
        return None
    return f"{report.health} {report.finding}: {report.verdict}"


def examine_cell(kind, state, age, fx, only=None):
    """Every profiler on one app in one state; yields its id and the accusation, None where there is none. The first minute
    has room for some of them only: each gets its own process then."""
    with Home() as home:
        profilers = [p for p in home.run("profilers", "--json").json() if p["id"] not in NEEDS_A_CORE and (not only or p["id"] in only)]
        with contextlib.ExitStack() as stack:
            patient = None
            for profiler in profilers:
                if not patient or (age == "first minute" and uptime_seconds(patient.pid) > LATER_SECONDS / 2):
                    stack.close()
                    patient = stack.enter_context(HealthyPatient(kind, fx=fx, max_seconds=1200))
                    if state == "load":
                        stack.enter_context(patient.under_load())
                    if age == "later":
                        wait_until(lambda p=patient: uptime_seconds(p.pid) > LATER_SECONDS, "a minute of life")
                done = home.run(profiler["id"], patient.pid, *arguments(profiler), "--json")
                told = accusation(Report(done.json()), kind, state) if done.code == 0 else repr(done)
                yield profiler["id"], told


def sample():
    """The cells of this run, each with its framework."""
    if WHOLE_TABLES:
        return [(cell, fx) for _ in range(REPETITIONS) for fx in FRAMEWORKS for cell in CELLS]
    # A step that shares no factor with the number of cells: all of them come in turn, and neighbours differ.
    cell, fx = CELLS[DAY * 7 % len(CELLS)], FRAMEWORKS[DAY % len(FRAMEWORKS)]
    print(f"healthy apps: {', '.join(cell)}, {fx}", flush=True)
    return [(cell, fx)]


class Silence(unittest.TestCase):
    def test_nobody_is_accused(self):
        for (kind, state, age), fx in sample():
            for profiler, told in examine_cell(kind, state, age, fx):
                with self.subTest(f"{profiler} on {kind}, {state}, {age}, {fx}"):
                    self.assertIsNone(told)

    def test_they_work(self):
        """An app that does nothing under load would prove nothing."""
        for kind in KINDS:
            with self.subTest(kind), HealthyPatient(kind, fx=FRAMEWORKS[-1]) as patient, patient.under_load():
                patient.mark()
                wait_until(lambda p=patient, k=kind: p.truth()[k]["done"] > (20 if k != "batch" else 1), "it works")


if __name__ == "__main__":
    unittest.main()
