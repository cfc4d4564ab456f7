"""The patients themselves: each falls ill on each runtime and tells a truth that agrees with itself."""

import concurrent.futures
import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from drdotnet import wait_until  # noqa: E402
from patient import FRAMEWORKS, PATIENTS, Patient, one_of  # noqa: E402

SIDE_BY_SIDE = True

AT_ONCE = 3
WINDOW_SECONDS = 1.0


def rest(patient):
    """Stands still if it can: one that is stuck in its sickness does not."""
    any(patient.pause()["quiet"] for _ in range(3))


def watch(sickness, fx, seconds=WINDOW_SECONDS, enough=lambda truth: True, **options):
    """The truth of one window, of so many seconds at least and until it is enough, taken while the patient stands still;
    checks start and end too."""
    with Patient(sickness, fx=fx, **options) as patient:
        ready = patient.ready
        assert ready["pid"] == patient.pid and ready["sickness"] == sickness, ready
        assert ready["runtime"].startswith(fx.removeprefix("net").removesuffix(".0") + "."), ready
        # Marked while it stands still, or the mark would fall into the middle of a round.
        rest(patient)
        marked = patient.mark()
        patient.resume()
        time.sleep(seconds)  # the window is what is measured, not a wait for something
        wait_until(lambda: enough(patient.truth()), f"enough of {sickness}")
        rest(patient)
        truth = patient.truth()
        assert truth["paused"] and truth["since_mark_ns"] >= seconds * 1e9, truth
        assert truth["mono_ns"] - marked["mono_ns"] == truth["since_mark_ns"], truth
        patient.resume()
        assert patient.alive()
        code = patient.stop()
        assert code == 0, f"exit code {code}"
        return truth


def run_program(fx, *arguments):
    program = PATIENTS / "sick" / fx / "sick"
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


