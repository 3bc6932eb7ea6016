"""What goes between a worker and Redis: leased jobs one way, acks the other."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.sealing import is_sealed, open_body
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import ERROR_OUTCOMES, SUCCEEDED

#: Bytes of a message that the list of finished tasks keeps; as in lua/shared/finished_list.lua.
MAX_LISTED_MESSAGE = 256


@dataclasses.dataclass(slots=True)
class Job:
    """A leased task, as `fetch` returned it.

    Attributes:
        attempts: attempts that it has used: runs that raised an exception.
        runs: runs that have ended, whatever their outcome.
        enqueued_us: when it was accepted, in microseconds since the epoch.
        started_us: when it was first leased.
        leased_us: when this lease began.
        began: when the run began in this process, by `time.perf_counter`; 0 before.
        ran_us: how long the run took, in microseconds; 0 before its end.
        shard: where it is, if the worker serves several; None: in the only one of its connection.
        on_stored: called with the ack when Redis has stored the outcome of the run; None: nothing is.
    """

    id: str
    token: str
    name: str
    body: bytes
    queue: str
    attempts: int
    runs: int
    enqueued_us: int
    started_us: int
    leased_us: int
    began: float = 0.0
    ran_us: int = 0
    shard: Shard | None = None
    on_stored: Callable[[Ack], object] | None = None

    #: Those of a `BatchJob`.
    others: ClassVar[Sequence[Job]] = ()
    retries_of_batch: ClassVar[Mapping[str, int | None]] = {}

    @classmethod
    def parse(cls, row: Any, now_us: int) -> Job:
        """A job from one row of the reply that `fetch` gave at `now_us`."""
        task_id, token, name, body, queue, attempts, runs, enqueued_us, started_us = row
        return cls(
            task_id.decode(),
            token.decode(),
            name.decode(),
            body,
            queue.decode(),
            int(attempts),
            int(runs),
            int(enqueued_us),
            int(started_us),
            now_us,
        )

    def message(self) -> tuple[list[Any], dict[str, Any], dict[str, Any]]:
        """Positional arguments, keyword arguments, and the options that traveled."""
        args, kwargs, *rest = unpack(self.body)
        if args is None:
            args, kwargs, *rest = open_body(self.body)
        return args, kwargs, rest[0] if rest else {}

    def alone(self) -> Job:
        """Return this task without the others of its batch."""
        return Job(*[getattr(self, field.name) for field in dataclasses.fields(Job)])

    @property
    def is_sealed(self) -> bool:
        """Whether the arguments are sealed."""
        return is_sealed(self.body)


@dataclasses.dataclass(slots=True)
class BatchJob(Job):
    """The leased tasks of a batch, whose first one this is.

    Attributes:
        others: the tasks behind it.
        retries_of_batch: of each task that runs the delay of its retry after a hard time limit; None if it fails then.
    """

    others: Sequence[Job] = ()  # type: ignore[misc]
    retries_of_batch: Mapping[str, int | None] = dataclasses.field(default_factory=dict)  # type: ignore[misc]


def parse_batches(rows: Sequence[Any], now_us: int) -> list[Job]:
    """Return jobs from rows of the reply that `fetch` gave at `now_us`.

    Args:
        rows: as for `Job.parse`; that of a batch has the rows of its other tasks as the tenth item.
    """
    jobs: list[Job] = []
    for row in rows:
        job = Job.parse(row[:9], now_us)
        if len(row) > 9:
            values = [getattr(job, field.name) for field in dataclasses.fields(Job)]
            job = BatchJob(*values, [Job.parse(other, now_us) for other in row[9]])  # type: ignore[call-arg]
        jobs.append(job)
    return jobs


class ErrorIdentity(NamedTuple):
    """What identical errors have in common (`stats.fingerprint`). Empty: the error is not counted.

    Attributes:
        fingerprint: 16 hexadecimal digits.
        description: JSON of class, location and text.
    """

    fingerprint: str
    description: str


#: The error of an ack without one.
NO_ERROR = ErrorIdentity("", "")


class Ack(NamedTuple):
    """The outcome of a leased task.

    Attributes:
        outcome: an `Outcome`.
        payload: JSON of the return value or of the error.
        delay_ms: until the task is due again.
        ttl_ms: how long the record is kept if the task has finished; and the error otherwise.
        ran_us: how long the function ran; 0 if it did not run; negative if the run is counted for another call of its
            batch.
        message: the first `MAX_LISTED_MESSAGE` bytes of the job's body; only sent if the outcome is succeeded.
        error: what is counted as one error; only sent if the outcome is failed or retried.
    """

    id: str
    token: str
    outcome: str
    payload: bytes = b""
    delay_ms: int = 0
    ttl_ms: int = 0
    ran_us: int = 0
    message: bytes = b""
    error: ErrorIdentity = NO_ERROR


def ack_args(acks: Iterable[Ack]) -> list[Any]:
    """Return the arguments of `fetch.lua` for acks: without empty ones for an error, and with a message for a delay."""
    args: list[Any] = []
    for ack in acks:
        if ack.outcome == SUCCEEDED:
            task_id, token, outcome, payload, _, ttl_ms, ran_us, message, _ = ack
            args += (task_id, token, outcome, payload, message, ttl_ms, ran_us)
            continue
        args += ack[:7]
        if ack.outcome in ERROR_OUTCOMES:
            args += ack.error
    return args
