"""A PostgreSQL server of the test's own, in a temporary folder, reached by a socket in it only.

    with Postgres() as database:
        database.socket               # the folder of its socket; user and database "postgres", no password
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

START_SECONDS = 60


def programs():
    """The folder of its programs, or None. Debian has them in a folder of their version."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "postgres").exists()), None)


class Postgres:
    """It refuses to run as root: then it runs as the user that its package makes, or as nobody."""

    def __init__(self):
        self._programs = programs()
        self._folder = tempfile.TemporaryDirectory(prefix="drdotnet-postgres-")
        self.socket = os.path.join(self._folder.name, "socket")
        self._account = self._unprivileged() if os.geteuid() == 0 else None
        os.mkdir(self.socket)
        os.chmod(self._folder.name, 0o755)
        os.chmod(self.socket, 0o777)
        if self._account:
            os.chown(self._folder.name, self._account.pw_uid, self._account.pw_gid)
        try:
            self._run("initdb", "-D", self._data(), "-A", "trust", "-U", "postgres", "--no-sync", "--no-locale")
            self._run("pg_ctl", "-D", self._data(), "-w", "-t", str(START_SECONDS), "-l", os.path.join(self._folder.name, "log"),
                      "-o", f"-c listen_addresses='' -c unix_socket_directories='{self.socket}' -c fsync=off", "start")
        except BaseException:
            self._folder.cleanup()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._run("pg_ctl", "-D", self._data(), "-m", "immediate", "-w", "stop")
        finally:
            self._folder.cleanup()

    def _data(self):
        return os.path.join(self._folder.name, "data")

    def _unprivileged(self):
        for name in ("postgres", "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                continue
        raise OSError("PostgreSQL does not run as root, and there is no user nobody")

    def _run(self, program, *arguments):
        account = self._account
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
        done = subprocess.run([str(self._programs / program), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd="/", timeout=2 * START_SECONDS, check=False, **as_user)
        if done.returncode:
            raise OSError(f"{program}: {done.stdout.decode(errors='replace')}")
