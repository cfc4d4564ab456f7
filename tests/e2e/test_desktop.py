"""The window, under Xvfb: the page lives in it, and its private server dies with it."""

import os
import re
import shutil
import signal
import subprocess
import unittest
from pathlib import Path

from drdotnet import PROGRAM, Home, gone, wait_until
from server import Server

DESKTOP = str(Path(PROGRAM).with_name("drdotnet-desktop"))


@unittest.skipUnless(os.access(DESKTOP, os.X_OK), "built without WebKitGTK")
@unittest.skipUnless(shutil.which("Xvfb"), "no Xvfb here")
class DesktopTest(unittest.TestCase):
    def setUp(self):
        self.home = self.enterContext(Home())
        read, write = os.pipe()
        self.screen = subprocess.Popen(["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x900x24"], pass_fds=[write],
                                       stderr=subprocess.DEVNULL)
        os.close(write)
        self.addCleanup(self.screen.wait)
        self.addCleanup(self.screen.terminate)
        with os.fdopen(read) as number:
            self.display = ":" + number.readline().strip()

    def start(self, *words):
        # WebKit's own sandbox needs rights that a test run as root in a container has not.
        process = subprocess.Popen([DESKTOP, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   env={**os.environ, "DISPLAY": self.display, "LANG": "C.UTF-8", "DRDOTNET_HOME": str(self.home.path),
                                        "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS": "1"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_the_page_lives_in_the_window(self):
        with Server(self.home) as server:
            def asked():
                return int(re.search(r"^drdotnet_http_requests_total (\d+)$", server.get("/metrics").text(), re.M)[1])
            before, mine = asked(), 1
            window = self.start("--server", server.url)

            def page_has_asked():
                nonlocal mine
                mine += 1
                # The page, its script and style, and then the script's own questions.
                return asked() - before > mine + 5
            wait_until(page_has_asked, "the script of the page runs")
            window.send_signal(signal.SIGTERM)
            self.assertEqual(0, window.wait(60))

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
