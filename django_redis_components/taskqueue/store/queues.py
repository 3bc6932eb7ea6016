"""What an operator does to queues and tasks: pause, purge, cancel, retry, delete. Flows, each safe to repeat."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import count, repeat

from django_redis_components.core import conf
from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.taskqueue.exceptions import NotScheduled, TaskResultDoesNotExist
from django_redis_components.taskqueue.options import RESULT_TTL_S, check_moment, when
from django_redis_components.taskqueue.store.fields import base_key, record_key
from django_redis_components.taskqueue.store.scripts import (
    CANCEL,
    DELETE_TASKS,
    DELETE_TRASH,
    LIST_TASKS,
    PAUSE,
    PURGE,
    RESCHEDULE,
    RESTORE,
    RESUME,
    RETRY_FAILED,
)

#: Id, record and last failure of a task.
Row = tuple[str, dict[str, bytes], list[bytes]]

#: Tasks that one script call looks at, so that the server serves others in between.
CHUNK = 500
#: How long purged tasks can be brought back, in milliseconds: a day.
BIN_TTL_MS = 86_400_000
#: Calls in which the poller empties bins before it goes on with its round: 20,000 tasks a minute.
MAX_CALLS = 40
#: Most characters of a reason or an author: they are read with each look at the queues.
MAX_NOTE = 1_000
#: States whose tasks can be listed.
LISTED = ("ready", "scheduled", "waiting", "running", "failed", "unregistered")
#: Stored names that differ from the public ones.
_STORED = {"unregistered": "parked"}


def pause(queue: str, reason: str, author: str, until: datetime | Seconds | None) -> Flow[None]:
    """Pause a queue, with a note for the dashboard."""
    for what, text in (("reason", reason), ("author", author)):
        if not isinstance(text, str):
            raise TypeError(f"{what}={text!r}: expected text.")
        if len(text) > MAX_NOTE:
            raise ValueError(f"{what}={text[:40]!r}… has {len(text):,} characters: expected at most {MAX_NOTE:,}.")
    check_moment(until, "until")
    note = json.dumps({"reason": reason, "author": author})
    paused = yield PAUSE(base=base_key(), queue=queue, ends_at=when(until, "until"), note=note)
    if not paused:
        raise ValueError(f"until={until!r}: that moment has passed.")


def resume(queue: str) -> Flow[bool]:
    """Resume a queue; whether it was paused."""
    (was,) = yield RESUME(base=base_key(), queue=queue, op=_new_op())
    return bool(was)


def cancel(task_id: str, force_after: Seconds | None = None) -> Flow[bool]:
    """Cancel a task that waits, ask one that runs to end; False if it has finished."""
    return (yield from try_cancel(task_id, force_after)) > 0


def try_cancel(task_id: str, force_after: Seconds | None = None) -> Flow[int]:
    """See `cancel`; 1 if it waited, 2 if it runs and was asked, 0 if it has finished."""
    done = yield cancelling(task_id, force_ms(force_after))
    if done == -1:
        raise TaskResultDoesNotExist(task_id)
    return int(done)


def cancelling(task_id: str, force_ms: int | str) -> Call:
    """The call that cancels a task; `force_ms` empty: not if it runs."""
    return CANCEL(base=base_key(), id=task_id, ttl_ms=to_ms(RESULT_TTL_S, "result_ttl"), force_ms=force_ms)


def force_ms(force_after: Seconds | None) -> int:
    """How long a task that runs has to end by itself; None: as the settings say."""
    grace = conf.settings().taskqueue.cancel_grace_s if force_after is None else force_after
    return to_ms(grace, "force_after", zero=True)


def move(task_id: str, due: str) -> Flow[None]:
    """Give a scheduled task another time, as `TaskOptions.due` says it; empty: now."""
    (moved,) = yield RESCHEDULE(base=base_key(), id=task_id, due=due, op=_new_op())
    if moved == -1:
        raise TaskResultDoesNotExist(task_id)
    if moved == 0:
        raise NotScheduled(f"Task {task_id} waits for no time: it is ready, runs, has finished, or was purged.")


def requeue(queue: str, ids: Sequence[str] | None) -> Flow[int]:
    """Let these failed tasks run again; None: all that have failed until now, in chunks. Returns how many."""
    return _in_chunks(lambda skip, **named: RETRY_FAILED(base=base_key(), queue=queue, skip=skip, **named), ids)


def discard(queue: str, shelf: str, ids: Sequence[str] | None) -> Flow[int]:
    """Delete these failed (or unregistered) tasks; None: all until now, in chunks. Returns how many."""
    return _in_chunks(
        lambda skip, **named: DELETE_TASKS(base=base_key(), queue=queue, state=_STORED.get(shelf, shelf), **named), ids
    )


def purge(queue: str) -> Flow[tuple[str, int, int]]:
    """Empty a queue into a bin; the bin's id, how many tasks it holds, and how many stay that wait for others."""
    bin_id = _new_op()
    kept, waiting = yield PURGE(base=base_key(), queue=queue, op=bin_id)
    return bin_id, kept, waiting


