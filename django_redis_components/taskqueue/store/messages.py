"""A task to enqueue, with the arguments of the scripts that accept it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.protocol import Call, Flow, Request
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.replication import Replication, send_replicated
from django_redis_components.taskqueue.sealing import open_body
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.scripts import ENQUEUE, ENQUEUE_MANY, ENQUEUE_PLAIN, ENQUEUE_PLAIN_MANY

#: Tasks sent in one round trip by `enqueue_many`, and bytes of their arguments after which the next go with another:
#: the server does nothing else while it accepts them.
CHUNK, CHUNK_BYTES = 500, 1_048_576

#: Key of the headers among the options that travel with the arguments: what middleware adds to a task.
HEADERS_KEY = "headers"


@dataclasses.dataclass(slots=True)
class TaskMessage:
    """One task as it is sent.

    Attributes:
        name: of the task.
        body: the arguments, and the options that travel with them, as JSON.
        origin: who enqueued it, see `taskqueue.origin`; empty if unknown.
        due, expires: as `TaskOptions.due` and `TaskOptions.expiry` say them.
        unique: as `unique.claim_of` says it.
        extra: fields and values for the record.
        nonce: identifies the call, if the caller chose the id; empty for a random id.
        route: the shards of which any may accept it, if there are several; empty if only its own may.
        replication: how many replicas must have it; None if it is not waited for them.
    """

    id: str
    name: str
    queue: str
    body: bytes
    origin: str = ""
    due: str = ""
    priority: int = 0
    unique: str = ""
    expires: str = ""
    extra: tuple[Any, ...] = ()
    nonce: str = ""
    route: tuple[Shard, ...] = ()
    replication: Replication | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it goes to the end of its queue's ready list and uses no other feature."""
        return not (self.due or self.priority or self.unique or self.expires or self.extra)

    @property
    def size(self) -> int:
        """Bytes of what may be large: the arguments, and metadata."""
        if not self.extra:
            return len(self.body)
        return len(self.body) + sum(len(part) for part in self.extra if isinstance(part, bytes | str))

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Those of enqueue.lua, in order."""
        fields = (Field.task_name, self.name, Field.body, self.body, *self.extra)
        if self.origin:
            fields += (Field.origin, self.origin)
        if self.priority:
            fields += (Field.priority, self.priority)
        return (self.id, self.queue, self.due, self.priority, self.unique, self.expires, *fields)


def record_of(arguments: Sequence[Any], accepted_us: int) -> dict[str, bytes]:
    """Return the record of a task that was accepted, without what only the server knows.

    Args:
        arguments: those of enqueue.lua.
        accepted_us: when, in microseconds since the epoch.
    """
    _, queue, due, _, _, expires, *parts = arguments
    fields = [part if isinstance(part, bytes) else str(part).encode() for part in (Field.queue, queue, *parts)]
    record = {name.decode(): value for name, value in zip(fields[::2], fields[1::2], strict=True)}
    record[Field.enqueued_at_us] = str(accepted_us).encode()
    accepted_ms = -(-accepted_us // 1_000)  # rounded up, as the script does
    due_ms = _at_ms(due, accepted_ms) if due else 0
    if due_ms > accepted_ms:
        record[Field.due_at_ms] = str(due_ms).encode()
    if expires:
        record[Field.expiry] = str(_at_ms(expires.split(" ")[0], max(accepted_us // 1_000, due_ms))).encode()
    return record


def _at_ms(when: str, start_ms: int) -> int:
    """Return a time that the scripts take, see `options.when`."""
    return start_ms + int(when) if when.startswith("+") else int(when)


def check_size(name: str, body: bytes) -> None:
    """Refuse arguments that are too large.

    Raises:
        InvalidTask: they are larger than TASKQUEUE["MAX_BODY_BYTES"].
    """
    limit = conf.settings().taskqueue.max_body_bytes
    if len(body) > limit:
        raise InvalidTask(
            f"The arguments of {name} are {len(body):,} bytes of JSON: at most {limit:,} are accepted"
            ' (TASKQUEUE["MAX_BODY_BYTES"]). Store the data and send its id.'
        )


def is_same_call(body: bytes, other: bytes) -> bool:
    """Return whether two bodies have the same arguments and options; each call has different headers."""
    return body == other or _without_headers(body) == _without_headers(other)


def _without_headers(body: bytes) -> list[Any]:
    args, kwargs, *rest = open_body(body, serialization.decode)
    options = {name: value for name, value in (rest[0] if rest else {}).items() if name != HEADERS_KEY}
    return [args, kwargs, options]


def call_for(shard: Shard, message: TaskMessage) -> Call:
    """What sends one task; the reply is that of enqueue.lua."""
    if message.is_plain:
        arguments = message.queue, message.name, message.id, message.body, message.origin
        return Call(ENQUEUE_PLAIN, (shard.base,), arguments)
    return Call(ENQUEUE, (shard.base,), message.arguments)


def calls_for(shard: Shard, messages: Sequence[TaskMessage]) -> Iterator[Call]:
    """What sends many tasks, up to 500 in a round trip; the replies are lists of those of enqueue.lua."""
    for some in chunks(messages):
        first = some[0]
        if all(each.is_plain and _shared(each) == _shared(first) for each in some):
            yield _plain(shard, some)
        else:
            yield ENQUEUE_MANY(base=shard.base, tasks=_counted(some))


def with_parts(calls: Iterator[Call], messages: Sequence[TaskMessage]) -> Iterator[tuple[Call, Sequence[TaskMessage]]]:
    """Yield calls, each with the messages of its part if it is waited for replicas, else with none."""
    parts = chunks(messages) if any(message.replication for message in messages) else itertools.repeat(())
    return zip(calls, parts, strict=False)


def send_call(
    shard: Shard, call: Call, messages: Sequence[TaskMessage], bound: Callable[[Any], Request] | None = None
) -> Flow[Any]:
    """Send a call, and wait until replicas have its tasks; return the reply.

    Args:
        messages: of the tasks; none if it is not waited for replicas.
        bound: returns what is sent in place of the request.
    """
    replications = [message.replication for message in messages if message.replication]
    if not replications:
        return (yield bound(call) if bound else call)
    [reply] = yield from send_replicated(shard, [call], replications, bound)
    return reply


def first_part(messages: Sequence[TaskMessage]) -> int:
    """How many of these messages go in the first round trip."""
    return len(next(chunks(messages), ()))


def _plain(shard: Shard, messages: Sequence[TaskMessage]) -> Call:
    first = messages[0]
    tasks = [part for message in messages for part in (message.id, message.body)]
    if first.origin:
        tasks.append(first.origin)
    return ENQUEUE_PLAIN_MANY(base=shard.base, queue=first.queue, name=first.name, tasks=tasks)


def _shared(message: TaskMessage) -> tuple[str, str, str]:
    """Return what all tasks of one `ENQUEUE_PLAIN_MANY` share."""
    return message.name, message.queue, message.origin


def _counted(messages: Sequence[TaskMessage]) -> list[Any]:
    """For each task the number of its arguments, and these."""
    tasks: list[Any] = []
    for message in messages:
        arguments = message.arguments
        tasks.append(len(arguments))
        tasks += arguments
    return tasks


def chunks(messages: Sequence[TaskMessage]) -> Iterator[Sequence[TaskMessage]]:
    """Split messages into parts of at most `CHUNK` messages and about `CHUNK_BYTES` bytes."""
    start = size = 0
    for index, message in enumerate(messages):
        size += message.size
        if index + 1 - start >= CHUNK or size >= CHUNK_BYTES:
            yield messages[start : index + 1]
            start, size = index + 1, 0
    if start < len(messages):
        yield messages[start:]
