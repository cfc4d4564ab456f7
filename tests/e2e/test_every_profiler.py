"""Every profiler of the registry on patients that do not have what it looks for: no alarm, whatever is added later."""

import unittest

from drdotnet import Home, Report, side_by_side
from patient import FRAMEWORKS, Patient, WebPatient

SIDE_BY_SIDE = True
NEEDS_A_CORE = {"crash"}
# Two sicknesses whose own profilers are few.
OTHERS = {"exceptions": {"diagnose", "exceptions", "off-cpu"},
          "blocked": {"diagnose", "off-cpu", "zombie-threads", "merged-call-stacks", "stuck-tasks"}}
# True wherever other tests run beside this one.
OF_THE_MACHINE = {"starved", "cpu-starved"}


def arguments(profiler):
    """The shortest window, and two looks close together, for those that have one."""
    keys = {parameter["key"] for parameter in profiler["parameters"]}
    yield from ("-d", "2s") if any(key.startswith("duration") for key in keys) else ()
    yield from ("--param", "interval=1") if "interval" in keys else ()


def all_on(patient, skip=frozenset()):
    """Each profiler, one after the other; id -> report or what went wrong."""
    results = {}
    with Home() as home:
        for profiler in home.run("profilers", "--json").json():
            if profiler["id"] not in NEEDS_A_CORE | skip:
                done = home.run(profiler["id"], patient.pid, *arguments(profiler), "--json")
                results[profiler["id"]] = Report(done.json()) if done.code == 0 else repr(done)
    return results


def on_sick(sickness, fx, skip=frozenset(), **options):
    with Patient(sickness, fx=fx, **options) as patient:
        return all_on(patient, skip)


def on_web(fx):
    with WebPatient(fx=fx) as patient, patient.start_load("healthy", rate=50, seconds=600):
        return all_on(patient)


class NoFalseAlarm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        tasks = {f"healthy {fx}": lambda fx=fx: on_sick("healthy", fx) for fx in FRAMEWORKS}
        tasks |= {sickness: lambda s=sickness, own=own: on_sick(s, FRAMEWORKS[-1], own) for sickness, own in OTHERS.items()}
        tasks["web under load"] = lambda: on_web(FRAMEWORKS[-1])
        cls.results = side_by_side(tasks)

    def test_nothing_found(self):
        for where, future in self.results.items():
            self.assertGreater(len(future.result()), 10)
            for profiler, report in future.result().items():
                with self.subTest(f"{profiler} on {where}"):
                    self.assertIsInstance(report, Report, report)
                    if report.finding in OF_THE_MACHINE:
                        continue
                    self.assertIn(report.health, ("ok", "info"), report.verdict)


if __name__ == "__main__":
    unittest.main()
