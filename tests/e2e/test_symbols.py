"""`drdotnet symbols fetch` with a symbol server of our own: what is missing is asked for by its key, checked, kept and used."""

import http.server
import os
import shutil
import tempfile
import threading
import unittest
from pathlib import Path

import elf
from drdotnet import Home, examine, wait_until
from patient import FRAMEWORKS, PATIENTS, Patient

SIDE_BY_SIDE = True
FX = FRAMEWORKS[-1]
DAC, RUNTIME = "libmscordaccore.so", "libcoreclr.so"
NOT_FOUND, USAGE, IO = 3, 2, 1


class Server:
    """Serves what `files` holds by path; a value that is a str is the address it sends on to. Notes what it was asked."""

    def __init__(self):
        self.files, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.asked.append(self.path)
                found = outer.files.get(self.path.partition("?")[0])
                self.send_response(404 if found is None else 302 if isinstance(found, str) else 200)
                if isinstance(found, str):
                    self.send_header("Location", found)
                body = found if isinstance(found, bytes) else b""
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def debug_key(library):
    return f"/_.debug/elf-buildid-sym-{elf.build_id(library)}/_.debug"


class Symbols(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        self.server = self.enterContext(Server())
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-symbols-")))

    def patient_without(self, *names):
        """The published patient again, without some of its files."""
        folder = self.folder / "app"
        try:
            shutil.copytree(PATIENTS / "sick" / FX, folder, copy_function=os.link)
        except (OSError, shutil.Error):  # another file system
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(PATIENTS / "sick" / FX, folder)
        for name in names:
            (folder / name).unlink()
        return folder

    def fetch(self, *arguments, code=0, **where):
        done = self.home.run("symbols", "fetch", *arguments, "--from", self.server.url, **where)
        self.assertEqual(done.code, code, done)
        return done

    def states(self, *arguments, code=0):
        return {(f["name"], f["kind"]): f["state"] for f in self.fetch(*arguments, "--json", code=code).json()["files"]}

    def cached(self):
        folder = self.home.path / "symbols"
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


class Process(Symbols):
    def folded(self):
        folder = self.home.path / "sessions" / self.home.sessions()[0]["guid"]
        return (folder / "folded_stacks.out").read_text()

    def test_names_of_the_runtime_lines_and_the_data_access_library(self):
        """One process that lacks all three, before and after."""
        folder = self.patient_without("sick.pdb", DAC)
        key = debug_key(folder / RUNTIME)
        self.server.files["/signed/place"] = elf.debug_file(folder / RUNTIME, lambda _: "_ZN7CoreClr4PartEi")
        self.server.files[key] = "/signed/place?sig=a%2Fb"
        self.server.files["/" + elf.pdb_key(PATIENTS / "sick" / FX / "sick.pdb")] = \
            (PATIENTS / "sick" / FX / "sick.pdb").read_bytes()
        self.server.files[f"/{DAC}/elf-buildid-coreclr-{elf.build_id(folder / RUNTIME)}/{DAC}"] = \
            (PATIENTS / "sick" / FX / DAC).read_bytes()
        with Patient("exceptions,cpu", folder=folder, rate=2000) as patient:
            before = examine(self.home, "cpu-hotpaths", patient.pid, 2)
            self.assertIn(f"[{RUNTIME}]", self.folded())
            self.assertFalse(any(row["lines"] for row in before.rows("Hottest methods")))
            self.assertEqual(self.home.run("stacks", patient.pid).code, NOT_FOUND)
            self.assertEqual(self.server.asked, [], "nothing is downloaded unless asked for")

            states = self.states(patient.pid)
            self.assertEqual(states[RUNTIME, "debug"], "fetched")
            self.assertEqual(states["sick.pdb", "pdb"], "fetched")
            self.assertEqual(states[DAC, "dac"], "fetched")
            self.assertEqual(states["libclrjit.so", "debug"], "not-there")
            self.assertIn("/signed/place?sig=a%2Fb", self.server.asked)
            self.assertIn(key[1:], self.cached())

            after = examine(self.home, "cpu-hotpaths", patient.pid, 2)
            self.assertNotIn(f"[{RUNTIME}]", self.folded())
            self.assertIn("CoreClr::Part", self.folded())
            self.assertTrue(any(row["lines"] for row in after.rows("Hottest methods")))
            self.assertEqual(self.home.run("stacks", patient.pid).code, 0)

            del self.server.asked[:]
            again = self.states(patient.pid, "--only", "dac", "--only", "pdb", code=NOT_FOUND)  # what nobody has is left
            self.assertNotIn(("sick.pdb", "pdb"), again)
            self.assertNotIn((DAC, "dac"), again)
            self.assertFalse([path for path in self.server.asked if "sick.pdb" in path])
            self.cut_short_while_it_is_read(patient, self.home.path / "symbols" / key[1:])

    def cut_short_while_it_is_read(self, patient, debug):
        """Whoever tidies up the cache beside us costs names, not the session; and it is said which."""
        def reads():
            try:
                return str(debug) in Path(f"/proc/{job.worker()}/maps").read_text()
            except (FileNotFoundError, ProcessLookupError):
                return False

        with self.home.start("cpu-hotpaths", patient.pid, "-d", "2s") as job:
            wait_until(reads, "the worker reads the debug file")
            os.truncate(debug, 0)
            done = job.finish()
        self.assertEqual(done.code, 0, done)
        self.assertIn(f"[{RUNTIME}, which became shorter]", self.folded())

    def test_a_core_from_elsewhere(self):
        """Of the folder that the process ran from, nothing is left but what a server has."""
        folder = self.patient_without()
        core = self.folder / "core"
        with Patient("deadlock", folder=folder) as patient:
            done = self.home.run("dump", "collect", patient.pid, "--fast", "--type", "heap", "-o", core, "--max-pause", "10s", "-q")
            self.assertEqual(done.code, 0, done)
        away = folder.rename(self.folder / "away")
        self.assertEqual(self.home.run("stacks", "--core", core).code, NOT_FOUND)
        identity = elf.build_id(away / RUNTIME)
        self.server.files[f"/{RUNTIME}/elf-buildid-{identity}/{RUNTIME}"] = (away / RUNTIME).read_bytes()
        self.server.files[f"/{DAC}/elf-buildid-coreclr-{identity}/{DAC}"] = (away / DAC).read_bytes()
        self.server.files["/" + elf.pdb_key(away / "sick.pdb")] = (away / "sick.pdb").read_bytes()
        states = self.states("--core", core)
        self.assertEqual(states[RUNTIME, "library"], "fetched")
        self.assertEqual(states[DAC, "dac"], "fetched")
        self.assertEqual(states["sick.pdb", "pdb"], "fetched")
        stacks = self.home.run("stacks", "--core", core, "--json")
        self.assertEqual(stacks.code, 0, stacks)
        self.assertIn("Shop.Bank.Ledger.TransferByMonitor", stacks.out)


class File(Symbols):
    def setUp(self):
        super().setUp()
        self.library = PATIENTS / "sick" / FX / "libclrjit.so"

    def test_one_library(self):
        self.server.files[debug_key(self.library)] = elf.debug_file(self.library, lambda i: f"jit_{i}")
        done = self.fetch(self.library)
        self.assertRegex(done.out, r"1 file missing, 1 fetched")
        self.assertRegex(done.out, rf"debug file of libclrjit\.so, .* from {self.server.url}")
        self.assertEqual(self.cached(), [debug_key(self.library)[1:]])
        self.assertIn("nothing is missing", self.fetch(self.library).out)

    def test_by_debuginfod(self):
        self.server.files[f"/buildid/{elf.build_id(self.library)}/debuginfo"] = elf.debug_file(self.library, lambda i: f"jit_{i}")
        env = {"DRDOTNET_SYMBOL_SERVERS": self.server.url + "/symbols", "DEBUGINFOD_URLS": self.server.url}
        done = self.home.run("symbols", "fetch", self.library, env=env)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.server.asked, ["/symbols" + debug_key(self.library), f"/buildid/{elf.build_id(self.library)}/debuginfo"])
        self.assertEqual(self.cached(), [debug_key(self.library)[1:]])

    def test_what_is_of_another_build_is_not_kept(self):
        other = PATIENTS / "sick" / FX / RUNTIME
        for wrong, why in ((elf.debug_file(other, lambda i: f"clr_{i}"), "another build id"), (self.library.read_bytes(), "no symbols"),
                           (b"<html>please log in</html>", "ELF"), (b"", "ordinary size")):
            self.server.files[debug_key(self.library)] = wrong
            done = self.fetch(self.library, code=IO)
            self.assertIn(why, done.err)
            self.assertEqual(self.cached(), [])

    def test_what_was_changed_in_the_cache_is_not_used(self):
        self.server.files[debug_key(self.library)] = elf.debug_file(self.library, lambda i: f"jit_{i}")
        self.fetch(self.library)
        (self.home.path / "symbols" / debug_key(self.library)[1:]).write_bytes(b"\x7fELF")
        self.assertRegex(self.fetch(self.library).out, "1 fetched")

    def test_nobody_has_it(self):
        done = self.fetch(self.library, code=NOT_FOUND)
        self.assertIn(f"none of 1 missing file is on {self.server.url}", done.err)

    def test_nobody_answers(self):
        done = self.home.run("symbols", "fetch", self.library, "--from", "http://127.0.0.1:1")
        self.assertEqual(done.code, IO, done)
        self.assertIn("http://127.0.0.1:1", done.err)

    def test_sent_on_and_on(self):
        self.server.files[debug_key(self.library)] = debug_key(self.library)
        self.assertIn("on and on", self.fetch(self.library, code=IO).err)
        self.assertLess(len(self.server.asked), 10)

    def test_wrong_words(self):
        text = self.folder / "text"
        text.write_text("neither")
        for code, words, said in ((USAGE, ["fetch"], "needs a TARGET"), (USAGE, ["find", "1"], "does fetch, not 'find'"),
                                  (USAGE, ["fetch", "1", "--core", "x"], "needs a TARGET"),
                                  (USAGE, ["fetch", "1", "--from", "ftp://x"], "ftp://x"),
                                  (USAGE, ["fetch", "1", "--only", "everything"], "everything"),
                                  (NOT_FOUND, ["fetch", self.folder / "none"], "none"), (NOT_FOUND, ["fetch", "no-such-process"], "no-such")):
            done = self.home.run("symbols", *words)
            self.assertEqual(done.code, code, (words, done))
            self.assertIn(said, done.err)
        done = self.home.run("symbols", "fetch", text)
        self.assertIn("no library, program, assembly or core file", done.err)
        self.assertNotEqual(done.code, 0)


if __name__ == "__main__":
    unittest.main()
