"""Start a PostgreSQL server for one test, if the distribution has one installed."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.support.missing import skip_missing
from tools.localserver import forget_process, free_port, stop_with_parent

#: Account of the server when the tests run as root: PostgreSQL refuses to run as root.
ACCOUNT = "postgres"
#: Seconds to start or to stop.
LIMIT_S = 30.0


class Postgres:
    """A server on loopback without passwords; database and user are `postgres`.

    Args:
        fsync: whether a commit waits for the disk, for measurements.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = "on" if fsync else "off"
        self._programs = _programs()
        self._directory = Path(tempfile.mkdtemp(prefix="drc-postgres-"))  # pytest's own are closed to other accounts
        self._data = self._directory / "data"
        self._account = ACCOUNT if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        if self._account:
            entry = pwd.getpwnam(self._account)
            os.chown(self._directory, entry.pw_uid, entry.pw_gid)
        self._create()

    def start(self) -> None:
        """Start, and wait until it accepts connections."""
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), "-h", "127.0.0.1"]
        with (self._data / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "-k", "", "-c", f"fsync={self._fsync}"], stdout=log, stderr=log, user=self._account, cwd="/"
            )
        stop_with_parent(self._process.pid)
        deadline = time.monotonic() + LIMIT_S
        while not self._ready():
            assert self._process.poll() is None, (self._data / "server.log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not start in time"
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGINT) -> None:
        """Shut down fast, which closes open connections; by SIGQUIT at once, as if the host had failed."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(LIMIT_S)
            forget_process(self._process.pid)
            self._process = None

    def close(self) -> None:
        """Stop, and delete the data."""
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _create(self) -> None:
        options = ["--auth", "trust", "--username", "postgres", "--encoding", "UTF8", "--no-sync", "--no-locale"]
        self._run("initdb", "--pgdata", str(self._data), *options)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return self._run("pg_isready", "-h", "127.0.0.1", "-p", str(self.port), check=False) == 0
        return False

    def _run(self, program: str, *args: str, check: bool = True) -> int:
        command = [str(self._programs / program), *args]
        done = subprocess.run(command, capture_output=True, user=self._account, cwd="/")
        assert not check or done.returncode == 0, done.stderr.decode()
        return done.returncode


def _programs() -> Path:
    """Return the directory of the newest version's programs on Debian, or that of `initdb` on PATH."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which("initdb")
    if found is None:
        skip_missing("PostgreSQL is not installed: apt-get install postgresql")
    return Path(found).parent
