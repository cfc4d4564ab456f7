"""The exceptions profiler against the patients' truth, on every runtime and both kinds of GC."""

import os
import re
import signal
import unittest
from collections import Counter

from drdotnet import (LONG_SECONDS, Home, Report, end_window, examine, examine_exactly, for_each_result,
                      side_by_side, wait_until)
from patient import FRAMEWORKS, Patient, WebPatient, diagonal, one_of

SIDE_BY_SIDE = True

FX = FRAMEWORKS[-1]
GC = {"workstation": False, "server": True}
TABLE = "By type and place"
HOSTILE = "“a|b `c` <script>"
RATE_SECONDS = 3


def old(fx):
    """Runtimes that tell of rethrows, and cannot tell of a throw without walking its stack."""
    return fx == "net8.0"


def sites(report):
    """Method -> count, without what stands in brackets or generic arguments."""
    counts = Counter()
    for row in report.rows(TABLE):
        counts[re.sub(r"<[^>]*>| \(.*", "", row["Thrown in"])] += row["Count"]
    return counts


class Exact(unittest.TestCase):
    """Every throw of every kind, at a rate at which all is seen."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({(fx, gc): lambda fx=fx, gc=gc: cls.examined(fx, gc)
                                    for fx, gc in diagonal(FRAMEWORKS, GC)})

    @classmethod
    def examined(cls, fx, gc):
        with Patient("exceptions", fx=fx, server_gc=GC[gc], rate=100) as patient:
            report, truth = examine_exactly(cls.home, "exceptions", patient,
                                            lambda truth: truth["exceptions"]["rounds"] >= 12)
            return report, truth["exceptions"]

    @for_each_result
    def test_the_total_and_every_type(self, _, report, truth):
        self.assertEqual(report.figures["Throws"], truth["events"])
        self.assertEqual(report.figures["Types"], len(truth["types"]))
        by_type = Counter()
        for row in report.rows(TABLE):
            by_type[row["Exception"]] += row["Count"]
        self.assertEqual(by_type, {name: t["events"] for name, t in truth["types"].items()})

    @for_each_result
    def test_every_site(self, key, report, truth):
        expected = Counter(truth["sites"])
        if not old(key[0]):
            del expected["Shop.Orders.Stock.Reserve"]  # a rethrow, of which .NET 9 and later say nothing
        self.assertEqual(sites(report), expected)

    @for_each_result
    def test_what_was_thrown_again_is_told_from_where_it_began(self, _, report, truth):
        again = {row["Thrown in"].removesuffix(" (thrown again)"): row["Count"]
                 for row in report.rows(TABLE) if row["Thrown in"].endswith(" (thrown again)")}
        self.assertEqual(again, {name: truth["sites"][name]
                                 for name in ("Shop.Shipping.Courier.Try", "Shop.Shipping.Courier.ShipAsync")})

    @for_each_result
    def test_rethrows_are_counted_or_said_to_be_unknown(self, key, report, truth):
        rethrows = sum(t["rethrows"] for t in truth["types"].values())
        self.assertGreater(rethrows, 0)
        self.assertEqual(report.figures.get("Rethrown"), rethrows if old(key[0]) else None)
        self.assertEqual("Not counted" in report.how, not old(key[0]))

    @for_each_result
    def test_inner_exceptions(self, _, report, truth):
        payment = truth["types"]["Shop.Billing.PaymentFailedException"]
        self.assertEqual(report.figures["With an inner one"], payment["with_inner"])
        row, = (r for r in report.rows(TABLE) if r["Exception"] == "Shop.Billing.PaymentFailedException")
        self.assertTrue(any("inner" in line and "System.TimeoutException" in line for line in row["lines"]), row)

    @for_each_result
    def test_message_and_stack(self, _, report, _truth):
        row, = (r for r in report.rows(TABLE) if r["Thrown in"] == "Shop.Orders.Validator.Check")
        self.assertIn("“order 17 rejected”", row["lines"])
        throw = row["lines"].index("Shop.Orders.Validator.Check (×5)")
        self.assertEqual(row["lines"][throw + 1], "Shop.Orders.Validator.Try")

    @for_each_result
    def test_rates_and_shares_follow_from_the_counts(self, _, report, truth):
        seconds = report.data["facts"]["windowNs"] / 1e9
        self.assertAlmostEqual(report.figures["Rate"], truth["events"] / seconds, places=6)
        for row in report.rows(TABLE):
            self.assertAlmostEqual(row["Share"], row["Count"] / truth["events"], places=6)
        points = report.block("Rate over time")["lines"][0]["points"]
        ends = [at for at, _ in points[1:]] + [report.data["facts"]["windowNs"]]
        throws = sum(rate * min(end - at, points[1][0]) / 1e9 for (at, rate), end in zip(points, ends))
        self.assertAlmostEqual(throws, truth["events"], delta=1)
        self.assertGreater(len(points), 10)

    @for_each_result
    def test_nothing_was_lost_and_every_stack_was_seen(self, _, report, truth):
        self.assertEqual(report.how["Lost"]["value"], 0)
        self.assertNotIn("Stacks seen", report.how, "said only when it is not all of them")
        self.assertIn("cancelled after", report.partial)
        self.assertEqual(report.finding, "many-exceptions" if report.figures["Rate"] >= 10 else "few-exceptions")


class HighRate(unittest.TestCase):
    """As fast as the patient can throw: counted to the unit where the runtime allows it, else estimated and so called."""
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.results = side_by_side({fx: lambda fx=fx: cls.examined(fx) for fx in FRAMEWORKS}, workers=1)

    @classmethod
    def examined(cls, fx):
        with Patient("exceptions", fx=fx, kind="simple", rate=0) as patient:
            if not old(fx):
                return examine_exactly(cls.home, "exceptions", patient,
                                       lambda truth: truth["since_mark_ns"] > RATE_SECONDS * 1e9)
            patient.mark()
            report = examine(cls.home, "exceptions", patient.pid, RATE_SECONDS)
            return report, patient.truth()

    @for_each_result
    def test_counts(self, fx, report, truth):
        events = truth["exceptions"]["events"]
        if old(fx):
            rate = events * 1e9 / truth["since_mark_ns"]
            self.assertAlmostEqual(report.figures["Rate"] / rate, 1, delta=0.25)
            self.assertIn("About ", report.verdict)
            self.assertNotIn("Rate over time", [b["title"] for b in report.data["blocks"]])
        else:
            self.assertEqual(report.figures["Throws"] + report.how["Lost"]["value"], events)
            self.assertLess(report.how["Lost"]["value"], events / 100)
            self.assertNotIn("bout ", report.verdict)

    @for_each_result
    def test_stacks_are_heard_in_bursts_and_that_is_said(self, _, report, truth):
        seen = report.how["Stacks seen"]
        self.assertIn("burst", seen["context"])
        self.assertGreater(seen["value"], 0)
        self.assertLess(seen["value"], truth["exceptions"]["events"] / 2)

    @for_each_result
    def test_the_place_is_still_right(self, _, report, _truth):
        self.assertEqual(list(sites(report)), ["Shop.Orders.Validator.Check"])
        self.assertEqual((report.finding, report.health), ("many-exceptions", "bad"))
        self.assertIn("All are Shop.Orders.OrderRejectedException, thrown in Shop.Orders.Validator.Check.",
                      report.verdict)


class Elsewhere(unittest.TestCase):
    """No finding where there is none to make, and the web API as well."""

    def test_nothing_is_found_where_nothing_is_thrown(self):
        def verdict(sickness, fx, keys):
            with Home() as home, Patient(sickness, fx=fx, **keys) as patient:
                return examine(home, "exceptions", patient.pid, 2)

        cases = [("healthy", {}), ("deadlock", {}), ("contention", {}), ("gc-pauses", {}), ("blocked", {"threads": 10})]
        results = side_by_side({(s, fx): lambda s=s, fx=fx, k=k: verdict(s, fx, k) for (s, k), fx in diagonal(cases, FRAMEWORKS)})
        for case, future in results.items():
            with self.subTest(case):
                report = future.result()
                self.assertEqual((report.finding, report.health), ("nothing-found", "ok"), report.verdict)
                self.assertTrue(report.verdict.startswith("No problem here: no exception was thrown"), report.verdict)

    def test_web_under_load(self):
        def examined(fx):
            with Home() as home, WebPatient(fx=fx) as patient:
                patient.load("exception/1", rate=10, seconds=1)
                patient.mark()
                with home.start("exceptions", patient.pid, "-d", f"{LONG_SECONDS}s", "--json") as job:
                    job.wait_for("listening")
                    load = patient.load("exception/3", rate=20, seconds=1)
                    report, truth = end_window(job), patient.truth()
                self.assertEqual(load["failed"], 0, load)
                with patient.start_load("healthy", rate=50, seconds=10):
                    quiet = examine(home, "exceptions", patient.pid, 1)
                return report, truth, quiet

        for fx, future in side_by_side({fx: lambda fx=fx: examined(fx) for fx in one_of(FRAMEWORKS)}).items():
            with self.subTest(fx):
                report, truth, quiet = future.result()
                self.assertGreater(truth["web"]["exceptions"], 0)
                self.assertEqual(sites(report), {"Shop.Web.Routes.Fail": truth["web"]["exceptions"]})
                row, = report.rows(TABLE)
                self.assertEqual(row["Exception"], "System.InvalidOperationException")
                self.assertIn("Shop.Web.Routes.Throw", row["lines"])
                self.assertEqual(quiet.finding, "nothing-found", quiet.verdict)


class Hostile(unittest.TestCase):
    """A message that would break a terminal, a table and a page, if it were printed as it is."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        with Patient("exceptions", fx=FX, kind="simple", message="hostile") as patient:
            cls.report = examine(cls.home, "exceptions", patient.pid, 1)

    def shown(self, form):
        done = self.home.run("sessions", "report", self.report.data["facts"]["session"], "--format", form)
        self.assertEqual(done.code, 0, done)
        return done.out

    def test_no_format_passes_control_characters_or_direction_marks_on(self):
        for form in ("text", "md", "html", "json"):
            with self.subTest(form):
                text = self.shown(form)
                self.assertNotIn("\x1b", text)
                self.assertNotIn("\u202e", text)
                self.assertIn("日本", text)

    def test_markdown_and_html_do_not_take_it_for_markup(self):
        outside = re.sub(r"```text\n.*?\n```\n", "", self.shown("md"), flags=re.S)
        self.assertNotIn("<script>", outside)
        self.assertIn("By type and place", outside)
        html = self.shown("html")
        self.assertIn("&lt;script&gt;", html)
        self.assertNotIn("<script>\x1b", html)
        self.assertEqual(html.count("<script"), self.healthy_html().count("<script"))

    def healthy_html(self):
        with Patient("exceptions", fx=FX, kind="simple") as patient:
            return self.home.run("exceptions", patient.pid, "-d", "1s", "--format", "html").out

    def test_the_message_is_there(self):
        row, = self.report.rows(TABLE)
        self.assertTrue(any(line.startswith(HOSTILE) for line in row["lines"]), row)
        self.assertIn("<script>", self.shown("text"))


