"""Reading the requests that the task queue sends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from django_redis_components.core.protocol import Call, Command, Request
from django_redis_components.taskqueue.store.fields import base_key
from django_redis_components.taskqueue.store.messages import Message
from django_redis_components.taskqueue.store.scripts import ENQUEUE, ENQUEUE_FLOW, ENQUEUE_MANY, ENQUEUE_PLAIN


def is_ours(request: Request) -> bool:
    """Whether a request is one of the task queue."""
    if isinstance(request, Call):
        script: Any = request.script
        return bool(script.component == "taskqueue")
    return isinstance(request, Command) and str(request.key).startswith(f"{base_key()}:")


def arguments_of(call: Call) -> dict[str, Any]:
    """Return the keys and arguments of a call by name."""
    script: Any = call.script
    return _named(script.keys, call.keys) | _named(script.args, call.args)


def nodes_of(parts: Sequence[Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Of the tasks of a flow: number, followers, and the arguments with which each would be sent alone."""
    at = 0
    while at < len(parts):
        number, followers, _, count = parts[at : at + 4]
        yield number, followers, _named(ENQUEUE.args, parts[at + 4 : at + 4 + count])
        at += 4 + count


def tasks_of(parts: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Of tasks that are sent together: the arguments with which each would be sent alone."""
    at = 0
    while at < len(parts):
        count = parts[at]
        yield _named(ENQUEUE.args, parts[at + 1 : at + 1 + count])
        at += 1 + count


def plain_of(arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Of tasks that enqueue_plain.lua is given: the arguments with which each would be sent alone."""
    tasks = arguments["tasks"]
    for task_id, body in zip(tasks[::2], tasks[1::2], strict=True):
        message = Message(task_id, arguments["name"], arguments["queue"], body)
        yield _named(ENQUEUE.args, message.arguments)


def sent_in(call: Call) -> list[dict[str, Any]]:
    """The tasks that a call sends, with their arguments; none if it is another call."""
    if call.script is ENQUEUE:
        return [arguments_of(call)]
    if call.script is ENQUEUE_PLAIN:
        return list(plain_of(arguments_of(call)))
    if call.script is ENQUEUE_MANY:
        return list(tasks_of(arguments_of(call)["tasks"]))
    if call.script is ENQUEUE_FLOW:
        return [node for _, _, node in nodes_of(arguments_of(call)["nodes"])]
    return []


def record_of(sent: dict[str, Any]) -> dict[str, bytes]:
    """The record of a task that is sent now."""
    fields = [text(value) for value in sent["fields"]]
    record = {name.decode(): value for name, value in zip(fields[::2], fields[1::2], strict=True)}
    record |= {"q": text(sent["queue"]), "e": text(time.time_ns() // 1_000)}
    if sent["unique"]:
        record["u"] = text(sent["unique"]).split(b" ")[0]
    if sent["due"]:
        record["d"] = text(due_ms(sent["due"]))
    if sent["expires"]:
        at, ttl_ms = sent["expires"].split(" ")
        from_ms = max(int(record["e"]) // 1_000, int(record.get("d", 0)))
        record["X"] = text(f"{from_ms + int(at) if at.startswith('+') else at} {ttl_ms}")
    return record


def due_ms(due: str) -> int:
    """A due time as the scripts take it, in milliseconds since the epoch."""
    now_ms = time.time_ns() // 1_000_000
    return now_ms + int(due or 0) if due.startswith("+") or not due else int(due)


def numbers(listed: str) -> list[int]:
    """Numbers of a list such as "1,2"."""
    return [int(number) for number in listed.split(",") if number]


def id_in(key: Any) -> str:
    """The id in the key of a task, of its errors, or of a flow."""
    return str(key).removesuffix(":errors").rpartition(":")[2]


def text(value: Any) -> bytes:
    """A value as the server would keep it."""
    return value if isinstance(value, bytes) else str(value).encode()


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    fixed = [name for name in names if not name.endswith("*")]
    found = dict(zip(fixed, values, strict=False))
    for last in names[len(fixed) :]:
        found[last.removesuffix("*")] = list(values[len(fixed) :])
    return found
