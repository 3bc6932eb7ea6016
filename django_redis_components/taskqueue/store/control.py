"""Operations on queues: pause, purge, retry, delete, restore. Flows; each may be repeated."""

from __future__ import annotations

import dataclasses
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import count, repeat
from typing import Any

from django_redis_components.core.arguments import check_iterable, check_string, short_repr
from django_redis_components.core.chunks import chunks, pairs_of
from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.core.text import encodable
from django_redis_components.core.units import Seconds, moment_of_ms
from django_redis_components.taskqueue.fields import Field, Key, Part
from django_redis_components.taskqueue.limits import MAX_KEY, UNSENDABLE
from django_redis_components.taskqueue.options import check_moment, when
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.finished import FINISHED, FinishedRow, finished_bounds, list_finished
from django_redis_components.taskqueue.store.scripts import (
    DELETE_TASKS,
    DELETE_TRASH,
    LIST_TASKS,
    PAUSE,
    PAUSE_GROUP,
    PURGE,
    PURGE_UNTIL,
    RESTORE,
    RESUME,
    RESUME_GROUP,
    RETRY_FAILED,
)
from django_redis_components.taskqueue.store.task_records import fields_of

#: Id, record and last failure of a task.
Row = tuple[str, dict[str, bytes], list[bytes]]

#: Tasks that one call of a script handles, so that the server serves other clients in between.
CHUNK = 500
#: How long purged tasks can be restored, in milliseconds: a day.
TRASH_TTL_MS = 86_400_000
#: Calls of `delete_trash` in one round of the poller: 20,000 tasks a minute.
MAX_CALLS = 40
#: Maximum length of a reason or an author: they are read with the depths of the queues.
MAX_NOTE = 1_000
#: Most paused groups of a queue (pause_group.lua).
MAX_PAUSED_GROUPS = 200
#: Entries of the index of trash that one read looks at.
MAX_TRASH = 200
_TRASH_LISTS = (Part.requeued, Part.ready)
_TRASH_ZSETS = (Part.priority, Part.scheduled, Part.limited, Part.grouped, Part.failed, Part.unregistered)
#: Ids whose scores one command reads.
MAX_SCORES = 10_000
#: States whose tasks can be listed.
LISTED = ("ready", "scheduled", "waiting", "running", "failed", "unregistered", *FINISHED)


@dataclasses.dataclass(frozen=True, slots=True)
class TrashEntry:
    """Tasks that were purged or deleted together, and can be restored.

    Attributes:
        id: for `restore`.
        count: tasks, cancelled ones among them.
    """

    id: str
    at: datetime
    count: int


def pause(shard: Shard, queue: str, reason: str, author: str, until: datetime | Seconds | None) -> Flow[None]:
    """Pause a queue, with a note for the dashboard."""
    note = _note(reason, author)
    check_moment(until, "until")
    paused = yield PAUSE(base=shard.base, queue=queue, ends_at=when(until, "until"), note=note)
    if not paused:
        raise ValueError(f"until={short_repr(until)}: that moment has passed.")


def resume(shard: Shard, queue: str) -> Flow[bool]:
    """Resume a queue. Return whether it was paused."""
    (was,) = yield RESUME(base=shard.base, queue=queue, op=new_op())
    return bool(was)


def pause_group(shard: Shard, queue: str, group: str, reason: str, author: str) -> Flow[None]:
    """Pause a group of a queue, with a note for the dashboard."""
    group, note = check_group(group), _note(reason, author)
    paused = yield PAUSE_GROUP(base=shard.base, queue=queue, group=group, note=note)
    if not paused:
        raise ValueError(
            f"group={short_repr(group)}: {MAX_PAUSED_GROUPS} groups of queue {queue!r} are paused, which is the most."
        )


def resume_group(shard: Shard, queue: str, group: str) -> Flow[bool]:
    """Resume a group of a queue. Return whether it was paused."""
    (was,) = yield RESUME_GROUP(base=shard.base, queue=queue, group=check_group(group), op=new_op())
    return bool(was)


