"""threadmill: results kept, acknowledged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from django.tasks import task  # noqa: E402 - needs the settings

from benchmarks import bodies  # noqa: E402


@task
def noop(number: int) -> int:
    return bodies.noop(number)


@task
def mark(name: str) -> None:
    bodies.mark(name)


@task
def late(since: float) -> None:
    bodies.late(since)


send_many = None


def send(name: str, *args: Any) -> None:
    globals()[name].enqueue(*args)


def send_at(name: str, due: float, *args: Any) -> None:
    globals()[name].using(run_after=datetime.fromtimestamp(due, UTC)).enqueue(*args)
