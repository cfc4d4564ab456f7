"""The services of the field: each falls ill by its own figures, or stays well, its truth speaks of what is in its source, and
a diagnosis says of it first what docs/quality.md says that it does."""

import concurrent.futures
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from drdotnet import Home, Report, wait_until  # noqa: E402
from patient import DAY, FRAMEWORKS, PATIENTS, ROOM_FOR_ANSWERS, WHOLE_TABLES, FieldPatient, one_of  # noqa: E402

SIDE_BY_SIDE = True

AT_ONCE = 3
EVERY = 1 if WHOLE_TABLES else 6  # of the table each day, others on the next
PATIENCE_SECONDS = 180
MARK_SECONDS = 45

TRUTHS = FieldPatient.TRUTHS
NAMES = sorted(TRUTHS)


class Look:
    """What one patient shows at one moment."""

    def __init__(self, patient, name):
        truth = patient.truth()
        self.own, self.visitors, self.runtime = truth[name], truth["visitors"], truth["runtime"]
        self.seconds = truth["since_mark_ns"] / 1e9
        self.pid = patient.pid

    def threads(self):
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))

    def rss_mb(self):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024

    def sockets(self, state):
        """Of its network namespace: a socket in TIME_WAIT belongs to no process."""
        tables = [Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6")]
        return sum(line.split()[3] == state for table in tables for line in table)

    def still(self):
        """Visitors came, all of them wait, and nothing was answered since the mark."""
        return self.visitors["begun"] > 0 and self.seconds > 3 and sum(self.visitors[k] for k in ("answers", "errors", "unanswered")) == 0

    def served(self):
        return self.visitors["answers"] > 100 and self.visitors["errors"] == 0 and self.visitors["unanswered"] == 0


TIME_WAIT, CLOSE_WAIT = "06", "08"

# By which figure it is ill or well.
EVIDENCE = {
    "accounts": lambda look: look.own["pool_pending"] > 5 and look.own["pool_threads"] > 10,
    "alarms": lambda look: look.own["acknowledges_waiting"] == 5 and look.seconds > 5,
    "archive": lambda look: look.own["pending_finalizers"] > 100,
    "audit-log": lambda look: look.runtime["allocated_bytes"] > 5_000_000 * look.own.get("reports", 0) > 0,
    "availability": lambda look: look.runtime["cpu_ns"] > 10_000_000 * look.own.get("asked", 0) > 0,
    "booking": lambda look: look.own["free_counters"] == 0 and look.visitors["begun"] > 30,
    "capture": lambda look: look.own["pinned"] > 500 and look.own["fragmented"] > 10_000_000,
    "catalog": lambda look: sum(v for k, v in look.own.items() if k.startswith("failed imports")) > 50,
    "checkout": lambda look: look.own["free_connections"] == 0 and look.visitors["errors"] > 5,
    "courier": lambda look: look.visitors["slowest_ms"] > 1000 and look.visitors["answers"] > 5,
    "dispatch": lambda look: look.runtime["heap_bytes"] > 20_000_000 and look.own.get("handed over", 0) > 200,
    "exports": lambda look: look.runtime["gen2"] > 10,
    "filters": lambda look: look.runtime["jitted_methods"] > look.own.get("searches", 0) * 0.9 > 100,
    "forecast": lambda look: look.own["waiting"] > 15,
    "freight": lambda look: look.sockets(CLOSE_WAIT) > 100,
    "imaging": lambda look: look.own["loh_free"] > look.own["loh_size"] / 2 > 50_000_000,
    "ingest": lambda look: look.own["backlog"] > 20_000,
    "intake": lambda look: look.visitors["answers"] > 20 and look.visitors["slowest_ms"] > 50,
    "inventory": lambda look: look.still(),
    "invoices": lambda look: look.runtime["gen2"] + 2 > look.own.get("invoices", 0) > 20 and look.runtime["gen0"] < 5,
    "kitchen": lambda look: look.runtime["cpu_ns"] > 5_000_000 * look.own.get("cooked soup", 0) > 0,
    "labels": lambda look: look.own["pool_pending"] > 20 and look.visitors["slowest_ms"] > 6000,
    "ledger": lambda look: look.runtime["lock_contentions"] > 200 and look.own.get("posted", 0) > 200,
    "maps": lambda look: look.own["tiles"] == 4000 and look.served(),
    "metering": lambda look: look.runtime["heap_bytes"] > 20_000_000,
    "newsfeed": lambda look: look.runtime["cpu_ns"] > 500_000 * look.own.get("written", 0) > 50_000_000,
    "newsletter": lambda look: look.visitors["answers"] > 5 and look.visitors["slowest_ms"] > 50,
    "notify": lambda look: look.own.get("attempts", 0) > 1000,
    "packing": lambda look: look.own["belt"] >= 150 and look.own.get("packed bytes", 0) > 500_000,
    "poller": lambda look: look.own["polls_at_once"] > 8,
    "presence": lambda look: look.own["listeners"] > 500,
    "pricing": lambda look: look.own.get("without discount", 0) > 2000,
    "quotes": lambda look: look.sockets(TIME_WAIT) > 300 and look.own.get("calls", 0) > 300,
    "readings": lambda look: look.threads() > 80,
    "rides": lambda look: look.own["open_offers"] > 10,
    "scanner": lambda look: look.own.get("native_bytes", 0) > 20_000_000 and look.runtime["heap_bytes"] < 20_000_000,
    "search": lambda look: look.own["pages"] > 500,
    "simulation": lambda look: look.own.get("paths", 0) > 20_000,
    "statements": lambda look: look.runtime["heap_bytes"] > 20_000_000 and "disposed" not in look.own,
    "storefront": lambda look: look.served() and look.own.get("fulfilled", 0) > 50,
    "tariffs": lambda look: look.own["copies"] > 20,
    "tenants": lambda look: look.own.get("configurations", 0) > 20,
    "ticker": lambda look: look.own.get("received", 0) > 500,
    "tickets": lambda look: look.runtime["heap_bytes"] > 20_000_000 and "abandoned" not in look.own,
    "tracking": lambda look: look.runtime["heap_bytes"] > 20_000_000,
    "transfers": lambda look: look.still(),
    "workshop": lambda look: look.served() and look.own.get("done", 0) > 50,
}


def wait_until_ill(patient, name):
    """Until it shows what it has."""
    patient.mark()

    def shown():
        look = Look(patient, name)
        if look.seconds > MARK_SECONDS:
            patient.mark()  # a standstill that began after the last mark
        return EVIDENCE[name](look)

    try:
        wait_until(shown, f"{name} to show it", seconds=PATIENCE_SECONDS)
    except AssertionError as error:
        raise AssertionError(f"{error}: {patient.truth()}") from None


def fall_ill(name, fx):
    with FieldPatient(name, fx) as patient:
        wait_until_ill(patient, name)
        assert Look(patient, name).rss_mb() < 600
        # A runtime waits for its finalizer thread at its end.
        ends = name != "archive"
        code = patient.stop(60 if ends else 3)
        assert code == (0 if ends else -signal.SIGKILL), code


HEALTHY, LITTLE = "healthy", "little-seen"
HOT = {f"cpu-hotpaths.{finding}" for finding in ("hot-path", "spread-out", "starved", "outside-your-code", "idle", "gc-heavy")} | {"cpu-busy"}
POOL = {f"thread-pool.{finding}" for finding in ("starvation", "workers-blocked", "queue-latency", "many-blocked")}
LEAK = {"memory-leaks.leak"}

# What a diagnosis may say first, and what must be in that sentence.
SAID = {
    "accounts": (POOL, r"AccountsController\.GetBalance|lambda_method"),
    "alarms": ({"stuck-tasks.no-connection"}, r"AcknowledgeAllAsync.*connection of HttpClient"),
    "archive": ({"deadlocks.finalizer-blocked"}, r"finalizer thread waits for .*TapeLibrary"),
    "booking": ({"stuck-tasks.stuck"}, r"SeatPlan\.ReserveAsync.*_counters"),
    "catalog": ({"exceptions.many-exceptions"}, r"SupplierFeed|PriceBook"),
    "checkout": ({"exceptions.many-exceptions", "stuck-tasks.stuck"}, r"ConnectionPool\.RentAsync"),
    "forecast": ({"stuck-tasks.no-answer"}, r"StationClient\.FetchAsync"),
    "freight": (LEAK, r"CustomsLink\._links"),
    "ingest": (LEAK, r"Channel.*Buffer\._channel"),
    "inventory": ({"deadlocks.deadlock"}, r"_shelf.*_goods|_goods.*_shelf"),
    "invoices": ({"gc-stats.induced-collections"}, r"asked for by code.*InvoiceRun"),
    "ledger": ({f"lock-contention.{finding}" for finding in ("convoy", "contention", "long-waits")}, r"GeneralLedger"),
    "metering": (LEAK, r"FlowAnalyzer\.t_window"),
    "notify": ({"exceptions.many-exceptions"}, r"PushGateway\.SendAsync"),
    "presence": (LEAK, r"Lobby\.Changed"),
    "pricing": ({"exceptions.many-exceptions"}, r"UnknownCustomerException.*(PriceCalculator|Discounts)"),
    "quotes": ({"http-out-connections"}, r"opens a new connection"),
    "rides": ({"stuck-tasks.stuck"}, r"Rides\.cs.*OfferDesk\._open"),
    "search": (LEAK, r"ResultCache\._pages"),
    "statements": (LEAK, r"PdfRenderer, kept by the disposables of the root service scope"),
    "tariffs": ({"loader.contexts-leak", "loader.contexts-pile-up", "loader.assemblies-stay"}, r"TariffEngine\.Refresh"),
    "tenants": ({"inotify"}, r"inotify instances.*reloadOnChange"),
    "tracking": (LEAK, r"AsyncLocal .*Geofence\.Watch"),
    "transfers": ({"stuck-tasks.stuck", "stuck-tasks.deadlock-likely"}, r"TransferService\.TransferAsync.*Account\.Gate"),
}

# How much of it shows depends on the CPU that others leave to them, and on how old they are; docs/quality.md tells which of
# them are not found. It may be missed, and nothing else may be said.
MAY_BE_MISSED = {
    "audit-log": {"allocations.high-allocation-rate", "gc-stats.much-time-in-gc", "gc-stats.frequent-collections", *HOT},
    "availability": HOT | {"gc-stats.much-time-in-gc", "runtime-pauses.long-pauses"},
    "capture": {"heap-holes", "heap-stats.fragmented"},
    "courier": POOL | HOT | {"deadlocks.logging-blocks", "lock-contention.convoy", "lock-contention.contention"},
    "dispatch": LEAK | {"memory-leaks.leak-without-holder"},
    "exports": {"allocations.large-objects", "gc-stats.much-time-in-gc", "gc-stats.frequent-full-collections", *HOT,
                "runtime-pauses.long-pauses", "runtime-pauses.frequent-full-pauses"},
    "filters": HOT | {"jit.code-made-again", "jit.much-compilation", "loader.dynamic-code-grows"},
    "imaging": {"heap-holes", "heap-stats.fragmented", "memory-leaks.grew-in-steps"},
    "intake": HOT,
    "kitchen": HOT,
    "labels": POOL | {"zombie-threads.lost-pool-threads"},
    "newsfeed": HOT | {"jit.code-made-again", "jit.generics-made-again", "loader.dynamic-code-grows"},
    "newsletter": HOT,
    "poller": POOL | {"zombie-threads.lost-pool-threads"},
    "readings": {"zombie-threads.come-and-go", "zombie-threads.growing", "loader.threads-come-and-go"},
    "scanner": {"memory-leaks.grows-elsewhere"},
    "tickets": LEAK | {"memory-leaks.leak-without-holder"},
}

# A computation is told for information.
WELL = {"maps": set(), "packing": set(), "simulation": HOT, "storefront": set(), "ticker": set(), "workshop": set()}


def diagnosed(name, fx):
    """What is said first of it once it is ill."""
    with FieldPatient(name, fx, env=ROOM_FOR_ANSWERS) as patient, Home() as home:
        wait_until_ill(patient, name)
        done = home.run("diagnose", patient.pid, "--json")
        assert done.code == 0, repr(done)
        return Report(done.json())


class Score(unittest.TestCase):
    def test_the_first_sentence_names_the_cause(self):
        """A sixth of them each day."""
        today = NAMES[(DAY + 3) % EVERY::EVERY]
        for fx in one_of(FRAMEWORKS, 1):
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                runs = {name: pool.submit(diagnosed, name, fx) for name in today}
                for name, run in runs.items():
                    with self.subTest(name=name, fx=fx):
                        self.judge(name, run.result())

    def judge(self, name, report):
        said = f"{report.finding}: {report.verdict}"
        if name in SAID:
            findings, words = SAID[name]
            self.assertIn(report.finding, findings, said)
            self.assertRegex(report.verdict, words, said)
        else:
            allowed = WELL[name] if TRUTHS[name]["healthy"] else MAY_BE_MISSED[name]
            self.assertIn(report.finding, allowed | {HEALTHY, LITTLE}, said)

    def test_each_has_a_judgement(self):
        self.assertEqual(NAMES, sorted([*SAID, *MAY_BE_MISSED, *WELL]))
        self.assertEqual(sorted(WELL), [name for name in NAMES if TRUTHS[name]["healthy"]])


class Field(unittest.TestCase):
    def test_each_shows_what_it_is_said_to_have(self):
        """A sixth of them each day, on another runtime each day."""
        today = NAMES[DAY % EVERY::EVERY]
        for fx in one_of(FRAMEWORKS):
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                runs = {name: pool.submit(fall_ill, name, fx) for name in today}
                for name, run in runs.items():
                    with self.subTest(name=name, fx=fx):
                        run.result()

    def test_every_app_has_a_truth_and_evidence(self):
        program = PATIENTS / "field" / FRAMEWORKS[-1] / "field"
        listed = subprocess.run([program, "list"], capture_output=True, text=True, timeout=60, check=True).stdout.split()
        self.assertEqual(NAMES, listed)
        self.assertEqual(NAMES, sorted(EVIDENCE))

    def test_truths_speak_of_what_is_in_the_source(self):
        for name, truth in TRUTHS.items():
            with self.subTest(name=name):
                self.assertTrue(truth["wrong"])
                source = (FieldPatient.FOLDER / truth["file"]).read_text()
                self.assertIn("namespace ", source)
                for place in truth["place"]:
                    for word in re.findall(r"[A-Za-z_]\w+", place.replace(truth["file"], "")):
                        self.assertIn(word, source, f"{name}: {place}")
                self.assertEqual(bool(truth["place"] and truth["cause"] and truth["symptom"]), not truth["healthy"])

    def test_no_name_tells_the_sickness(self):
        """What a report could copy instead of finding it."""
        telling = re.compile(r"leak|deadlock|starv|sick|storm|convoy|churn|fragment", re.IGNORECASE)
        for name, truth in TRUTHS.items():
            source = (FieldPatient.FOLDER / truth["file"]).read_text()
            names = re.findall(r"(?:namespace|class|record|struct|interface|enum) ([\w.]+)|^\s+(?:[\w<>?\[\], ]+ )(\w+)\(", source, re.M)
            told = [word for pair in names for word in pair if telling.search(word)]
            self.assertEqual([], told, name)


if __name__ == "__main__":
    unittest.main()
