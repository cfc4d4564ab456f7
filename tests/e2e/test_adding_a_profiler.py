"""docs/adding-a-profiler.md: the program with that page's profiler in it, made from the page, and the places that it counts."""

import json
import re
import subprocess
import unittest
from pathlib import Path

from drdotnet import PROGRAM, ROOT, Home, Report, examine_exactly
from patient import FRAMEWORKS, ROOM_FOR_ANSWERS, Patient

SIDE_BY_SIDE = True

EXAMPLE = str(Path(PROGRAM).parent / "tests" / "drdotnet-example")
ID = "forced-collections"
FX = FRAMEWORKS[-1]
PAGE = (ROOT / "docs/adding-a-profiler.md").read_text()
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def places():
    return re.findall(r"^\| (\d+) \| `([^`]+)` \|", PAGE, re.M)


def said(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


class Places(unittest.TestCase):
    def test_they_are_counted(self):
        counted = places()
        self.assertEqual([int(number) for number, _ in counted], list(range(1, len(counted) + 1)))
        self.assertIn(f"\n{NUMBERS[len(counted)].capitalize()} places, and", PAGE)

    def test_every_profiler_has_them(self):
        """Each is needed, by the old ones as well as by a new one."""
        for p in json.loads(said(PROGRAM, "profilers", "--json", "--experimental")):
            name = p["id"].replace("-", "_")
            for _, place in places():
                path = ROOT / place.replace("NAME", name).replace("ID", p["id"])
                with self.subTest(f"{p['id']} in {place}"):
                    self.assertTrue(path.exists())
                    files = path.glob("test_*") if path.is_dir() else [path]
                    self.assertTrue(any(word in re.sub(r"\\-", "-", file.read_text()) for file in files
                                        for word in (f'"{p["id"]}"', f"'{name}'", p["id"])))

    def test_the_lines_of_the_page_are_of_places_that_it_counts(self):
        files = re.findall(r"^```\w+ (\S+)$", PAGE, re.M)
        self.assertEqual(len(files), 4)
        for file in files:
            named = [place.replace("NAME", ID.replace("-", "_")) for place in
                     re.findall(r"`([^`\s]+)`", PAGE.partition("## The places")[2].partition("\n## ")[0])]
            self.assertTrue(file in named or f"{Path(file).parent}/" in named, file)


class Example(unittest.TestCase):
    """What is added by the file and the line of the list alone."""

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home(EXAMPLE))

    def test_everything_made_from_the_struct_has_it(self):
        for words in (("help",), ("profilers",), ("profilers", "--json"), ("completion", "bash"), ("completion", "zsh"),
                      ("completion", "fish"), *(("_generate", what) for what in ("man", "guide", "symptoms", "openapi"))):
            with self.subTest(words):
                self.assertNotIn(ID, said(PROGRAM, *words).replace("\\-", "-"))
                self.assertIn(ID, said(EXAMPLE, *words).replace("\\-", "-"))
        self.assertEqual([p["id"] for p in self.home.run("profilers", "--json").json()],
                         [p["id"] for p in json.loads(said(PROGRAM, "profilers", "--json"))] + [ID])
        page = said(EXAMPLE, "help", ID)
        self.assertTrue(page.startswith(f"  drdotnet {ID} 4211\n"))
        for option in ("-d, --duration TIME", "--at-least N"):
            self.assertIn(f"  {option}", page)
        self.assertIn("from 1 to 1000000, not '0'", self.home.run(ID, 1, "--at-least", 0).err)
        self.assertIn(f"did you mean '{ID}'?", self.home.run("forced-collection", 1).err)

    def test_the_pages_that_make_docs_writes_go_stale(self):
        for what, page in (("guide", "docs/guide.md"), ("man", "docs/drdotnet.1"), ("symptoms", "README.md")):
            self.assertNotIn(said(EXAMPLE, "_generate", what), (ROOT / page).read_text())
            self.assertIn(page, [place for _, place in places()])

    def test_it_tells_the_truth_about_a_patient(self):
        with Patient("gc-pauses", fx=FX, env=ROOM_FOR_ANSWERS, induced=4) as patient:
            report, truth = examine_exactly(self.home, ID, patient, lambda t: t["gc-pauses"]["induced"] >= 4)
        self.assertEqual(report.finding, ID)
        self.assertEqual(report.figures["Asked for"], truth["gc-pauses"]["induced"])
        runtime = truth["runtime"]
        self.assertEqual(report.figures["Collections"], runtime["gen0"] + runtime["gen1"] + runtime["gen2"])
        session = report.data["facts"]["session"]
        again = Report(self.home.run("run", ID, "--session", session, "--json").json())
        self.assertEqual((again.finding, again.figures), (report.finding, report.figures))
        other = Report(self.home.run(ID, "--session", session, "--at-least", 1000, "--json").json())
        self.assertEqual((other.finding, other.figures), ("nothing-found", report.figures))

    def test_it_finds_nothing_in_a_healthy_one(self):
        with Patient("healthy", fx=FX) as patient:
            done = self.home.run(ID, patient.pid, "-d", "1s", "--json")
        self.assertEqual((done.code, Report(done.json()).finding), (0, "nothing-found"), done)


if __name__ == "__main__":
    unittest.main()
