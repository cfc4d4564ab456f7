#!/usr/bin/env python3
"""A process that answers like a .NET runtime, and whose streams of events carry nothing.

    mute_runtime.py nothing|zeros|garbage|header|end|event

`header`: a stream that begins well, and no more; `end`: and ends well, without an event; `event`: the same with the one event
that a runtime writes when a session ends, as one does in which nothing happens. A stream ends when its session is stopped.
Its socket lies in $TMPDIR. Prints READY; ends with its standard input.
"""

import os
import random
import socket
import struct
import sys
import threading
from pathlib import Path

from hostile_runtime import PROCESS_INFO3, SET_PROCESS, UNKNOWN_COMMAND, info, reply

SET_EVENTPIPE, STOP = 2, 1
DATE = struct.pack("<8H", 2026, 11, 1, 16, 9, 0, 0, 0)


def utf16z(value):
    return (value + "\0").encode("utf-16-le")


def block(stream, name, body):
    """The stream with one more object; block bodies begin at multiples of four."""
    stream += b"\x05\x05\x01" + struct.pack("<III", 2, 2, len(name)) + name + b"\x06" + struct.pack("<I", len(body))
    return stream + bytes(-len(stream) % 4) + body + b"\x06"


def blob(meta, payload, time):
    """An event of a block without compressed headers."""
    row = struct.pack("<IIQQIIQ", meta, 1, 7, 7, 0, 0, time) + bytes(32) + struct.pack("<I", len(payload)) + payload
    row += bytes(-len(row) % 4)
    return struct.pack("<I", len(row)) + row


def header():
    clock = struct.pack("<QQ4I", 1000, 10**9, 8, os.getpid(), 2, 0)
    head = b"Nettrace" + struct.pack("<I", 20) + b"!FastSerialization.1"
    return head + b"\x05\x05\x01" + struct.pack("<III", 4, 4, 5) + b"Trace\x06" + DATE + clock + b"\x06"


def with_event():
    meta = struct.pack("<I", 1) + utf16z("Microsoft-DotNETCore-EventPipe") + struct.pack("<I", 1) + utf16z("ProcessInfo")
    meta += struct.pack("<QIII", 0, 1, 0, 0)
    top = struct.pack("<HHQQ", 20, 0, 0, 0)
    return block(block(header(), b"MetadataBlock", top + blob(0, meta, 1000)), b"EventBlock", top + blob(1, b"", 5000))


STREAMS = {
    "nothing": lambda: b"",
    "zeros": lambda: bytes(4096),
    "garbage": lambda: random.Random(1).randbytes(4096),
    "header": header,
    "end": lambda: header() + b"\x01",
    "event": lambda: with_event() + b"\x01",
}


def serve(listener, stream):
    streams = []
    while True:
        line, _ = listener.accept()
        request = line.recv(65536)
        kind, command = request[16:18] if len(request) >= 18 else (0, 0)
        try:
            if (kind, command) == (SET_PROCESS, PROCESS_INFO3):
                line.sendall(reply(True, info()))
            elif (kind, command) == (SET_EVENTPIPE, STOP):
                line.sendall(reply(True, struct.pack("<Q", 1)))
                while streams:
                    streams.pop().close()
            elif kind == SET_EVENTPIPE and command < 6:
                line.sendall(reply(True, struct.pack("<Q", 1)) + stream)
                streams.append(line)
                continue
            else:
                line.sendall(reply(False, struct.pack("<I", UNKNOWN_COMMAND)))
        except BrokenPipeError:
            pass  # it was only a question whether somebody listens
        line.close()


def main():
    started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    path = f"{os.environ['TMPDIR']}/dotnet-diagnostic-{os.getpid()}-{started}-socket"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.utime(path, (0, 0))  # old enough for any session
    listener.listen(16)
    threading.Thread(target=serve, args=(listener, STREAMS[sys.argv[1]]()), daemon=True).start()
    print("READY", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
