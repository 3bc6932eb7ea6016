"""The options of a task, each with where it is from: the decorator, the settings or the package."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.taskqueue import defaults, registry
from django_redis_components.taskqueue.batch_task import BatchTask
from django_redis_components.taskqueue.options import DeclaredOptions

#: Options that limit when and how long tasks run.
LIMITS = ("concurrency", "rate", "fair", "batch", "unique", "timeout", "expires", "max_attempts", "max_deliveries")


@dataclasses.dataclass(frozen=True, slots=True)
class OptionLine:
    """An option of a task: its name, its value as in code, and where that is from (`defaults.source_of`)."""

    name: str
    value: str
    source: str


def option_lines(name: str) -> list[OptionLine] | None:
    """Return the options of a task; None if this process has not registered the name."""
    task = registry.find(name)
    if task is None:
        return None
    options = task.options
    lines = [
        OptionLine(option, _text(getattr(options, option)), defaults.source_of(task, option))
        for option in DeclaredOptions.__annotations__
    ]
    if isinstance(task, BatchTask):  # it has `batch` in place of `fair`
        own = OptionLine("batch", _text(task.batch), "decorator")
        lines = [own if line.name == "fair" else line for line in lines]
    return lines


def _text(value: Any) -> str:
    """Return a value as in code; a function by its name, without its address."""
    try:
        return str(getattr(value, "__qualname__", None) or repr(value))
    except Exception:  # noqa: BLE001 - the site's own __repr__
        return f"<{type(value).__qualname__}>"
