"""Names that an author knows, in every profiler: what the modern patient's source says about a method is what a report calls it."""

import json
import re
import unittest

from drdotnet import Home, examine, for_each_result, look, side_by_side, wait_until
from patient import FRAMEWORKS, ROOT, ModernPatient

SIDE_BY_SIDE = True
SOURCE = (ROOT / "tests" / "patients" / "modern" / "Program.cs").read_text().splitlines()
PAUSE = ("-p", "max_pause_ms=10000")


def lines_of(route):
    """The first lines of the lambda that handles a route: where its braces and its first statement are."""
    at = next(i for i, line in enumerate(SOURCE, 1) if f'"{route}"' in line and ".Map" in line)
    return range(at, at + 3)


class Names(unittest.TestCase):
    def assertLambda(self, text, route):
        """Somewhere in the text the lambda of the route is named by its line."""
        found = [int(n) for n in re.findall(r"lambda at Program\.cs:(\d+) in Program\.Main", text)]
        self.assertTrue(any(n in lines_of(route) for n in found), text)

    def assertRoute(self, text, verb, route, source=None):
        found = [int(n) for n in re.findall(re.escape(f"{verb} {route}, Program.cs:") + r"(\d+)", text)]
        self.assertTrue(any(n in lines_of(source or route) for n in found), text)


class RequestsThatHang(Names):
    """Nothing of the author's but the handler is on the stack, or in the chain of async methods."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with ModernPatient(fx) as patient, patient.requests("GET", "/blocked/7", 3), \
                patient.requests("DELETE", "/prices/7", 2), patient.requests("GET", "/waiting/7", 4), \
                patient.requests("PUT", "/prices/7", 5):
            for route, n in {"GET /blocked/{id}": 3, "DELETE prices/{id:int}": 2, "GET /waiting/{id}": 4,
                             "PUT prices/{id:int}": 5}.items():
                wait_until(lambda: patient.began(route) == n, f"{n} of {route}")
            return (look(cls.home, "merged-call-stacks", patient.pid, *PAUSE),
                    look(cls.home, "stuck-tasks", patient.pid, *PAUSE, "-p", "interval=1"),
                    look(cls.home, "merged-call-stacks", patient.pid, "--way", "events"))

    @for_each_result
    def test_threads_are_named_by_the_request(self, _, stacks, tasks, events):
        rows = {row["Where"]: row["Threads"] for row in stacks.rows("Threads that do the same")}
        blocked = [where for where in rows if where.startswith("GET /blocked/{id}")]
        self.assertEqual([rows[where] for where in blocked], [3], rows)
        self.assertRoute(blocked[0], "GET", "/blocked/{id}")
        self.assertEqual(rows.get("Store.PricesController.Remove (DELETE /prices/{id:int})"), 2, rows)
        self.assertRoute(stacks.verdict, "GET", "/blocked/{id}")

    @for_each_result
    def test_async_methods_are_named_by_the_request(self, _, stacks, tasks, events):
        text = json.dumps(tasks.data)
        self.assertRoute(text, "GET", "/waiting/{id}")
        self.assertIn("Store.PricesController.Change (PUT /prices/{id:int})", text)

    @for_each_result
    def test_without_an_image_by_the_line(self, _, stacks, tasks, events):
        where = " ".join(row["Where"] for row in events.rows("Threads that do the same"))
        self.assertLambda(where, "/blocked/{id}")
        # The action may be inlined in what was compiled to call it.
        self.assertRegex(where, r"Store\.PricesController\.Remove|lambda_method\d+ \(compiled expression\)")


class RequestsThatWork(Names):
    """Events and samples have no image: a lambda is named by its line."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        reports = {}
        with ModernPatient(fx) as patient:
            for profiler, path in {"cpu-hotpaths": "/orders/7", "exceptions": "/failing/50", "allocations": "/growing/500",
                                   "lock-contention": "/carts/7/lines", "local": "/import/20"}.items():
                verb = "POST" if profiler == "lock-contention" else "GET"
                with patient.requests(verb, path, 3) as load:
                    wait_until(lambda: load.answered > 3, path)
                    reports[profiler] = examine(cls.home, "cpu-hotpaths" if profiler == "local" else profiler, patient.pid, 2)
        return (reports,)

    @for_each_result
    def test_lambdas_are_named_by_their_line(self, _, reports):
        self.assertLambda(reports["cpu-hotpaths"].verdict, "/orders/{id:int}")
        self.assertLambda(reports["exceptions"].verdict, "/failing/{n:int}")
        self.assertLambda(reports["allocations"].verdict, "/growing/{kb:int}")
        self.assertLambda(reports["lock-contention"].verdict, "/{cart}/lines")

    @for_each_result
    def test_a_path_does_not_end_in_code_without_a_name(self, _, reports):
        for name, report in reports.items():
            with self.subTest(name):
                self.assertNotIn("[lib", report.verdict)

    @for_each_result
    def test_local_functions_go_by_their_names(self, _, reports):
        self.assertIn("Program.Main.Total", reports["local"].verdict)


class Matching(Names):
    """Code that matches a regular expression is named by its pattern, whatever made it."""

    PATTERNS = {"compiled": "^(a+)+$", "generated": "^(b|b?)+$", "interpreted": "^(c+c+)+d$"}

    def test_patterns_are_told(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, ModernPatient(fx) as patient:
                with patient.requests("GET", "/regex/compiled"), patient.requests("GET", "/regex/generated"), \
                        patient.requests("GET", "/regex/interpreted"):
                    for kind in self.PATTERNS:
                        wait_until(lambda: patient.began(f"regex {kind}"), kind)
                    missing = set(self.PATTERNS.values())

                    def all_seen():  # a thread may stand between two matches
                        text = json.dumps(look(home, "merged-call-stacks", patient.pid, *PAUSE).data)
                        missing.difference_update({x for x in missing if f"IsMatch (matches {x})" in text})
                        return not missing
                    wait_until(all_seen, "each pattern")
                patient.ask("release", "DONE")


class RuntimeThreads(Names):
    """Threads that the runtime made are named by what they are for."""

    def test_the_finalizer_thread(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, ModernPatient(fx) as patient:
                patient.ask("finalize", "DONE")
                seen = []

                def stands_there():  # the finalizer runs some time after the collection
                    report = look(home, "merged-call-stacks", patient.pid, *PAUSE)
                    seen[:] = [row for row in report.rows("Threads that do the same") if row["Where"] == "Store.Stuck.Finalize"]
                    return seen
                wait_until(stands_there, "the finalizer")
                self.assertTrue(any("the finalizer thread (tid" in line for line in seen[0]["lines"]), seen)
                patient.ask("release", "DONE")


if __name__ == "__main__":
    unittest.main()
