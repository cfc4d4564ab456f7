"""The server at rest, beside the small ASP.NET Core app of the tests: until the first answer, and memory when idle."""
import os
import time
import urllib.request

from drdotnet import Home
from measure import median, megabytes, ratio_row, seconds
from patient import WebPatient
from server import Server

ROUNDS = 5
ROUTE = "/healthy"  # of the peer: answers at once
SETTLE = 2.0  # seconds until a server is idle


def rss_bytes(pid):
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def measure(start, path):
    begun = time.monotonic()
    with start() as server:
        urllib.request.urlopen(server.url + path).read()
        took = time.monotonic() - begun
        time.sleep(SETTLE)
        return took, rss_bytes(server.pid)


def run(bench):
    os.environ["DRDOTNET"] = str(bench.drdotnet)
    with Home() as home:
        ours = [measure(lambda: Server(home), "/healthz") for _ in range(ROUNDS)]
    theirs = [measure(WebPatient, ROUTE) for _ in range(ROUNDS)]
    return [ratio_row("the server until its first answer, beside a small ASP.NET Core app", median(t for t, _ in ours),
                      median(t for t, _ in theirs), seconds, 1 / 10),
            ratio_row("its resident memory when idle", median(m for _, m in ours), median(m for _, m in theirs), megabytes, 1 / 10)]
