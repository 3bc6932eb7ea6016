"""The options of a task, each with where it comes from: the decorator or the default."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.options import DeclaredOptions, TaskOptions

#: Options that limit when and how long tasks run.
LIMITS = ("concurrency", "rate", "unique", "timeout", "expires", "max_attempts", "max_deliveries")


@dataclasses.dataclass(frozen=True, slots=True)
class OptionLine:
    """An option of a task: its name and value as in code, and whether the decorator has changed it."""

    name: str
    value: str
    is_declared: bool


def option_lines(name: str) -> list[OptionLine] | None:
    """Return the options of a task; None if this process has not registered the name."""
    task = registry.find(name)
    if task is None:
        return None
    default = TaskOptions()
    return [
        OptionLine(option, _text(getattr(task.options, option)), _differs(task.options, default, option))
        for option in DeclaredOptions.__annotations__
    ]


def _differs(options: TaskOptions, default: TaskOptions, name: str) -> bool:
    return bool(getattr(options, name) != getattr(default, name))


def _text(value: Any) -> str:
    """Return a value as in code; a function by its name, without its address."""
    return getattr(value, "__qualname__", None) or repr(value)
