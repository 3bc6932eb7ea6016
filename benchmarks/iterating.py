"""``python -m benchmarks.iterating``: what `context.iterate` costs for each item, and for each cursor.

Each way goes through the same items with an empty body; the figures are the medians of `ROUNDS` rounds that alternate.
The rows are those of a table of SQLite, of one column beside the key. REDIS_URL names the server; without it an
embedded one is started.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import django
from django.conf import settings

ITEMS, ROWS, CURSORS, ROUNDS = 200_000, 20_000, 2_000, 7


def main() -> None:
    """Measure, and print a table."""
    from tools.localserver import LocalServer

    url = os.environ.get("REDIS_URL")
    if url:
        _run(url)
        return
    with tempfile.TemporaryDirectory() as directory:
        server = LocalServer(directory=Path(directory), die_with_parent=True).start()
        try:
            _run(server.url)
        finally:
            server.stop()


def _run(url: str) -> None:
    settings.configure(
        INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_redis_components"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        REDIS_COMPONENTS={"PREFIX": "bench", "CONNECTIONS": {"default": {"URL": url}}},
    )
    django.setup()
    ways = _ways()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, (count, items) in ways.items():
            cpu_s, wall_s = _seconds(items)
            times[name].append((cpu_s / count * 1e6, wall_s / count * 1e6))
    print("| way | us of CPU for each item | us |\n|---|---|---|")
    for name, found in times.items():
        cpu_us, wall_us = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"| {name} | {cpu_us:.2f} | {wall_us:.2f} |")


def _ways() -> dict[str, tuple[int, Callable[[], Iterable[Any]]]]:
    from django.contrib.auth.models import Group
    from django.db import connection

    with connection.schema_editor() as editor:
        for model in (*(field.remote_field.model for field in Group._meta.many_to_many), Group):
            editor.create_model(model)
    Group.objects.bulk_create([Group(name=str(number)) for number in range(ROWS)], batch_size=500)
    every = range(CURSORS)
    return {
        "for … in range": (ITEMS, lambda: range(ITEMS)),
        "iterate(range)": (ITEMS, lambda: _context().iterate(range(ITEMS))),
        "for … in queryset.iterator(chunk_size=100)": (ROWS, lambda: Group.objects.iterator(chunk_size=100)),
        "iterate(queryset)": (ROWS, lambda: _context().iterate(Group.objects.all())),
        "iterate(queryset, chunk_size=1000)": (ROWS, lambda: _context().iterate(Group.objects.all(), chunk_size=1_000)),
        "iterate(range, save_every=1)": (CURSORS, lambda: _context().iterate(every, save_every=1)),
    }


def _seconds(items: Callable[[], Iterable[Any]]) -> tuple[float, float]:
    """Go through the items; return seconds of CPU of this process, and seconds."""
    source = items()
    cpu, started = time.process_time(), time.perf_counter()
    for _ in source:
        pass
    return time.process_time() - cpu, time.perf_counter() - started


def long_task(context: Any) -> None:
    """Run never: only its context is used."""


def _context() -> Any:
    """Lease a new task, and return the context of its run."""
    from django_redis_components.core.client import connections
    from django_redis_components.taskqueue import registry, task
    from django_redis_components.taskqueue.run_start import result_of_run
    from django_redis_components.taskqueue.shards import home
    from django_redis_components.taskqueue.worker.fetcher import Fetcher

    made = registry.tasks.get("bench.long_task") or task(takes_context=True, name="bench.long_task")(long_task)
    made.enqueue()
    [job] = Fetcher(home(), connections.client(), f"bench:{time.monotonic_ns()}", ("default",)).fetch("0", 1)
    return result_of_run(made, job, "default")[1]


if __name__ == "__main__":
    from benchmarks import iterating  # a script's own module cannot define tasks

    iterating.main()
