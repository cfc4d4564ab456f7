"""Seccomp filters for the end-to-end tests: the lists of src/wire/calls.h, and programs under a filter (tools/seccomp_run.c)."""

import ctypes
import functools
import re
import subprocess
from pathlib import Path

from drdotnet import PROGRAM, ROOT

RUN = str(Path(PROGRAM).parent / "tests" / "seccomp_run")
HEADER = ROOT / "src" / "wire" / "calls.h"
_library = ctypes.CDLL("libseccomp.so.2")


@functools.cache
def number(name):
    """Of a system call of this machine; None where it has none."""
    found = _library.seccomp_syscall_resolve_name(name.encode())
    return found if found >= 0 else None


def numbers(names):
    return ",".join(str(number(name)) for name in names if number(name) is not None)


def of_dotnet():
    body = re.search(r"#define CALLS_OF_DOTNET\(X\)(.*?)\n\n", HEADER.read_text(), re.S)[1]
    return re.findall(r"X\((\w+)\)", body)


def ours():
    """[(name, {uses}, need)], an entry for each in the header."""
    body = HEADER.read_text().partition("#define CALLS_OURS(X)")[2]
    return [(name, {use for use in re.findall(r"CALLS_(\w+)", uses)}, need)
            for name, uses, need in re.findall(r"X\((\w+), ([A-Z_| ]+),\s+CALLS_(\w+),", body.replace("\\\n", ""))]


def our_names(*uses):
    """Each once, in the header's order; of those uses only, if any are given."""
    return list(dict.fromkeys(name for name, used, _ in ours() if not uses or used & set(uses)))


def under(default, rules):
    """A prefix of a command: {action: names or numbers as text}."""
    text = ";".join(f"{action}={calls if isinstance(calls, str) else numbers(calls)}" for action, calls in rules.items())
    return [RUN, default, text]


def deny(action, *names):
    return under("allow", {action: names})


def allow_only(names, action="kill"):
    return under(action, {"allow": names})


@functools.cache
def group(name):
    """The calls of a group of systemd's, such as @system-service."""
    groups = subprocess.run(["systemd-analyze", "syscall-filter"], capture_output=True, text=True, check=True).stdout
    groups = re.sub(r"\x1b\[[0-9;]*m", "", groups)
    members = {head: re.findall(r"^ {4}([@\w-]+)$", body, re.M)
               for head, body in re.findall(r"^(@[\w-]+)\n(.*?)(?=^\S|\Z)", groups, re.M | re.S)}

    def expand(name):
        return {call for member in members[name] for call in expand(member)} if name.startswith("@") else {name}

    return frozenset(expand(name))


def system_service():
    """What systemd's SystemCallFilter=@system-service allows."""
    # systemd allows these besides, or nothing could be started.
    return sorted(group("@system-service") | group("@default") | {"execve"})
