"""A task that is enqueued every second."""

from __future__ import annotations

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import every, task


@every(1, name="tick")
@task(queue_name="ticks")
def tick() -> None:
    """Leave a mark."""
    connections.client().execute(Command("INCR", f"{conf.settings().prefix}:ticks"))
