"""heap-stats and gc-survivors against what the patients know, on every runtime, workstation and server GC."""

import tempfile
import unittest
from pathlib import Path

from drdotnet import examine, Home, look, Report, side_by_side, stand_still, wait_until
from patient import FRAMEWORKS, Patient, diagonal, one_of

SIDE_BY_SIDE = True

AIR = 1.35  # the collection's own memory, on top of what the patient counts
LOW = "--param=retained_bytes_threshold=10000"


def holders(report):
    return {row["Holder"]: row for row in report.rows("Holders")}


def keeps(row):
    """("Session", 3080) of "3,080 Session"."""
    count, _, name = row["Keeps"].partition(" ")
    return name, int(count.replace(",", ""))


def type_of(holder):
    return holder["type"].rpartition(".")[2]


class AgainstThePatient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-heap-")))
        cls.told = {}  # by the runtime's events
        cls.results = side_by_side({(fx, server): lambda fx=fx, server=server: cls.examined(fx, server)
                                    for fx, server in diagonal(FRAMEWORKS, (False, True))}, workers=1)

    @classmethod
    def examined(cls, fx, server):
        with Patient("leak", fx=fx, server_gc=server, initial=3000) as patient:
            stand_still(patient)
            survivors = look(cls.home, "gc-survivors", patient.pid)
            stats = look(cls.home, "heap-stats", patient.pid)
            core = cls.folder / f"{fx}-{server}.core"
            if not server:
                done = cls.home.run("dump", "collect", patient.pid, "--fast", "-o", core, "--max-pause", "10s", "--quiet")
                assert done.code == 0, done
            cls.told[fx, server] = {profiler: look(cls.home, profiler, patient.pid, "--way", "events", "--param",
                                                   "max_pause_ms=60000") for profiler in ("gc-survivors", "heap-stats")}
            return survivors, stats, patient.truth()["leak"]["holders"], core

    def each(self):
        for which, future in self.results.items():
            with self.subTest(which):
                yield future.result()

    def test_every_holder_is_named_with_what_it_keeps(self):
        for survivors, _, truth, _ in self.each():
            found = holders(survivors)
            for holder in truth.values():
                row = found[holder["field"]]
                self.assertEqual(keeps(row), (type_of(holder), holder["objects"]))
                self.assertGreaterEqual(row["Retained"], holder["bytes"])
                self.assertLess(row["Retained"], holder["bytes"] * AIR)
            self.assertEqual(survivors.finding, "several-holders")
            self.assertIn(survivors.rows("Holders")[0]["Holder"], survivors.verdict)

    def test_each_object_is_counted_once(self):
        for survivors, _, _, _ in self.each():
            rows = survivors.rows("Holders")
            rest = survivors.block("Holders")["rest"]
            self.assertEqual(sum(row["Retained"] for row in rows) + rest[3], survivors.figures["Alive"])

    def test_holders_are_shown_down_to_their_fields(self):
        for survivors, _, truth, _ in self.each():
            tree = survivors.block("Who keeps what")
            self.assertTrue(tree["columns"][2]["area"])
            below, parents, whole = {}, [], 0
            for row in tree["rows"]:
                del parents[row["depth"]:]
                if parents:
                    # Parts are never more than what they are parts of.
                    below[parents[-1]["at"]] = below.get(parents[-1]["at"], 0) + row["cells"][2]
                    parents[0]["names"] += row["cells"][0]
                else:
                    whole += row["cells"][2]
                parents.append({"at": len(below) + id(row), "bytes": row["cells"][2], "names": row["cells"][0]})
                row["at"], row["top"] = parents[-1]["at"], parents[0]
            for row in tree["rows"]:
                self.assertLessEqual(below.get(row["at"], 0), row["cells"][2])
            self.assertEqual(whole + tree["rest"][2], survivors.figures["Alive"])
            for holder in truth.values():
                top = next(row for row in tree["rows"] if row["cells"][0] == holder["field"])
                self.assertIn(type_of(holder), top["top"]["names"])
                self.assertIn(" → ", top["top"]["names"])

    def test_types_are_counted(self):
        for _, stats, truth, _ in self.each():
            rows = {row["Type"]: row for row in stats.rows("Types")}
            for holder in truth.values():
                self.assertEqual(rows[holder["type"]]["Objects"], holder["objects"])
                self.assertGreater(rows[holder["type"]]["Retained"], holder["objects"] * 1000)
            generations = [row for row in stats.rows("Generations") if row["Where"].partition(" ")[0] != "heap"]
            self.assertEqual(sum(row["Bytes"] for row in generations), stats.figures["Objects"])

    def test_where_the_memory_is(self):
        for _, stats, _, _ in self.each():
            areas = {row["Memory"]: row["In RAM"] for row in stats.rows("Where the memory is")}
            self.assertEqual(sum(areas.values()), stats.figures["In RAM"])
            self.assertGreaterEqual(areas["managed heap"], stats.figures["Objects"] * 0.9)
            self.assertLess(areas["managed heap"], stats.figures["In RAM"] * 0.8)
            self.assertGreater(areas["libraries and other files"], 1 << 20)

    def test_the_runtimes_events_say_the_same(self):
        for which, future in self.results.items():
            survivors, stats, truth, _ = future.result()
            with self.subTest(which):
                told, counted = self.told[which]["gc-survivors"], self.told[which]["heap-stats"]
                found, image = holders(told), holders(survivors)
                for holder in truth.values():
                    row = found["field " + holder["field"].rpartition(".")[2]]  # its class is not told
                    self.assertEqual(keeps(row), (type_of(holder), holder["objects"]))
                    self.assertAlmostEqual(row["Retained"] / image[holder["field"]]["Retained"], 1, delta=0.02)
                rows = {row["Type"]: row for row in counted.rows("Types")}
                for holder in truth.values():
                    self.assertEqual(rows[holder["type"]]["Objects"], holder["objects"])
                # It says by what way, and what it does not know.
                self.assertEqual(told.how["Way"]["value"], "events")
                self.assertIn("none lost", told.how["Way"]["context"])
                self.assertGreater(told.how["Target paused"]["value"], 0)
                self.assertEqual((told.figures["Garbage"], counted.figures["Free room"]), (None, None))
                self.assertNotIn("Generations", [b["title"] for b in counted.data["blocks"]])

    def test_events_are_refused_when_they_would_take_too_long(self):
        with Patient("leak", initial=3000) as patient:
            done = self.home.run("gc-survivors", patient.pid, "--way", "events", "--param", "max_pause_ms=1")
            self.assertEqual(done.code, 1, done)
            self.assertRegex(done.err, r"would stand still for up to .*the limit is 1 ms, and max_pause_ms=\d+ allows it")

    def test_a_core_says_the_same(self):
        for _, _, truth, core in self.each():
            if not core.exists():
                continue
            found = holders(look(self.home, "gc-survivors", "--core", core))
            for holder in truth.values():
                self.assertEqual(keeps(found[holder["field"]]), (type_of(holder), holder["objects"]))

    def test_a_kept_recording_says_the_same(self):
        for survivors, _, _, _ in self.each():
            done = self.home.run("run", "gc-survivors", "--session", survivors.data["facts"]["session"], "--json")
            self.assertEqual(done.code, 0, done)
            again = Report(done.json())
            self.assertEqual(again.verdict, survivors.verdict)
            self.assertEqual(again.rows("Holders"), survivors.rows("Holders"))

    def test_a_recording_that_was_changed_is_refused(self):
        session = next(iter(self.results.values())).result()[1].data["facts"]["session"]
        part = self.home.path / "sessions" / session / "recording" / "heap"
        good = part.read_bytes()
        middle = len(good) // 2
        for bad in (good[:middle], good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1:], b""):
            part.write_bytes(bad)
            done = self.home.run("run", "heap-stats", "--session", session)
            self.assertNotEqual(done.code, 0, done)
            self.assertIn("was cut short or changed since it was written", done.err)
        part.write_bytes(good)
        self.assertEqual(self.home.run("run", "heap-stats", "--session", session).code, 0)


