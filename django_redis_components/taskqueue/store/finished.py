"""The newest finished tasks of a queue, by state (lua/shared/finished_list.lua): rows that outlive the records."""

from __future__ import annotations

import dataclasses
from typing import Any

from django_redis_components.core.protocol import Batch, Call, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.core.units import to_ms
from django_redis_components.taskqueue.fields import Field, Part
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.sealing import SEALED_KEY, SEALED_START
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.store.job import MAX_LISTED_MESSAGE
from django_redis_components.taskqueue.store.scripts import FIND_FINISHED, SCAN_FINISHED

#: States whose tasks are in these lists, the names of their parts.
FINISHED = (Part.successful, Part.cancelled, Part.expired)
#: Rows and lists that one call of a search by id looks at, about 5 ms of the server, and calls of one search.
SEARCH_ROWS, SEARCH_CALLS = 5_000, 20
#: Fields of a record in a row; the position is that of the row's part. The id and the duration are no fields.
_FIELDS = (
    *("", Field.finished_at_us, Field.worker_ids, Field.enqueued_at_us, Field.leased_at_us, ""),
    *(Field.first_leased_at_us, Field.attempts, Field.task_name, Field.body),
)
_RAN_US = 5
#: What a sealed message becomes that was cut off: no part of it can be opened.
_SEALED = SEALED_START + b'{"%s":""}]' % SEALED_KEY.encode()


@dataclasses.dataclass(frozen=True, slots=True)
class FinishedRow:
    """What a list still has of a finished task.

    Attributes:
        fields: those of its record; the body is complete JSON, without the arguments that were cut off.
        is_clipped: whether arguments were cut off.
        duration: of the last run in seconds; None if it did not run.
    """

    id: str
    fields: dict[str, bytes]
    is_clipped: bool = False
    duration: float | None = None

    @property
    def name(self) -> str:
        """The task's name."""
        return self.fields[Field.task_name].decode(errors="replace")

    @property
    def fields_of_record(self) -> dict[str, bytes]:
        """The fields for a `TaskRecord`, which must not have only some of the arguments."""
        return {name: value for name, value in self.fields.items() if name != Field.body or not self.is_clipped}


def finished_bounds() -> dict[str, int]:
    """Return the arguments of scripts that list finished tasks."""
    settings = conf.settings().taskqueue
    return {
        "finished_limit": settings.keep_finished,
        "finished_ttl_ms": to_ms(settings.finished_ttl_s, "finished_ttl"),
    }


def count_finished(shard: Shard, queue: str) -> Flow[dict[str, int]]:
    """Return how many tasks are listed in each of these states."""
    limit = conf.settings().taskqueue.keep_finished
    lengths = yield Batch([Read("LLEN", shard.queue(queue, state)) for state in FINISHED])
    return {state: min(length, limit) for state, length in zip(FINISHED, lengths, strict=True)}


def scan_call(shard: Shard, queue: str, state: str, **named: Any) -> Call:
    """Return the call that reads a part of a list, newest first; `named` as in scan_finished.lua."""
    return SCAN_FINISHED(base=shard.base, queue=queue, state=state, **finished_bounds(), **named)


def list_finished(shard: Shard, queue: str, state: str, limit: int, offset: int) -> Flow[list[FinishedRow]]:
    """Return one page of a list, newest first."""
    limit = min(limit, conf.settings().taskqueue.keep_finished - offset)
    if limit <= 0:
        return []
    rows = yield Read("LRANGE", shard.queue(queue, state), -offset - limit, -offset - 1)
    return [parse_row(queue, state, row) for row in reversed(rows)]


def find_finished(shard: Shard, task_id: str, queue: str = "") -> Flow[FinishedRow | None]:
    """Return the row of a task whose queue may be unknown; None if no list has it, among the 100,000 rows searched.

    Args:
        queue: where to look first.
    """
    if not conf.settings().taskqueue.keep_finished:
        return None
    cursor = b""
    for _ in range(SEARCH_CALLS):
        found_in, state, row, cursor = yield FIND_FINISHED(
            base=shard.base, id=encodable(task_id), queue=queue, cursor=cursor, budget=SEARCH_ROWS
        )
        if row:
            return parse_row(found_in.decode(errors="replace"), state.decode(), row)
        if not cursor and not queue:
            break
        if not cursor:
            queue = ""
    return None


def parse_row(queue: str, state: str, row: bytes) -> FinishedRow:
    """Return a row. Parts that another client has written may be empty."""
    parts = row.decode(errors="replace").encode().split(b"\t", len(_FIELDS) - 1)  # a cut may have split a character
    parts += [b""] * (len(_FIELDS) - len(parts))
    fields = {name: part for name, part in zip(_FIELDS, parts, strict=True) if name and part}
    fields.setdefault(Field.task_name, b"")
    fields |= {Field.queue: queue.encode(), Field.state: state.encode()}
    if Field.leased_at_us in fields:
        fields.setdefault(Field.first_leased_at_us, fields[Field.leased_at_us])
    body, is_clipped = _complete(parts[-1])
    if body:
        fields[Field.body] = body
    duration = int(parts[_RAN_US]) / 1e6 if parts[_RAN_US].isdigit() else None
    return FinishedRow(encodable(parts[0].decode(errors="replace")), fields, is_clipped, duration)


def _complete(message: bytes) -> tuple[bytes, bool]:
    """Return the start of a message as JSON that ends with the last whole argument, and whether any was cut off."""
    if len(message) < MAX_LISTED_MESSAGE or _is_json(message):
        return message, False
    if message.startswith(SEALED_START):
        return _SEALED, False
    text = message.decode(errors="ignore")
    body = _closed(text).encode()
    return body if _is_json(body) else b"", True


def _closed(text: str) -> str:
    """Close the JSON ``[[argument, …], {"name": argument, …`` after its last whole argument."""
    closers: list[str] = []
    end, closing, lists = 0, "", 0
    is_text = is_escaped = False
    for position, char in enumerate(text):
        if is_text:
            is_text = is_escaped or char != '"'
            is_escaped = char == "\\" and not is_escaped
            continue
        is_text = char == '"'
        if char in "[{":
            closers.append("]" if char == "[" else "}")
            lists += len(closers) == 2
        elif char in "]}" and closers:
            closers.pop()
        is_end = char in "[{]}" and len(closers) in (1, 2)
        if (is_end and (char in "[{") == (len(closers) == 2)) or (char == "," and len(closers) == 2):
            end = position if char == "," else position + 1
            closing = "".join(closers[:0:-1]) + (",{}" if lists < 2 else "") + "]"
    return text[:end] + closing


def _is_json(message: bytes) -> bool:
    try:
        unpack(message)
    except Exception:  # noqa: BLE001 - the site's codec may raise anything
        return False
    return True
