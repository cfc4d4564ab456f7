"""Opens the sample reports in a real Chromium and uses them: no network, no error, the policy holds, keyboard works.

Talks to the browser over its debugging pipe (NUL-separated JSON on two file descriptors): no port, no library.
"""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SIDE_BY_SIDE = True

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("DRDOTNET_BUILD", Path(os.environ.get("DRDOTNET", ROOT / "build" / "drdotnet")).parent))
SAMPLES = ["pauses", "exceptions", "nothing", "partial", "cpu", "memory", "hostile"]
ANSWER_SECONDS = 60.0  # a cold browser on a loaded machine

KEYS = {
    "Enter": {"code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"},
    "Escape": {"code": "Escape", "windowsVirtualKeyCode": 27},
    "Tab": {"code": "Tab", "windowsVirtualKeyCode": 9},
    "ArrowLeft": {"code": "ArrowLeft", "windowsVirtualKeyCode": 37},
    "ArrowUp": {"code": "ArrowUp", "windowsVirtualKeyCode": 38},
    "ArrowRight": {"code": "ArrowRight", "windowsVirtualKeyCode": 39},
    "ArrowDown": {"code": "ArrowDown", "windowsVirtualKeyCode": 40},
}


class Browser:
    def __init__(self, folder):
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()

        def plumb():
            # The browser reads commands from 3 and answers on 4.
            os.dup2(to_child, 100), os.dup2(from_child, 101)
            os.dup2(100, 3), os.dup2(101, 4)

        self._process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=plumb)
        os.close(to_child)
        os.close(from_child)
        self._pending, self._last_id, self.events = b"", 0, []

    def _message(self, deadline):
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser did not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise ConnectionError("the browser went away")
            self._pending += data
        text, self._pending = self._pending.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, session=None, **params):
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def wait(self, method, session):
        deadline = time.monotonic() + ANSWER_SECONDS
        while not any(e.get("method") == method and e.get("sessionId") == session for e in self.events):
            self.events.append(self._message(deadline))

    def close(self):
        os.close(self._write)
        try:
            self._process.wait(ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)


class Page:
    """One tab with one report, at one width."""

    def __init__(self, browser, path, width=1280, script=True, media=()):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": n, "value": v} for n, v in media])
        if not script:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        browser.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        browser.wait("Page.loadEventFired", self.session)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def key(self, name):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **KEYS[name])
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name,
                  **{k: v for k, v in KEYS[name].items() if k != "text"})

    def seen(self, method):
        return [e["params"] for e in self.browser.events if e.get("method") == method and e.get("sessionId") == self.session]