class EverySickness(unittest.TestCase):
    """One check per sickness, each day on another runtime; several are done a few at a time."""

    def on_all(self, check):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            jobs = {fx: pool.submit(check, fx) for fx in one_of(FRAMEWORKS, zlib.crc32(self.id().encode()))}
            for fx, job in jobs.items():
                with self.subTest(fx=fx):
                    job.result()

    def paced(self, count, rate, truth):
        """A pace is never above its rate, but for the quarter of a second that it may catch up; below it any machine may be."""
        self.assertLessEqual(count, rate * (truth["since_mark_ns"] / 1e9 + 0.25) + 1)

    def test_healthy(self):
        def check(fx):
            truth = watch("healthy", fx, enough=lambda truth: truth["healthy"]["orders"] > 10)
            self.assertEqual(truth["healthy"]["exceptions"], 0)
            self.assertLess(truth["runtime"]["cpu_ns"], 0.5 * truth["since_mark_ns"])
        self.on_all(check)

    def test_heartbeat(self):
        with Patient("heartbeat") as patient:
            patient.mark()
            os.kill(patient.pid, signal.SIGSTOP)
            time.sleep(0.2)
            os.kill(patient.pid, signal.SIGCONT)
            wait_until(lambda: patient.truth()["heartbeat"]["beats"] > 1, "it beats again")
            truth = patient.truth()["heartbeat"]
        self.assertGreater(truth["longest_ns"], 190e6)

    def test_meters(self):
        def check(fx):
            truth = watch("meters", fx, enough=lambda truth: truth["meters"]["orders"].get("phone", 0) > 10)["meters"]
            orders = truth["orders"]
            self.assertAlmostEqual(orders["web"], 3 * orders["phone"], delta=3)
            self.assertEqual(truth["visits"], 3 * sum(orders.values()))
            self.assertEqual(truth["temperature"], 21.5)
        self.on_all(check)

    def test_gc_pauses(self):
        def check(fx):
            truth = watch("gc-pauses", fx, enough=lambda truth: truth["gc-pauses"]["induced"] >= 3, induced=5)
            runtime = truth["runtime"]
            induced = truth["gc-pauses"]["induced"]
            self.paced(induced, 5, truth)
            self.assertGreaterEqual(runtime["gen2"], induced)
            # The caller of GC.Collect waits at least as long as the pause (timer resolution aside).
            self.assertGreater(truth["gc-pauses"]["induced_blocked_ns"], 0)
            self.assertGreater(runtime["gc_pause_ns"], 0)
        self.on_all(check)

    def test_gc_pauses_of_server_gc(self):
        def check(fx):
            with Patient("gc-pauses", fx=fx, server_gc=True) as patient:
                self.assertTrue(patient.ready["server_gc"])
                self.assertGreaterEqual(patient.truth()["gc-pauses"]["induced"], 0)
        self.on_all(check)

    def test_exceptions(self):
        def check(fx):
            truth = watch("exceptions", fx, enough=lambda truth: truth["exceptions"]["rounds"] >= 25, rate=210)
            self.paced(truth["exceptions"]["rounds"], 210 / 7, truth)  # seven objects a round
            truth = truth["exceptions"]
            rounds = truth["rounds"]
            types = truth["types"]
            self.assertEqual(truth["objects"], 7 * rounds)
            self.assertEqual(truth["raised"], 10 * rounds)
            self.assertEqual(truth["raised"], sum(one["raised"] for one in types.values()))
            self.assertEqual(truth["events"], (10 if fx == "net8.0" else 9) * rounds)
            self.assertEqual(types["System.InvalidOperationException"]["rethrows"], rounds)
            self.assertEqual(types["Shop.Shipping.CourierUnavailableException"]["dispatched"], 2 * rounds)
            self.assertEqual(types["Shop.Billing.PaymentFailedException"]["with_inner"], rounds)
            self.assertEqual(truth["sites"]["Shop.Data.Repository.Find"], 2 * rounds)
        self.on_all(check)

    def test_exceptions_of_a_known_count(self):
        with Patient("exceptions", fx=FRAMEWORKS[-1], count=50, rate=0, threads=2, kind="inner") as patient:
            deadline = time.monotonic() + 20
            while patient.truth()["exceptions"]["rounds_total"] < 50:
                self.assertLess(time.monotonic(), deadline)
            patient.mark()
            time.sleep(0.2)
            self.assertEqual(patient.truth()["exceptions"]["objects"], 0)

    def test_exceptions_as_fast_as_possible(self):
        def check(fx):
            truth = watch("exceptions", fx, enough=lambda truth: truth["exceptions"]["objects"] > 1000, rate=0, kind="simple",
                          message="hostile")["exceptions"]
            self.assertEqual(list(truth["sites"]), ["Shop.Orders.Validator.Check"])
        self.on_all(check)

    def test_leak(self):
        def added(truth):
            return min(holder["added_objects"] for holder in truth["leak"]["holders"].values())

        def check(fx):
            truth = watch("leak", fx, enough=lambda truth: added(truth) >= 800, rate=1000)
            holders = truth["leak"]["holders"]
            self.assertEqual(sorted(holders), ["cache", "event", "static"])
            for holder in holders.values():
                self.paced(holder["added_objects"], 1000, truth)
                self.assertGreater(holder["added_bytes"], holder["added_objects"] * 1000)
            in_all = sum(holder["added_bytes"] for holder in holders.values())
            self.assertGreater(truth["runtime"]["allocated_bytes"], in_all * 0.9)
        self.on_all(check)

    def test_bounded_cache_stops(self):
        def check(fx):
            truth = watch("leak", fx, holder="cache-bounded", rate=10000, limit=300, initial=300)
            holder = truth["leak"]["holders"]["cache-bounded"]
            self.assertEqual((holder["objects"], holder["added_objects"]), (300, 0))
        self.on_all(check)

    def test_other_statics_that_leak(self):
        def check(fx):
            for name in ("generic-static", "thread-static"):
                watch("leak", fx, seconds=0, enough=lambda truth: truth["leak"]["holders"][name]["added_objects"] > 100,
                      holder=name, rate=1000)
        self.on_all(check)

    def test_duplicate_strings(self):
        def check(fx):
            truth = watch("duplicate-strings", fx, seconds=0)["duplicate-strings"]
            self.assertEqual(truth["wasted_bytes"], sum(value["wasted_bytes"] for value in truth["values"]))
            self.assertEqual(truth["values"][0]["copies"], 1000)
            self.assertTrue(any("|" in value["value"] for value in truth["values"]))
        self.on_all(check)

    def test_native(self):
        """What it says that it has taken is in RAM: of "trimmable" and "fragments" too, where it was freed."""
        def check(fx):
            for kind in ("kept", "lost", "trimmable", "fragments", "mmap", "stacks"):
                with Patient("native", fx=fx, kind=kind, mb=64) as patient:
                    truth = patient.truth()["native"]
                    status = Path(f"/proc/{patient.pid}/status").read_text()
                    chunks = (truth["used"] + truth["freed"]) * truth["chunk_bytes"]
                    taken = chunks + truth["mapped_bytes"] + truth["stack_bytes"]
                    self.assertGreater(taken, 0.8 * (64 << 20))
                    anonymous = int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024
                    self.assertGreater(anonymous, taken)
        self.on_all(check)

    def test_cpu_split(self):
        def check(fx):
            truth = watch("cpu", fx, enough=lambda truth: truth["cpu"]["cpu_ns"] > 0.5e9)
            cpu = truth["cpu"]
            self.assertAlmostEqual(cpu["paths"]["tax"]["share"], 0.7, delta=0.03)
            self.assertEqual(cpu["cpu_ns"], sum(thread["cpu_ns"] for thread in cpu["threads"]))
            # The process's own clock agrees, apart from the runtime's threads.
            self.assertGreater(cpu["cpu_ns"], 0.6 * truth["runtime"]["cpu_ns"])
            self.assertLess(cpu["cpu_ns"], 1.01 * truth["runtime"]["cpu_ns"])
        self.on_all(check)

    def test_cpu_other_paths(self):
        def check(fx):
            paths = watch("cpu", fx, enough=lambda truth: all(path["cpu_ns"] > 0 for path in truth["cpu"]["paths"].values()),
                          path="all", threads=2)["cpu"]["paths"]
            self.assertEqual(len(paths), 8)
            deep = watch("cpu", fx, path="deep", seconds=0.3)["cpu"]["paths"]
            self.assertEqual(list(deep), ["descend"])
        self.on_all(check)

    def test_blocked(self):
        def check(fx):
            with Patient("blocked", fx=fx, threads=100, busy=1) as patient:
                truth = patient.truth()["blocked"]
                self.assertEqual(sum(truth["waiting"].values()), 100)
                self.assertGreater(len(os.listdir(f"/proc/{patient.pid}/task")), 100)
                self.assertTrue(Path(f"/proc/{patient.pid}/task/{truth['busy_tid']}").exists())
        self.on_all(check)

    def test_deadlocks(self):
        def check(fx):
            for kind in ("monitor", "lock", "mixed", "semaphore", "threeway", "async"):
                if fx == "net8.0" and kind in ("lock", "mixed"):
                    done = run_program(fx, "deadlock", f"kind={kind}")
                    self.assertEqual(done.returncode, 3)
                    self.assertIn("unsupported on net8.0", done.stderr)
                    continue
                truth = watch("deadlock", fx, seconds=0, kind=kind, bystanders=4)["deadlock"]
                cycle = truth["cycle"]
                self.assertEqual(len(cycle), 3 if kind == "threeway" else 2)
                for party, following in zip(cycle, cycle[1:] + cycle[:1]):
                    self.assertEqual(party["waits_for"], following["holds"])
                self.assertEqual(truth["bystanders"], 4)
        self.on_all(check)

    def test_healthy_waits(self):
        def check(fx):
            truth = watch("healthy-waits", fx, enough=lambda truth:
                          sum(passed > 0 for passed in truth["healthy-waits"]["passed"].values()) >= 9)["healthy-waits"]
            self.assertEqual(len(truth["passed"]), 10)
            idle = [kind for kind, passed in truth["passed"].items() if passed == 0]
            self.assertEqual(idle, ["socket"])
        self.on_all(check)

    def test_stuck_tasks(self):
        def check(fx):
            truth = watch("stuck-tasks", fx, seconds=0, enough=lambda truth: truth["stuck-tasks"]["beats"] > 0,
                          tcs=40)["stuck-tasks"]
            self.assertEqual(truth["stuck"], sum(truth["kinds"].values()))
            self.assertEqual(truth["methods"]["Shop.Orders.OrderFlow.ConfirmAsync"], 40)
        self.on_all(check)

    def test_starvation(self):
        def check(fx):
            truth = watch("starvation", fx, enough=lambda truth: truth["starvation"]["queued"] >= 70 and
                          truth["starvation"]["waiting"] > 20 and truth["starvation"]["max_latency_ns"] > 100e6)
            self.paced(truth["starvation"]["queued"], 100, truth)
        self.on_all(check)

    def test_contention(self):
        def check(fx):
            # Not paused: the gate of the pause is itself a lock that the threads fight for.
            with Patient("contention", fx=fx) as patient:
                patient.mark()
                wait_until(lambda: all(fight["contended"] > 50 for fight in patient.truth()["contention"]["locks"].values()),
                           "fifty contentions")
                truth = patient.truth()
            contention = truth["contention"]
            self.assertEqual(sorted(contention["locks"]), ["monitor"] if fx == "net8.0" else ["lock", "monitor"])
            # Equal on an idle machine; on a busy one some get the lock while they still spin.
            self.assertLessEqual(truth["runtime"]["lock_contentions"], contention["contended"] + 3)
            self.assertGreater(truth["runtime"]["lock_contentions"], contention["contended"] * 0.3)
            for fight in contention["locks"].values():
                self.assertGreaterEqual(fight["held_ns"], fight["acquired"] * 4.5e6)
                self.assertLessEqual(fight["held_ns"], truth["since_mark_ns"] + 50e6)
        self.on_all(check)

    def test_allocations(self):
        def check(fx):
            truth = watch("allocations", fx, enough=lambda truth: truth["allocations"]["bytes"] > 30e6)
            allocations = truth["allocations"]
            share = {site["method"]: site["bytes"] / allocations["bytes"] for site in allocations["sites"]}
            self.assertAlmostEqual(share["Shop.Import.Reader.ReadBlock"], 0.57, delta=0.01)
            self.assertAlmostEqual(share["Shop.Import.Parser.MakeLine"], 0.285, delta=0.01)
            self.assertAlmostEqual(share["Shop.Import.Reader.ReadAttachment"], 0.05, delta=0.01)
            # The runtime's own sum proves the object sizes.
            self.assertAlmostEqual(allocations["bytes"] / truth["runtime"]["allocated_bytes"], 1, delta=0.01)
        self.on_all(check)

    def test_zombie_threads(self):
        def check(fx):
            truth = watch("zombie-threads", fx, seconds=0, enough=lambda truth: truth["zombie-threads"]["grown"] > 0,
                          dead=200, pool=3, growth=20)["zombie-threads"]
            self.assertEqual((truth["dead_threads"], truth["lost_pool_threads"]), (200, 3))
        self.on_all(check)

    def test_code_that_piles_up(self):
        def check(fx):
            truth = watch("jit", fx, enough=lambda truth: truth["jit"]["dynamic_methods"] >= 15)
            jit = truth["jit"]
            self.paced(jit["dynamic_methods"], 20, truth)
            self.assertGreaterEqual(truth["runtime"]["jitted_methods"], jit["dynamic_methods"] + jit["instantiations"])
            truth = watch("regex", fx)
            self.assertGreater(truth["runtime"]["jitted_methods"], truth["regex"]["regexes"])
            contexts = watch("contexts", fx, rate=20)["contexts"]
            self.assertEqual(contexts["kept"], contexts["loaded_total"])
        self.on_all(check)

    def test_lock_held_and_pool_crowd(self):
        def check(fx):
            with Patient("lock-held", fx=fx, threads=20) as patient:
                truth = patient.truth()["lock-held"]
                self.assertEqual(truth["threads"], 20)
                self.assertEqual(Path(f"/proc/{patient.pid}/task/{truth['holder_tid']}/comm").read_text(), "depot-holder\n")
            for kind in ("result", "wait", "getresult", "queue", "semaphore", "lock"):
                with Patient("pool-crowd", fx=fx, kind=kind, workers=3) as patient:
                    self.assertEqual(patient.truth()["pool-crowd"]["workers"], 3)
        self.on_all(check)

    def test_descriptors_kept(self):
        def check(fx):
            for what, link in (("files", "/upload-"), ("files-dropped", "/upload-"), ("sockets", "socket:"),
                               ("close-wait", "socket:"), ("clients", "socket:"), ("watchers", "inotify")):
                with Patient("descriptors", fx=fx, what=what, count=20) as patient:
                    self.assertEqual(patient.truth()["descriptors"]["open"], 20, what)
                    links = [os.readlink(f"/proc/{patient.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{patient.pid}/fd")]
                    self.assertGreaterEqual(sum(link in one for one in links), 1 if what == "watchers" else 20, (what, links))
        self.on_all(check)

    def test_churn(self):
        def check(fx):
            churn = watch("churn", fx, enough=lambda truth: all(part["rounds"] > 0 for part in truth["churn"]["parts"].values()),
                          rate=0)["churn"]
            for name, part in churn["parts"].items():
                rounds = part["rounds_total"]
                self.assertEqual(part["checksum"], churn["factor"] * (rounds * (rounds + 1) // 2) % 2**64, name)
            self.assertTrue(churn["right"])
        self.on_all(check)

    def test_switches_and_faults(self):
        def check(fx):
            watch("switches", fx, seconds=0, enough=lambda truth: truth["switches"]["rounds"] > 500)
            faults = watch("faults", fx, seconds=0, enough=lambda truth: truth["faults"]["faults"] > 0)["faults"]
            self.assertGreater(faults["waited_ns"], 0)
        self.on_all(check)

    def test_waits(self):
        def check(fx):
            truth = watch("waits", fx, ms=50)
            kinds = truth["waits"]["kinds"]
            self.assertEqual(sorted(kinds), ["epoll", "fifo", "futex", "nanosleep", "socket", "thread-sleep"])
            for name, kind in kinds.items():
                # Each thread does nothing but wait.
                self.assertAlmostEqual(kind["waited_ns"] / truth["since_mark_ns"], 1, delta=0.05, msg=name)
        self.on_all(check)

    def test_crashes(self):
        deaths = {
            "unhandled": (signal.SIGABRT, "System.InvalidOperationException: the books do not balance"),
            "stackoverflow": (signal.SIGABRT, "Stack overflow"),
            "oom": (signal.SIGABRT, "Out of memory"),
            "segv": (signal.SIGSEGV, ""),
            "failfast": (signal.SIGABRT, "the ledger is inconsistent"),
        }
        limits = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, limits[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, limits)

        def check(fx):
            for kind, (killer, words) in deaths.items():
                with Patient("crash", fx=fx, kind=kind) as patient:
                    self.assertEqual(patient.truth()["crash"]["kind"], kind)
                    patient.send("crash")
                    self.assertEqual(patient.wait(), -killer, kind)
                    self.assertIn(words, patient.stderr())
        self.on_all(check)


if __name__ == "__main__":
    unittest.main()
