"""One process of the site watches a connection: a thread in each worker process and poller, of which one is active.

The active one has a short lease, and another takes its place when it dies. With each round (`rounds`) it makes the
checks that read more than a page may, stores what they have found, compares the problems with the stored incidents, and
delivers the announcements. The others remember what the server held, so that the loss of all data is seen: the
new server has no trace of it.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Command, Read
from django_redis_components.core.repeated_errors import RepeatedErrorLog
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.databases import close_databases
from django_redis_components.dashboard.problems.held import HeldData
from django_redis_components.taskqueue.middleware import Middleware, WorkerDescription
from django_redis_components.taskqueue.shards import home

if TYPE_CHECKING:
    from django_redis_components.dashboard.problems.incidents import Incident

#: Seconds between two rounds, before the first one of a process without tasks, and the lease of the active process.
ROUND_S, FIRST_ROUND_S, LEASE_S = 15.0, 2.0, 45.0
#: Seconds after which another start is announced.
STARTED_AGAIN_S = 600
#: Seconds that a process which stops waits for the release of its lease.
STOP_S = 1.0
#: Seconds for which Redis must be away until the process that was active announces it, and between its tries meanwhile.
AWAY_AFTER_S, AWAY_ROUND_S = 30.0, 2.0

logger = guarded_logger("django_redis_components.dashboard")


class ProblemWatcher:
    """The watching thread of a process.

    Attributes:
        is_active: whether this process had the lease when it last reached Redis.
    """

    def __init__(self, using: str, *, runs_tasks: bool = False) -> None:
        """
        Args:
            using: alias of the connection.
            runs_tasks: whether tasks run in this process. A new process has many to run, and the imports of its first
                round take 0.1 s of processor time, so that round is not made earlier than the next ones.
        """
        self._using, self._runs_tasks = using, runs_tasks
        self.id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.is_active = False
        self._held: dict[str, HeldData | None] = {}
        self._away_since: float | None = None
        self._outage: Incident | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="problem-watcher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and let another process take the lease at once."""
        self._stopped.set()
        if self.is_active:
            try:
                client = connections.client_with_timeout(self._using, STOP_S, 0)  # a process must not wait to exit
                if client.execute(Read("GET", self._lease_key())) == self.id.encode():
                    client.execute(Command("DEL", self._lease_key()))
            except (RedisError, RedisComponentsError) as exc:
                logger.debug("The lease of the watching process was not released: %s", exc)

    def round(self) -> None:
        """Watch once, if this process is the active one."""
        away_since: float | None = time.time()  # a server that hangs has not replied since
        try:
            self.is_active = self._take_lease()
            away_since = None
            if self.is_active:
                from django_redis_components.dashboard.problems import rounds  # the others need none of it

                self._held = rounds.watch(self._using, self._held, self._take_lease)
            self._end_outage()
        except (RedisError, RedisComponentsError) as exc:
            self._announce_outage(exc, away_since or time.time())

    def next_round_s(self) -> float:
        """Return the seconds until the next round."""
        return random.uniform(0.8, 1.0) * (AWAY_ROUND_S if self._away_since is not None and self.is_active else ROUND_S)

    def _run(self) -> None:
        errors = RepeatedErrorLog(logger, "The watching thread")
        try:
            self._announce_start()
        except BaseException as exc:  # noqa: BLE001 - as below
            errors.failed(exc)
        pause_s = random.uniform(0.8, 1.0) * ROUND_S if self._runs_tasks else random.uniform(0.1, 1.0) * FIRST_ROUND_S
        while not self._stopped.wait(pause_s):
            try:
                self.round()
                errors.succeeded()
            except BaseException as exc:  # noqa: BLE001 - without the thread nothing is watched any more
                errors.failed(exc)
            finally:
                close_databases()
            pause_s = self.next_round_s()

    def _announce_start(self) -> None:
        """Have pages know that this process watches, which its first round shows only later.

        A start is announced once in ten minutes: processes that die before their first round, and are started again
        and again, watch nothing. Of one that was restarted on purpose, pages may know only when that round has ended.
        """
        try:
            key, now = keyspace.key("starting", self._using), f"{time.time():.3f}"
            connections.client(self._using).execute(Command("SET", key, now, "NX", "EX", STARTED_AGAIN_S, retry=True))
        except (RedisError, RedisComponentsError) as exc:
            logger.debug("The start of the watching process was not announced: %s", exc)

    def _take_lease(self) -> bool:
        """Take or renew the lease; return whether this process has it. One that stops leaves it to another."""
        if self._stopped.is_set():
            return False
        key, client, milliseconds = self._lease_key(), connections.client(self._using), int(LEASE_S * 1_000)
        taken = client.execute(Command("SET", key, self.id, "NX", "PX", milliseconds, retry=True))
        holder, held = client.execute_many([Read("GET", key), Read("GET", keyspace.key("held", self._using))])
        if holder != self.id.encode():
            self._held[home(self._using).name] = HeldData.parse(held)
            return False
        if not taken:
            client.execute(Command("PEXPIRE", key, milliseconds, retry=True))
        return True

    def _announce_outage(self, error: Exception, away_since: float) -> None:
        """Announce that Redis is away, if this process was the active one: no other may know it.

        Args:
            away_since: when the server may first have been away.
        """
        now = time.time()
        self._away_since = self._away_since or away_since
        if self.is_active and self._outage is None and now - self._away_since >= AWAY_AFTER_S:
            from django_redis_components.dashboard.problems import rounds

            self._outage = rounds.outage_incident(error, self._using, self._away_since)

    def _end_outage(self) -> None:
        outage, self._outage, self._away_since = self._outage, None, None
        if outage is not None:
            from django_redis_components.dashboard.problems import rounds

            rounds.end_outage(outage, self._using)

    def _lease_key(self) -> str:
        return keyspace.key("lease", self._using)


@contextlib.contextmanager
def watching(using: str, *, runs_tasks: bool = False) -> Iterator[None]:
    """Watch a connection while the block runs, unless `WATCH` is off. Args: as of `ProblemWatcher`."""
    watcher = ProblemWatcher(using, runs_tasks=runs_tasks) if conf.settings().dashboard.watch else None
    if watcher:
        watcher.start()
    try:
        yield
    finally:
        if watcher:
            watcher.stop()


class WatchMiddleware(Middleware):
    """Has each worker process watch its connection. `manage.py runworker` installs it."""

    def __init__(self) -> None:
        self._running = contextlib.ExitStack()

    def on_process_start(self, worker: WorkerDescription) -> None:
        """Start the thread."""
        self._running.enter_context(watching(worker.using, runs_tasks=True))

    def on_process_stop(self, worker: WorkerDescription) -> None:
        """Stop the thread."""
        self._running.close()
