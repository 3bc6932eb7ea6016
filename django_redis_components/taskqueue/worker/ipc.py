"""What a supervisor tells a worker process, through the pipe whose end also tells the end of the supervisor."""

from __future__ import annotations

import contextlib
import json
import os

from django_redis_components.taskqueue.worker.worker import Worker


def give(fd: int, order: str, task_id: str = "", token: str = "") -> None:
    """Tell it. A pipe that is full belongs to a process that does not listen; so may one that is closed.

    Args:
        order: "cancel" (interrupt the run), "end" (end the process for the sake of this task), or "beat" (say what
            you do).
    """
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(fd, json.dumps([order, task_id, token]).encode() + b"\n")


class Orders:
    """The worker's end."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._text = b""

    def read(self) -> bool:
        """Take what was written; False when the supervisor is gone."""
        chunk = os.read(self.fd, 1 << 16)
        self._text += chunk
        return bool(chunk)

    def obey(self, worker: Worker) -> set[str]:
        """Do as told; the value is the tasks for whose sake the process shall end, if they still run."""
        *lines, self._text = self._text.split(b"\n")
        ends = set()
        for line in lines:
            order, task_id, token = json.loads(line)
            if order == "cancel":
                worker.cancel(task_id, token)
            elif order == "end" and worker.runs(task_id, token):
                ends.add(task_id)
        return ends
