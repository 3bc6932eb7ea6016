"""Changing a pending task: its arguments, and what was made of them (its unique key, limits and group)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Any, NamedTuple, TypedDict

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.protocol import Flow
from django_redis_components.core.units import Seconds
from django_redis_components.taskqueue import fair_share, limits, sealing
from django_redis_components.taskqueue.exceptions import (
    InvalidTask,
    NotPending,
    SealedArguments,
    TaskResultDoesNotExist,
    UniqueKeyConflict,
)
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.options import TaskOptions, check_queue
from django_redis_components.taskqueue.placement import exact_key_of
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.shards import Shard, place, route_of
from django_redis_components.taskqueue.store import task_records
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.messages import check_size
from django_redis_components.taskqueue.store.scripts import UPDATE_TASK
from django_redis_components.taskqueue.unique import Unique, claim_of

#: The changes that are options of tasks.
_OPTIONS = ("priority", "queue_name", "expires")
#: The fields of which new ones are made.
_VERSION = (Field.body, Field.unique_claim, Field.concurrency, Field.rate, Field.fair_share)


class TaskChanges(TypedDict, total=False):
    """What `TaskResult.update` can change."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    priority: int
    queue_name: str
    expires: datetime | Seconds | None


class UpdateReply(IntEnum):
    """Replies of update_task.lua."""

    updated = 1
    not_pending = 0
    missing = -1
    #: Another client has changed the arguments since they were read.
    outdated = -2
    expiry_passed = -3
    key_taken = -4


class _Derived(NamedTuple):
    """What a change of the arguments writes, as update_task.lua takes it."""

    version: str = ""
    claim: str = ""
    fields: tuple[Any, ...] = ()


def check_changes(changes: Mapping[str, Any]) -> TaskOptions:
    """Validate the changes. Return those that are options.

    Raises:
        InvalidTask: none is given, one is unknown, or its value is not accepted.
        TypeError: `args` is not a list or tuple, or `kwargs` is not a dict.
        UnknownQueue: the site declares its queues, and `queue_name` is not one of them.
    """
    names = TaskChanges.__annotations__
    if not changes or not changes.keys() <= names.keys():
        given = ", ".join(sorted(changes.keys() - names.keys())) or "nothing"
        raise InvalidTask(f"update() got {given}: expected one or more of {', '.join(names)}.")
    if not isinstance(changes.get("args", ()), list | tuple):
        raise TypeError(f"args={short_repr(changes['args'])}: expected a list or a tuple.")
    if not isinstance(changes.get("kwargs", {}), Mapping):
        raise TypeError(f"kwargs={short_repr(changes['kwargs'])}: expected a dict.")
    options = TaskOptions(**{name: changes[name] for name in _OPTIONS if name in changes})
    if "queue_name" in changes:
        check_queue(options.queue_name)
    return options


def check_update(task: Any, fields: Mapping[str, bytes], changes: Mapping[str, Any]) -> None:
    """Validate the changes of a task whose record was read, but for what depends on other tasks.

    Raises:
        InvalidTask, TypeError, ValueError, UnknownQueue: see `TaskResult.update`.
    """
    check_changes(changes)
    if "args" in changes or "kwargs" in changes:
        _derive(task, fields, changes)


def update(shard: Shard, task: Any, task_id: str, changes: Mapping[str, Any]) -> Flow[task_records.Fields]:
    """Change a pending task. Return its record.

    Args:
        task: the registered task; None if its name is not registered in this process.
        changes: see `TaskChanges`.

    Raises:
        TaskResultDoesNotExist, NotPending, UniqueKeyConflict, InvalidTask, TypeError, ValueError: see
            `TaskResult.update`.
    """
    options = check_changes(changes)
    expires = ""
    if "expires" in changes:
        kept = (task.options if task is not None else options).result_ttl
        expires = "never" if options.expires is None else TaskOptions(expires=options.expires, result_ttl=kept).expiry()
    call = {
        "base": shard.base,
        "id": task_id,
        "op": new_op(),
        "target": changes.get("queue_name", ""),
        "priority": changes.get("priority", ""),
        "expires": expires,
    }
    code = UpdateReply.outdated
    while code is UpdateReply.outdated:  # each time another client has changed the task
        derived = _Derived()
        if "args" in changes or "kwargs" in changes:
            fields, _ = yield from task_records.read(shard, task_id)
            derived = _derive(task, fields, changes, shard)
        number, *rest = yield UPDATE_TASK(**call, **derived._asdict())
        code = UpdateReply(number)
    if code is UpdateReply.missing:
        raise TaskResultDoesNotExist(task_id)
    if code is UpdateReply.expiry_passed:
        raise InvalidTask(f"expires={short_repr(changes['expires'])}: this time has passed. cancel() cancels the task.")
    if code is UpdateReply.key_taken:
        raise UniqueKeyConflict(task_id, rest[1].decode())
    record = task_records.fields_of(rest[0])
    if code is UpdateReply.not_pending:
        raise NotPending(task_id, TaskRecord("", task_id, record, ()).state)
    return record


