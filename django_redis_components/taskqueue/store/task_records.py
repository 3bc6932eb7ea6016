"""How tasks are sent and read: the flows beneath `Task` and `TaskResult`."""

from __future__ import annotations

import math
import os
import re
import time
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from django_redis_components.core.chunks import chunks
from django_redis_components.core.protocol import Batch, BoundedSlotWait, Call, Command, Flow, Read, Wait
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.taskqueue.exceptions import TaskIdConflict, TaskResultDoesNotExist, WaitTimeout
from django_redis_components.taskqueue.fields import Field, Key
from django_redis_components.taskqueue.replication import send_replicated
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.states import State, is_final
from django_redis_components.taskqueue.store.messages import (
    TaskMessage,
    call_for,
    calls_for,
    is_same_call,
    send_call,
    with_parts,
)
from django_redis_components.taskqueue.store.scripts import REGISTER_WAITER

#: Bytes of randomness in an id: 120 bits, 20 characters.
ID_BYTES = 15
#: From base64's alphabet to the URL-safe one.
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
#: The form of an id.
_GENERATED = re.compile(rf"[A-Za-z0-9_-]{{{ID_BYTES * 4 // 3}}}")
#: Tasks read in one round trip.
CHUNK = 500
#: Seconds between two reads of a result whose wakeup may have been lost.
LOOK_AGAIN_S = 2.0
#: Seconds between two reads of a task that is being moved to another shard.
MOVING_S = 0.1

Fields = dict[str, bytes]
#: Where a task was found: the shard, the record and the failures.
Found = tuple[Shard, Fields, list[bytes]]
#: What sending brings: when the task was accepted, in microseconds since the epoch; or id and record (names and
#: values in turn) of the task that has its unique key.
Reply = int | list[Any]


def new_id() -> str:
    """Return a unique id that cannot be guessed and that no command line parses as an option."""
    task_id = b2a_base64(os.urandom(ID_BYTES), newline=False).translate(_URL_SAFE).decode()
    return new_id() if task_id.startswith("-") else task_id


def is_generated_id(text: str) -> bool:
    """Return whether a text has the form of the ids that `new_id` makes."""
    return _GENERATED.fullmatch(text) is not None


def new_ids(count: int) -> list[str]:
    """Many of them: one call of the system instead of one for each."""
    data = os.urandom(ID_BYTES * count)
    text = b2a_base64(data, newline=False).translate(_URL_SAFE).decode()
    length = ID_BYTES * 4 // 3
    ids = [text[start : start + length] for start in range(0, len(text), length)]
    return [new_id() if task_id.startswith("-") else task_id for task_id in ids]


def send_with_id(shard: Shard, message: TaskMessage) -> Flow[Reply]:
    """Send one task under an id that the caller chose, and read the record of that id in the same round trip.

    Raises:
        TaskIdConflict: the id belongs to another call.
    """
    requests: list[Call | Command] = [call_for(shard, message), Read("HGETALL", shard.record(message.id))]
    if message.replication:
        reply, pairs = yield from send_replicated(shard, requests, [message.replication])
    else:
        reply, pairs = yield Batch(requests)
    return reply_with_id(message, reply, pairs)


def send_over(shards: Sequence[Shard], shard: Shard, message: TaskMessage) -> Flow[tuple[Shard, Reply]]:
    """Send a task whose id the caller chose, unless another shard has it: its queue may have had another one before.

    Returns:
        The shard that has the task, and the reply; see `send_with_id`.
    """
    others = [each for each in shards if each != shard]
    found = yield from _find_in(others, message)
    if found is None:
        try:
            return shard, (yield from send_with_id(shard, message))
        except TaskIdConflict:
            found = yield from _find_in(others, message)  # another shard has it now, if it was moved just then
            if found is None:
                raise
    return found


def _find_in(shards: Sequence[Shard], message: TaskMessage) -> Flow[tuple[Shard, Reply] | None]:
    """Return which of these shards has the task whose id the caller chose, and the reply; None if none has it."""
    replies = (yield Batch([Read("HGETALL", each.record(message.id)) for each in shards])) if shards else []
    for shard, pairs in zip(shards, replies, strict=True):
        if Field.queue.encode() in pairs[::2] or Field.moving.encode() in pairs[::2]:
            return shard, reply_with_id(message, 0, pairs)
    return None


def reply_with_id(message: TaskMessage, reply: Reply, pairs: list[Any]) -> Reply:
    """Return the reply to a task whose id the caller chose.

    Args:
        reply: of the script that has accepted it, or not.
        pairs: the record of the id after that.

    Raises:
        TaskIdConflict: see `send_with_id`.
    """
    fields = fields_of(pairs)
    if not isinstance(reply, int) or not fields or fields.get(Field.nonce) == message.nonce.encode():
        return reply
    body = fields.get(Field.body)  # None: the task was moved to another shard just now, and is gone there
    if fields.get(Field.task_name) != message.name.encode() or body is None or not is_same_call(body, message.body):
        raise TaskIdConflict(message.id, fields[Field.task_name].decode())
    if Field.queue not in fields:  # it is being moved to another shard
        return [message.id.encode(), [*pairs, Field.queue.encode(), message.queue.encode()]]
    return [message.id.encode(), pairs]


def send(shard: Shard, message: TaskMessage) -> Flow[Reply]:
    """Send one task."""
    if message.nonce:
        return (yield from send_with_id(shard, message))
    call = call_for(shard, message)
    reply: Reply = (yield from send_call(shard, call, [message])) if message.replication else (yield call)
    return reply


