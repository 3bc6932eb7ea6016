"""What goes between a worker and Redis: leased jobs one way, acks the other."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from django_redis_components.taskqueue.json_codec import unpack


@dataclasses.dataclass(slots=True)
class Job:
    """A leased task, as `fetch` returned it.

    Attributes:
        attempts: exceptions so far.
        deliveries: workers that died with it so far.
        enqueued_us: when it was accepted, in microseconds since the epoch.
        started_us: when it was first leased.
        leased_us: when this lease began.
        began: when the run began in this process, by `time.perf_counter`; 0 before.
        ran_us: how long the run took, in microseconds; 0 before its end.
    """

    id: str
    token: str
    name: str
    body: bytes
    queue: str
    attempts: int
    deliveries: int
    enqueued_us: int
    started_us: int
    leased_us: int
    began: float = 0.0
    ran_us: int = 0

    @classmethod
    def parse(cls, row: Any, now_us: int) -> Job:
        """A job from one row of the reply that `fetch` gave at `now_us`."""
        task_id, token, name, body, queue, attempts, deliveries, enqueued_us, started_us = row
        return cls(
            task_id.decode(),
            token.decode(),
            name.decode(),
            body,
            queue.decode(),
            int(attempts),
            int(deliveries),
            int(enqueued_us),
            int(started_us),
            now_us,
        )

    def message(self) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """Positional arguments, keyword arguments, and the options that traveled."""
        args, kwargs, *rest = unpack(self.body)
        return args, kwargs, rest[0] if rest else {}


class Ack(NamedTuple):
    """The outcome of a leased task. `outcome` is ok, fail, retry, reschedule, requeue, unregister or cancel.

    `note` has what the record does not store: the microseconds that the body ran and, after a failure, the fingerprint
    of the error and its description (`stats.fingerprint`), separated by spaces.
    """

    id: str
    token: str
    outcome: str
    payload: bytes = b""
    delay_ms: int = 0
    ttl_ms: int = 0
    note: str = ""

    def after(self, ran_us: int) -> Ack:
        """Return a copy whose note starts with the microseconds that the body ran."""
        return Ack(*self[:6], f"{ran_us} {self.note}" if self.note else str(ran_us))