@unittest.skipUnless(shutil.which("chromium"), "chromium is not installed")
class ReportHtml(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = BUILD / "tests" / "report_samples"
        if not program.exists():
            raise AssertionError(f"{program} does not exist: build first")
        cls.folder = tempfile.TemporaryDirectory(prefix="drdotnet-report-", ignore_cleanup_errors=True)
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([program, cls.folder.name], check=True, timeout=60)
        cls.browser = Browser(Path(cls.folder.name) / "profile")
        cls.addClassCleanup(cls.browser.close)

    def open(self, name, **how):
        return Page(self.browser, Path(self.folder.name) / f"{name}.html", **how)

    def test_no_network_no_error_no_dialog_no_sideways_scrolling(self):
        for name in SAMPLES:
            for width in (1280, 700, 400):
                with self.subTest(name, width=width), self.open(name, width=width) as page:
                    # A round trip behind everything the script does at load.
                    self.assertEqual(page.js("new Promise(r => requestAnimationFrame(() => r(document.scripts.length)))"), 1)
                    requests = [r["request"]["url"] for r in page.seen("Network.requestWillBeSent")]
                    self.assertEqual([Path(r).name for r in requests], [f"{name}.html"])
                    self.assertEqual(page.seen("Runtime.exceptionThrown"), [])
                    self.assertEqual(page.seen("Runtime.consoleAPICalled"), [])
                    self.assertEqual(page.seen("Log.entryAdded"), [])
                    self.assertEqual(page.seen("Page.javascriptDialogOpening"), [])
                    self.assertLessEqual(page.js("document.documentElement.scrollWidth"), width)
                    self.assertEqual(page.js("document.querySelectorAll('img,iframe,object,embed,a,link,form').length"), 0)
                    self.assertEqual(page.js("document.querySelectorAll('[style]:not(.flame *),[onclick],[onerror]').length"), 0)
                    self.assertEqual(page.js("document.querySelectorAll('.theme').length"), 1)

    def test_the_policy_stops_foreign_script_style_and_requests(self):
        with self.open("hostile") as page:
            broken = page.js("""new Promise(done => {
                const seen = [];
                document.addEventListener('securitypolicyviolation', e => seen.push(e.effectiveDirective));
                const script = document.createElement('script');
                script.textContent = 'window.evil = 1';
                document.body.append(script);
                const image = document.createElement('img');
                image.src = 'http://127.0.0.1:9/x';
                document.body.append(image);
                document.body.setAttribute('style', 'display: none');
                document.body.setAttribute('onclick', 'window.evil = 2');
                document.body.click();
                fetch('http://127.0.0.1:9/y').catch(() => 0).finally(() => setTimeout(() => done(seen.sort()), 0));
            })""")
            self.assertIsNone(page.js("window.evil"))
            self.assertEqual(page.js("getComputedStyle(document.body).display"), "block")
            for directive in ("connect-src", "img-src", "script-src-attr", "script-src-elem", "style-src-attr"):
                self.assertIn(directive, broken)

    def test_tables_sort_by_keyboard(self):
        column = """[...document.querySelectorAll('table.rows tbody:not(.last)')]
            .map(b => Number(b.rows[0].cells[%d].dataset.v))"""
        with self.open("pauses") as page:
            heads = page.js("[...document.querySelectorAll('table.rows th')].map(t => t.textContent)")
            paused = page.js("[...document.querySelector('table.rows tr').cells].findIndex(c => c.textContent === 'Paused')")
            self.assertIn("Paused", heads)
            before = page.js(column % paused)
            self.assertEqual(before, sorted(before, reverse=True))
            state = "[...document.querySelectorAll('table.rows th[aria-sort]')].map(t => t.textContent + ' ' + t.ariaSort)"
            self.assertEqual(page.js(state), ["Paused descending"])
            page.js("[...document.querySelectorAll('th button')].find(b => b.textContent === 'Paused').focus()")
            page.key("Enter")
            self.assertEqual(page.js(state), ["Paused ascending"])
            self.assertEqual(page.js(column % paused), sorted(before))
            self.assertTrue(page.js("document.querySelector('table.rows').lastElementChild.classList.contains('last')"))
            page.key("Tab")
            page.key("Enter")
            self.assertEqual(page.js(state), ["To suspend descending"])
            # By words, and what was not measured last in both directions.
            for word in ("Heap before", "Heap before"):
                page.js(f"[...document.querySelectorAll('th button')].find(b => b.textContent === '{word}').focus()")
                page.key("Enter")
                last = page.js("[...document.querySelectorAll('table.rows tbody:not(.last)')].pop().textContent")
                self.assertIn("Code versions changed", last)

    def test_lines_of_a_row_open_by_keyboard(self):
        shown = "[...document.querySelectorAll('tr.detail')].map(r => r.offsetHeight > 0)"
        with self.open("exceptions") as page:
            self.assertEqual(page.js(shown), [True, False, False])
            page.js("document.querySelectorAll('tr.has button')[1].focus()")
            page.key("Enter")
            self.assertEqual(page.js(shown), [True, True, False])
            self.assertEqual(page.js("document.activeElement.getAttribute('aria-expanded')"), "true")
            page.key("Enter")
            self.assertEqual(page.js(shown), [True, False, False])

    def test_trees_fold_and_move_by_arrows(self):
        now = "document.activeElement.querySelector('.nmc').textContent"
        visible = "[...document.querySelectorAll('.tree .trow')].filter(r => r.checkVisibility()).length"
        with self.open("cpu") as page:
            self.assertEqual(page.js(visible), 8)  # the heaviest path is open
            page.js("document.querySelector('.tree summary').focus()")
            self.assertEqual(page.js(now), "Shop.Api.Run")
            page.key("ArrowDown")
            self.assertEqual(page.js(now), "Shop.Pricing.Quote(Order)")
            page.key("ArrowLeft")
            self.assertEqual(page.js(visible), 4)
            page.key("ArrowDown")
            self.assertEqual(page.js(now), "Shop.Orders.<Save>b__0(Order)")
            page.key("ArrowRight")
            self.assertEqual(page.js(visible), 5)
            page.key("ArrowRight")
            self.assertEqual(page.js(now), "System.Text.Json.JsonSerializer.Serialize")
            page.key("ArrowLeft")
            page.key("ArrowLeft")
            page.key("ArrowLeft")
            self.assertEqual(page.js(now), "Shop.Api.Run")
            page.key("Enter")
            self.assertEqual(page.js(visible), 2)

    def test_the_flame_graph_zooms_and_finds_by_keyboard(self):
        title = "document.activeElement.querySelector('title').textContent"
        with self.open("cpu") as page:
            page.js("document.querySelector('.flame svg svg').focus()")
            for key, name in (("ArrowDown", "Main"), ("ArrowDown", "Shop.Api.Run"), ("ArrowUp", "Main"),
                              ("ArrowRight", "gc"), ("ArrowLeft", "Main")):
                page.key(key)
                self.assertEqual(page.js(title), name)
            page.key("ArrowRight")
            page.key("Enter")
            boxes = "[...document.querySelectorAll('.flame svg svg')].filter(b => b.style.display !== 'none')"
            self.assertEqual(page.js(f"{boxes}.map(b => b.querySelector('title').textContent)"),
                             ["all", "gc", "gc_heap::mark_phase"])
            self.assertEqual(page.js(f"{boxes}.map(b => b.getAttribute('width'))"), ["100%"] * 3)
            self.assertIn("9.4 % with callees", page.js("document.querySelector('.fl-now').textContent"))
            page.key("Escape")
            self.assertGreater(page.js(f"{boxes}.length"), 10)
            found = page.js("""(() => { const i = document.querySelector('.fl-bar input'); i.value = 'regularexpressions';
                i.dispatchEvent(new Event('input')); return document.querySelector('.fl-bar output').textContent })()""")
            self.assertEqual(found, "3 places, 57 %")  # nested ones are not counted twice

    def test_the_treemap_goes_in_and_out(self):
        shown = """[...document.querySelectorAll('.tm svg svg')].filter(b => getComputedStyle(b).display !== 'none')"""
        names = f"{shown}.map(b => b.querySelector('title').textContent)"
        with self.open("memory") as page:
            all_of_it = page.js(names)
            self.assertIn("._lines → OrderLine[]", all_of_it)
            self.assertIn("Order, itself", all_of_it)
            self.assertIn("all others together", all_of_it)
            self.assertIn("Shop.Bus._handlers", all_of_it)  # whole until somebody goes in
            self.assertNotIn("._invocationList → Object[]", all_of_it)
            # Areas are the numbers, and all of them together the whole picture.
            areas = page.js(f"""{shown}.map(b => {{ const r = b.querySelector('rect').getBoundingClientRect();
                return [b.querySelector('title').textContent, r.width * r.height] }})""")
            whole = page.js("(r => r.width * r.height)(document.querySelector('.tm > svg').getBoundingClientRect())")
            by_name = dict(areas)
            self.assertAlmostEqual(by_name["._lines → OrderLine[]"] / whole, 148 / 402, delta=0.01)
            self.assertAlmostEqual(by_name["Order, itself"] / whole, 68 / 402, delta=0.01)
            self.assertAlmostEqual(sum(by_name.values()) / whole, 1, delta=0.02)
            # In by keyboard: through what is as good as all of it at once, to where something is beside it.
            page.js(f"{shown}.find(b => b.querySelector('title').textContent.startsWith('._lines')).focus()")
            self.assertIn("Shop.Cache._orders › Dictionary<Int32, Order>", page.js("document.querySelector('.map .fl-now').textContent"))
            page.key("Enter")
            self.assertNotIn("all others together", page.js(names))
            self.assertIn("._buckets → Int32[]", page.js(names))
            self.assertIn("310 MB", page.js("document.querySelector('.map .fl-bar').textContent"))
            page.key("Enter")
            self.assertIn("._entries → Entry[], itself", page.js(names))
            page.key("Enter")
            self.assertEqual(sorted(page.js(names)), ["._lines → OrderLine[]", "._note → String", "Order, itself"])
            page.key("ArrowRight")
            page.key("Enter")  # a box without parts stays as it is
            self.assertEqual(len(page.js(names)), 3)
            for _ in range(3):
                page.key("Escape")
            self.assertEqual(page.js(names), all_of_it)
            self.assertFalse(page.js("document.querySelector('.map .fl-bar').checkVisibility()"))
            # By mouse, and back by its button.
            spot = page.js(f"""(r => [r.x + 5, r.y + 5])({shown}.find(b => b.querySelector('title').textContent
                .startsWith('Shop.Bus')).querySelector('rect').getBoundingClientRect())""")
            for kind in ("mousePressed", "mouseReleased"):
                page.call("Input.dispatchMouseEvent", type=kind, x=spot[0], y=spot[1], button="left", clickCount=1)
            self.assertEqual(page.js(names), ["._invocationList → Object[]"])
            page.js("document.querySelector('.map .fl-bar button').click()")
            self.assertEqual(page.js(names), all_of_it)
        with self.open("memory", script=False) as page:
            self.assertEqual(page.js(names), all_of_it)

    def test_the_theme_follows_the_system_and_the_hand(self):
        ground = "getComputedStyle(document.documentElement).backgroundColor"
        dark, light = "rgb(14, 17, 19)", "rgb(246, 247, 248)"
        for scheme, want in (("dark", dark), ("light", light)):
            with self.open("nothing", media=[("prefers-color-scheme", scheme)]) as page:
                page.js("try { localStorage.clear() } catch (e) { 0 }")
                self.assertEqual(page.js(ground), want)
        with self.open("nothing") as page:
            page.js("document.querySelector('.theme').focus()")
            page.key("Enter")
            self.assertEqual((page.js("document.documentElement.dataset.theme"), page.js(ground)), ("light", light))
            page.key("Enter")
            self.assertEqual((page.js("document.documentElement.dataset.theme"), page.js(ground)), ("dark", dark))
            page.key("Enter")
            self.assertIsNone(page.js("document.documentElement.dataset.theme"))

    def test_all_is_readable_without_script(self):
        with self.open("exceptions", script=False) as page:
            self.assertEqual(page.js("document.querySelectorAll('button').length"), 0)
            self.assertTrue(page.js("[...document.querySelectorAll('tr.detail')].every(r => r.offsetHeight > 10)"))

    def test_print_has_every_branch_open(self):
        with self.open("cpu") as page:
            page.call("Emulation.setEmulatedMedia", media="print")
            self.assertTrue(page.js("[...document.querySelectorAll('.tree .trow')].every(r => r.offsetHeight > 10)"))
            self.assertEqual(page.js("getComputedStyle(document.documentElement).backgroundColor"), "rgb(255, 255, 255)")
            self.assertGreater(len(page.call("Page.printToPDF", preferCSSPageSize=True)["data"]), 10000)
        with self.open("exceptions") as page:
            page.call("Emulation.setEmulatedMedia", media="print")
            self.assertTrue(page.js("[...document.querySelectorAll('tr.detail')].every(r => r.offsetHeight > 10)"))

    def test_pictures_have_words(self):
        with self.open("pauses") as page:
            self.assertEqual(page.js("document.documentElement.lang"), "en")
            label = page.js("document.querySelector('.plot svg').getAttribute('aria-label')")
            self.assertIn("Pauses over time: over 20 s, from zero up to 212 ms, 148 bars", label)
            self.assertEqual(page.js("""[...document.querySelectorAll('svg')].filter(s => !s.parentElement.closest('svg')
                && s.getAttribute('aria-hidden') !== 'true' && !s.getAttribute('aria-label')).length"""), 0)


if __name__ == "__main__":
    unittest.main()
