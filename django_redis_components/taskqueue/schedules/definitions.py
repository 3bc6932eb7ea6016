"""Schedules as JSON: how those that were added at run time are stored, exported and imported."""

from __future__ import annotations

import difflib
import json
from datetime import datetime, timedelta
from typing import Any

from django_redis_components.core import serialization
from django_redis_components.core.arguments import short_repr
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask, UnknownQueue
from django_redis_components.taskqueue.options import check_queue
from django_redis_components.taskqueue.schedules.recurrence import (
    CronTimes,
    FixedInterval,
    OneTime,
    Recurrence,
    encode_moment,
    moment_ms,
    parse_moment,
)
from django_redis_components.taskqueue.schedules.schedule import Schedule, create
from django_redis_components.taskqueue.task import Task

#: Longest definition in characters: pollers read all definitions after each change.
MAX_DEFINITION = 100_000
#: Options of the task that a schedule may have. The others belong to the function or to one call.
TASK_OPTIONS = (
    *("queue_name", "priority", "expires", "max_attempts", "max_deliveries", "backoff", "timeout", "result_ttl"),
    "unique",
)
#: Those whose value may be a duration.
_DURATIONS = ("expires", "result_ttl", "backoff", "timeout", "unique")
#: The fields of a definition. Pollers of versions that do not know a field do not send a schedule that has it, so those
#: from "start" on are stored only if they are set.
FIELDS = (
    *("task", "every", "cron", "tz", "at", "args", "kwargs", "misfire", "max_age", "jitter"),
    *("start", "end", "count", "options"),
)


def encode(schedule: Schedule) -> str:
    """Return a schedule as JSON.

    Raises:
        ValueError: it is longer than 100,000 characters.
    """
    bounds = {"start": schedule.start_ms, "end": schedule.end_ms}
    definition = json.dumps(
        {
            "task": schedule.task.name,
            **_encode_recurrence(schedule.recurrence),
            "args": schedule.args,
            "kwargs": schedule.kwargs,
            "misfire": schedule.misfire,
            "max_age": None if schedule.max_age_ms is None else schedule.max_age_ms / 1_000,
            "jitter": schedule.jitter_ms / 1_000,
            **{what: encode_moment(ms) for what, ms in bounds.items() if ms is not None},
            **({} if schedule.count is None else {"count": schedule.count}),
            **({"options": schedule.task_options} if schedule.task_options else {}),
        },
        separators=(",", ":"),
    )
    if len(definition) > MAX_DEFINITION:
        raise ValueError(f"its definition has {len(definition):,} characters, at most {MAX_DEFINITION:,} are accepted.")
    return definition


def parse(name: str, definition: bytes | str) -> Schedule:
    """Return a stored schedule.

    Raises:
        ValueError: its task is not registered in this process, does not accept the arguments any more, or the text is
            not such a definition.
    """
    try:
        fields = json.loads(definition)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"it is not JSON ({exc}).") from exc
    return parse_fields(name, fields, is_stored=True)


def parse_fields(name: str, fields: Any, *, is_stored: bool = False) -> Schedule:
    """Return a schedule from the fields of its definition.

    Args:
        is_stored: whether an earlier release may have accepted them.

    Raises:
        ValueError: see `parse`.
    """
    if not isinstance(fields, dict):
        raise ValueError(f"{short_repr(fields)}: expected a JSON object.")
    check_fields(fields)
    given = dict(fields)
    task_name, options = given.pop("task"), given.pop("options", {})
    task = registry.find(task_name) if isinstance(task_name, str) else None
    if not isinstance(task, Task):
        raise ValueError(f"the task {short_repr(task_name)} is not registered in this process.")
    try:
        recurrence = _pop_recurrence(given, is_stored=is_stored)
        given |= {what: parse_moment(given[what], what) for what in ("start", "end") if what in given}
        return create_added(task, recurrence, {**given, "name": name}, options)
    except (TypeError, ValueError, OverflowError, InvalidTask) as exc:
        raise ValueError(str(exc)) from exc


