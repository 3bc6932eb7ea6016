"""The poller: wakes workers for due tasks, recovers tasks whose lease expired, sends periodic tasks, prunes.

Any number may run; the one that has a short lease is active. A fetch returns due tasks by itself, so without a poller
only periodic tasks and the recovery of tasks are delayed.
"""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import select
import socket
import time
from collections.abc import Sequence

from redis.exceptions import RedisError

from django_redis_components.core import serialization
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.wakeup_listener import WakeupListener
from django_redis_components.core.names import dotted_path
from django_redis_components.core.protocol import Command, Read, run
from django_redis_components.core.repeated_errors import RepeatedErrorLog
from django_redis_components.core.settings import conf
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import failpoints
from django_redis_components.taskqueue.exceptions import WorkerLost
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.options import MAX_DELIVERIES
from django_redis_components.taskqueue.outage_log import OutageLog, describe_error
from django_redis_components.taskqueue.schedules.schedule import Schedule
from django_redis_components.taskqueue.schedules.scheduler import Scheduler
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.stats.fingerprint import WORKER_LOST
from django_redis_components.taskqueue.store.control import delete_trash
from django_redis_components.taskqueue.store.finished import finished_bounds
from django_redis_components.taskqueue.store.poller_failure import FailureReport
from django_redis_components.taskqueue.store.scripts import MAINTAIN

#: Lease of the active poller, in milliseconds. If it dies, another one is active after this time.
ACTIVE_LEASE_MS = 6_000
#: Longest time between two rounds of the active poller, in seconds; its lease must not expire between them.
ROUND_S = 2.0
#: The same while no task runs or is scheduled: there is nothing to recover, and a new task ends the wait.
IDLE_ROUND_S = 4.0
#: Seconds between two rounds that also delete old data.
PRUNE_S = 60.0
#: Longest backoff after an error, in seconds: after the first one, and after repeated ones.
FIRST_BACKOFF_S, MAX_BACKOFF_S = 0.25, 2.0
#: Log texts for the outcome of a task whose lease expired.
RECOVERY_TEXTS: dict[str, str] = {
    Outcome.requeued: "returned to its queue",
    Outcome.failed: "failed",
    Outcome.cancelled: "cancelled",
}


