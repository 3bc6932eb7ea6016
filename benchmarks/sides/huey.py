"""Huey: results kept. It has no acknowledgement: what a dying worker held is lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from huey import RedisHuey

from benchmarks import bodies

instance = RedisHuey("benchmarks", url=bodies.URL, utc=True)
tasks = {name: instance.task()(getattr(bodies, name)) for name in ("noop", "mark", "late")}

send_many = None


def send(name: str, *args: Any) -> None:
    tasks[name](*args)


def send_at(name: str, due: float, *args: Any) -> None:
    # An aware time: of a naive one Huey drops the fractions of a second, so that it begins up to a second early.
    tasks[name].schedule(args, eta=datetime.fromtimestamp(due, UTC))
