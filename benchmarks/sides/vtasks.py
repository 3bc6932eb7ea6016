"""django-vtasks: acknowledged; it keeps neither results nor status. Coroutines, which it runs fastest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import django

django.setup()

from django.tasks import task_backends  # noqa: E402 - needs the settings
from django_vtasks import task  # noqa: E402

from benchmarks import bodies  # noqa: E402

_loop = asyncio.new_event_loop()


@task
async def noop(number: int) -> int:
    return bodies.noop(number)


@task
async def mark(name: str) -> None:
    bodies.mark(name)


@task
async def late(since: float) -> None:
    bodies.late(since)


def send(name: str, *args: Any) -> None:
    _loop.run_until_complete(globals()[name].aenqueue(*args))


def send_many(name: str, calls: Sequence[Sequence[Any]]) -> None:
    for start in range(0, len(calls), 500):
        payloads = [(globals()[name], tuple(args), {}) for args in calls[start : start + 500]]
        _loop.run_until_complete(task_backends["default"].aenqueue_many(payloads))


def send_at(name: str, due: float, *args: Any) -> None:
    _loop.run_until_complete(globals()[name].using(run_after=datetime.fromtimestamp(due, UTC)).aenqueue(*args))