def check_group(group: Any) -> str:
    """Return the name of a group.

    Raises:
        TypeError, ValueError: no key can make this name.
    """
    if len(check_string(group, "group")) > MAX_KEY or UNSENDABLE.search(group):
        raise ValueError(
            f"group={short_repr(group)}: expected at most {MAX_KEY} characters without control characters."
        )
    return str(group)


def _note(reason: str, author: str) -> str:
    for what, note in (("reason", reason), ("author", author)):
        if len(check_string(note, what)) > MAX_NOTE:
            raise ValueError(f"{what}={short_repr(note)}: expected at most {MAX_NOTE:,} characters, got {len(note):,}.")
    return json.dumps({"reason": reason, "author": author})


def retry_failed(shard: Shard, queue: str, ids: Sequence[str] | None, up_to_ms: str = "") -> Flow[int]:
    """Retry failed tasks, in chunks; `ids` None: all. Return how many.

    Args:
        up_to_ms: only those that had failed by then; empty: all of these ids, or all that have failed until now.
    """

    def script(skip: int, **named: Any) -> Call:
        return RETRY_FAILED(base=shard.base, queue=queue, skip=skip, **named)

    return _in_chunks(shard, script, ids, up_to_ms)


def delete_tasks(
    shard: Shard, queue: str, state: str, ids: Sequence[str] | None, up_to_ms: str = "", trash: str = ""
) -> Flow[int]:
    """Delete failed or unregistered tasks, in chunks; `ids` None: all. Return how many.

    Args:
        up_to_ms: only those that had entered the state by then; empty: all of these ids, or all until now.
        trash: id by which `restore` restores them for a day; empty: they are deleted permanently.
    """

    def script(skip: int, **named: Any) -> Call:
        return DELETE_TASKS(base=shard.base, queue=queue, state=state, trash=trash, **named)

    return _in_chunks(shard, script, ids, up_to_ms)


def purge(shard: Shard, queue: str, trash_id: str = "") -> Flow[tuple[str, int, int]]:
    """Move the pending tasks of a queue into trash. Return its id, their number, and how many wait for other tasks.

    Args:
        trash_id: of the purge, if it is made in several shards; empty for a new one.
    """
    trash_id = trash_id or new_op()
    kept, waiting = yield PURGE(base=shard.base, queue=queue, op=trash_id)
    return trash_id, kept, waiting


def purge_until(
    shard: Shard, queue: str, trash: str, until_us: int, sequence: int, part: int, skip: int
) -> Flow[tuple[int, int, int]]:
    """Move a chunk of the tasks that entered a queue until a moment into trash.

    Args:
        sequence: the highest number of a task with a priority at that moment.
        part, skip: 1 and 0 in the first call, then as returned.

    Returns:
        How many tasks were moved, and the arguments of the next call: part 0 when all were looked at.
    """
    moved, next_part, next_skip = yield PURGE_UNTIL(
        base=shard.base,
        queue=queue,
        trash=trash,
        until_us=until_us,
        sequence=sequence,
        part=part,
        skip=skip,
        limit=CHUNK,
        op=new_op(),
    )
    return moved, next_part, next_skip


def restore(shard: Shard, queue: str, trash_id: str) -> Flow[int]:
    """Restore the tasks of a purge or a deletion. Return how many."""
    return _repeat_until_done(lambda: _restore_call(shard, queue, trash_id))


def restore_chunk(shard: Shard, queue: str, trash_id: str) -> Flow[tuple[int, bool]]:
    """Restore a chunk of the tasks of a purge or a deletion. Return how many, and whether more are left."""
    done, has_more = yield _restore_call(shard, queue, trash_id)
    return done, bool(has_more)


def _restore_call(shard: Shard, queue: str, trash_id: str) -> Call:
    return RESTORE(base=shard.base, queue=queue, trash=trash_id, limit=CHUNK, op=new_op(), **finished_bounds())


