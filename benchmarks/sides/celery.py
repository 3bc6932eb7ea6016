"""Celery: results kept, and acknowledged after the task has run (`acks_late`), as ours are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from celery import Celery

from benchmarks import bodies

app = Celery("benchmarks", broker=bodies.URL, backend=bodies.URL)
app.conf.update(task_acks_late=True, worker_send_task_events=False, broker_connection_retry_on_startup=True)
tasks = {name: app.task(getattr(bodies, name), name=name) for name in ("noop", "mark", "late")}

send_many = None


def send(name: str, *args: Any) -> None:
    tasks[name].delay(*args)


def send_at(name: str, due: float, *args: Any) -> None:
    tasks[name].apply_async(args, eta=datetime.fromtimestamp(due, UTC))
