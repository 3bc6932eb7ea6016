"""Terminate the process of a cancelled task or hard time limit, and settle the leases of processes that have exited.

A thread cannot be killed, but its process can. The process is first asked to exit: it sends its pending acks and
returns its other tasks to their queue. If it does not react it is killed; then the supervisor looks up its leases and
returns them, so that they use no attempt and count no delivery.

If a process dies otherwise, one of its running tasks may have killed it. The supervisor ends their leases, and the
poller recovers them at once, as after the expiry of a lease.
"""

from __future__ import annotations

import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from redis.exceptions import RedisError

from django_redis_components.core.text import counted
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.outage_log import OutageLog
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, shard_of_token, shards_of
from django_redis_components.taskqueue.states import REQUEUED
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import EXPIRE_LEASES, WORKER_LEASES
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.run_events import send_outcome

#: Seconds that a process has to exit by itself.
EXIT_S = 1.0
#: Running tasks that are examined in one call.
CHUNK = 500
#: Seconds between two tries to settle what a process has left, while Redis is unavailable.
RETRY_S = 0.5
#: Seconds after a wakeup when the leases are checked for cancel requests: when the processes have had time to send a
#: heartbeat, and once more for a slow one.
CHECKS_S = (0.05, 1.2)
#: Longest backoff after an error, in seconds.
MAX_BACKOFF_S = 0.5


def wakeup_key_of(shard: Shard, supervisor: str) -> str:
    """Return the key that `cancel` and remote commands write to wake this supervisor."""
    return shard.wakeup(f"s:{supervisor}")


class WakeupSource(Protocol):
    """Receives the wakeups of a supervisor."""

    def wait(self, seconds: float) -> bool: ...
    def close(self) -> None: ...


class CancelListener:
    """Waits for cancel requests and remote commands. An embedded poller waits for its wakeup in the same command."""

    def __init__(self, source: WakeupSource, wake_fd: int) -> None:
        """
        Args:
            source: waits for the wakeup key: the embedded poller, a listener without one, or all those of several
                shards.
            wake_fd: a file descriptor that ends a wait when it becomes readable.
        """
        self._source = source
        self._wake_fd = wake_fd
        self._checks: list[float] = []

    def wait(self, seconds: float) -> bool:
        """Wait for a wakeup, the file descriptor, or `seconds`; return whether there was a wakeup."""
        until_check_s = min(self._checks, default=float("inf")) - time.monotonic()
        was_woken = self._wait(max(0.0, min(seconds, until_check_s)))
        if was_woken:
            self._checks = [time.monotonic() + check_s for check_s in CHECKS_S]
        return was_woken

    def should_check(self) -> bool:
        """Return whether to renew the leases now, whose reply has the requests."""
        due = [at for at in self._checks if at <= time.monotonic()]
        self._checks = [at for at in self._checks if at not in due]
        return bool(due)

    def close(self) -> None:
        """End the wait; a poller releases its lease."""
        self._source.close()

    def _wait(self, seconds: float) -> bool:
        try:
            return self._source.wait(seconds)
        except RedisError:  # the renewal of leases logs the outage
            select.select([self._wake_fd], [], [], min(seconds, MAX_BACKOFF_S))
            return False


class Terminator:
    """Terminates processes because of a task, and settles the leases of processes that have exited."""

    def __init__(self, queues: Sequence[str], using: str) -> None:
        """
        Args:
            queues: that the processes have served; it may grow.
        """
        self._using = using
        self._settlers = [LeaseSettler(shard, queues) for shard in shards_of(using)]

    def next_at(self, children: Iterable[Child]) -> float:
        """Return when to call `check` next, on the monotonic clock."""
        deadlines = [deadline for child in children for deadline in child.deadlines()]
        return min([*deadlines, *(settler.next_at() for settler in self._settlers)])

    def check(self, children: Iterable[Child]) -> None:
        """Terminate the processes of overdue tasks, and kill those that do not exit."""
        now = time.monotonic()
        for child in children:
            for ack, reason in child.overdue(now):
                logger.error("Terminating process %d: task %s %s.", child.pid, ack.id, reason)
                child.terminate(ack, now + EXIT_S)
            if child.kill_at <= now:
                logger.warning("Process %d does not exit; killing it.", child.pid)
                child.kill_at = float("inf")
                child.signal(signal.SIGKILL)
        for settler in self._settlers:
            settler.retry(now)

    def settle_terminated(self, child: Child) -> None:
        """Send the outcomes of the tasks because of which a process has exited, and return its other tasks."""
        for settler in self._settlers:
            settler.settle_terminated(child)

    def return_prefetched(self, child: Child) -> None:
        """Return the tasks to their queue that an exited process had not started. Its exit counts no delivery."""
        prefetched = child.prefetched.read()
        if prefetched:
            for settler in self._settlers:
                settler.return_tasks(child.worker_id, prefetched)
            logger.info(
                "Returned %s to their queues that process %d had not started.",
                counted(len(prefetched), "task"),
                child.pid,
            )

    def expire_leases(self, child: Child) -> None:
        """End the leases of a process that has died, so that the poller recovers its tasks at once."""
        for settler in self._settlers:
            settler.expire_leases(child.worker_id)