def read_trash(shard: Shard, queue: str, limit: int) -> Flow[list[TrashEntry]]:
    """Read the latest trash of a queue, among the latest 200 of all queues."""
    index = yield Read("ZREVRANGE", shard.key(Key.trash_index), 0, MAX_TRASH - 1, "WITHSCORES")
    start = f"{queue}/".encode()
    entries = [
        (name[len(start) :].decode(errors="replace"), float(ms))
        for name, ms in pairs_of(index)
        if name.startswith(start) and b"/" not in name[len(start) :]
    ][:limit]
    parts = (*_TRASH_LISTS, *_TRASH_ZSETS)
    reads = [
        Read("LLEN" if part in _TRASH_LISTS else "ZCARD", shard.key(Key.trash, trash, part))
        for trash, _ in entries
        for part in parts
    ]
    counts = (yield Batch(reads)) if reads else []
    return [
        TrashEntry(trash, moment_of_ms(ms), sum(counts[index * len(parts) : (index + 1) * len(parts)]))
        for index, (trash, ms) in enumerate(entries)
    ]


def existing_trash(shard: Shard, named: Sequence[tuple[str, str]]) -> Flow[set[str]]:
    """Return which of these pairs of queue and trash id can still be restored: the ids."""
    index = shard.key(Key.trash_index)
    scores = (yield Batch([Read("ZSCORE", index, f"{queue}/{trash}") for queue, trash in named])) if named else []
    return {trash for (_queue, trash), score in zip(named, scores, strict=True) if score is not None}


def delete_trash(shard: Shard, keep_ms: int = TRASH_TTL_MS, *, calls: int = MAX_CALLS) -> Flow[int]:
    """Delete the tasks of old trash, 500 in a call and at most `calls` of them. Return how many."""
    return _repeat_until_done(lambda: DELETE_TRASH(base=shard.base, keep_ms=keep_ms, limit=CHUNK), calls)


def list_tasks(shard: Shard, queue: str, state: str, limit: int, offset: int) -> Flow[list[Row]]:
    """Return a page of the tasks in a state: id, record and last error. Expired and cancelled ones are omitted.

    Of a finished task whose record has expired the fields are those that the list still knows.
    """
    ids, listed = yield from _list_ids(shard, queue, state, limit, offset)
    return (yield from _read_rows(shard, state, ids, listed))


def list_tasks_over(
    shards: Sequence[Shard], queue: str, state: str, limit: int, offset: int
) -> Flow[list[tuple[Shard, Row]]]:
    """Return a page of the tasks of several shards, each with its shard; see `list_tasks`.

    They are in the order of their times. Ready ones have none: the shards have turns. All tasks before the page are
    listed, too.
    """
    if len(shards) == 1:
        rows = yield from list_tasks(shards[0], queue, state, limit, offset)
        return [(shards[0], row) for row in rows]
    found: list[tuple[float, int, int, str]] = []
    finished: dict[str, FinishedRow] = {}
    for number, shard in enumerate(shards):
        ids, listed = yield from _list_ids(shard, queue, state, offset + limit, 0)
        finished |= listed
        times = yield from _times(shard, queue, state, ids, listed)
        found += [(time, rank, number, task_id) for rank, (time, task_id) in enumerate(zip(times, ids, strict=True))]
    page = sorted(found)[offset : offset + limit]
    rows_by_id: dict[tuple[int, str], Row] = {}
    for number, shard in enumerate(shards):
        own = [task_id for *_, shard_number, task_id in page if shard_number == number]
        for row in (yield from _read_rows(shard, state, own, finished)):
            rows_by_id[number, row[0]] = row
    places = [(number, task_id) for *_, number, task_id in page]
    return [(shards[place[0]], rows_by_id[place]) for place in places if place in rows_by_id]


