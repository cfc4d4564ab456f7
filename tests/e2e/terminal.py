"""A program on a pseudo-terminal, and what its user would see.

    with Terminal([PROGRAM, "counters", str(pid)], rows=24, columns=80) as terminal:
        terminal.wait_for("working_set")
        terminal.type("/")
        print(terminal.text())

Knows the control sequences that ncurses uses for TERM=xterm; an unknown one fails the test.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

DEADLINE_SECONDS = 60.0
_SEQUENCE = re.compile(r"\x1b(?:\[([?>!]?)([0-9;]*)([@-~])|[()][A-Z0-9]|[=>78cM])")
_IGNORED = set("mhltnc")


class Screen:
    """Cells, as a terminal would have them."""

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.y = self.x = 0
        self.top, self.bottom = 0, rows - 1
        self.last = " "

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def feed(self, data):
        """Returns what is not complete yet."""
        at = 0
        while at < len(data):
            char = data[at]
            if char == "\x1b":
                match = _SEQUENCE.match(data, at)
                if not match:
                    if len(data) - at > 32:
                        raise AssertionError(f"unknown sequence {data[at:at + 32]!r}")
                    return data[at:]
                self._control(match)
                at = match.end()
                continue
            self._plain(char)
            at += 1
        return ""

    def _plain(self, char):
        if char == "\r":
            self.x = 0
        elif char == "\n":
            self._down()
        elif char == "\b":
            self.x = max(self.x - 1, 0)
        elif char == "\t":
            self.x = min((self.x // 8 + 1) * 8, self.columns - 1)
        elif char >= " ":
            if self.x >= self.columns:
                self.x = 0
                self._down()
            self.cells[self.y][self.x] = self.last = char
            self.x += 1

    def _down(self):
        if self.y == self.bottom:
            self._scroll(1)
        else:
            self.y = min(self.y + 1, self.rows - 1)

    def _up(self):
        if self.y == self.top:
            del self.cells[self.bottom]
            self.cells.insert(self.top, [" "] * self.columns)
        else:
            self.y = max(self.y - 1, 0)

    def _scroll(self, lines):
        for _ in range(lines):
            del self.cells[self.top]
            self.cells.insert(self.bottom, [" "] * self.columns)

    def _control(self, match):
        private, numbers, final = match[1], match[2], match[3]
        if match[0] == "\x1bM":
            self._up()
        if final is None or private or final in _IGNORED:
            return
        n = [int(part or 0) for part in numbers.split(";")] if numbers else []
        first = n[0] if n and n[0] else 1
        line = self.cells[self.y]
        if final == "H":
            self.y = min(first, self.rows) - 1
            self.x = min(n[1] if len(n) > 1 and n[1] else 1, self.columns) - 1
        elif final == "A":
            self.y = max(self.y - first, 0)
        elif final == "B":
            self.y = min(self.y + first, self.rows - 1)
        elif final == "C":
            self.x = min(self.x + first, self.columns - 1)
        elif final == "D":
            self.x = max(self.x - first, 0)
        elif final == "G":
            self.x = min(first, self.columns) - 1
        elif final == "d":
            self.y = min(first, self.rows) - 1
        elif final == "b":
            for _ in range(first):
                self._plain(self.last)
        elif final == "X":
            for i in range(self.x, min(self.x + first, self.columns)):
                line[i] = " "
        elif final == "P":
            line[self.x:] = line[self.x + first:] + [" "] * min(first, self.columns - self.x)
        elif final == "@":
            line[self.x:] = ([" "] * first + line[self.x:])[:self.columns - self.x]
        elif final == "K":
            ranges = {0: (self.x, self.columns), 1: (0, self.x + 1), 2: (0, self.columns)}
            for i in range(*ranges[n[0] if n else 0]):
                line[i] = " "
        elif final == "J":
            what = n[0] if n else 0
            for y in range(self.rows):
                if what == 2 or (what == 0 and y > self.y) or (what == 1 and y < self.y):
                    self.cells[y] = [" "] * self.columns
            if what != 2:
                self._control(_SEQUENCE.match(f"\x1b[{what}K"))
        elif final == "r":
            self.top, self.bottom = (n[0] or 1) - 1 if n else 0, (n[1] if len(n) > 1 else self.rows) - 1
            self.y = self.x = 0
        elif final in "LM":
            for _ in range(first):
                del self.cells[self.bottom if final == "L" else self.y]
                self.cells.insert(self.y if final == "L" else self.bottom, [" "] * self.columns)
        elif final == "S":
            self._scroll(first)
        elif final == "T":
            at = self.y
            self.y = self.top
            for _ in range(first):
                self._up()
            self.y = at
        else:
            raise AssertionError(f"unknown sequence {match[0]!r}")


class Terminal:
    """Leaving the `with` block kills the program."""

    def __init__(self, command, rows=24, columns=80, env=None):
        self._master, slave = pty.openpty()
        self._size(rows, columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self.raw = b""
        environment = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **(env or {})}
        for name in ("LINES", "COLUMNS"):
            environment.pop(name, None)
        self._process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment,
                                         start_new_session=True,
                                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.pid = self._process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _size(self, rows, columns):
        self.screen = Screen(rows, columns)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, rows, columns):
        self._size(rows, columns)
        os.killpg(self.pid, signal.SIGWINCH)

    def type(self, keys):
        os.write(self._master, keys.encode())

    def text(self):
        return self.screen.text()

    def wait_for(self, condition, seconds=DEADLINE_SECONDS):
        """Until a text stands on the screen, or a function of the screen's text says so."""
        if isinstance(condition, str):
            wanted = condition
            condition = lambda text: wanted in text  # noqa: E731
        deadline = time.monotonic() + seconds
        while not condition(self.text()):
            if not self._read(deadline):
                raise AssertionError(f"not on the screen (and the program has ended):\n{self.text()}")
        return self.text()

    def finish(self, seconds=DEADLINE_SECONDS):
        """Its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self._process.wait(max(1.0, deadline - time.monotonic()))

    def _read(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._master], [], [], left)[0]:
            raise AssertionError(f"still waiting; the screen:\n{self.text()}")
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return b""
        self.raw += chunk
        self._pending = self.screen.feed(self._pending + self._decoder.decode(chunk))
        return chunk
