"""The operation of `manage.py redis tasks enqueue`: start a task by hand, and wait for its result."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from django.core.management.base import CommandError

from django_redis_components.core import serialization
from django_redis_components.core.serialization import encode
from django_redis_components.management.base import CommandResult, ExitCode
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import (
    InvalidTask,
    TaskFailed,
    TaskResultDoesNotExist,
    UnknownQueue,
    WaitTimeout,
)
from django_redis_components.taskqueue.json_codec import pack, unpack
from django_redis_components.taskqueue.result import TaskResult


def json_or_text(text: str) -> Any:
    """Return a word as JSON if it is JSON, else as text."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def find_task(name: str, using: str | None) -> Any:
    """Return the task of a name or an alias.

    Args:
        using: alias of the connection that it must have; None: any.

    Raises:
        CommandError: no task has this name, or it has another connection.
    """
    registry.autodiscover()
    task = registry.find(name)
    if task is None:
        raise invalid(f"No task is registered as {name!r}.{_nearest(name)}")
    if using is not None and task.connection != using:
        raise invalid(f"--using {using}: task {task.name} is enqueued over the connection {task.connection!r}.")
    return task


def enqueue_task(
    task: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: Mapping[str, Any]
) -> TaskResult[Any]:
    """Enqueue a task.

    Args:
        args, kwargs: as plain JSON values.
        options: of `using`.

    Raises:
        CommandError: the function does not accept the arguments, or an option is not valid.
        TaskIdConflict: the option `id` is that of another call.
    """
    try:
        chosen = task.using(**options) if options else task
        result: TaskResult[Any] = chosen.enqueue(*unpack(encode(list(args))), **unpack(encode(dict(kwargs))))
    except (TypeError, ValueError, InvalidTask, UnknownQueue) as exc:
        raise invalid(str(exc)) from exc
    return result


def describe(result: TaskResult[Any]) -> str:
    """Return what was enqueued, without the arguments."""
    if result.is_duplicate:
        return f"No new task: {result.id} ({result.name}) on queue {result.queue_name!r} has this id or unique key."
    return f"Enqueued task {result.id} ({result.name}) on queue {result.queue_name!r}."


def result_of_enqueue(result: TaskResult[Any]) -> CommandResult:
    """Return the result of a command that does not wait."""
    return CommandResult(_data(result), describe(result))


def wait_for(result: TaskResult[Any], timeout: float | None) -> CommandResult:
    """Wait until a task has finished. The text is its return value as JSON; the log gets no values and errors.

    Args:
        timeout: seconds; None: without a limit.
    """
    value, problem = None, ""
    try:
        value = pack(result.get(timeout=timeout))
    except (TaskFailed, TaskResultDoesNotExist) as exc:
        problem = str(exc)
    except WaitTimeout:
        result.refresh()
        problem = f"Task {result.id} had not finished after {timeout:g} s: it is {result.state}."
    except KeyboardInterrupt:
        problem = f"Interrupted. Task {result.id} was enqueued, and is not cancelled."
    data = {**_data(result), "return_value": value}
    text = "" if problem else serialization.encode(value).decode()
    return CommandResult(data, text, problem=problem, log=f"{describe(result)} State: {result.state}.")


def invalid(text: str) -> CommandError:
    """Return the error of invalid arguments."""
    return CommandError(text, returncode=ExitCode.INVALID_ARGUMENTS)


def _data(result: TaskResult[Any]) -> dict[str, Any]:
    return {
        "id": result.id,
        "task": result.name,
        "queue": result.queue_name,
        "state": result.state,
        "is_duplicate": result.is_duplicate,
    }


def _nearest(name: str) -> str:
    """Return the registered names that are like this one, or end in the same function, as a hint."""
    known = registry.names_and_aliases()
    function = name.rpartition(".")[2]
    same = [each for each in known if each.rpartition(".")[2] == function]
    near = list(dict.fromkeys([*difflib.get_close_matches(name, known), *same]))[:3]
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


def _refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError(name)
