"""The systemd unit: how exposed systemd says it is, what is off and why, and that drdotnet works under what it allows."""

import os
import re
import subprocess
import unittest
from pathlib import Path

import filters
from drdotnet import ROOT, Home
from patient import FRAMEWORKS, Patient
from server import Server

SIDE_BY_SIDE = True

UNIT = ROOT / "deploy" / "drdotnet.service"
PAGE = ROOT / "docs" / "security.md"
# Flags of new namespaces: mount, cgroup, uts, ipc, user, pid, net.
NAMESPACES = (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16}
WRITE, EXECUTE = 2, 4


def settings():
    """Of the [Service] section; a name that comes twice has both values."""
    found = {}
    for name, value in re.findall(r"(?m)^(\w+)=(.*)$", UNIT.read_text().partition("[Service]")[2]):
        found[name] = f"{found[name]} {value}" if name in found else value
    return found


def analyzed():
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT], capture_output=True, text=True,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0"}, check=True)
    return done.stdout


class Unit(unittest.TestCase):
    def test_exposure(self):
        now = float(re.search(r"Overall exposure level for drdotnet.service: ([\d.]+)", analyzed())[1])
        said = float(re.search(r"exposure [\d.]+ before, now (\d+\.\d+)", PAGE.read_text())[1])
        self.assertLessEqual(now, said)

    def test_what_is_off_is_listed(self):
        table = PAGE.read_text().partition("| Off, or given |")[2]
        off = re.findall(r"(?m)^\s*✗ (\S+)", analyzed())
        self.assertGreater(len(off), 5)
        for name in off:
            option, _, what = name.partition("=")
            with self.subTest(name):
                listed = [what.lstrip("~").replace("|", r"\|")] if what.startswith("~CAP_") else [option]
                self.assertTrue(any(f"`{word}" in table for word in listed), f"docs/security.md does not say what {name} costs")

    def test_what_is_needed_is_there(self):
        self.assertIn("CAP_SYS_NICE", settings()["CapabilityBoundingSet"].split())
        self.assertNotIn("RestrictRealtime", settings())


class Restricted(unittest.TestCase):
    """As the unit has it, but for the mounts, which need systemd."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")

    def calls(self):
        unit = settings()
        names = set()
        for word in unit["SystemCallFilter"].split():
            names |= set(filters.group(word)) if word.startswith("@") else {word}
        names |= set(filters.group("@default")) | {"execve"}
        deny = []
        if unit.get("MemoryDenyWriteExecute") == "yes":
            deny += [f"{filters.number('mmap')}:2:{WRITE | EXECUTE}:{WRITE | EXECUTE}"]
            deny += [f"{filters.number(name)}:2:{EXECUTE}:{EXECUTE}" for name in ("mprotect", "pkey_mprotect")]
        if unit.get("RestrictNamespaces") == "yes":
            deny += [f"{filters.number(name)}:0:{flag}:{flag}" for name in ("clone", "unshare") for flag in NAMESPACES]
            names -= {"setns", "clone3"}
        names -= {"socket"}
        sockets = [f"{filters.number('socket')}:0:{0xffffffff}:{FAMILIES[family]}"
                   for family in unit["RestrictAddressFamilies"].split()]
        # systemd answers clone3, whose flags no filter sees, so that the C library takes clone.
        return filters.under("errno", {"enosys": ["clone3"], "errno": ",".join(deny), "allow": ",".join([filters.numbers(sorted(names)), *sockets])})

    def prefix(self):
        caps = ",".join("+" + cap.removeprefix("CAP_").lower() for cap in settings()["CapabilityBoundingSet"].split())
        return ["setpriv", f"--bounding-set=-all,{caps}", "--inh-caps=-all", "--no-new-privs",
                "sh", "-c", f'umask {settings()["UMask"]}; exec "$0" "$@"', *self.calls()]

    def test_a_patient_is_examined(self):
        with Home() as home, Patient("exceptions,deadlock", fx=FRAMEWORKS[-1]) as patient, Server(home, prefix=self.prefix()) as server:
            status = dict(re.findall(r"(?m)^(\w+):\s+(\S+)$", Path(f"/proc/{server.pid}/status").read_text()))
            self.assertEqual(("2", "1"), (status["Seccomp"], status["NoNewPrivs"]))
            self.assertFalse(int(status["CapBnd"], 16) & 1 << 21, "CAP_SYS_ADMIN")
            for profiler, way, parameters in (("exceptions", "events", {"duration": 1}),
                                              ("cpu-hotpaths", "samples", {"duration_seconds": 1}),
                                              ("merged-call-stacks", "image", {}), ("merged-call-stacks", "agent", {})):
                with self.subTest(profiler, way=way):
                    order = {"profilerGuid": profiler, "processId": patient.pid, "way": way,
                             "parameters": [{"key": key, "value": str(value)} for key, value in parameters.items()]}
                    answer = server.post("/api/sessions", order)
                    self.assertEqual(200, answer.status, answer)
                    session = server.finish(answer.json()["guid"])
                    self.assertEqual("done", session["state"], session)
            self.assertTrue(patient.alive())
            for path in home.path.rglob("*"):
                self.assertFalse(path.stat().st_mode & 0o077 and not path.is_symlink(), path)


if __name__ == "__main__":
    unittest.main()
