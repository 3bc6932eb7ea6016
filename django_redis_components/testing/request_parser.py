"""Parse the requests that the task queue sends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Call, Command, Request
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.messages import TaskMessage
from django_redis_components.taskqueue.store.scripts import (
    ENQUEUE,
    ENQUEUE_FLOW,
    ENQUEUE_MANY,
    ENQUEUE_ONCE,
    ENQUEUE_PLAIN,
    ENQUEUE_PLAIN_MANY,
)
from django_redis_components.taskqueue.store.task_records import fields_of


def is_taskqueue_request(request: Request) -> bool:
    """Return whether the task queue sent the request, whatever shard it is for."""
    if isinstance(request, Call):
        script: Any = request.script
        return bool(script.component == "taskqueue")
    return isinstance(request, Command) and str(request.key).startswith(home().base.partition("{")[0])


def named_arguments(call: Call) -> dict[str, Any]:
    """Return the keys and arguments of a call by name."""
    script: Any = call.script
    return _named(script.keys, call.keys) | _named(script.args, call.args)


def parse_flow_nodes(parts: Sequence[Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yield each task of a flow: its number, its followers, and its arguments for enqueue.lua."""
    index = 0
    while index < len(parts):
        number, followers, _, count = parts[index : index + 4]
        yield number, followers, _named(ENQUEUE.args, parts[index + 4 : index + 4 + count])
        index += 4 + count


def parse_added_nodes(parts: Sequence[Any]) -> Iterator[tuple[str, int, str, dict[str, Any]]]:
    """Yield each task of an add_to_flow.lua call: followers, open parents, what is appended, its own arguments."""
    index = 0
    while index < len(parts):
        followers, open_parents, appended, count = parts[index : index + 4]
        yield followers, open_parents, appended, _named(ENQUEUE.args, parts[index + 4 : index + 4 + count])
        index += 4 + count


def parse_tasks(parts: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the enqueue.lua arguments of each task of an enqueue_many.lua call."""
    index = 0
    while index < len(parts):
        count = parts[index]
        yield _named(ENQUEUE.args, parts[index + 1 : index + 1 + count])
        index += 1 + count


def parse_tasks_of_rows(parts: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the enqueue.lua arguments of each task of an enqueue_once.lua call."""
    index = 0
    while index < len(parts):
        count = parts[index + 1]
        yield _named(ENQUEUE.args, parts[index + 2 : index + 2 + count])
        index += 2 + count


def parse_plain_tasks(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the enqueue.lua arguments of each task of an enqueue_plain_many.lua call."""
    tasks = arguments["tasks"]
    origin = tasks[-1] if len(tasks) % 2 else ""
    for task_id, body in zip(tasks[::2], tasks[1::2], strict=False):
        yield parse_plain_task(arguments | {"id": task_id, "body": body, "origin": origin})


def parse_plain_task(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the enqueue.lua arguments of the task of an enqueue_plain.lua call."""
    message = TaskMessage(*(arguments[part] for part in ("id", "name", "queue", "body", "origin")))
    return _named(ENQUEUE.args, message.arguments)


def parse_enqueued_tasks(call: Call) -> list[dict[str, Any]]:
    """Return the enqueue.lua arguments of each task that a call enqueues; an empty list for other calls."""
    if call.script is ENQUEUE:
        return [named_arguments(call)]
    if call.script is ENQUEUE_PLAIN:
        return [parse_plain_task(named_arguments(call))]
    if call.script is ENQUEUE_PLAIN_MANY:
        return list(parse_plain_tasks(named_arguments(call)))
    if call.script is ENQUEUE_MANY:
        return list(parse_tasks(named_arguments(call)["tasks"]))
    if call.script is ENQUEUE_ONCE:
        return list(parse_tasks_of_rows(named_arguments(call)["tasks"]))
    if call.script is ENQUEUE_FLOW:
        return [node for _, _, node in parse_flow_nodes(named_arguments(call)["nodes"])]
    return []


def build_record(sent: dict[str, Any]) -> dict[str, bytes]:
    """Build the record of a task that is enqueued now."""
    fields = [to_bytes(value) for value in sent["fields"]]
    record = fields_of(fields)
    record |= {Field.queue: to_bytes(sent["queue"]), Field.enqueued_at_us: to_bytes(time.time_ns() // 1_000)}
    if sent["unique"]:
        record[Field.unique_claim] = to_bytes(sent["unique"]).split(b" ")[0]
    if sent["due"]:
        record[Field.due_at_ms] = to_bytes(due_ms(sent["due"]))
    if sent["expires"]:
        record[Field.expiry] = parse_expiry(sent["expires"], record)
    return record


def parse_expiry(expires: str, record: dict[str, bytes]) -> bytes:
    """Return the field of an expiry that counts from now, or from when the task of the record is due."""
    at, ttl_ms = expires.split(" ")
    from_ms = max(time.time_ns() // 1_000_000, int(record.get(Field.due_at_ms, 0)))
    return to_bytes(f"{from_ms + int(at) if at.startswith('+') else at} {ttl_ms}")


def parse_changes(arguments: dict[str, Any], record: dict[str, bytes]) -> dict[str, bytes]:
    """Return the fields that an update_task.lua call changes in a record."""
    fields = [to_bytes(value) for value in arguments["fields"]]
    changed = {name.decode(): value for name, value in pairs_of(fields)}
    named = {Field.queue: "target", Field.priority: "priority", Field.unique_claim: "claim"}
    changed |= {field: to_bytes(arguments[name]) for field, name in named.items() if arguments[name] != ""}
    if arguments["expires"] not in ("", "never"):
        changed[Field.expiry] = parse_expiry(arguments["expires"], record)
    return changed


def due_ms(due: str) -> int:
    """Convert a due time in the scripts' format to milliseconds since the epoch."""
    now_ms = time.time_ns() // 1_000_000
    return now_ms + int(due or 0) if due.startswith("+") or not due else int(due)


def id_from_key(key: Any) -> str:
    """Return the id in the key of a task, of its errors, or of a flow."""
    return str(key).removesuffix(":errors").rpartition(":")[2]


def to_bytes(value: Any) -> bytes:
    """Convert a value to the bytes that Redis would store."""
    return value if isinstance(value, bytes) else str(value).encode()


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    fixed = [name for name in names if not name.endswith("*")]
    found = dict(zip(fixed, values, strict=False))
    for last in names[len(fixed) :]:
        found[last.removesuffix("*")] = list(values[len(fixed) :])
    return found