def send_many(shard: Shard, messages: Sequence[TaskMessage], replies: list[Reply]) -> Flow[None]:
    """Send many calls of a task in parts; each is accepted whole or not at all.

    Args:
        replies: gets those of each part as soon as it is accepted, so that the caller has them after an error too.
    """
    for call, some in with_parts(calls_for(shard, messages), messages):
        replies += yield from send_call(shard, call, some)


def read(shard: Shard, task_id: str) -> Flow[tuple[Fields, list[bytes]]]:
    """The record of a task and its failures."""
    key = shard.record(task_id)
    try:
        pairs, failures = yield Batch([Read("HGETALL", key), Read("LRANGE", f"{key}:errors", 0, 49)])
    except ResponseError as exc:
        if str(exc).startswith("WRONGTYPE"):  # an id such as "x:errors" names another key of a task
            raise TaskResultDoesNotExist(task_id) from None
        raise
    fields = fields_of(pairs)
    if Field.queue not in fields and Field.moving in fields:
        fields, failures = yield from _read_moving(shard, task_id)
    if Field.queue not in fields:
        raise TaskResultDoesNotExist(task_id)
    return fields, failures


def _read_moving(shard: Shard, task_id: str) -> Flow[tuple[Fields, list[bytes]]]:
    """The record of a task that is being moved to another shard, and its failures; empty if it has arrived."""
    key = shard.key(Key.moving_task, task_id)
    pairs, failures = yield Batch([Read("HGETALL", key), Read("LRANGE", f"{key}:errors", 0, 49)])
    return fields_of(pairs), failures


def find(shards: Sequence[Shard], task_id: str, *, is_repeated: bool = False) -> Flow[Found]:
    """The shard that has a task, with its record and its failures.

    Args:
        is_repeated: whether the task was being moved just now, and had arrived in another shard or was gone.

    Raises:
        TaskResultDoesNotExist: all shards have answered, and none has it.
    """
    if len(shards) == 1:
        return (shards[0], *(yield from read(shards[0], task_id)))
    keys = [shard.record(task_id) for shard in shards]
    reads = [each for key in keys for each in (Read("HGETALL", key), Read("LRANGE", f"{key}:errors", 0, 49))]
    replies = yield Batch(reads, return_exceptions=True)
    moving = None
    for shard, pairs, failures in zip(shards, replies[::2], replies[1::2], strict=True):
        if not isinstance(pairs, Exception) and not isinstance(failures, Exception):
            fields = fields_of(pairs)
            if Field.queue in fields:
                return shard, fields, failures
            moving = shard if Field.moving in fields else moving
    if moving is not None:
        fields, failures = yield from _read_moving(moving, task_id)
        if Field.queue in fields:
            return moving, fields, failures
        if not is_repeated:  # it has arrived since; or it has expired, or was evicted, in a move that was interrupted
            return (yield from find(shards, task_id, is_repeated=True))
    for error in replies:
        if isinstance(error, Exception) and not str(error).startswith("WRONGTYPE"):  # see `read`
            raise error
    raise TaskResultDoesNotExist(task_id)


def read_many(shard: Shard, task_ids: Sequence[str]) -> Flow[list[tuple[Fields, list[bytes]] | None]]:
    """The records of tasks and their failures, 500 in a round trip; None for those that are not there any more."""
    records: list[tuple[Fields, list[bytes]] | None] = []
    for some in chunks(task_ids, CHUNK):
        keys = [shard.record(task_id) for task_id in some]
        reads = [Read("HGETALL", key) for key in keys] + [Read("LRANGE", f"{key}:errors", 0, 49) for key in keys]
        replies = yield Batch(reads)
        for pairs, failures in zip(replies[: len(keys)], replies[len(keys) :], strict=True):
            fields = fields_of(pairs)
            records.append((fields, failures) if Field.queue in fields else None)
    return records


#: Stored states of a task whose due time may be the only reason to wait: its state is then not stored.
_NOT_STARTED = frozenset({None, b"", State.scheduled.encode(), State.ready.encode()})


def wait(shard: Shard, task_id: str, timeout: Seconds | None) -> Flow[tuple[Fields, list[bytes]]]:
    """Wait until the task has finished; the value is its record and failures.

    Raises:
        TaskResultDoesNotExist: the result has expired, or another shard has the task by now.
    """
    limit_s = math.inf if timeout is None else to_seconds(timeout, "timeout", zero=True)
    deadline = time.monotonic() + limit_s
    while True:
        state = b""
        seen = yield BoundedSlotWait(deadline - time.monotonic(), REGISTER_WAITER(record=shard.record(task_id)))
        while seen == 0:
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                why = "it has not started" if state in _NOT_STARTED else f"it is {state.decode()}"
                raise WaitTimeout(f"Task {task_id} had not finished after {limit_s:g} s: {why}.")
            yield Wait(f"{shard.record(task_id)}:done", min(remaining_s, LOOK_AGAIN_S))
            look = Read("HMGET", shard.record(task_id), Field.queue, Field.state)
            queue, state = yield BoundedSlotWait(deadline - time.monotonic(), look)
            seen = 1 if queue is None or is_final(state) else 0
        record, failures = yield from read(shard, task_id)
        while Field.moving in record and not is_final(record.get(Field.state)):  # another shard has it soon
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                why = "it is being moved to another shard"
                raise WaitTimeout(f"Task {task_id} had not finished after {limit_s:g} s: {why}.")
            yield Wait(f"{shard.record(task_id)}:done", min(remaining_s, MOVING_S))
            record, failures = yield from read(shard, task_id)
        if is_final(record.get(Field.state)):  # else the other shard has refused it
            return record, failures


def fields_of(pairs: Sequence[bytes]) -> Fields:
    """A record from its names and values in turn."""
    return {name.decode(): value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
