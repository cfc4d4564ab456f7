"""drdotnet dump open and inspect: every command against a patient that knows the truth, the prompt, and bad input."""

import json
import os
import random
import tempfile
import time
import unittest
from pathlib import Path

from drdotnet import Home, PROGRAM, for_each_result, side_by_side
from patient import FRAMEWORKS, Patient, WebPatient
from terminal import Terminal

SIDE_BY_SIDE = True

SEED = int(os.environ.get("DRDOTNET_SEED", str(time.time_ns() % 1_000_000)))
DAMAGES = 4
TASKS = (Path(__file__).resolve().parents[1] / "patients" / "sick" / "Tasks.cs").read_text().splitlines()


class Core:
    """A core and what can be asked of it."""

    def __init__(self, home, path):
        self.home, self.path = home, path

    def ask(self, *questions):
        """One object a question."""
        words = [w for q in questions for w in ("-c", q)]
        done = self.home.run("dump", "open", self.path, "--json", *words)
        if done.code:
            raise AssertionError(repr(done))
        decoder, text, found = json.JSONDecoder(), done.out.strip(), []
        while text:
            value, end = decoder.raw_decode(text)
            found.append(value)
            text = text[end:].lstrip()
        assert [f["question"] for f in found] == list(questions)
        return found if len(questions) > 1 else found[0]

    def rows(self, question, table=0):
        return self.ask(question)["tables"][table]["rows"]

    def refused(self, question):
        done = self.home.run("dump", "open", self.path, "-c", question)
        if done.code == 0:
            raise AssertionError(repr(done))
        return done.code, done.err


