"""A standby of PostgreSQL that takes over from its primary."""

from __future__ import annotations

import signal
import time
from typing import Any

import psycopg

from tests.support.postgres import LIMIT_S, Postgres


def execute(port: int, text: str) -> list[tuple[Any, ...]]:
    """Execute a statement on the server at a port, and return its rows."""
    with psycopg.connect(host="127.0.0.1", port=port, user="postgres", autocommit=True) as database:
        cursor = database.execute(text)  # type: ignore[call-overload]
        return cursor.fetchall() if cursor.description else []


class Standby(Postgres):
    """A synchronous standby: once it runs, the primary has committed only what the standby has, too."""

    def __init__(self, primary: Postgres) -> None:
        """
        Args:
            primary: a server that runs.
        """
        self._primary = primary
        super().__init__()

    def start(self) -> None:
        """Start, and wait until the primary waits for it."""
        super().start()
        if self._is_standby():
            execute(self._primary.port, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            execute(self._primary.port, "SELECT pg_reload_conf()")
            deadline = time.monotonic() + LIMIT_S
            while execute(self._primary.port, "SELECT sync_state FROM pg_stat_replication") != [("sync",)]:
                assert time.monotonic() < deadline, "the standby does not replicate"
                time.sleep(0.05)

    def take_over(self) -> None:
        """End the primary as a host that fails, and become the primary."""
        self._primary.stop(signal.SIGQUIT)
        self._run("pg_ctl", "promote", "--pgdata", str(self._data))

    def _create(self) -> None:
        source = ["--host", "127.0.0.1", "--port", str(self._primary.port), "--username", "postgres"]
        self._run("pg_basebackup", *source, "--pgdata", str(self._data), "--write-recovery-conf", "--checkpoint=fast")

    def _is_standby(self) -> bool:
        return execute(self.port, "SELECT pg_is_in_recovery()") == [(True,)]
