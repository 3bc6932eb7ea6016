"""The stack of a running task, for operators who ask for it on the task's page."""

from __future__ import annotations

import threading
import traceback

from django_redis_components.core.protocol import Command
from django_redis_components.core.text import encodable
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.workers import stack_key
from django_redis_components.taskqueue.worker.interruption import Run

#: Frames that are sent, the innermost, and their bytes at most.
MAX_FRAMES, MAX_BYTES = 100, 20_000
#: Seconds for which an answer is kept: the page that has asked reads it at once.
ANSWER_S = 60
_NOT_SENT = "The stack of a task cannot be sent (%s)."


def send(shard: Shard, run: Run | None, op: str) -> None:
    """Send the stack of a run to the page that has asked for it.

    The main thread sends heartbeats: it must not wait for Redis, and it reads no source files.

    Args:
        run: None if the task does not run here any more: the answer is empty.
        op: id of the operation.
    """
    try:
        threading.Thread(target=_send, args=(shard, run, op), name="stack", daemon=True).start()
    except RuntimeError as exc:  # no more threads
        logger.warning(_NOT_SENT, exc)


def _send(shard: Shard, run: Run | None, op: str) -> None:
    try:
        text = "" if run is None else stack_of(run)
        shard.client().execute(Command("SET", stack_key(shard, op), text, "EX", ANSWER_S))
    except Exception as exc:  # noqa: BLE001 - Redis, or the source loader of a module of the site
        logger.warning(_NOT_SENT, exc)


def stack_of(run: Run) -> str:
    """Return the stack of the task's function, the innermost frame last; "" if it does not run."""
    frames = ((frame, frame.f_lineno) for frame in run.frames())
    text = encodable("".join(traceback.StackSummary.extract(frames, limit=-MAX_FRAMES).format()))
    data = text.encode()
    return text if len(data) <= MAX_BYTES else f"…\n{data[-MAX_BYTES:].decode(errors='ignore')}"
