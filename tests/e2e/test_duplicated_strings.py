"""duplicated-strings against what the patient knows, on every runtime, workstation and server GC."""

import re
import tempfile
import unittest
import zipfile
from pathlib import Path

from drdotnet import Home, look, Report, side_by_side, stand_still
from patient import FRAMEWORKS, Patient, diagonal

SIDE_BY_SIDE = True

COPIES = 20000
MASK = "--mask"
SHORT = 128  # characters of a value that are shown


def words(page):
    """Without the markup between the parts of a name."""
    return re.sub(r"<[^>]*>", "", page)


def shown(text):
    return text if len(text) <= SHORT else text[:SHORT] + "…"


class AgainstThePatient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-strings-")))
        cls.results = side_by_side({(fx, server): lambda fx=fx, server=server: cls.examined(fx, server)
                                    for fx, server in diagonal(FRAMEWORKS, (False, True))}, workers=1)

    @classmethod
    def examined(cls, fx, server):
        with Patient("duplicate-strings", fx=fx, server_gc=server, copies=COPIES) as patient:
            stand_still(patient)
            plain = look(cls.home, "duplicated-strings", patient.pid)
            masked = look(cls.home, "duplicated-strings", patient.pid, MASK)
            one = look(cls.home, "duplicated-strings", patient.pid, "--param=string=EUR|USD|CHF")
            core = cls.folder / f"{fx}.core"
            if not server:
                done = cls.home.run("dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet")
                assert done.code == 0, done
            return masked, plain, one, patient.truth()["duplicate-strings"], core

    def each(self):
        for which, future in self.results.items():
            with self.subTest(which):
                yield future.result()

    def assert_exact(self, report, truth):
        rows = {row["Value"]: row for row in report.rows("Values")}
        for value in truth["values"]:
            row = rows[shown(value["value"])]
            self.assertEqual((row["Copies"], row["Wasted"]), (value["copies"], value["wasted_bytes"]))
        wasted = [row["Wasted"] for row in report.rows("Values")]
        self.assertEqual(wasted, sorted(wasted, reverse=True))
        self.assertGreaterEqual(report.figures["Wasted"], truth["wasted_bytes"])
        self.assertLess(report.figures["Wasted"], truth["wasted_bytes"] * 1.01)

    def test_every_value_is_counted_to_the_byte(self):
        for _, plain, _, truth, _ in self.each():
            self.assert_exact(plain, truth)
            self.assertEqual((plain.finding, plain.health), ("strings-duplicated", "warn"))

    def test_the_field_and_its_holder_are_named(self):
        for _, plain, _, truth, _ in self.each():
            self.assertIn("Shop.Orders.OrderLine.Status", plain.verdict)
            self.assertIn("static " + truth["holder"], plain.verdict)
            place = plain.rows("Where they are kept")[0]
            self.assertEqual(place["Field"], "Shop.Orders.OrderLine.Status")
            self.assertEqual(place["Copies"], sum(value["copies"] for value in truth["values"]))

    def test_values_are_masked_when_asked_for(self):
        for masked, plain, _, truth, _ in self.each():
            text = str(masked.data)
            for value in truth["values"]:
                self.assertNotIn(value["value"][:10], text)
            self.assertIn("xxxxxxx xxx xxxxxxx", text)
            self.assertIn(truth["values"][0]["value"][:10], str(plain.data))
            self.assertEqual([row["Wasted"] for row in masked.rows("Values")],
                             [row["Wasted"] for row in plain.rows("Values")])

    def test_a_kept_report_is_masked_when_it_is_handed_on(self):
        for _, plain, one, truth, _ in self.each():
            session, asked = plain.data["facts"]["session"], one.data["facts"]["session"]
            value = truth["values"][0]["value"][:10]
            for form in ("text", "md", "html", "json"):
                done = self.home.run("sessions", "report", session, "--format", form)
                self.assertIn(value, words(done.out))
                done = self.home.run("sessions", "report", session, "--format", form, MASK)
                self.assertNotIn(value, words(done.out))
                self.assertIn("xxxxxxx xxx xxxxxxx", words(done.out))
                # The string that was asked for is a value, too.
                self.assertNotIn("EUR|USD", words(self.home.run("sessions", "report", asked, "--format", form, MASK).out))
            kept = self.folder / f"{session}.zip"
            self.assertEqual(self.home.run("sessions", "export", session, MASK, "-o", kept).code, 0)
            with zipfile.ZipFile(kept) as file:
                self.assertLessEqual({"summary.md", "report.json"}, set(file.namelist()))
                for name in file.namelist():
                    self.assertNotIn(value, words(file.read(name).decode(errors="replace")), name)

    def test_the_way_to_one_string(self):
        for _, _, one, truth, _ in self.each():
            self.assertEqual(one.finding, "string-held")
            self.assertIn(f"static {truth['holder']} → List<OrderLine>._items → OrderLine[] → OrderLine.Status", one.verdict)
            self.assertEqual([row["Copies"] for row in one.rows("Who keeps it")], [truth["values"][1]["copies"]])

    def test_a_core_says_the_same(self):
        for _, _, _, truth, core in self.each():
            if core.exists():
                self.assert_exact(look(self.home, "duplicated-strings", "--core", core), truth)

    def test_a_kept_recording_says_the_same(self):
        for _, plain, _, _, _ in self.each():
            session = plain.data["facts"]["session"]
            done = self.home.run("run", "duplicated-strings", "--session", session, "--json")
            self.assertEqual(done.code, 0, done)
            again = Report(done.json())
            self.assertEqual(again.rows("Values"), plain.rows("Values"))
            done = self.home.run("run", "duplicated-strings", "--session", session, "--param=string=no such", "--json")
            self.assertEqual(Report(done.json()).finding, "string-not-found", done)


class WhereThereIsNothing(unittest.TestCase):
    def test_healthy(self):
        with Home() as home, Patient("healthy") as patient:
            report = look(home, "duplicated-strings", patient.pid)
            self.assertEqual((report.finding, report.health), ("nothing-found", "ok"))
            absent = look(home, "duplicated-strings", patient.pid, "--param=string=nobody has this")
            self.assertEqual(absent.finding, "string-not-found")
            # A recording without strings says so.
            stats = look(home, "heap-stats", patient.pid)
            done = home.run("run", "duplicated-strings", "--session", stats.data["facts"]["session"])
            self.assertNotEqual(done.code, 0)
            self.assertIn("holds no strings", done.err)


if __name__ == "__main__":
    unittest.main()
