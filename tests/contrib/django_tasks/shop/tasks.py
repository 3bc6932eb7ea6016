"""Tasks written for Django's framework."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from django_redis_components.core.exceptions import TaskDelayed
from tests.contrib.django_tasks.framework import TaskContext, task, task_backends

#: What tasks that ran in this process have noted.
recorded: list[Any] = []


@task
def add(a: int, b: int) -> int:
    """A result to compare."""
    return a + b


@task
async def add_async(a: int, b: int) -> int:
    """A coroutine of the site's own."""
    await asyncio.sleep(0)
    return a + b


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    """What arrives."""
    return [args, kwargs]


@task
def note(what: Any) -> Any:
    """Leave a word in this process."""
    recorded.append(what)
    return what


@task
def fail(text: str = "out of order") -> None:
    """Raise at every attempt."""
    raise LookupError(text)


@task
def interrupt() -> None:
    """Raise what a user's Ctrl-C raises."""
    raise KeyboardInterrupt("not from a keyboard")


@task
def give(kind: str) -> Any:
    """Return what is not quite JSON."""
    return {"tuple": (1, 2), "bytes": b"text", "nan": float("nan"), "object": object(), "keys": {1: 2}}[kind]


@task
def come_back() -> str:
    """Ask to run later the first time."""
    if "come_back" not in recorded:
        recorded.append("come_back")
        raise TaskDelayed("not now", 0)
    return "came back"


@task(takes_context=True)
def look(context: TaskContext, failures: int = 0) -> int:
    """Note its result as the context has it and as the store has it; fail the first times."""
    result = context.task_result
    seen = dataclasses.replace(result, errors=list(result.errors))
    recorded.append((seen, task_backends[result.backend].get_result(result.id)))
    if context.attempt <= failures:
        raise LookupError(f"attempt {context.attempt}")
    return context.attempt