def _list_ids(
    shard: Shard, queue: str, state: str, limit: int, offset: int
) -> Flow[tuple[list[str], dict[str, FinishedRow]]]:
    """Return the ids of a page; and of finished tasks what the list knows, by id."""
    if state in FINISHED:
        rows = yield from list_finished(shard, queue, state, limit, offset)
        listed = {row.id: row for row in rows}
        return list(listed), listed
    found = yield LIST_TASKS(base=shard.base, queue=queue, state=state, offset=offset, limit=limit)
    return [task_id.decode() for task_id in found], {}


def _times(
    shard: Shard, queue: str, state: str, ids: Sequence[str], listed: Mapping[str, FinishedRow]
) -> Flow[Sequence[float]]:
    """Return numbers by which the tasks of several shards are ordered. Those without a time come last."""
    if state in FINISHED:
        ends = [listed[task_id].fields.get(Field.finished_at_us, b"") for task_id in ids]
        return [-int(end) if end.isdigit() else math.inf for end in ends]  # another client may have written others
    if state == "ready" or not ids:
        return range(len(ids))
    times: list[float] = []
    for some in chunks_of(ids, size=MAX_SCORES):
        scores = yield Read("ZMSCORE", shard.queue(queue, state), *some)
        times += [math.inf if score is None else float(score) for score in scores]
    return times


def _read_rows(shard: Shard, state: str, ids: Sequence[str], listed: Mapping[str, FinishedRow]) -> Flow[list[Row]]:
    reads = [Read("HGETALL", shard.record(task_id)) for task_id in ids]
    reads += [Read("LRANGE", f"{shard.record(task_id)}:errors", -1, -1) for task_id in ids]
    replies = (yield Batch(reads)) if reads else []
    tasks: list[Row] = []
    for task_id, pairs, failures in zip(ids, replies[: len(ids)], replies[len(ids) :], strict=True):
        fields = fields_of(pairs)
        if task_id in listed and fields.get(Field.state) != state.encode():
            tasks.append((task_id, listed[task_id].fields_of_record, []))
        elif Field.queue in fields and (listed or fields.get(Field.state) != b"cancelled"):
            tasks.append((task_id, fields, failures))
    return tasks


def _repeat_until_done(call: Callable[[], Call], calls: int | None = None) -> Flow[int]:
    total = 0
    for _ in count() if calls is None else range(calls):
        done, has_more = yield call()
        total += done
        if not has_more:
            break
    return total


def _in_chunks(shard: Shard, script: Callable[..., Call], ids: Sequence[str] | None, up_to_ms: str) -> Flow[int]:
    """Apply a script to these tasks, or to all up to a moment, by default this one; later ones are not touched.

    Args:
        script: returns the call. Its first argument is how many of the oldest tasks to skip: those that stayed.
    """
    given = None if ids is None else chunks_of(ids)
    if not up_to_ms:
        up_to_ms = (yield from _server_ms(shard)) if given is None else "inf"
    total = skip = 0
    for some in repeat(()) if given is None else given:
        done, looked_at, *stayed = yield script(skip, up_to_ms=up_to_ms, limit=CHUNK, op=new_op(), ids=some)
        total, skip = total + done, skip + sum(stayed)
        if given is None and looked_at < CHUNK:
            break
    return total


def chunks_of(ids: Sequence[str], what: str = "task ids, or None for all", size: int = CHUNK) -> list[list[str]]:
    """Return the ids in lists of the size that one call of a script handles. Lone surrogates are escaped.

    Raises:
        TypeError: they are not an iterable of strings; `what` says what is accepted.
    """
    each = [encodable(check_string(task_id, "id")) for task_id in check_iterable(ids, "ids", what)]
    return list(chunks(each, size))


def _server_ms(shard: Shard) -> Flow[str]:
    """Return the server's time in milliseconds since the epoch, to the microsecond."""
    seconds, micros = yield Read("TIME", key=shard.base)
    return f"{int(seconds) * 1_000 + int(micros) // 1_000}.{int(micros) % 1_000:03}"


def new_op() -> str:
    """Return an id by which a script recognizes a repeated operation, and by which trash is restored."""
    return secrets.token_hex(8)
