"""The tasks that a relay has sent, until their signals are sent and middleware is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django_redis_components.taskqueue import signals
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.outbox import OutboxRow, results_of, sender_in
from django_redis_components.taskqueue.result import TaskResult
from django_redis_components.taskqueue.shards import Shard


class AcceptedTasks:
    """Those of one relay. Without receivers and middleware it keeps nothing."""

    def __init__(self) -> None:
        self._results: list[TaskResult] = []
        #: Rows that were sent without a reply, by token: shard, row, and the number of the relay then.
        self._unconfirmed: dict[str, tuple[Shard, OutboxRow, int]] = {}

    def add(self, shard: Shard, rows: Sequence[OutboxRow], replies: Sequence[Any]) -> None:
        """Add the tasks of rows that were sent: neither duplicates nor those that another sender has sent."""
        if _is_observed():
            for row, reply in zip(rows, replies, strict=True):
                self._unconfirmed.pop(row.token, None)  # an earlier attempt was not accepted
                if isinstance(reply, int) and reply > 0:
                    self._results += results_of(shard, row, reply)

    def add_unconfirmed(self, shard: Shard, rows: Sequence[OutboxRow], sender: int) -> None:
        """Note rows that Redis may have accepted: it has not replied."""
        if _is_observed():
            self._unconfirmed.update((row.token, (shard, row, sender)) for row in rows)

    def confirm(self, scores: Mapping[str, float]) -> None:
        """Add the tasks of unconfirmed rows that Redis has accepted from this relay.

        Args:
            scores: of tokens that Redis has.
        """
        for token in self._unconfirmed.keys() & scores.keys():
            shard, row, sender = self._unconfirmed.pop(token)
            if sender_in(scores[token]) == sender:
                self._results += results_of(shard, row, int(scores[token]))

    def forget_unconfirmed(self) -> None:
        """Forget the rows that are unconfirmed: all rows were passed, and these were not accepted, or are gone."""
        self._unconfirmed.clear()

    def notify(self) -> None:
        """Send `task_enqueued` and call `after_enqueue` of middleware, once for each task."""
        results, self._results = self._results, []
        pipeline.notify_enqueued(results)


def _is_observed() -> bool:
    return bool(pipeline.current().after_enqueue or signals.task_enqueued.receivers)
