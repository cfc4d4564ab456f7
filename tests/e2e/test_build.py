"""What is installed after a build was configured is found by the next `make`."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from drdotnet import ROOT

SIDE_BY_SIDE = True

PROJECT = """project('p')
window = dependency('drdotnet-test-window', required: get_option('desktop'))
tool = find_program('drdotnet-test-tool', required: false)
configure_file(output: 'found', configuration: {'window': window.found(), 'tool': tool.found()}, output_format: 'c')
"""


class Configure(unittest.TestCase):
    """tools/configure with a project of its own, whose dependencies come and go."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="drdotnet-configure-")))
        for name in ("tools", "packages", "programs"):
            (self.folder / name).mkdir()
        (self.folder / "meson.build").write_text(PROJECT)
        (self.folder / "tests").mkdir()
        (self.folder / "tests" / "meson.build").touch()
        (self.folder / "meson_options.txt").write_text("option('desktop', type: 'feature', value: 'auto')\n")
        shutil.copy(ROOT / "tools" / "configure", self.folder / "tools")
        setup = self.folder / "tools" / "setup"
        setup.write_text("#!/bin/sh\n")
        setup.chmod(0o755)
        os.utime(setup, (0, 0))

    def configure(self):
        """What Meson found, and whether it looked at all."""
        build = self.folder / "build"
        before = (build / "build.ninja").stat().st_mtime_ns if build.exists() else None
        env = {**os.environ, "PKG_CONFIG_PATH": str(self.folder / "packages"),
               "PATH": f"{self.folder / 'programs'}:{os.environ['PATH']}"}
        done = subprocess.run([self.folder / "tools" / "configure", "build"], cwd=self.folder, env=env, capture_output=True,
                              text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        found = {word for word in ("window", "tool") if f"#define {word}\n" in (build / "found").read_text()}
        return found, (build / "build.ninja").stat().st_mtime_ns != before

    def test_what_was_installed_later_is_found(self):
        self.assertEqual(self.configure(), (set(), True))
        self.assertEqual(self.configure(), (set(), False))
        package = self.folder / "packages" / "drdotnet-test-window.pc"
        package.write_text("Name: window\nDescription: none\nVersion: 1\n")
        self.assertEqual(self.configure(), ({"window"}, True))
        tool = self.folder / "programs" / "drdotnet-test-tool"
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        self.assertEqual(self.configure(), ({"window", "tool"}, True))
        self.assertEqual(self.configure(), ({"window", "tool"}, False))
        package.unlink()
        self.assertEqual(self.configure(), ({"tool"}, True))


if __name__ == "__main__":
    unittest.main()