class LeaseSettler:
    """Settles the leases in one shard of processes that have exited."""

    def __init__(self, shard: Shard, queues: Sequence[str]) -> None:
        self._queues = queues
        self._shard = shard
        self._client = prompt_client(shard)
        #: Ids of workers that have exited, and what settles their leases; it is repeated after an error.
        self._unsettled: list[tuple[str, Callable[[], None]]] = []
        self._outage = OutageLog(logger.warning, logger.info, "Leases of exited processes: ")
        self._retry_at = 0.0

    def next_at(self) -> float:
        """Return when to call `retry` next, on the monotonic clock."""
        return self._retry_at if self._unsettled else float("inf")

    def retry(self, now: float) -> None:
        """Settle what Redis did not accept before, if it is time to."""
        if self._unsettled and now >= self._retry_at:
            self._settle()

    def settle_terminated(self, child: Child) -> None:
        """See `Terminator.settle_terminated`."""
        fetcher = Fetcher(self._shard, self._client, child.worker_id, self._queues)
        acks = [ack for ack in child.final_acks.values() if self._has(ack.token)]
        for ack in acks:
            fetcher.settle(ack)

        def settle() -> None:
            _send_acks(fetcher)
            for queue in self._queues:
                self._return_leases(child.worker_id, queue, fetcher)
            self._record_outcomes(child, acks)

        self._settle_later(child.worker_id, settle)

    def return_tasks(self, worker: str, prefetched: Sequence[tuple[str, str]]) -> None:
        """See `Terminator.return_prefetched`.

        Args:
            prefetched: ids and tokens, of all shards.
        """
        mine = [lease for lease in prefetched if self._has(lease[1])]
        if mine:
            fetcher = Fetcher(self._shard, self._client, worker, ())
            for task_id, token in reversed(mine):  # the first one is at the head again
                fetcher.settle(Ack(task_id, token, REQUEUED))
            self._settle_later(worker, lambda: _send_acks(fetcher))

    def expire_leases(self, worker: str) -> None:
        """See `Terminator.expire_leases`."""

        def expire() -> None:
            for queue in self._queues:
                self._expire_leases(worker, queue)

        self._settle_later(worker, expire)

    def _has(self, token: str) -> bool:
        return shard_of_token(token, self._shard.using) == self._shard

    def _settle_later(self, worker: str, settle: Callable[[], None]) -> None:
        """Settle the leases of a process after those of earlier ones; now, unless these have to wait."""
        self._unsettled.append((worker, settle))
        if len(self._unsettled) == 1:
            self._settle()

    def _settle(self) -> None:
        while self._unsettled:
            worker_id, settle = self._unsettled[0]
            try:
                settle()
            # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
            except RedisError as exc:  # pragma: no cover
                self._outage.failed(f"Cannot settle the leases of worker {worker_id} yet ({exc}).")
                self._retry_at = time.monotonic() + RETRY_S
                return
            self._unsettled.pop(0)
            self._outage.succeeded()

    def _record_outcomes(self, child: Child, acks: Sequence[Ack]) -> None:
        """Record the outcomes for the dashboard."""
        names = {run.id: (run.name, run.queue) for run in child.heartbeat.runs}
        shard = self._shard.name if len(shards_of(self._shard.using)) > 1 else ""
        for ack in acks:
            send_outcome(self._shard.using, ack, *names.get(ack.id, ("", "")), child.worker_id, shard)

    def _expire_leases(self, worker_id: str, queue: str) -> None:
        examined = CHUNK
        offset = 0
        while examined == CHUNK:
            call = EXPIRE_LEASES(base=self._shard.base, worker=worker_id, queue=queue, offset=offset, limit=CHUNK)
            examined = self._client.execute(call)
            offset += examined

    def _return_leases(self, worker_id: str, queue: str, fetcher: Fetcher) -> None:
        """Return all leases in a queue, the last one first, so that the first accepted task is at the head."""
        client, leases, offset = self._client, [], 0
        while True:
            examined, found = client.execute(
                WORKER_LEASES(base=self._shard.base, worker=worker_id, queue=queue, offset=offset, limit=CHUNK)
            )
            leases += [(int(enqueued_us), task_id.decode(), token.decode()) for task_id, token, enqueued_us in found]
            offset += examined
            if examined < CHUNK:
                break
        for _, task_id, token in sorted(leases, reverse=True):
            fetcher.settle(Ack(task_id, token, REQUEUED))
        _send_acks(fetcher)


def _send_acks(fetcher: Fetcher) -> None:
    while fetcher.pending_acks():
        fetcher.fetch("end", 0)
