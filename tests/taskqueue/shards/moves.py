"""What child processes do in the tests of moves. They are killed at the failpoint that the test names."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import Any

from django.conf import settings
from django.test.signals import setting_changed

from django_redis_components.management.redis.shards import moving
from django_redis_components.taskqueue import Concurrency, failpoints
from django_redis_components.taskqueue.store import moves
from tests.taskqueue.shards.support import QUEUES
from tests.taskqueue.tasks import note

#: Where a move may be interrupted.
POINTS = ("after_export", "after_read", "after_import", "after_forget")
#: A task with a unique key, and one with a limit.
later = note.using(queue_name="high", unique=True, run_after=3_600)
alone = note.using(queue_name="high", concurrency=Concurrency(1))


def set_route(route: Any) -> None:
    """Change the route of the queue "high", in this process."""
    components = settings.REDIS_COMPONENTS
    taskqueue = {**components["TASKQUEUE"], "QUEUES": {**QUEUES, "high": route}}
    settings.REDIS_COMPONENTS = {**components, "TASKQUEUE": taskqueue}
    setting_changed.send(type(settings), setting="REDIS_COMPONENTS", value=settings.REDIS_COMPONENTS, enter=True)


def move(source: str = "default", target: str = "b", queue: str = "") -> moving.ShardMove:
    """Move the tasks of a shard; return the move."""
    made = moving.ShardMove("default", source, target, queue)
    moving.perform(made)
    return made


def die_at(point: str, count: int = 1) -> None:
    """Kill this process when it reaches the failpoint so often."""
    seen: list[str] = []

    def reach(name: str) -> None:
        seen.append(name)
        if seen.count(point) == count:
            os.kill(os.getpid(), signal.SIGKILL)

    failpoints.hook = reach


def die_at_each(points: list[str], per_point: int, chunk: int) -> list[int]:
    """Enqueue tasks and move them, in a process for each failpoint that dies there; return the exit codes."""
    moves.CHUNK = chunk
    codes = []
    for number, point in enumerate(points):
        pid = os.fork()
        if not pid:
            try:
                for each in range(per_point):
                    note.using(queue_name="high").enqueue(f"{point} {each}")
                    note.using(queue_name="high", run_after=3_600).enqueue(f"{point} later {each}")
                die_at(point, 1 + number % 2)
                move()
            finally:
                os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return codes


def die_with_keys_at_each(points: list[str]) -> tuple[list[int], dict[str, int]]:
    """Enqueue tasks with unique keys and limits, and move them, in a process for each failpoint that dies there.

    Returns:
        The exit codes; and how often each task must run.
    """
    moves.CHUNK = 2
    codes, wanted = [], Counter[str]()
    for number, point in enumerate(points):
        names = [f"{point} {number} {each}" for each in range(3)]
        set_route(None)
        for name in names:
            later.enqueue(name)
            alone.enqueue(f"{name} alone")
        wanted.update([*names, *(f"{name} alone" for name in names)])
        set_route("b")
        pid = os.fork()
        if not pid:
            try:
                die_at(point, 1 + number % 2)
                move()
            finally:
                os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        for route in (None, "b"):
            set_route(route)
            wanted.update(name for name in names if not later.enqueue(name).is_duplicate)
    return codes, dict(wanted)
