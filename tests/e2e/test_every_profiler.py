"""Every profiler of the registry, whatever is added later: no alarm about patients that do not have what it looks for, and a
report about any sickness on any runtime."""

import unittest

from drdotnet import Home, Report, side_by_side
from patient import DAY, FRAMEWORKS, WHOLE_TABLES, Patient, WebPatient, diagonal

SIDE_BY_SIDE = True
NEEDS_A_CORE = {"crash"}
# Two sicknesses whose own profilers are few.
OTHERS = {"exceptions": {"diagnose", "exceptions", "off-cpu"},
          "blocked": {"diagnose", "off-cpu", "zombie-threads", "merged-call-stacks", "stuck-tasks"}}
# True wherever other tests run beside this one.
OF_THE_MACHINE = {"starved", "cpu-starved"}
# Of six places an ordinary run tries each profiler at two, others each day.
EVERY = 1 if WHOLE_TABLES else 3
SICKNESSES = ("allocations", "blocked", "churn", "contention", "contexts", "cpu", "deadlock", "duplicate-strings", "exceptions",
              "faults", "gc-pauses", "healthy", "healthy-waits", "jit", "leak", "meters", "regex", "starvation", "stuck-tasks",
              "switches", "waits", "wasted-collections", "zombie-threads")
# What must be found, however busy the machine is.
FOUND = {("contention", "lock-contention"): "convoy", ("deadlock", "deadlocks"): "deadlock",
         ("exceptions", "exceptions"): "many-exceptions", ("gc-pauses", "gc-stats"): "induced-collections",
         ("jit", "jit"): "code-made-again", ("leak", "memory-leaks"): "leak", ("starvation", "thread-pool"): "starvation",
         ("stuck-tasks", "stuck-tasks"): "stuck", ("wasted-collections", "wasted-collections"): "oversized-collections",
         ("zombie-threads", "zombie-threads"): "lost-pool-threads"}


def arguments(profiler):
    """The shortest window, and two looks close together, for those that have one."""
    keys = {parameter["key"] for parameter in profiler["parameters"]}
    yield from ("-d", "2s") if any(key.startswith("duration") for key in keys) else ()
    yield from ("--param", "interval=1") if "interval" in keys else ()


def profilers(home):
    return [profiler for profiler in home.run("profilers", "--json").json() if profiler["id"] not in NEEDS_A_CORE]


def examined(home, profiler, patient):
    """Its report, or what went wrong."""
    done = home.run(profiler["id"], patient.pid, *arguments(profiler), "--json")
    return Report(done.json()) if done.code == 0 else repr(done)


def all_on(patient, place, skip=frozenset()):
    """Each profiler whose turn it is at this place (a number), one after the other; id -> report or what went wrong."""
    with Home() as home:
        return {profiler["id"]: examined(home, profiler, patient) for i, profiler in enumerate(profilers(home))
                if profiler["id"] not in skip and (i + place + DAY) % EVERY == 0}


def on_sick(sickness, fx, place, skip=frozenset()):
    with Patient(sickness, fx=fx) as patient:
        return all_on(patient, place, skip)


def on_web(fx, place):
    with WebPatient(fx=fx) as patient, patient.start_load("healthy", rate=50, seconds=600):
        return all_on(patient, place)


class NoFalseAlarm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tasks = {f"healthy {fx}": lambda fx=fx, place=place: on_sick("healthy", fx, place) for place, fx in enumerate(FRAMEWORKS)}
        tasks |= {sickness: lambda s=sickness, own=own, place=place: on_sick(s, FRAMEWORKS[-1], place, own)
                  for place, (sickness, own) in enumerate(OTHERS.items())}
        tasks["web under load"] = lambda: on_web(FRAMEWORKS[-1], len(OTHERS))
        cls.results = side_by_side(tasks)

    def test_nothing_found(self):
        for where, future in self.results.items():
            self.assertGreater(len(future.result()), 10 // EVERY)
            for profiler, report in future.result().items():
                with self.subTest(f"{profiler} on {where}"):
                    self.assertIsInstance(report, Report, report)
                    if report.finding in OF_THE_MACHINE:
                        continue
                    self.assertIn(report.health, ("ok", "info"), report.verdict)


class Table(unittest.TestCase):
    """Every sickness, every profiler, every runtime: a report, a patient that lives on, and what must be found."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cells = diagonal(SICKNESSES, profilers(cls.home), FRAMEWORKS)
        cls.results = side_by_side({(sickness, profiler["id"], fx): lambda s=sickness, p=profiler, fx=fx: cls.cell(s, p, fx)
                                    for sickness, profiler, fx in cells}, workers=4)

    @classmethod
    def cell(cls, sickness, profiler, fx):
        with Patient(sickness, fx=fx) as patient:
            report = examined(cls.home, profiler, patient)
            return report, patient.alive() and patient.truth()

    def test_every_cell(self):
        for (sickness, profiler, fx), future in self.results.items():
            with self.subTest(sickness=sickness, profiler=profiler, fx=fx):
                report, truth = future.result()
                self.assertIsInstance(report, Report, report)
                self.assertTrue(truth, "the patient lives on")
                self.assertTrue(report.verdict and report.finding)
                self.assertIn(report.finding, (FOUND.get((sickness, profiler), report.finding), *OF_THE_MACHINE), report.verdict)


if __name__ == "__main__":
    unittest.main()
