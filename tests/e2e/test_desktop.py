"""The window, under Xvfb: the page lives in it, a session is run through it, and its private server dies with it. With
DRDOTNET_SHOTS=FOLDER a picture of the screen is kept."""

import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest
import zipfile
import zlib
from pathlib import Path

from drdotnet import DEADLINE_SECONDS, PROGRAM, ROOT, Home, gone, wait_until
from patient import FRAMEWORKS, Patient
from server import Server

DESKTOP = str(Path(PROGRAM).with_name("drdotnet-desktop"))


@unittest.skipUnless(os.access(DESKTOP, os.X_OK), "built without WebKitGTK")
@unittest.skipUnless(shutil.which("Xvfb"), "no Xvfb here")
class DesktopTest(unittest.TestCase):
    SIDE_BY_SIDE = "quietly"

    def setUp(self):
        self.home = self.enterContext(Home())
        read, write = os.pipe()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.screen = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x900x24", "-fbdir", self.folder],
                                       pass_fds=[write], stderr=subprocess.DEVNULL)
        os.close(write)
        self.addCleanup(self.screen.wait)
        self.addCleanup(self.screen.terminate)
        with os.fdopen(read) as number:
            self.display = ":" + number.readline().strip()

    def start(self, *words, cwd=None):
        # WebKit's own sandbox needs rights that a test run as root in a container has not.
        process = subprocess.Popen([DESKTOP, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, cwd=cwd,
                                   env={**os.environ, "DISPLAY": self.display, "LANG": "C.UTF-8", "DRDOTNET_HOME": str(self.home.path),
                                        "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_the_page_lives_in_the_window(self):
        with Server(self.home) as server:
            def listeners():
                return int(re.search(r"^drdotnet_live_listeners (\d+)$", server.get("/metrics").text(), re.M)[1])
            self.assertEqual(0, listeners())
            window = self.start("--server", server.url)
            # Only who has the token hears anything: it comes from the socket in the home.
            wait_until(listeners, "the script of the page listens")
            self.assertNotIn(server.token.encode(), Path(f"/proc/{window.pid}/cmdline").read_bytes())
            window.send_signal(signal.SIGTERM)
            self.assertEqual(0, window.wait(60))

    def keys(self, *words):
        """Types into the window that has the focus."""
        subprocess.run(["xdotool", *words], check=True, capture_output=True, timeout=DEADLINE_SECONDS,
                       env={**os.environ, "DISPLAY": self.display})

    def window_titled(self, words):
        """The id of the window with these words in its title, or None."""
        found = subprocess.run(["xdotool", "search", "--onlyvisible", "--name", words], capture_output=True, text=True,
                               env={**os.environ, "DISPLAY": self.display}, timeout=DEADLINE_SECONDS).stdout.split()
        return found[-1] if found else None

    def picture(self):
        """The screen: width, height, rows of (red, green, blue). Xvfb keeps it in a file, in the format of xwd."""
        raw = (self.folder / "Xvfb_screen0").read_bytes()
        head = struct.unpack(">25I", raw[:100])
        start, width, height, line = head[0] + head[19] * 12, head[4], head[5], head[12]
        rows = [raw[start + y * line:start + y * line + 4 * width] for y in range(height)]
        return width, height, [[(row[x + 2], row[x + 1], row[x]) for x in range(0, 4 * width, 4)] for row in rows]

    def keep_picture(self, width, height, rows):
        """As a PNG, for people."""
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        pixels = b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows)
        (Path(os.environ["DRDOTNET_SHOTS"]) / "desktop.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))

    @unittest.skipUnless(shutil.which("xdotool"), "no xdotool here")
    def test_a_session_is_run_through_it(self):
        """By keyboard, as a person would: find the process, examine it, and the verdict is on the screen."""
        with Patient("deadlock", fx=FRAMEWORKS[-1]) as patient, Server(self.home) as server:
            self.start("--server", f"{server.url}/profilers/{patient.pid}?symptom=deadlocks")
            wait_until(lambda: self.window_titled("^sick"), "the patient's page is shown")
            self.keys("windowfocus", self.window_titled("^sick"))

            def sessions():
                return server.get("/api/sessions").json()

            def started():
                self.keys("key", "e")  # the page may not listen yet
                return sessions()
            wait_until(started, "the session starts")
            done = server.finish(sessions()[0]["guid"])
            self.assertEqual(("done", "deadlocks"), (done["state"], done["profiler"]["id"]), done)
            wait_until(lambda: self.window_titled("^Deadlocks, sick"), "its page is shown")
            # Left in the verdict stands its mark, in the colour of trouble; beside it the words, of many shades.
            trouble = {(0xb8, 0x25, 0x2a), (0xf2, 0x80, 0x7b), (0x8d, 0x58, 0x00), (0xe3, 0xaa, 0x45)}

            def drawn():
                panel = self.picture()[2][150:300]
                words = {pixel for row in panel for pixel in row[80:1200]}
                return len(words) > 20 and any(pixel in trouble for row in panel for pixel in row[24:70])
            wait_until(drawn, "the verdict is on the screen")
            if os.environ.get("DRDOTNET_SHOTS"):
                self.keep_picture(*self.picture())
            self.assertTrue(patient.alive())

    @unittest.skipUnless(shutil.which("xdotool"), "no xdotool here")
    def test_files_are_saved_where_one_says(self):
        with Patient("healthy-waits", fx=FRAMEWORKS[-1]) as patient, Server(self.home) as server:
            done = server.examine("merged-call-stacks", patient.pid)
            self.start("--server", f"{server.url}/api/sessions/{done['guid']}/download", cwd=self.folder)
            wait_until(lambda: self.window_titled("^Save as$"), "it is asked where to")
            self.keys("windowfocus", "--sync", self.window_titled("^Save as$"))
            self.keys("key", "ctrl+a")
            self.keys("type", str(self.folder / "kept.zip"))
            self.keys("key", "Return")
            kept = self.folder / "kept.zip"
            wait_until(lambda: kept.exists() and zipfile.is_zipfile(kept), "the file is there")
            self.assertIn("report.html", zipfile.ZipFile(kept).namelist())

    @unittest.skipUnless(shutil.which("xdotool"), "no xdotool here")
    def test_a_server_of_another_home_asks_for_its_token(self):
        with Home() as other, Server(other) as server:
            self.start("--server", server.url)
            wait_until(lambda: self.window_titled("^Token"), "the page that asks for it is shown")

    def test_make_builds_it(self):
        """Where WebKitGTK is there, make builds the window too; 'make desktop' installs that first."""
        query = subprocess.run(["ninja", "-C", Path(PROGRAM).parent, "-t", "query", "programs"], capture_output=True, text=True,
                               check=True)
        self.assertIn("drdotnet-desktop", query.stdout)
        steps = subprocess.run(["make", "-C", ROOT, "-n", "desktop"], capture_output=True, text=True, check=True).stdout
        self.assertIn("tools/setup desktop", steps)
        self.assertRegex(steps, r"ninja -C build programs")
        setup = subprocess.run(["sh", "-c", '. "$0" >/dev/null; packages desktop', ROOT / "tools" / "setup"], capture_output=True,
                               text=True)
        self.assertIn("libwebkit2gtk-4.1-dev", setup.stdout)

    def test_what_make_install_installs(self):
        """The entry of the desktop's menu names a program and an icon that are there."""
        prefix = self.folder / "usr"
        build = Path(PROGRAM).parent
        done = subprocess.run(["make", "-C", ROOT, "install-desktop", f"BUILD={build.resolve()}", f"PREFIX={prefix}"],
                              capture_output=True, text=True)
        self.assertEqual(0, done.returncode, done.stderr)
        entry = dict(line.split("=", 1) for line in (prefix / "share/applications/drdotnet.desktop").read_text().splitlines() if "=" in line)
        self.assertTrue(os.access(prefix / "bin" / entry["Exec"], os.X_OK))
        self.assertIn("<svg", (prefix / f"share/icons/hicolor/scalable/apps/{entry['Icon']}.svg").read_text())

    def test_its_private_server_dies_with_it(self):
        window = self.start()
        wait_until(lambda: (self.home.path / "app.log").exists(), "its server runs")
        children = Path(f"/proc/{window.pid}/task/{window.pid}/children").read_text().split()
        server = next(int(c) for c in children if b"serve" in Path(f"/proc/{c}/cmdline").read_bytes())
        self.assertNotIn(b"token", Path(f"/proc/{server}/cmdline").read_bytes())
        window.kill()
        window.wait(60)
        wait_until(lambda: gone(server), "its server ends")

    def test_without_a_display(self):
        done = subprocess.run([DESKTOP], capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
        self.assertEqual(1, done.returncode)
        self.assertIn("display", done.stderr)


if __name__ == "__main__":
    unittest.main()
