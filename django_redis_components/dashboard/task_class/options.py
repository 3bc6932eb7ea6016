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
        _line(option, getattr(task.options, option), getattr(default, option))
        for option in DeclaredOptions.__annotations__
    ]


def _line(name: str, value: Any, default: Any) -> OptionLine:
    try:
        return OptionLine(name, _text(value), bool(value != default))
    except Exception:  # noqa: BLE001 - the site's own __repr__ or __eq__
        return OptionLine(name, f"<{type(value).__qualname__}>", is_declared=True)


def _text(value: Any) -> str:
    """Return a value as in code; a function by its name, without its address."""
    return str(getattr(value, "__qualname__", None) or repr(value))
