"""The poller: rings for due tasks, brings back what dead workers held, sends periodic tasks, prunes.

Any number may run; the holder of a short lease acts, the others stand by. Fetching serves due
tasks by itself, so a dead poller delays nothing but periodic tasks: it is the second pair of eyes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import secrets
import select
import socket
import time
from collections.abc import Sequence

from redis.exceptions import RedisError

from django_redis_components.core import conf, failpoints
from django_redis_components.core import serialization as arguments
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.outage_log import OutageLog, describe_error
from django_redis_components.core.protocol import Command, run
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.exceptions import WorkerLost
from django_redis_components.taskqueue.options import MAX_DELIVERIES
from django_redis_components.taskqueue.schedules.schedule import Schedule
from django_redis_components.taskqueue.schedules.scheduler import Scheduler
from django_redis_components.taskqueue.stats import fingerprint as fingerprints
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.queues import delete_trash
from django_redis_components.taskqueue.store.scripts import MAINTAIN

logger = logging.getLogger("django_redis_components.taskqueue")

#: Life of the poller's lease, in milliseconds: how long a standby waits for a dead holder.
HOLD_MS = 6_000
#: Longest time between two rounds of the holder, in seconds; its lease must not end between them.
ROUND_S = 2.0
#: The same while no task runs or is scheduled: nothing can be recovered then, and an earlier task ends the wait.
IDLE_ROUND_S = 4.0
#: Seconds between two rounds that also prune.
PRUNE_S = 60.0
#: Longest pause after an error, in seconds: after the first one, and when they go on.
FIRST_PAUSE_S, ERROR_PAUSE_S = 0.25, 2.0
#: What becomes of a task that has lost its worker, as the log says it.
PLACES = {b"front": "goes to the front of its queue", b"failed": "has failed", b"cancelled": "was cancelled, and ends"}


class Poller:
    """One candidate for the poller's place."""

    def __init__(
        self,
        client: SyncClient,
        *,
        wake_fd: int | None = None,
        schedules: Sequence[Schedule] = (),
        also: Sequence[str] = (),
    ) -> None:
        """See the class.

        Args:
            wake_fd: a file descriptor whose readability ends a wait early.
            schedules: what it sends at certain times.
            also: other bells that end a wait.
        """
        settings = conf.settings().taskqueue
        self._client = client
        self._base = base_key()
        self.id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._scheduler = Scheduler(client, self.id, schedules)
        self._lease_s = to_ms(settings.lease_s, "lease") / 1_000
        self._keep_ms = to_ms(settings.failed_ttl_s, "failed_ttl")
        self._failed_limit = settings.failed_limit
        self._bell = WakeupListener(client, [f"{self._base}:bell:poller", *also], wake_fd=wake_fd)
        self._round_s = min(ROUND_S, self._lease_s / 6)
        # Not longer than a third of a lease, as supervisors renew: after half of one nothing is recovered for a while.
        self._idle_round_s = min(IDLE_ROUND_S, self._lease_s / 3)
        #: What `maintain.lua` is told of our last call.
        self._contact = "new"
        self._prune_at = 0.0
        self._next_at = 0.0
        self._wake_fd = wake_fd
        self._away = False
        self._outage = OutageLog(logger.warning, logger.info, "Poller: ")
        self._pause_s = FIRST_PAUSE_S
        self.holds = False

    def step(self) -> None:
        """Do the round that is due, if one is; errors of Redis are logged and end in a pause."""
        if time.monotonic() < self._next_at:
            return
        try:
            with slot_wait_limit(0):  # it counts as an outage, after which workers need time to renew their leases
                self._next_at = time.monotonic() + self._round()
            self._away = False
            self._outage.succeeded()
            self._pause_s = FIRST_PAUSE_S
        # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
        except RedisError as exc:  # pragma: no cover
            self._trouble(exc)

    def wait(self, seconds: float) -> bool:
        """Wait for the next round, a ring (an earlier due task), the wake descriptor, or `seconds`.

        Returns:
            Whether another bell than the poller's rang.
        """
        seconds = max(0.0, min(seconds, self._next_at - time.monotonic()))
        if self._away:
            watched = [] if self._wake_fd is None else [self._wake_fd]
            select.select(watched, [], [], seconds)
            return False
        try:
            rang = self._bell.wait(seconds)
        except RedisError as exc:
            self._trouble(exc)
            return False
        mine = self._bell.last_key == f"{self._base}:bell:poller"
        if rang and mine:
            self._next_at = 0.0
        return rang and not mine

    def close(self) -> None:
        """Give the place up, so that another need not wait for the lease's end."""
        self._bell.close()
        if self.holds:
            with contextlib.suppress(RedisError):
                self._client.execute(Command("DEL", f"{self._base}:poller", retry=True))

    def _round(self) -> float:
        """One round; the value is the number of seconds until the next."""
        now = time.monotonic()
        prune = now >= self._prune_at
        failpoints.reach("before_maintain")
        holds, due_ms, now_us, recovered = self._tend(prune)
        failpoints.reach("after_maintain")
        self._note(holds, recovered)
        round_s = self._idle_round_s if self._contact == "idle" else self._round_s
        until_due_s = max(0.0, (due_ms - now_us / 1_000) / 1_000) if due_ms else round_s
        if not holds:
            self._scheduler.invalidate()
            return max(0.05, until_due_s)
        until_slot_s = self._scheduler.run_due(now_us)
        if prune:
            self._prune_at = now + PRUNE_S
            run(self._client, delete_trash())
        return min(round_s, until_due_s, until_slot_s)

    def _tend(self, prune: bool) -> tuple[bool, int, int, list[bytes]]:
        """Tend all queues, 500 in a call: whether it holds the place, what is due next, now, and what was recovered."""
        dues: list[int] = []
        recovered: list[bytes] = []
        first, is_idle = 0, True
        while True:
            held, due_ms, now_us, some, first, busy = self._client.execute(
                MAINTAIN(
                    base=self._base,
                    poller=self.id,
                    poller_lease_ms=HOLD_MS,
                    lease_ms=round(self._lease_s * 1_000),
                    contact=self._contact,
                    prune=int(prune),
                    keep_ms=self._keep_ms,
                    failed_limit=self._failed_limit,
                    lost_error=_lost_error(),
                    max_deliveries=MAX_DELIVERIES,
                    lost_group=fingerprints.WORKER_LOST,
                    first=first,
                )
            )
            self._contact = ""
            is_idle = is_idle and not busy
            recovered += some
            dues += [due_ms] if due_ms else []
            if not first:
                self._contact = "idle" if is_idle else ""
                return bool(held), min(dues, default=0), now_us, recovered

    def _note(self, holds: bool, recovered: list[bytes]) -> None:
        if holds and not self.holds:
            logger.info("Poller %s is active.", self.id)
        self.holds = holds
        for task_id, queue, outcome in zip(recovered[::3], recovered[1::3], recovered[2::3], strict=True):
            place = PLACES[outcome]
            logger.warning("The worker of task %s (queue %s) is gone; the task %s.", _s(task_id), _s(queue), place)

    def _trouble(self, exc: RedisError) -> None:
        """Say so, and try again after a pause."""
        self._outage.failed(f"Poller: {describe_error(exc)}; trying again.")
        self._next_at = time.monotonic() + random.uniform(self._pause_s / 4, self._pause_s)
        self._pause_s = min(ERROR_PAUSE_S, 2 * self._pause_s)
        self._away = True
        self._contact = "error"
        self._scheduler.invalidate()
        self.holds = False


def _lost_error() -> bytes:
    return arguments.encode(
        {
            "exception_class_path": f"{WorkerLost.__module__}.{WorkerLost.__qualname__}",
            "message": "Each worker that ran this task died, or lost its lease, and max_deliveries is reached."
            " Look for what kills the process: memory, a hard limit, a crash in C code.",
            "traceback": "",
        }
    )


def _s(value: bytes) -> str:
    return value.decode()
