"""How objects are kept, in the author's words: gc-survivors and memory-leaks against patients that know what keeps them."""

import re
import unittest
import urllib.request

from drdotnet import examine, Home, look, side_by_side
from patient import FRAMEWORKS, Patient, WebPatient

SIDE_BY_SIDE = True

INITIAL = 2500  # objects of 1 KB: enough to be the largest holder, and above what is too little to mention

# What the report must say of each kind, beside the keeper that the patient names.
WORDS = {
    "event": r"event \S+ \(2,500 subscribers\)",
    "closure": r"variable page of lambda in Shop\.Holding\.Page\.Open, in event \S+ \(2,500 subscribers\)",
    "timer": r"timers calling \S+ every 1 min 30 s",
    "registration": r"registrations on \S+",
    "linked": r"registrations on linked CancellationTokenSources, in registrations on \S+",
    "timeout": r"CancellationTokenSources (with a time-out|that cancel after 1 h)",
    "delay": r"timers of Task\.Delay, 2 h",
    "async-local": r"AsyncLocal \S+, in the ExecutionContext of timers calling Shop\.Holding\.Heart\.Beat every 2 min",
}


def short(truth):
    return truth["type"].rpartition(".")[2]


class ByWhatPeopleForget(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        kinds = [*WORDS, "weak-table", "bag"]
        cls.results = side_by_side({(fx, kind): lambda fx=fx, kind=kind: cls.examined(fx, kind)
                                    for fx in FRAMEWORKS for kind in kinds}, workers=1)

    @classmethod
    def examined(cls, fx, kind):
        with Patient("holders", fx=fx, kind=kind, initial=INITIAL) as patient:
            truth = patient.truth()["holders"]
            survivors = look(cls.home, "gc-survivors", patient.pid)
            asked = look(cls.home, "gc-survivors", patient.pid, "--param", f"type={truth['type']}")
            return survivors, asked, truth

    def each(self, *kinds):
        for (fx, kind), future in self.results.items():
            if kind in kinds:
                with self.subTest(fx=fx, kind=kind):
                    yield kind, *future.result()

    def test_the_verdict_says_what_keeps_them(self):
        for kind, survivors, _, truth in self.each(*WORDS):
            self.assertRegex(survivors.verdict, WORDS[kind])
            # An async method goes by its short name where it is what is kept.
            self.assertIn(truth["keeper"].removeprefix("Shop.Holding." if kind == "delay" else ""), survivors.verdict)
            # One end of a list of timers is in other hands as well, and is not the holder's alone.
            counts = [int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*", survivors.verdict)]
            self.assertTrue(any(truth["objects"] - 2 <= n <= truth["objects"] for n in counts), survivors.verdict)

    def test_a_question_about_a_type_is_answered_with_the_path(self):
        for kind, _, asked, truth in self.each(*WORDS, "weak-table"):
            rows = asked.rows("How they are kept")
            # Closures and collections of the type have its name in theirs.
            fit = [row for row in rows if row["Objects"] == truth["objects"] and re.search(WORDS.get(kind, ""), row["Kept by"])]
            self.assertTrue(fit, rows)
            self.assertIn(" → ", fit[0]["lines"][0])
            self.assertEqual(asked.figures["Alive of these"], sum(row["Bytes"] for row in rows))

    def test_a_value_of_a_weak_table_goes_by_its_key(self):
        for _, _, asked, truth in self.each("weak-table"):
            self.assertIn(f"ConditionalWeakTable, with the key {truth['keeper']}", asked.verdict)

    def test_a_bag_has_all_that_is_in_it(self):
        """A part of it for each thread, which the thread's own slots refer to as well."""
        for _, survivors, asked, truth in self.each("bag"):
            row = next(row for row in survivors.rows("Holders") if row["Holder"] == truth["keeper"])
            self.assertEqual(row["Keeps"], f"{truth['objects']:,} {short(truth)}")
            self.assertGreaterEqual(row["Retained"], truth["objects"] * 1000)
            self.assertEqual(survivors.rows("Holders")[0]["Holder"], truth["keeper"])
            self.assertIn(f"kept by static {truth['keeper']}.", asked.verdict)

    def test_few_objects_of_a_type_are_answered_too(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Patient("holders", fx=fx, kind="event", initial=2, size=1) as patient:
                asked = look(self.home, "gc-survivors", patient.pid, "--param", "type=Dashboard")
                self.assertRegex(asked.verdict, r"event Shop\.Holding\.Exchange\.RateChanged \(2 subscribers\)")
                self.assertEqual([row["Objects"] for row in asked.rows("How they are kept")], [2])

    def test_a_recording_says_the_same(self):
        for _, survivors, _, _ in self.each("timer", "closure"):
            done = self.home.run("run", "gc-survivors", "--session", survivors.data["facts"]["session"], "--json")
            self.assertEqual(done.code, 0, done)
            self.assertEqual(done.json()["verdict"]["plain"], survivors.verdict)


class WhileItGrows(unittest.TestCase):
    def test_what_grows_goes_by_what_keeps_it(self):
        for kind, fx in zip(("event", "timer", "registration", "linked", "delay", "closure"), FRAMEWORKS * 6):
            with self.subTest(kind=kind, fx=fx), Home() as home, \
                    Patient("holders", fx=fx, kind=kind, initial=500, rate=400) as patient:
                report = examine(home, "memory-leaks", patient.pid, 3)
                truth = patient.truth()["holders"]
                self.assertEqual((report.finding, report.health), ("leak", "bad"))
                self.assertRegex(report.verdict, re.sub(r"2,500", r"[\\d,]+", WORDS[kind]))
                self.assertIn(truth["keeper"].removeprefix("Shop.Holding." if kind == "delay" else ""), report.verdict)


class Services(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())

    def survivors(self, fx, route, *more):
        with WebPatient(fx=fx) as patient:
            urllib.request.urlopen(f"{patient.url}/keep/{route}?n={INITIAL}").read()
            patient.collect()
            return look(self.home, "gc-survivors", patient.pid, *more), patient.truth()["web"]

    def test_disposables_of_the_root_scope(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                report, truth = self.survivors(fx, "mailers")
                self.assertIn(f"{truth['mailers']:,} Mailer", report.verdict)
                kept = re.search(r"the disposables of the root service scope \(([\d,]+) services\)", report.verdict)
                self.assertIsNotNone(kept, report.verdict)
                self.assertGreaterEqual(int(kept[1].replace(",", "")), truth["mailers"])
                self.assertIn("dispose", "".join(piece["text"] for piece in report.data["next"]))

    def test_entries_of_a_cache_and_their_callbacks(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx):
                report, truth = self.survivors(fx, "baskets", "--param", "type=Shop.Web.Basket")
                rows = report.rows("How they are kept")
                self.assertEqual(rows[0]["Objects"], truth["baskets"])
                self.assertIn("entries of a MemoryCache", rows[0]["Kept by"])
                report, truth = self.survivors(fx, "audits", "--param", "type=Shop.Web.Audit")
                rows = report.rows("How they are kept")
                self.assertEqual(rows[0]["Objects"], truth["audits"])
                self.assertIn("eviction callbacks of MemoryCache entries", rows[0]["Kept by"])


class Finalizers(unittest.TestCase):
    def test_four_profilers_name_what_holds_up_the_finalizers(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("holders", fx=fx, kind="finalizer", initial=INITIAL) as patient:
                truth = patient.truth()["holders"]
                waits = r"([\d,]+) objects wait for"
                for profiler, more in (("gc-survivors", ()), ("memory-leaks", ("-d", "1s", "--param", "looks=2")),
                                       ("merged-call-stacks", ()), ("deadlocks", ("--param", "interval=1"))):
                    report = look(home, profiler, patient.pid, *more)
                    self.assertIn(truth["keeper"], report.verdict, profiler)
                    waiting = int(re.search(waits, report.verdict)[1].replace(",", ""))
                    # All but the one whose finalizer runs, and whatever else of the runtime's waits behind it.
                    self.assertGreaterEqual(waiting, truth["objects"] - 2, report.verdict)
                    self.assertLess(waiting, truth["objects"] + 200, report.verdict)
                    if profiler == "deadlocks":
                        self.assertEqual((report.finding, report.health), ("finalizer-blocked", "warn"))

    def test_a_healthy_process_has_no_such_sentence(self):
        for fx in FRAMEWORKS:
            with self.subTest(fx), Home() as home, Patient("healthy", fx=fx) as patient:
                for profiler in ("gc-survivors", "merged-call-stacks", "deadlocks"):
                    self.assertNotIn("finalizer", look(home, profiler, patient.pid).verdict)