def check_fields(fields: dict[str, Any]) -> None:
    """Raise ValueError for a field that is unknown, missing or too much."""
    for name in fields:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown field {short_repr(name)}.{hint} Accepted: {', '.join(FIELDS)}.")
    if "task" not in fields:
        raise ValueError('"task" is missing: expected the name of a task.')
    times = [what for what in ("every", "cron", "at") if what in fields]
    if len(times) != 1:
        raise ValueError(f"{' and '.join(times) or 'no times'}: expected one of every, cron and at.")
    wrong = ("start", "end", "count", "tz") if times == ["at"] else ("tz",) if times == ["every"] else ()
    for name in wrong:
        if name in fields:
            raise ValueError(f"{name}: not accepted with {times[0]}.")


def create_added(
    task: Task[..., Any, Any], recurrence: Recurrence, options: dict[str, Any], task_options: Any
) -> Schedule:
    """Return a schedule whose task has other options than those of the code.

    Raises:
        TypeError, ValueError, InvalidTask: an option is invalid, or the task does not accept the arguments.
    """
    changes = check_task_options(task_options)
    if changes:
        task = task.using(**changes)
    if "queue_name" in changes:
        try:
            check_queue(changes["queue_name"])
        except UnknownQueue as exc:
            raise ValueError(str(exc)) from exc
    schedule = create(task, recurrence, options)  # type: ignore[arg-type]
    schedule.task_options.update(changes)
    return schedule


def check_unsealed(schedule: Schedule) -> None:
    """Raise ValueError if a new definition would store arguments that are sealed in all other places."""
    if schedule.task.options.sealed and (schedule.args or schedule.kwargs):
        raise ValueError(
            "the task is sealed, and a schedule stores its arguments as they are. Read them in the task, or declare the"
            " schedule in the code."
        )


def check_task_options(options: Any) -> dict[str, Any]:
    """Return the options of a schedule's task as JSON values.

    Raises:
        TypeError, ValueError: one is unknown, or is not JSON.
    """
    if not isinstance(options, dict):
        raise TypeError(f"options={short_repr(options)}: expected a dict of options of the task.")
    for name in options:
        if name not in TASK_OPTIONS:
            near = difflib.get_close_matches(str(name), TASK_OPTIONS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"options: {short_repr(name)} is not accepted.{hint} Accepted: {', '.join(TASK_OPTIONS)}.")
    if isinstance(options.get("expires"), datetime):
        raise ValueError("options: expires: expected seconds or a timedelta, which count from each due time.")
    plain = {name: _plain(value, name) if name in _DURATIONS else value for name, value in options.items()}
    found: dict[str, Any] = serialization.normalize(plain, "options")
    return found


def _plain(value: Any, name: str) -> Any:
    """Return durations in seconds."""
    if isinstance(value, timedelta):
        return to_ms(value, name, zero=True) / 1_000
    return [_plain(part, name) for part in value] if isinstance(value, list | tuple) else value


def _encode_recurrence(recurrence: Recurrence) -> dict[str, Any]:
    if isinstance(recurrence, FixedInterval):
        return {"every": recurrence.every_ms / 1_000}
    if isinstance(recurrence, CronTimes):
        return {"cron": recurrence.expression, "tz": recurrence.zone.key if recurrence.zone else None}
    if isinstance(recurrence, OneTime):
        return {"at": encode_moment(recurrence.at_ms)}
    raise TypeError(f"{recurrence!r}: expected an interval, the times of a cron expression or one time.")


def _pop_recurrence(fields: dict[str, Any], *, is_stored: bool) -> Recurrence:
    """Remove the times of a definition, and return them."""
    if "every" in fields:
        return FixedInterval.of(fields.pop("every"))
    if "at" in fields:
        return OneTime(moment_ms(parse_moment(fields.pop("at"), "at"), "at"))
    return CronTimes.of(fields.pop("cron"), fields.pop("tz", None), is_stored=is_stored)
