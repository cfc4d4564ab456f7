"""Control groups of our own, of the version that this machine has, for processes that tests limit."""

import contextlib
import os
import re
from pathlib import Path

from drdotnet import wait_until

CGROUPS = Path("/sys/fs/cgroup")


def unified():
    """Where version 2 of cgroups is mounted: alone, or beside the old ones."""
    both = CGROUPS / "unified"
    return both if both.exists() else CGROUPS


class MemoryGroup:
    """A memory cgroup of our own, of the version that this machine has."""

    def __init__(self, parent=None):
        old = CGROUPS / "memory" / "memory.limit_in_bytes"
        self.v2 = not old.exists()
        parent = parent.folder if parent else unified() if self.v2 else old.parent
        if self.v2:
            (parent / "cgroup.subtree_control").write_text("+memory")
        self.folder = parent / f"drdotnet-test-{os.getpid()}"

    def __enter__(self):
        self.folder.mkdir()
        return self

    def __exit__(self, *_):
        remove_group(self.folder)

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def limit(self, size):
        (self.folder / ("memory.max" if self.v2 else "memory.limit_in_bytes")).write_text(str(size))

    def used(self):
        return int((self.folder / ("memory.current" if self.v2 else "memory.usage_in_bytes")).read_text())

    def killed(self):
        text = (self.folder / ("memory.events" if self.v2 else "memory.oom_control")).read_text()
        return int(re.search(r"^oom_kill (\d+)", text, re.M)[1])


class CpuGroup:
    """A CPU group of our own with a limit, of cgroup v1 or v2; None in `folder` where none can be made here."""

    def __init__(self, cores):
        self.folder = None
        name, quota = f"drdotnet-test-{os.getpid()}", int(cores * 100000)
        for parent, limits in (("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(quota)}),
                               ("/sys/fs/cgroup", {"cpu.max": f"{quota} 100000"})):
            folder = Path(parent, name)
            try:
                folder.mkdir()
                for file, text in limits.items():
                    (folder / file).write_text(text)
                self.folder = folder
                return
            except OSError as error:
                self.error = error
                if folder.exists():
                    folder.rmdir()

    def __enter__(self):
        return self

    def take(self, pid):
        (self.folder / "cgroup.procs").write_text(str(pid))

    def __exit__(self, *_):
        if self.folder:  # a process that has ended leaves it a moment later
            wait_until(lambda: not (self.folder / "cgroup.procs").read_text().strip(), "the group is empty")
            self.folder.rmdir()


def remove_group(group):
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    wait_until(lambda: try_rmdir(group), "the cgroup is empty")


def try_rmdir(group):
    try:
        group.rmdir()
        return True
    except OSError:
        return False
