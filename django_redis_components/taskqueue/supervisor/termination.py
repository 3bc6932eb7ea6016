"""Ending worker processes for the sake of one task: a hard time limit, or a cancelling that it does not hear.

A thread cannot be killed, its process can. First the process is told: it sends the outcomes that
wait, hands back its other tasks, and ends by itself. One that does not listen is killed, and what it
had leased is looked up and handed back here, so that it uses no attempt and counts as no death.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.outage_log import OutageLog
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import WORKER_LEASES
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.worker.fetcher import Fetcher

logger = logging.getLogger("django_redis_components.taskqueue")

#: Seconds that a process has to end by itself, once it was told.
PATIENCE_S = 1.0
#: Running tasks that are looked at in one call.
CHUNK = 500
#: Seconds between two tries to settle what an ended process has left, while Redis is away.
TRY_AGAIN_S = 0.5


class Endings:
    """The supervisor's care for tasks that must end, and for what their processes leave."""

    def __init__(self, queues: tuple[str, ...], using: str) -> None:
        self._queues = queues
        self._using = using
        #: Workers that have ended, what is to be sent for each, and the queues in which its leases are looked up.
        self._left: list[tuple[str, Fetcher, tuple[str, ...]]] = []
        self._outage = OutageLog(logger.warning, logger.info, "Ended processes: ")
        self._try_at = 0.0

    def next_at(self, children: Iterable[Child]) -> float:
        """When there is something to look at, by the monotonic clock."""
        moments = [moment for child in children for moment in child.moments()]
        return min(moments, default=float("inf")) if not self._left else min([*moments, self._try_at])

    def look(self, children: Iterable[Child]) -> None:
        """Tell those processes to end in which a task must, and kill those that were told and go on."""
        now = time.monotonic()
        for child in children:
            for ack, why in child.overdue(now):
                logger.error("Process %d is ended: task %s %s.", child.pid, ack.id, why)
                child.condemn(ack, now + PATIENCE_S)
            if child.kill_at <= now:
                logger.warning("Process %d does not end by itself; killing it.", child.pid)
                child.kill_at = float("inf")
                child.signal(signal.SIGKILL)
        if self._left and now >= self._try_at:
            self._settle()

    def bury(self, child: Child) -> None:
        """Tell the outcome of the tasks for whose sake a process has ended, and hand back what else it had."""
        if child.sentence:
            fetcher = Fetcher(connections.client(self._using), child.worker_id, self._queues)
            for ack in child.sentence.values():
                fetcher.settle(ack)
            self._left.append((child.worker_id, fetcher, self._queues))
            self._settle()

    def hand_back_unbegun(self, child: Child) -> None:
        """What an ended process had fetched and not begun goes back at once, and its end does not count for it."""
        unbegun = child.unbegun.read()
        if unbegun:
            fetcher = Fetcher(connections.client(self._using), child.worker_id, ())
            for task_id, token in reversed(unbegun):  # the first one stands at the front again
                fetcher.settle(Ack(task_id, token, "back"))
            logger.info("%d tasks that process %d had not begun go back.", len(unbegun), child.pid)
            self._left.append((child.worker_id, fetcher, ()))
            self._settle()

    def _settle(self) -> None:
        while self._left:
            worker_id, fetcher, queues = self._left[0]
            try:
                _send(fetcher)
                for queue in queues:
                    self._hand_back(worker_id, queue, fetcher)
            # Tested; but Python 3.11 stops tracing a frame that an error reaches through nested generators.
            except RedisError as exc:  # pragma: no cover
                self._outage.failed(f"What worker {worker_id} has left waits for Redis ({exc}).")
                self._try_at = time.monotonic() + TRY_AGAIN_S
                return
            self._left.pop(0)
            self._outage.succeeded()

    def _hand_back(self, worker_id: str, queue: str, fetcher: Fetcher) -> None:
        """The last one first, so that the first one that was accepted stands at the front."""
        client, held, offset = connections.client(self._using), [], 0
        while True:
            seen, found = client.execute(
                WORKER_LEASES(base=base_key(), worker=worker_id, queue=queue, offset=offset, limit=CHUNK)
            )
            held += [(int(accepted_us), task_id.decode(), token.decode()) for accepted_us, task_id, token in found]
            offset += seen
            if seen < CHUNK:
                break
        for _, task_id, token in sorted(held, reverse=True):
            fetcher.settle(Ack(task_id, token, "back"))
        _send(fetcher)


def _send(fetcher: Fetcher) -> None:
    while fetcher.unsent():
        fetcher.fetch("end", 0)