def _derive(task: Any, fields: Mapping[str, bytes], changes: Mapping[str, Any], shard: Shard | None = None) -> _Derived:
    """Make the new message of a task, and what follows from its arguments.

    Args:
        shard: of the task; None: it is not compared with that of the new arguments.

    Raises:
        InvalidTask, TypeError, ValueError: see `TaskResult.update`.
    """
    name = fields[Field.task_name].decode()
    if task is None:
        raise InvalidTask(f"Task {name!r} is not registered in this process, so its arguments cannot be checked.")
    try:
        args, kwargs, *rest = sealing.open_body(fields[Field.body], serialization.decode)
    except SealedArguments as exc:
        raise InvalidTask(str(exc)) from exc
    gets_result = task._gets_result(rest[0] if rest else {})
    new_args, new_kwargs = changes.get("args", args), changes.get("kwargs", kwargs)
    task._check_arguments(new_args, new_kwargs, gets_result=gets_result)
    sent = [
        pack(new_args, "args") if "args" in changes else args,
        pack(dict(new_kwargs), "kwargs") if "kwargs" in changes else kwargs,
        *rest,
    ]
    old, new = (
        (limits.arguments_of_keys(name, each, gets_result), named) for each, named in ((args, kwargs), sent[:2])
    )
    if shard is not None:
        _check_shard(task, fields, old, new, shard)
    body = serialization.encode(sealing.seal(name, sent) if sealing.is_sealed(fields[Field.body]) else sent)
    check_size(name, body)
    version = b"\n".join(fields.get(field, b"") for field in _VERSION)
    return _Derived(
        hashlib.sha1(version, usedforsecurity=False).hexdigest(),
        _new_claim(task, fields, old, new),
        (Field.body, body, *_new_limits(task, fields, old, new), *_new_share(task, fields, old, new)),
    )


def _check_shard(task: Any, fields: Mapping[str, bytes], old: Any, new: Any, shard: Shard) -> None:
    """Raise InvalidTask if the unique key or the limits of the new arguments are in another shard."""
    route = route_of(fields[Field.queue].decode(), shard.using)
    if len(route) == 1:
        return
    before, after = (exact_key_of(task, *each) for each in (old, new))
    if before != after and place(route, after) != shard:
        raise InvalidTask(
            f"The unique key or the limits of the new arguments are in the shard {place(route, after).name}, and the"
            f" task is in {shard.name}. Cancel the task and enqueue another."
        )


def _new_claim(task: Any, fields: Mapping[str, bytes], old: Any, new: Any) -> str:
    """The unique claim of the new arguments; empty if it stays.

    The record has the digest of the key only. The option that makes it of the old arguments makes the new one: that of
    the task, or a key of all arguments.

    Raises:
        InvalidTask: it was made with another option.
    """
    claim = fields.get(Field.unique_claim, b"").decode()
    if not claim:
        return ""
    for unique in filter(None, (task.options.unique, Unique())):
        before, after = (
            claim_of(unique, task.name, task._enqueue_func, *each).split(" ")[0][1:] for each in (old, new)
        )
        if before == claim[1:]:
            return claim[0] + after if after != before else ""
    raise _not_reproducible("unique")


def _new_limits(task: Any, fields: Mapping[str, bytes], old: Any, new: Any) -> tuple[str, ...]:
    """The limits whose keys follow from the arguments, as pairs of field and value.

    Raises:
        InvalidTask: a key was made with another option than the task's.
    """
    changed: tuple[str, ...] = ()
    for field, limit in ((Field.concurrency, task.options.concurrency), (Field.rate, task.options.rate)):
        key = _key_of_limit(field, fields.get(field, b"").decode())
        if ":" not in key:  # none, or one limit for all arguments
            continue
        before, after = (limits.fields(task.name, task._enqueue_func, *each, limit) for each in (old, new))
        if not before or _key_of_limit(field, before[1]) != key:
            raise _not_reproducible("concurrency" if field == Field.concurrency else "rate")
        changed += after if after != before else ()
    return changed


def _new_share(task: Any, fields: Mapping[str, bytes], old: Any, new: Any) -> tuple[str, ...]:
    """The group and the weight that follow from the arguments, as fields and values; empty if they stay.

    Raises:
        InvalidTask: the group was made with another option than the task's.
    """
    share, fair = fields.get(Field.fair_share, b"").decode(), task.options.fair
    if not share:
        return ()
    if fair is None:
        raise _not_reproducible("fair")
    func = task._enqueue_func
    before, after = (fair_share.fields(task.name, func, args, kwargs, fair) for args, kwargs in (old, new))
    if fair_share.group_of(before[1]) != fair_share.group_of(share):
        raise _not_reproducible("fair")
    return after if after != before else ()


def _key_of_limit(field: str, stored: str) -> str:
    """The key within the field of a limit: "3/key" of concurrency, "100/0/key" of a rate; empty without one."""
    return stored.split("/", 1 if field == Field.concurrency else 2)[-1]


def _not_reproducible(option: str) -> InvalidTask:
    return InvalidTask(
        f"The task was enqueued with using({option}=…), so the key of its new arguments cannot be made here. Update the"
        " result that enqueue() returned, or cancel the task and enqueue another."
    )
