"""Export and import of the schedules that were added at run time: a line of JSON for each.

A line has the fields of a definition, and "name"; "sent", how many of `count` tasks it has sent; and "paused", the
author of its pause.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_int, check_string, short_repr
from django_redis_components.core.protocol import Flow
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.schedules import definitions
from django_redis_components.taskqueue.schedules.changes import MAX_ADDED
from django_redis_components.taskqueue.schedules.schedule import MAX_COUNT, Schedule, schedules
from django_redis_components.taskqueue.schedules.status import READ_SIZE
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.scripts import IMPORT_SCHEDULES, LIST_SCHEDULES
from django_redis_components.taskqueue.store.workers import author_text


@dataclasses.dataclass(frozen=True, slots=True)
class StoredSchedule:
    """An added schedule as it is stored.

    Attributes:
        definition: JSON, as `definitions.encode` returns it.
        sent: how many of `count` tasks it has sent.
        paused: the author of its pause; None if it is not paused.
    """

    name: str
    definition: str
    sent: int = 0
    paused: str | None = None

    @property
    def line(self) -> str:
        """The schedule as a line of JSON.

        Raises:
            ValueError: the definition is not a JSON object.
        """
        fields = json.loads(self.definition)
        if not isinstance(fields, dict):
            raise ValueError(f"{short_repr(fields)}: expected a JSON object.")
        sent = self.sent if "count" in fields else 0  # the number is kept when a count is removed
        state = {"sent": sent or None, "paused": self.paused}
        return json.dumps({"name": self.name, **fields, **{key: val for key, val in state.items() if val is not None}})


@dataclasses.dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule to import.

    Attributes:
        sent, paused: see `StoredSchedule`.
    """

    schedule: Schedule
    sent: int = 0
    paused: str | None = None

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return self.schedule.name

    @property
    def row(self) -> tuple[Any, ...]:
        """The arguments of import_schedules.lua."""
        definition = definitions.encode(self.schedule)
        pause = "" if self.paused is None else f"-{author_text(self.paused)}"
        return self.name, definition, self.schedule.recurrence.text, self.sent, pause


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that cannot be imported.

    Attributes:
        number: from 1 on.
        name: of its schedule; "" if it has none.
        error: why, and what is accepted.
    """

    number: int
    name: str
    error: str

    def __str__(self) -> str:
        named = f" ({self.name!r})" if self.name else ""
        return f"Line {self.number}{named}: {self.error}"


def read_added(shard: Shard) -> Flow[list[StoredSchedule]]:
    """Return the added schedules by name."""
    found: list[StoredSchedule] = []
    after, more = b"", 1
    while more:
        _, _, _, more, rows = yield LIST_SCHEDULES(base=shard.base, part="", after=after, limit=READ_SIZE, order="name")
        found += [_stored(row) for row in rows if row[-2]]
        after = rows[-1][0] if rows else b""
    return found


def parse_lines(lines: Iterable[str], using: str) -> tuple[list[NewSchedule], list[RefusedLine]]:
    """Return the schedules of an export, and the lines that cannot be imported. Empty lines are skipped."""
    registry.autodiscover()
    accepted: list[NewSchedule] = []
    refused: list[RefusedLine] = []
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name = ""
        try:
            fields = _parse_object(line)
            name = _pop_name(fields)
            if name in numbers:
                raise ValueError(f"line {numbers[name]} has this name. Names are unique.")
            numbers[name] = number
            accepted.append(_parse_line(name, fields, using))
        except (TypeError, ValueError, InvalidTask) as exc:
            refused.append(RefusedLine(number, name, str(exc)))
    return accepted, refused


def check_name(name: str, schedule: Schedule, using: str) -> None:
    """Raise ValueError if a schedule cannot be added under a name."""
    if (using, name) in schedules:
        raise ValueError("the code declares a schedule of this name.")
    definitions.check_unsealed(schedule)
    if schedule.task.connection != using:
        task = schedule.task
        raise ValueError(f"{task.name} is a task of the connection {task.connection!r}, not of {using!r}.")


def import_all(shard: Shard, new: Sequence[NewSchedule]) -> Flow[tuple[int, int]]:
    """Add or replace schedules, all of them or none; return how many were added, and how many replaced.

    Raises:
        InvalidTask: there would be too many.
    """
    if not new:
        return 0, 0
    rows = [part for each in new for part in each.row]
    added, other = yield IMPORT_SCHEDULES(base=shard.base, op=new_op(), rows=rows)
    if added < 0:
        check_total(other)
    return added, other


def check_total(total: int) -> None:
    """Raise InvalidTask if this number of added schedules is above the limit."""
    if total > MAX_ADDED:
        raise InvalidTask(f"Nothing was imported: there would be {total:,} added schedules, at most {MAX_ADDED:,}.")


def _stored(row: Sequence[Any]) -> StoredSchedule:
    name, (pause, definition, sent) = row[0], row[-3:]
    author = pause.decode(errors="replace").partition(" ")[2] if pause else None
    return StoredSchedule(name.decode(errors="replace"), definition.decode(errors="replace"), sent, author)


def _parse_object(line: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"it is not JSON ({exc}). Expected a JSON object in each line.") from exc
    if not isinstance(fields, dict):
        raise ValueError(f"{short_repr(fields)}: expected a JSON object in each line.")
    return fields


def _pop_name(fields: dict[str, Any]) -> str:
    if "name" not in fields:
        raise ValueError('"name" is missing: expected the name of the schedule.')
    return keys.validate_name(fields.pop("name"), "name")


def _parse_line(name: str, fields: dict[str, Any], using: str) -> NewSchedule:
    sent, paused = fields.pop("sent", None), fields.pop("paused", None)
    if paused is not None:
        check_string(paused, "paused")
    if sent is not None:
        check_int(sent, "sent", 0, MAX_COUNT)
        if "count" not in fields:
            raise ValueError(f"sent={sent}: expected with count only.")
    schedule = definitions.parse_fields(name, fields)
    check_name(name, schedule, using)
    definitions.encode(schedule)  # it may be too long
    return NewSchedule(schedule, sent or 0, paused)
