"""What child processes do in the tests of moves. They are killed at the failpoint that the test names."""

from __future__ import annotations

import os
import signal

from django_redis_components.management.redis.shards import moving
from django_redis_components.taskqueue import failpoints
from django_redis_components.taskqueue.store import moves
from tests.taskqueue.tasks import note

#: Where a move may be interrupted.
POINTS = ("after_export", "after_read", "after_import", "after_forget")


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