class Poller:
    """One of the pollers of a connection.

    Attributes:
        is_active: whether it has the lease.
        scheduler: sends the periodic tasks.
        wakeups: what it waits for.
        is_unavailable: whether the last round or wait has failed.
        next_round_at, next_prune_at: on the monotonic clock.
    """

    def __init__(
        self,
        shard: Shard,
        client: SyncClient,
        *,
        wake_fd: int | None = None,
        schedules: Sequence[Schedule] = (),
        other_keys: Sequence[str] = (),
    ) -> None:
        """
        Args:
            shard: whose tasks it maintains.
            client: of that shard.
            wake_fd: a file descriptor that ends a wait when it becomes readable.
            schedules: the periodic tasks to send.
            other_keys: other wakeup keys that end a wait.
        """
        settings = conf.settings().taskqueue
        self._client = client
        self._shard = shard
        self.id = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self.scheduler = Scheduler(shard, client, self.id, schedules)
        self._lease_s = to_ms(settings.lease_s, "lease") / 1_000
        self._keep_ms = to_ms(settings.failed_ttl_s, "failed_ttl")
        self._failed_limit = settings.failed_limit
        self._finished_bounds = finished_bounds()
        self.wakeups = WakeupListener(shard.client(), [shard.wakeup("poller"), *other_keys], wake_fd=wake_fd)
        self._round_s = min(ROUND_S, self._lease_s / 6)
        # At most a third of a lease: after half of one without contact, nothing is recovered for a while.
        self._idle_round_s = min(IDLE_ROUND_S, self._lease_s / 3)
        #: Argument of `maintain.lua` about the previous call.
        self._contact = "new"
        self.next_prune_at = 0.0
        self.next_round_at = 0.0
        self._wake_fd = wake_fd
        self.is_unavailable = False
        self._outage = OutageLog(logger.warning, logger.info, "Poller: ")
        self._errors = RepeatedErrorLog(logger, "A round of the poller")
        self._report = FailureReport(shard, client, self.id)
        self._backoff_s = FIRST_BACKOFF_S
        self.is_active = False

    def step(self) -> None:
        """Run a round if one is due. Errors are logged, and followed by a backoff."""
        if time.monotonic() < self.next_round_at:
            return
        try:
            with slot_wait_limit(0):  # it counts as an outage: workers then have time to renew their leases
                self.next_round_at = time.monotonic() + self._round()
            self.is_unavailable = False
            self._outage.succeeded()
            self._errors.succeeded()
            self._report.remove()
            self._backoff_s = FIRST_BACKOFF_S
        # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
        except RedisError as exc:  # pragma: no cover
            self._on_error(exc)
        except Exception as exc:  # noqa: BLE001 - it would end the worker whose supervisor runs this poller
            self._errors.failed(exc)
            self._report.write(exc, self._errors.count, self._errors.since)
            self._back_off()

    def wait(self, seconds: float) -> bool:
        """Wait for the next round, a wakeup, the file descriptor, or `seconds`.

        Returns:
            Whether one of the other keys was written.
        """
        seconds = self.seconds_to_round(seconds)
        if self.is_unavailable:
            watched = [] if self._wake_fd is None else [self._wake_fd]
            select.select(watched, [], [], seconds)
            return False
        try:
            was_woken = self.wakeups.wait(seconds)
        except RedisError as exc:
            self._on_error(exc)
            return False
        return was_woken and self.note_wakeup()

    def seconds_to_round(self, seconds: float) -> float:
        """Return the seconds until the next round, at most `seconds`."""
        return max(0.0, min(seconds, self.next_round_at - time.monotonic()))

    def note_wakeup(self) -> bool:
        """Start a round after a wakeup of the poller; return whether it was one of the other keys."""
        is_own_key = self.wakeups.last_key == self._shard.wakeup("poller")
        if is_own_key:
            self.next_round_at = 0.0
        return not is_own_key

    def close(self) -> None:
        """Release the lease, so that another poller is active at once."""
        self.wakeups.close()
        if self.is_active:
            key = self._shard.key(Key.poller)
            with contextlib.suppress(RedisError):
                if self._client.execute(Read("GET", key)) == self.id.encode():  # else it expired, and another has one
                    self._client.execute(Command("DEL", key, retry=True))

    def _round(self) -> float:
        """Run one round; return the seconds until the next."""
        now = time.monotonic()
        prune = now >= self.next_prune_at
        failpoints.reach("before_maintain")
        is_active, due_ms, now_us, recovered, version = self._maintain(prune)
        failpoints.reach("after_maintain")
        self._log_round(is_active, recovered)
        round_s = self._idle_round_s if self._contact == "idle" else self._round_s
        until_due_s = max(0.0, (due_ms - now_us / 1_000) / 1_000) if due_ms else round_s
        if not is_active:
            self.scheduler.invalidate()
            return max(0.05, until_due_s)
        until_schedule_s = self.scheduler.run_due(now_us, version)
        if prune:
            self.next_prune_at = now + PRUNE_S
            run(self._client, delete_trash(self._shard))
        return min(round_s, until_due_s, until_schedule_s)

    def _maintain(self, prune: bool) -> tuple[bool, int, int, list[bytes], int]:
        """Maintain all queues, 500 in a call.

        Returns:
            Whether this poller is active, when the next task is due, the server's time (0 if another poller is active,
            and the time counts from now), the recovered tasks, and the version of the schedules that were changed at
            run time.
        """
        dues: list[int] = []
        recovered: list[bytes] = []
        first, is_idle = 0, True
        while True:
            active, due_ms, now_us, some, first, busy, version = self._client.execute(
                MAINTAIN(
                    base=self._shard.base,
                    poller=self.id,
                    poller_lease_ms=ACTIVE_LEASE_MS,
                    lease_ms=round(self._lease_s * 1_000),
                    contact=self._contact,
                    prune=int(prune),
                    keep_ms=self._keep_ms,
                    failed_limit=self._failed_limit,
                    lost_error=worker_lost_error(),
                    max_deliveries=MAX_DELIVERIES,
                    lost_fingerprint=WORKER_LOST.fingerprint,
                    lost_description=WORKER_LOST.description,
                    first=first,
                    **self._finished_bounds,
                )
            )
            self._contact = ""
            is_idle = is_idle and not busy
            recovered += some
            dues += [due_ms] if due_ms else []
            if not first:
                self._contact = "idle" if is_idle else ""
                return bool(active), min(dues, default=0), now_us, recovered, version

    def _log_round(self, is_active: bool, recovered: list[bytes]) -> None:
        if is_active and not self.is_active:
            logger.info("Poller %s is active.", self.id)
        self.is_active = is_active
        for task_id, queue, outcome in zip(recovered[::3], recovered[1::3], recovered[2::3], strict=True):
            message = "Task %s (queue %s) has lost its worker: %s."
            logger.warning(message, task_id.decode(), queue.decode(), RECOVERY_TEXTS[outcome.decode()])

    def _on_error(self, exc: RedisError) -> None:
        """Log the error, and plan the next round after a backoff."""
        self._outage.failed(f"Poller: {describe_error(exc)}; retrying.")
        self._back_off()

    def _back_off(self) -> None:
        self.next_round_at = time.monotonic() + random.uniform(self._backoff_s / 4, self._backoff_s)
        self._backoff_s = min(MAX_BACKOFF_S, 2 * self._backoff_s)
        self.is_unavailable = True
        self._contact = "error"
        self.scheduler.invalidate()
        self.is_active = False


def worker_lost_error() -> bytes:
    """Return the error of a task that is given up because its workers died, as JSON."""
    return serialization.encode(
        {
            "exception_class_path": dotted_path(WorkerLost),
            "message": "Each worker that ran this task died, or lost its lease, and max_deliveries is reached."
            " Find out what kills the process: memory, a hard limit, a crash in C code.",
            "traceback": "",
        }
    )