def collect(home, folder, fx):
    with Patient("deadlock,stuck-tasks", fx=fx, server_gc=fx == "net9.0") as patient:
        path = folder / fx
        done = home.run("dump", "collect", patient.pid, "--fast", "--type", "heap", "-o", path, "-q", "--max-pause", "10s")
        if done.code:
            raise AssertionError(repr(done))
        return Core(home, path), patient.truth(), patient.pid


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(Home())
        folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="drdotnet-inspect-")))
        cls.results = side_by_side({fx: lambda fx=fx: collect(cls.home, folder, fx) for fx in FRAMEWORKS}, workers=2)

    @for_each_result
    def test_threads_and_locks(self, fx, core, truth, pid):
        info, threads, locks, gcheap = core.ask("info", "threads", "locks", "gcheap")
        facts = {r["fact"]: r["value"] for r in info["tables"][0]["rows"]}
        self.assertEqual(facts["process"], str(pid))
        self.assertIn("server" if fx == "net9.0" else "workstation", facts["collector"])
        self.assertIn("server" if fx == "net9.0" else "workstation", gcheap["lines"][0])
        by_name = {t["name"]: t for t in threads["tables"][0]["rows"]}
        held = {l["held by"]: l for l in locks["tables"][0]["rows"]}
        for thread in truth["deadlock"]["cycle"]:
            seen = by_name[thread["thread"]]
            self.assertEqual((seen["id"], seen["tid"]), (str(thread["managed_id"]), str(thread["tid"])))
            self.assertTrue(seen["where"].startswith(thread["method"] + " (Deadlocks.cs:"), seen)
            self.assertIn(f"thread {thread['managed_id']} '{thread['thread']}'", held)
        waiting = sum(l["waiting"] for l in held.values())
        self.assertEqual(waiting, len(truth["deadlock"]["cycle"]) + truth["deadlock"]["bystanders"])

    @for_each_result
    def test_tasks(self, fx, core, truth, pid):
        found = {}
        for row in core.rows("tasks"):
            found[row["async method"]] = found.get(row["async method"], 0) + row["tasks"]
        self.assertEqual({m: n for m, n in found.items() if m.startswith("Shop.")}, truth["stuck-tasks"]["methods"])
        at = {r["async method"]: r["at"] for r in core.rows("tasks")}
        for method, text in (("ConfirmAsync", "await confirmation.Task"), ("ReserveAsync", "await ConfirmAsync(order)")):
            line = next(i for i, source in enumerate(TASKS, 1) if text in source)
            self.assertEqual(at[f"Shop.Orders.OrderFlow.{method}"], f"Tasks.cs:{line}")

    @for_each_result
    def test_objects(self, fx, core, truth, pid):
        ledger = core.rows("type Shop.Bank.Ledger", table=1)
        statics = {r["field"]: r["value"] for r in ledger}
        savings = statics["Savings"].split()[-1]
        fields = {r["field"]: r["value"] for r in core.rows(f"object {savings}")}
        self.assertTrue(fields["Name"].startswith('"savings" 0x'), fields)
        text = core.ask(f"object {fields['Name'].split()[-1]}")["lines"]
        self.assertIn('"savings"', text)
        gate = fields["Gate"].split()[-1]
        way = core.rows(f"roots {gate}")
        self.assertEqual(way[-1]["address"], gate)
        self.assertTrue(any("Shop.Bank.Ledger" in r["what"] or "stack of thread" in r["what"] for r in way), way)
        retained = core.ask(f"retained {savings}")
        self.assertIn("would go with this Shop.Bank.Account", retained["lines"][0])
        self.assertEqual({r["what"] for r in retained["tables"][0]["rows"]} & {"System.Threading.SemaphoreSlim"},
                         {"System.Threading.SemaphoreSlim"})
        accounts = core.ask("heap type Shop.Bank.Account")
        self.assertEqual(accounts["tables"][0]["rows"][0]["objects"], 3)
        self.assertIn(savings, [r["object"] for r in accounts["tables"][1]["rows"]])
        self.assertIn("savings", [r["text"] for r in core.rows("find-string savings")])
        stack = core.rows("stack-objects transfer-savings")
        self.assertIn(savings, [r["object"] for r in stack])
        # Inside of an object, nowhere, in other memory: each said in its own words.
        code, words = core.refused(f"object {int(savings, 16) + 8:x}")
        self.assertEqual(code, 3)
        self.assertIn(f"inside of an object: Shop.Bank.Account at {savings}, 8 bytes in", words)

    @for_each_result
    def test_the_rest_of_the_runtime(self, fx, core, truth, pid):
        heap, verify, pool, timers, handles, finalizers, modules, exceptions = core.ask(
            "heap", "verify-heap", "pool", "timers", "handles", "finalizers", "modules", "exceptions")
        total = sum(r["objects"] for r in heap["tables"][0]["rows"])
        self.assertGreater(total, 1000)
        self.assertIn("the heap is whole: every object has a type and ends where the next begins", verify["lines"])
        facts = {r["fact"]: r["value"] for r in pool["tables"][0]["rows"]}
        self.assertLessEqual(abs(facts["threads there are"] - truth["runtime"]["pool_threads"]), 3)  # they come and go
        calls = [r["calls"] for r in timers["tables"][0]["rows"]]
        self.assertGreaterEqual(sum("DelayPromise" in c for c in calls), truth["stuck-tasks"]["kinds"]["timer"], calls)
        kinds = {r["kind"]: r["handles"] for r in handles["tables"][0]["rows"]}
        self.assertGreater(kinds["strong"], 0)
        self.assertEqual(len(core.rows("handles pinned")), min(kinds.get("pinned", 0), 60))
        self.assertRegex(finalizers["lines"][-1], r"^\d+ objects? waits? for the finalizer thread")
        used = {r["type"]: r["count"] for table in finalizers["tables"] for r in table["rows"]}
        self.assertGreaterEqual(used["System.Threading.Thread"], truth["deadlock"]["bystanders"])
        self.assertIn("items in the workers' own queues", facts)
        own = [m for m in modules["tables"][0]["rows"] if m["path"].endswith("/sick.dll")]
        self.assertEqual([m["source lines"] for m in own], ["yes"])
        self.assertIn("no thread throws an exception", exceptions["lines"])

    @for_each_result
    def test_addresses(self, fx, core, truth, pid):
        statics = {r["field"]: r["value"] for r in core.rows("type Shop.Bank.Ledger", table=1)}
        savings = statics["Savings"].split()[-1]
        name = {r["field"]: r["value"] for r in core.rows(f"object {savings}")}["Name"].split()[-1]
        where, inside, bytes_, referrers, registers, nowhere = core.ask(
            f"where {savings}", f"where {int(savings, 16) + 8:x}", f"memory {savings} 24", f"referrers {name}",
            "registers transfer-savings", f"where {core.rows('heap type Shop.Bank.Account')[0]['method table']}")
        self.assertTrue(any(f"Shop.Bank.Account at {savings}" in l and "this is where it begins" in l for l in where["lines"]), where)
        self.assertTrue(any("8 bytes in" in l for l in inside["lines"]), inside)
        self.assertRegex(where["lines"][0], r"^generation [012] of heap \d+")
        self.assertEqual(len(bytes_["tables"][0]["rows"]), 2)
        # The first word of an object is the address of its method table.
        first = bytes.fromhex(bytes_["tables"][0]["rows"][0]["bytes"].split("  ")[0])
        self.assertTrue(any("method table of Shop.Bank.Account" in l for l in nowhere["lines"]), nowhere)
        self.assertEqual(int.from_bytes(first, "little"), int(nowhere["question"].split()[1], 16))
        self.assertIn((savings, "Name"), [(r["object"], r["in"]) for r in referrers["tables"][0]["rows"]])
        values = {r["register"]: r["value"] for r in registers["tables"][0]["rows"]}
        stack, code = core.ask(f"where {values['rsp']}", f"where {core.rows('stacks --all')[1]['address']}")
        tid = next(p["tid"] for p in truth["deadlock"]["cycle"] if p["thread"] == "transfer-savings")
        self.assertTrue(any(f"tid {tid}" in l for l in stack["lines"]), stack)
        for above in core.ask(*(f"where {int(values['rsp'], 16) + 8 * i:x}" for i in range(32))):
            self.assertNotIn("code of", "\n".join(above["lines"]))
        self.assertTrue(code["lines"], code)
        self.assertEqual(core.refused("where 8")[0], 3)
        self.assertEqual(core.refused(f"memory {savings} 0")[0], 2)
        self.assertEqual(core.refused("registers nobody")[0], 3)

    @for_each_result
    def test_generations_and_structures(self, fx, core, truth, pid):
        parts = [sum(r["objects"] for r in core.rows(f"heap generation {g}")) for g in ("0", "1", "2", "large", "pinned", "frozen")]
        self.assertGreater(sum(parts), 1000)
        self.assertEqual(core.refused("heap generation 7")[0], 2)
        self.assertEqual(core.refused("object 7f00 Shop.Bank.Account")[0], 2)
        self.assertEqual(core.refused("object 7f00 Shop.Nothing")[0], 3)

    @for_each_result
    def test_chains_of_tasks(self, fx, core, truth, pid):
        titles = [table["title"] for table in core.ask("tasks")["tables"][1:]]
        self.assertIn(f"{truth['stuck-tasks']['kinds']['tcs']} operations await a TaskCompletionSource kept by "
                      "Shop.Orders.OrderFlow.Confirmations", titles)

    @for_each_result
    def test_code(self, fx, core, truth, pid):
        answer = core.ask("method Shop.Bank.Ledger.TransferByMonitor")
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor(", answer["lines"][0])
        instructions = answer["tables"][-1]["rows"]
        here = [r for r in instructions if r[""] == ">"]
        self.assertEqual(len(here), 1)
        self.assertTrue(any("Deadlocks.cs:" in (r["from"] or "") for r in instructions))
        again = core.ask(f"method {here[0]['address']}")
        self.assertEqual(again["lines"], answer["lines"])
        versions, handlers = answer["tables"][0]["rows"], answer["tables"][1]["rows"]
        self.assertEqual([r["tier"] for r in versions if r[""] == ">"], ["quickly made (tier 0)"])
        # Each lock is left in a finally block.
        self.assertEqual({r["kind"] for r in handlers}, {"finally"})
        self.assertGreaterEqual(len(handlers), 2)
        self.assertTrue(handlers[0]["in"].startswith("Deadlocks.cs:"), handlers)
        # The same by its token, as stack traces without source lines have it.
        token = "sick.dll!" + answer["lines"][1].rsplit(" ", 1)[1]
        self.assertEqual(core.ask(f"method {token}")["lines"][0], answer["lines"][0])
        il, loader = core.ask(f"il {token}", "loader")
        self.assertEqual(il["lines"][0], answer["lines"][0])
        calls = [r["operand"] for r in il["tables"][0]["rows"] if r["instruction"] in ("call", "callvirt")]
        self.assertEqual([c for c in calls if "Monitor" in c], ["System.Threading.Monitor." + m for m in ("Enter", "Enter", "Exit", "Exit")])
        self.assertEqual((il["tables"][0]["rows"][-1]["instruction"], il["tables"][0]["rows"][0]["offset"]), ("endfinally", "IL_0000"))
        self.assertTrue(il["tables"][0]["rows"][0]["from"].startswith("Deadlocks.cs:"))
        sizes = {r["for"]: r["bytes"] for r in loader["tables"][0]["rows"]}
        self.assertTrue({"LowFrequencyHeap", "HighFrequencyHeap", "code"} <= sizes.keys(), sizes)
        # One that no thread is in any more.
        self.assertIn("Patients.Worker.UntilBlocked(", core.ask("method Patients.Worker.UntilBlocked")["lines"][0])

    @for_each_result
    def test_locals(self, fx, core, truth, pid):
        frames = {t["title"]: t["rows"] for t in core.ask("locals transfer-savings")["tables"]}
        rows, = (rows for title, rows in frames.items() if title.startswith("Shop.Bank.Ledger.TransferByMonitor ("))
        values = {r["name"]: r["value"] for r in rows}
        self.assertIn("Shop.Bank.Account 0x", values["from"])
        self.assertIn("Shop.Bank.Account 0x", values["to"])
        names = {r["name"] for t in core.ask("locals commander")["tables"] for r in t["rows"] if r["kind"] == "local"}
        self.assertIn("line", names)

    @for_each_result
    def test_text(self, fx, core, truth, pid):
        """Every command prints something that a terminal can show, in lines that are not endless."""
        done = self.home.run("dump", "open", core.path, "-c", "help")
        self.assertEqual(done.code, 0, done)
        self.assertIn("find-string TEXT", done.out)
        words = [w for q in ("info", "threads", "stacks", "stacks --all", "heap stat", "tasks", "modules") for w in ("-c", q)]
        done = self.home.run("dump", "open", core.path, *words)
        self.assertEqual(done.code, 0, done)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", done.out)
        self.assertFalse(any(ord(c) < 32 and c != "\n" for c in done.out))
        self.assertLess(max(map(len, done.out.splitlines())), 600)


def requests_of(home, pid):
    done = home.run("inspect", pid, "-c", "requests", "--json", "--max-pause", "10s")
    if done.code:
        raise AssertionError(repr(done))
    return json.loads(done.out)["tables"]


class Requests(unittest.TestCase):
    def test_both_ends(self):
        """What one process is asked and has not answered is what the other has sent."""
        with Home() as home:
            for fx in FRAMEWORKS:
                with self.subTest(fx), WebPatient(fx=fx) as web:
                    self.assertEqual(requests_of(home, web.pid), [])
                    with web.start_load("/off-cpu?ms=10000", rate=1000, concurrency=4) as load:
                        deadline = time.monotonic() + 60
                        while web.truth()["web"]["requests"].get("off-cpu", 0) < 4 and time.monotonic() < deadline:
                            time.sleep(0.05)
                        handled, sent = requests_of(home, web.pid), requests_of(home, load.pid)
                    common = {"requests": 4, "method": "GET", "its path": "/off-cpu?ms=10000"}
                    self.assertEqual(["Being handled"], [table["title"] for table in handled])
                    row, = handled[0]["rows"]
                    self.assertEqual(row | common | {"state": "running", "endpoint": "HTTP: GET /off-cpu"}, row)
                    self.assertEqual(["Sent"], [table["title"] for table in sent])
                    row, = sent[0]["rows"]
                    self.assertEqual(row | common | {"state": "waits for the answer", "to": web.url}, row)


class OneCore(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-inspect-")))

    def core_of(self, patient, kind="heap"):
        done = self.home.run("dump", "collect", patient.pid, "--fast", "--type", kind, "-o", self.folder / "core", "-q",
                             "--max-pause", "10s")
        self.assertEqual(done.code, 0, done)
        return Core(self.home, self.folder / "core")

    def test_bad_questions(self):
        with Patient("deadlock") as patient:
            core = self.core_of(patient)
        for question, code, words in [
            ("frob", 2, "no command is called 'frob'; there are info, "), ("object", 2, "object ADDRESS"),
            ("object zz", 2, "hexadecimal"), ("object 1234", 3, "no memory at 0x1234"), ("stacks nobody", 3, "no managed thread"),
            ("heap type Nope", 3, "no object on the heap is of a type 'Nope'"), ("heap frob", 2, "heap [stat"),
            ("type Nope", 3, "no loaded type is called"), ("method 99", 3, "no managed code is at"), ("method No.Such", 3, "no loaded type has a method"),
            ("il nope.dll!06000001", 3, "no assembly is called 'nope.dll'"), ("il sick.dll!06ffffff", 3, "is loaded"),
            ("il sick.dll!02000002", 2, "a method has a token such as 06000012"), ("type sick.dll!06000002", 2, "a type has a token"),
            ("il sick.dll!", 2, "hexadecimal"), ("info please", 2, "takes no further words"), ("find-string ''", 2, "needs a text"),
            ("find-string 'open", 2, "has no end"), ("handles frob", 2, "handles are weak"),
        ]:
            with self.subTest(question):
                got, err = core.refused(question)
                self.assertEqual(got, code, err)
                self.assertIn(words, err)
        # Where an object was, or is no more.
        gap = core.rows("heap type Free", table=1)[0]["object"]
        code, err = core.refused(f"object {gap}")
        self.assertEqual(code, 3, err)
        self.assertIn("is in a gap of the heap", err)
        self.assertIn("types have such a name", core.ask("heap type *a*")["lines"][-1])
        # A name that fits many types lists them.
        self.assertGreater(len(core.rows("type *Task*")), 5)

    def test_hostile_texts(self):
        """Huge strings are cut, and said to be; control characters are made visible."""
        with Patient("exceptions", kind="simple", message="hostile", rate=100) as patient:
            core = self.core_of(patient)
        done = self.home.run("dump", "open", core.path, "-c", "find-string script", "-c", "heap type System.String", "-c", "exceptions")
        self.assertEqual(done.code, 0, done)
        self.assertIn("<script>\\u{1b}[31m", done.out)
        self.assertFalse(any(ord(c) < 32 and c != "\n" for c in done.out))
        self.assertLess(max(map(len, done.out.splitlines())), 600)

    def test_without_the_heap(self):
        with Patient("deadlock") as patient:
            core = self.core_of(patient, "mini")
        info, threads, stacks = core.ask("info", "threads", "stacks transfer-savings")
        self.assertIn("not in this image", {r["fact"]: r["value"] for r in info["tables"][0]["rows"]}["managed heap"])
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", [r["method"] for r in stacks["tables"][0]["rows"]])
        for question in ("heap stat", "object 7f0000001000", "tasks", "verify-heap", "find-string x", "roots 7f0000001000",
                         "requests"):
            code, err = core.refused(question)
            self.assertEqual(code, 3, err)
            self.assertIn("it is good for info, threads, stacks, exceptions and modules", err)

    def test_damaged(self):
        """Random hits in the memory: an answer, or a reason; never a crash, a hang or a raw control character."""
        chance = random.Random(SEED)
        with Patient("deadlock,stuck-tasks") as patient:
            core = self.core_of(patient)
        questions = ("threads", "heap stat", "verify-heap", "locks", "tasks", "timers", "pool", "exceptions", "type *Account*",
                     "find-string a", "finalizers", "requests", "loader", "il Shop.Bank.Ledger.TransferByMonitor",
                     "method Shop.Bank.Ledger.TransferByMonitor", "heap type *Account*", "stack-objects 1")
        for _ in range(DAMAGES):
            with open(core.path, "r+b") as file:
                size = file.seek(0, os.SEEK_END)
                for _ in range(3000):
                    file.seek(chance.randrange(8192, size - 8))
                    file.write(chance.randbytes(8))
            for question in chance.sample(questions, 4):
                done = self.home.run("dump", "open", core.path, "-c", question)
                self.assertIn(done.code, (0, 1, 3), f"seed {SEED}, {question}: {done}")
                self.assertNotIn("AddressSanitizer", done.err)
                self.assertFalse(any(ord(c) < 32 and c != "\n" for c in done.out), f"seed {SEED}, {question}")

    def test_crash_core(self):
        env = {"DOTNET_DbgEnableMiniDump": "1", "DOTNET_DbgMiniDumpType": "2", "DOTNET_DbgMiniDumpName": str(self.folder / "core")}
        with Patient("crash", env=env, kind="unhandled") as patient:
            patient.send("crash")
            patient.wait(300)
        core = Core(self.home, self.folder / "core")
        titles = [t["title"] or "" for t in core.ask("exceptions")["tables"]]
        self.assertTrue(titles[0].startswith("System.InvalidOperationException: the books do not balance ("), titles)
        self.assertTrue(titles[1].startswith("caused by System.FormatException: page 17 is unreadable ("), titles)
        address = titles[1].rsplit("(", 1)[1].rstrip(")")
        self.assertTrue(core.ask(f"exceptions {address}")["tables"][0]["title"].startswith("System.FormatException"))
        self.assertIn("SIGABRT", {r["fact"]: r["value"] for r in core.rows("info")}["died of"])

    def test_living_process(self):
        with Patient("deadlock") as patient:
            done = self.home.run("inspect", patient.pid, "-c", "threads", "-c", "locks", "--max-pause", "10s")
            self.assertEqual(done.code, 0, done)
            self.assertIn("transfer-savings", done.out)
            patient.truth()
            # Questions from a pipe; what follows is asked of a file without a name.
            with self.home.start("inspect", patient.pid, "--max-pause", "10s") as job:
                asked = job.finish()
            self.assertEqual(asked.code, 0, asked)
            self.assertIn("it stood still for", asked.err)
            self.assertEqual([p for p in self.home.path.iterdir() if p.name.endswith(".core")], [])
            patient.truth()
        self.assertEqual(self.home.run("inspect", patient.pid, "-c", "info").code, 3)

    def test_prompt(self):
        with Patient("deadlock") as patient:
            core = self.core_of(patient)
        env = {**os.environ, "DRDOTNET_HOME": str(self.home.path)}
        with Terminal([PROGRAM, "dump", "open", str(core.path)], rows=40, columns=140, env=env) as terminal:
            terminal.wait_for("drdotnet>")
            terminal.type("thr\t\n")
            terminal.wait_for("transfer-savings")
            terminal.type("frob\n")
            terminal.wait_for("no command is called 'frob'")
            terminal.type("h\t\t")
            terminal.wait_for("handles  help")
            terminal.type("elp object\n")
            terminal.wait_for("object ADDRESS")
            terminal.type("\x1b[A\n")
            os.truncate(core.path, 4096)
            terminal.type("heap stat\n")
            terminal.wait_for("the core file became shorter while it was read")
            terminal.type("quit\n")
            self.assertEqual(terminal.finish(), 0)
        self.assertIn("threads", (self.home.path / "inspect-history").read_text())
        self.assertEqual((self.home.path / "inspect-history").stat().st_mode & 0o077, 0)


if __name__ == "__main__":
    unittest.main()