class CutShort(unittest.TestCase):
    def test_a_killed_process_leaves_a_partial_report_with_names(self):
        def examined(fx):
            with Home() as home, Patient("exceptions", fx=fx, kind="simple", rate=100) as patient:
                with home.start("exceptions", patient.pid, "-d", "60s", "--json") as job:
                    job.wait_for("listening")
                    patient.mark()
                    wait_until(lambda: patient.truth()["exceptions"]["events"] > 100, "100 exceptions")
                    os.kill(patient.pid, signal.SIGKILL)
                    done = job.finish()
                return done, [s["state"] for s in home.sessions()]

        for fx, future in side_by_side({fx: lambda fx=fx: examined(fx) for fx in FRAMEWORKS}).items():
            with self.subTest(fx):
                done, states = future.result()
                self.assertEqual((done.code, states), (0, ["done"]), done)
                report = Report(done.json())
                self.assertIn("the process ended after", report.partial)
                named = set(sites(report)) - {"code without a name"}  # what was compiled in its last moments
                self.assertEqual(named, {"Shop.Orders.Validator.Check"})
                self.assertGreater(report.figures["Throws"], 50)


class Harmless(unittest.TestCase):
    SIDE_BY_SIDE = False  # the cost of a throw

    def test_throwing_costs_the_target_little_more_while_it_is_examined(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("exceptions", fx=fx, kind="simple", rate=0) as patient:
                def cost(work):
                    patient.mark()
                    work()
                    truth = patient.truth()
                    return truth["runtime"]["cpu_ns"] / truth["exceptions"]["events"]

                def alone():
                    return cost(lambda: wait_until(lambda: patient.truth()["since_mark_ns"] > 1e9, "a second"))

                # Before and after: what else runs on the machine changes the cost of a throw, too.
                before, examined, after = alone(), cost(lambda: examine(home, "exceptions", patient.pid, 2)), alone()
                self.assertLess(examined, max(before, after) * 2)


if __name__ == "__main__":
    unittest.main()