def restore(queue: str, bin_id: str) -> Flow[int]:
    """Restore the tasks of a purge; how many."""
    return _until_none_is_left(lambda: RESTORE(base=base_key(), queue=queue, trash=bin_id, limit=CHUNK, op=_new_op()))


def empty_bins(keep_ms: int = BIN_TTL_MS, *, calls: int = MAX_CALLS) -> Flow[int]:
    """Delete for good what lies in old bins, 500 tasks in a call; how many tasks. More is left to the next time."""
    return _until_none_is_left(lambda: DELETE_TRASH(base=base_key(), keep_ms=keep_ms, limit=CHUNK), calls)


def page(queue: str, state: str, limit: int, offset: int) -> Flow[list[Row]]:
    """One page of a state: id, record and last failure of each. Expired and cancelled ones are left out."""
    found = yield LIST_TASKS(base=base_key(), queue=queue, state=_STORED.get(state, state), offset=offset, limit=limit)
    ids = [task_id.decode() for task_id in found]
    reads = [Read("HGETALL", record_key(task_id)) for task_id in ids]
    reads += [Read("LRANGE", f"{record_key(task_id)}:errors", -1, -1) for task_id in ids]
    replies = (yield Batch(reads)) if reads else []
    rows = []
    for task_id, pairs, failures in zip(ids, replies[: len(ids)], replies[len(ids) :], strict=True):
        fields = {name.decode(): value for name, value in zip(pairs[::2], pairs[1::2], strict=True)}
        if "q" in fields and fields.get("s") != b"cancelled":
            rows.append((task_id, fields, failures))
    return rows


def _until_none_is_left(call: Callable[[], Call], calls: int | None = None) -> Flow[int]:
    total = 0
    for _ in count() if calls is None else range(calls):
        done, left = yield call()
        total += done
        if not left:
            break
    return total


def _in_chunks(script: Callable[..., Call], ids: Sequence[str] | None) -> Flow[int]:
    """Have a script go over these tasks, or over all up to this moment: what comes later is not touched.

    Args:
        script: makes the call, gets also how many of the oldest `skip` passes over: those that stayed where they are.
    """
    chunks = None if ids is None else _chunks(ids)
    now_ms = yield from _server_ms()
    total = skip = 0
    for some in repeat(()) if chunks is None else chunks:
        done, looked_at, *stayed = yield script(skip, up_to_ms=now_ms, limit=CHUNK, op=_new_op(), ids=some)
        total, skip = total + done, skip + sum(stayed)
        if chunks is None and looked_at < CHUNK:
            break
    return total


def _chunks(ids: Sequence[str]) -> list[list[str]]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
        raise TypeError(f"ids={ids!r}: expected a list of task ids, or None for all.")
    each = list(ids)
    for task_id in each:
        if not isinstance(task_id, str):
            raise TypeError(f"ids: {task_id!r} is no task id: expected text.")
    return [each[start : start + CHUNK] for start in range(0, len(each), CHUNK)]


def _server_ms() -> Flow[str]:
    """The server's clock, in milliseconds since the epoch, to the microsecond."""
    seconds, micros = yield Read("TIME", key=base_key())
    return f"{int(seconds) * 1_000 + int(micros) // 1_000}.{int(micros) % 1_000:03}"


def _new_op() -> str:
    """An id by which a script knows an operation that is sent again after a lost reply."""
    return secrets.token_hex(8)