class Leaks(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def changes(self, before, after):
        """What `sessions compare` says of two reports of one profiler."""
        done = self.home.run("sessions", "compare", *(r.data["facts"]["session"] for r in (before, after)), "--json")
        self.assertEqual(done.code, 0, done)
        return Report(done.json())

    def test_what_grows_and_how_fast(self):
        reports = []
        for fx, rate in zip(FRAMEWORKS, (200, 500, 1250)):  # so that they differ
            with self.subTest(fx), Patient("leak", fx=fx, initial=1000, rate=rate) as patient:
                before = patient.truth()["leak"]["holders"]
                report = examine(self.home, "memory-leaks", patient.pid, 3)
                after = patient.truth()["leak"]["holders"]
                self.assertEqual((report.finding, report.health), ("leak", "bad"))
                rows = {row["Holder"]: row for row in report.rows("Holders that grew")}
                for name, holder in after.items():
                    row = rows[holder["field"]]
                    self.assertEqual((row["Steady"], row["Keeps"]), ("yes", type_of(holder)))
                    self.assertGreater(row["More objects"], 0)
                    self.assertGreater(row["A minute"], row["Grew by"])
                    self.assertLessEqual(row["Grew by"], (holder["bytes"] - before[name]["bytes"]) * AIR + 100_000)
                self.assertIn(report.rows("Holders that grew")[0]["Holder"], report.verdict)
                types = {row["Type"]: row for row in report.rows("Types that grew")}
                self.assertLessEqual({holder["type"] for holder in after.values()}, set(types))
                if report.how["Known again"]["value"] is not None:
                    for name, holder in after.items():
                        row = types[holder["type"]]
                        self.assertGreater(row["New"], 0)
                        # None was ever let go; young ones may have moved.
                        self.assertGreaterEqual(row["Stayed"] + row["Gone"], before[name]["objects"])
                done = self.home.run("run", "memory-leaks", "--session", report.data["facts"]["session"], "--json")
                self.assertEqual(Report(done.json()).verdict, report.verdict, done)
                reports.append(report)
        for before, after in zip(reports, reports[1:]):
            then, now = ({row["Holder"]: row["Grew by"] for row in r.rows("Holders that grew")} for r in (before, after))
            # Windows become longer on a busy machine: what grew may be the same by chance, which is no change.
            differ = [name for name in now if abs(now[name] - then.get(name, 0)) > 0.2 * now[name]]
            changes = self.changes(before, after)
            rows = {row["Holder"]: row for row in changes.rows("Holders that grew: Grew by")} if differ else {}
            for name in differ:
                self.assertEqual((rows[name]["Before"], rows[name]["After"]), (then.get(name, 0), now[name]))

    def test_two_saved_sessions(self):
        with Patient("leak", initial=2000) as patient:
            stand_still(patient)
            first, told = look(self.home, "gc-survivors", patient.pid), patient.truth()["leak"]["holders"]
            others = {profiler: [look(self.home, profiler, patient.pid)]
                      for profiler in ("heap-stats", "wasted-collections", "duplicated-strings")}
            patient.resume()
            wait_until(lambda: all(h["objects"] > told[name]["objects"] + 300
                                   for name, h in patient.truth()["leak"]["holders"].items()), "it grows")
            stand_still(patient)
            second, now = look(self.home, "heap-stats", patient.pid), patient.truth()["leak"]["holders"]
            third = look(self.home, "gc-survivors", patient.pid)
            for profiler, reports in others.items():
                reports.append(second if profiler == "heap-stats" else look(self.home, profiler, patient.pid))
        guids = [r.data["facts"]["session"] for r in (first, second)]
        changed = {row["Holder"]: row for row in self.changes(first, third).rows("Holders: Retained")}
        for name, holder in now.items():
            row = changed[holder["field"]]
            self.assertGreaterEqual(row["After"] - (row["Before"] or 0), holder["bytes"] - told[name]["bytes"])
        changed = {row["Type"]: row for row in self.changes(*others["heap-stats"]).rows("Types: Bytes")}
        for name, holder in now.items():
            row = changed[holder["type"]]
            self.assertEqual(row["After"] * told[name]["objects"], row["Before"] * holder["objects"], "all are of one size")
        wasted = self.changes(*others["wasted-collections"]).rows("Where it is: Wasted")
        most = max(h["objects"] - told[name]["objects"] for name, h in now.items())
        self.assertTrue(all(row["Change"] > 900 * most for row in wasted[:3]), wasted)
        self.assertLessEqual({row["Field"].rpartition(".")[0] for row in wasted[:3]}, {h["type"] for h in now.values()})
        same = self.changes(*others["duplicated-strings"])
        self.assertEqual(same.finding, "no-change")
        self.assertTrue(same.verdict.startswith("Nothing of note changed between the two"), same.verdict)
        report = look(self.home, "memory-leaks", "--before", guids[0], "--session", guids[1])
        self.assertEqual(report.finding, "grew")
        rows = {row["Holder"]: row for row in report.rows("Holders that grew")}
        for name, holder in now.items():
            row = rows[holder["field"]]
            self.assertEqual(row["Keeps"], type_of(holder))
            self.assertGreaterEqual(row["Grew by"], holder["bytes"] - told[name]["bytes"])
            self.assertGreater(row["A minute"], row["Grew by"] / 10)
        types = {row["Type"]: row for row in report.rows("Types that grew")}
        for name, holder in now.items():
            row = types[holder["type"]]
            if row["New"] is not None:
                self.assertEqual(row["New"] - row["Gone"], holder["objects"] - told[name]["objects"])
        for wrong, words in ((("memory-leaks", "--before", guids[1], "--session", guids[0]), "the other way round"),
                             (("memory-leaks", "--before", guids[0]), "needs one TARGET"),
                             (("memory-leaks", str(patient.pid), "--before", guids[0]), "--before needs the later session"),
                             (("gc-survivors", "--before", guids[0], "--session", guids[1]), "'drdotnet sessions compare'")):
            done = self.home.run(*wrong)
            self.assertEqual(done.code, 2, done)
            self.assertIn(words, done.err)

    def test_a_cache_that_is_full_is_no_leak(self):
        with Patient("leak", holder="cache-bounded", initial=2000, limit=2000) as patient:
            report = examine(self.home, "memory-leaks", patient.pid, 2)
            self.assertEqual((report.finding, report.health), ("nothing-found", "ok"))

    def test_nothing_grows(self):
        with Patient("healthy") as patient:
            self.assertEqual(examine(self.home, "memory-leaks", patient.pid, 2).finding, "nothing-found")

    def test_a_core_is_refused(self):
        done = self.home.run("memory-leaks", "--core", "/dev/null")
        self.assertNotEqual(done.code, 0)


class OtherHolders(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def test_generic_and_thread_statics(self):
        for fx in FRAMEWORKS:
            for holder in ("generic-static", "thread-static"):
                with self.subTest(fx, holder=holder), Patient("leak", fx=fx, holder=holder, initial=5000) as patient:
                    stand_still(patient)
                    truth = patient.truth()["leak"]["holders"][holder]
                    report = look(self.home, "gc-survivors", patient.pid)
                    row = report.rows("Holders")[0]
                    self.assertEqual(row["Holder"], truth["field"].replace("<Shop.Catalog.Product>", "<Product>"))
                    self.assertGreaterEqual(keeps(row)[1], 5000)
                    self.assertEqual(report.finding, "one-holder")

    def test_handles_of_every_processor(self):
        # As an ASP.NET Core app has it: a server's collector that adapts its number of heaps.
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("leak", fx=fx, holder="handle", initial=4000, server_gc=True) as patient:
                stand_still(patient)
                truth = patient.truth()["leak"]["holders"]["handle"]
                report = look(self.home, "gc-survivors", patient.pid)
                self.assertEqual(report.finding, "handles-not-freed")
                row = report.rows("Holders")[0]
                self.assertEqual((row["Holder"], keeps(row)), (truth["field"], ("Product", truth["objects"])))

    def test_who_holds_objects_of_a_type(self):
        with Patient("leak", initial=3000) as patient:
            stand_still(patient)
            truth = patient.truth()["leak"]["holders"]["static"]
            report = look(self.home, "gc-survivors", patient.pid, "--param=type=shop.sessions.session", LOW)
            row = report.rows("Holders")[0]
            self.assertEqual((row["Holder"], keeps(row)), (truth["field"], ("Session", truth["objects"])))
            nothing = look(self.home, "heap-stats", patient.pid, "--param=type=No.Such.Type")
            self.assertEqual(nothing.finding, "no-such-type")
            many = look(self.home, "heap-stats", patient.pid, "--param=type=e")
            self.assertEqual((many.finding, len(many.rows("Types"))), ("asked", 40))

    def test_only_old_objects(self):
        # No collection comes by itself, so that what is added later stays young.
        never = {"DOTNET_GCgen0size": "0x10000000"}
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("leak", fx=fx, env=never, initial=3000) as patient:
                stand_still(patient)
                patient.collect()
                old = patient.truth()["leak"]["holders"]["static"]
                patient.resume()
                wait_until(lambda: patient.truth()["leak"]["holders"]["static"]["objects"] > old["objects"] + 300, "it grows")
                stand_still(patient)
                found = holders(look(self.home, "gc-survivors", patient.pid, "--param=generation=old", LOW))[old["field"]]
                self.assertEqual(keeps(found), ("Session", old["objects"]))
                self.assertGreaterEqual(found["Retained"], old["bytes"])
                self.assertLess(found["Retained"], old["bytes"] * AIR)

    def test_nothing_wrong(self):
        for fx in one_of(FRAMEWORKS):
            with self.subTest(fx), Patient("healthy", fx=fx) as patient:
                report = look(self.home, "gc-survivors", patient.pid)
                self.assertEqual((report.finding, report.health), ("nothing-held", "ok"))
                self.assertEqual(look(self.home, "heap-stats", patient.pid).finding, "seen")


if __name__ == "__main__":
    unittest.main()
