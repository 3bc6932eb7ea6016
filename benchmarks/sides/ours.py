"""django-redis-components: results kept, acknowledged, by defaults."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from benchmarks import tasks  # noqa: E402 - needs the settings


def send(name: str, *args: Any, **options: Any) -> None:
    _task(name, options).enqueue(*args)


def send_many(name: str, calls: Sequence[Sequence[Any]], **options: Any) -> None:
    _task(name, options).enqueue_many([(args, {}) for args in calls])


def send_at(name: str, due: float, *args: Any) -> None:
    send(name, *args, run_after=datetime.fromtimestamp(due, UTC))


def _task(name: str, options: dict[str, Any]) -> Any:
    task = getattr(tasks, name)
    return task.using(**options) if options else task
