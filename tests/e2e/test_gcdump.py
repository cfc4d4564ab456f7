"""Heap snapshots for other tools: .gcdump files, against Microsoft's own serialization library."""

import json
import tempfile
import unittest
from pathlib import Path

import oracle
from drdotnet import Home, look, stand_still
from patient import Patient

SIDE_BY_SIDE = True


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-gcdump-")))
        with Patient("leak", initial=3000) as patient:
            stand_still(patient)
            cls.pid = patient.pid
            cls.stats = look(cls.home, "heap-stats", patient.pid, "--param=gcdump=true")
            cls.survivors = look(cls.home, "gc-survivors", patient.pid)
            cls.truth = patient.truth()["leak"]["holders"]
        session = cls.stats.data["facts"]["session"]
        cls.file = Path(cls.home.path) / "sessions" / session / "heap.gcdump"

    def test_others_read_what_we_write(self):
        theirs = json.loads(oracle.run("gcdump", "read", self.file))
        self.assertEqual((theirs["process"], theirs["pid"], theirs["tool"]), ("sick", self.pid, "drdotnet"))
        for holder in self.truth.values():
            self.assertEqual(theirs["types"][holder["type"]]["count"], holder["objects"])
            self.assertIn(f"[static var {holder['field']}]", theirs["roots"])
        self.assertEqual(sum(kind["bytes"] for kind in theirs["types"].values()),
                         self.stats.figures["Objects"] - self.stats.figures["Garbage"])
        self.assertEqual(sum(kind["count"] for kind in theirs["types"].values()), theirs["reached"])

    def test_we_read_what_we_write(self):
        again = look(self.home, "gc-survivors", "--core", self.file)
        ours = {row["Holder"]: row for row in self.survivors.rows("Holders")}
        rows = {row["Holder"]: row for row in again.rows("Holders")}
        for holder in self.truth.values():
            for column in ("Keeps", "Objects", "Retained"):
                self.assertEqual(rows[holder["field"]][column], ours[holder["field"]][column])
        stats = look(self.home, "heap-stats", "--core", self.file)
        self.assertEqual(stats.figures["Objects"], self.stats.figures["Objects"] - self.stats.figures["Garbage"])
        self.assertIsNone(stats.figures["Garbage"])

    def test_we_read_what_others_write(self):
        file = self.folder / "theirs.gcdump"
        oracle.run("gcdump", "write", file)
        stats = look(self.home, "heap-stats", "--core", file)
        self.assertEqual([(row["Type"], row["Objects"], row["Bytes"], row["Retained"]) for row in stats.rows("Types")],
                         [("Shop.Order", 3, 2080, 2080)])
        self.assertEqual((stats.data["facts"]["process"], stats.data["facts"]["targetId"]), ("Shop.Api", 4211))

    def test_what_such_a_file_cannot_tell(self):
        for profiler in ("duplicated-strings", "wasted-collections", "merged-call-stacks"):
            with self.subTest(profiler):
                done = self.home.run("run", profiler, "--core", self.file)
                self.assertNotEqual(done.code, 0)
                self.assertIn("is a .gcdump file", done.err)
        cut = self.folder / "cut.gcdump"
        cut.write_bytes(self.file.read_bytes()[:10000])
        done = self.home.run("run", "heap-stats", "--core", cut)
        self.assertNotEqual(done.code, 0)
        self.assertIn("damaged", done.err)


if __name__ == "__main__":
    unittest.main()
