"""drdotnet top on a pseudo-terminal: what its user sees and what the keys do."""

import os
import re
import unittest

from drdotnet import PROGRAM, Home
from patient import FRAMEWORKS, Patient
from terminal import Terminal

FX = FRAMEWORKS[-1]
HOT, OTHER = "Shop.Pricing.Tax.Compute", "Shop.Pricing.Discount.Apply"
SHARE = re.compile(r"^ +([\d.]+|below [\d.]+) % +([\d.]+|below [\d.]+) %  (\S.*?)(?:  |$)", re.M)


def rows(text):
    """method -> (self, with callees), in order."""
    return {name: (float(own.split()[-1]), float(total.split()[-1])) for own, total, name in SHARE.findall(text)}


class Top(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.patient = cls.enterClassContext(Patient("cpu", fx=FX, threads=2))

    def open(self, *words, columns=100):
        return Terminal([PROGRAM, "top", str(self.patient.pid), *words], 24, columns, {"DRDOTNET_HOME": str(self.home.path)})

    def test_methods_threads_sort_filter_and_pause(self):
        with self.open() as terminal:
            terminal.wait_for(lambda text: HOT in rows(text) and OTHER in rows(text))
            shown = rows(terminal.text())
            self.assertEqual(list(shown)[0], HOT)
            self.assertGreater(shown[HOT][0], shown[OTHER][0])
            self.assertRegex(terminal.text().split("\n")[0], rf"^sick \({self.patient.pid}\)  [\d.]+ of \d+ cores? busy, last ")
            terminal.type("s")  # with callees: the callers come first
            terminal.wait_for(lambda text: rows(text) and list(rows(text))[0] not in (HOT, OTHER))
            terminal.type("\t")
            terminal.wait_for(lambda text: re.search(r"(?m)^ +[\d.]+ % +\d+  burner-0", text) and "burner-1" in text
                              and HOT not in text)
            terminal.type("\t/discount\r")
            terminal.wait_for(lambda text: list(rows(text)) == [OTHER] and "filter: discount" in text)
            terminal.type("\x1b")
            terminal.wait_for(HOT)
            terminal.type("p")
            terminal.wait_for(" paused")
            terminal.type("p?")
            terminal.wait_for("this page")
            terminal.type("xq")
            self.assertEqual(terminal.finish(), 0)
        self.assertIn(b"\x1b[?1049l", terminal.raw, "the terminal is given back")

    def test_a_small_terminal_and_a_new_size(self):
        with self.open(columns=60) as terminal:
            terminal.wait_for(HOT)
            self.assertTrue(all(len(line) <= 60 for line in terminal.text().split("\n")))
            terminal.resize(10, 120)
            terminal.wait_for(lambda text: "your code" in text)
            terminal.type("\x03")
            self.assertEqual(terminal.finish(), 0)

    def test_a_key_leads_to_a_full_session(self):
        with self.open() as terminal:
            terminal.wait_for(HOT)
            terminal.type("\r")
            terminal.wait_for("drdotnet run cpu-hotpaths")
            terminal.wait_for(lambda _: b"Saved as session" in terminal.raw)
            self.assertEqual(terminal.finish(), 0)
        self.assertEqual([s["profiler"]["id"] for s in self.home.sessions()], ["cpu-hotpaths"])

    def test_lines_once(self):
        done = self.home.run("top", self.patient.pid, "--once")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(list(rows(done.out))[0], HOT)
        self.assertLessEqual(sum(own for own, _ in rows(done.out).values()), 100 * (os.cpu_count() + 0.2))

    def test_the_end_of_the_process(self):
        with Patient("cpu", fx=FX, threads=1) as short:
            with Terminal([PROGRAM, "top", str(short.pid)], 24, 80) as terminal:
                terminal.wait_for(HOT)
                os.kill(short.pid, 9)
                self.assertEqual(terminal.finish(), 0)
            self.assertIn(b"the process has ended", terminal.raw)


if __name__ == "__main__":
    unittest.main()
