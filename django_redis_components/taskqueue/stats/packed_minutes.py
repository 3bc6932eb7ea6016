"""The minutes of many queues that the poller has packed: ten of all queues in one hash.

A queue has a key for each minute, so that 60 minutes of 50 queues are 3,000 keys. A minute that has ended does not
change: the poller, which adds it to the hours, stores it in such a hash as well. Other minutes, such as the current
one, are read from the queues.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shards import Shard

#: Queues that the poller packs at once, and most such chunks of which a page reads minutes.
CHUNK, MAX_CHUNKS = 500, 10
#: Minutes in one hash.
PER_HASH = 10
#: Most minutes that are read from the hashes. They are kept a little longer.
MAX_PACKED = 60

#: No minutes.
NONE = range(0)


def range_requests(shard: Shard) -> list[Command]:
    """Return the requests of which `parse_range` parses the replies."""
    return [Read("HMGET", shard.key(Key.packed), *range(MAX_CHUNKS)), Read("ZCARD", shard.key(Key.queues))]


def parse_range(replies: Sequence[Any]) -> range:
    """Return the minutes that are packed for all queues, without a gap; at most the latest 60.

    An error of Redis counts as none: then the minutes are read from the queues.
    """
    chunks, queues = replies
    if isinstance(chunks, Exception) or isinstance(queues, Exception) or queues > CHUNK * MAX_CHUNKS:
        return NONE
    noted = [re.fullmatch(rb"(\d+) (\d+)", each or b"") for each in chunks[: max(1, -(-queues // CHUNK))]]
    if not all(noted):
        return NONE
    firsts, lasts = zip(*(map(int, each.groups()) for each in noted if each), strict=True)
    end = min(lasts) + 1
    return range(max(max(firsts), end - MAX_PACKED), end)


def read_range(shard: Shard) -> Flow[range]:
    """Return the minutes that are packed; see `parse_range`."""
    return parse_range((yield Batch(range_requests(shard), return_exceptions=True)))


def packed_requests(shard: Shard, queues: Sequence[str | bytes], minutes: range) -> list[Command]:
    """Return the requests for packed minutes of queues: `parse_packed` parses the replies."""
    names = [_name(queue) for queue in queues]
    return [
        Read("HMGET", shard.key(Key.packed_minutes, str(number)), *_fields(names, number, minutes))
        for number in _hashes(minutes)
    ]


def parse_packed(replies: Sequence[Any], queues: Sequence[str | bytes], minutes: range) -> dict[str, dict[int, bytes]]:
    """Return the counters of the minutes in which a queue has any, by queue."""
    names = [_name(queue) for queue in queues]
    found: dict[str, dict[int, bytes]] = {name: {} for name in names}
    for number, values in zip(_hashes(minutes), replies, strict=True):
        inside = _inside(number, minutes)
        for position, name in enumerate(names):
            of_queue = values[position * len(inside) : (position + 1) * len(inside)]
            found[name].update((minute, data) for minute, data in zip(inside, of_queue, strict=True) if data)
    return found


def _fields(names: Sequence[str], number: int, minutes: range) -> list[str]:
    digits = [minute % PER_HASH for minute in _inside(number, minutes)]
    return [f"{name}:{digit}" for name in names for digit in digits]


def _hashes(minutes: range) -> range:
    """Return the numbers of the hashes that have these minutes."""
    return range(minutes.start // PER_HASH, (minutes.stop - 1) // PER_HASH + 1) if minutes else NONE


def _inside(number: int, minutes: range) -> range:
    """Return those of the minutes that are in a hash."""
    return range(max(minutes.start, number * PER_HASH), min(minutes.stop, (number + 1) * PER_HASH))


def _name(queue: str | bytes) -> str:
    return queue.decode() if isinstance(queue, bytes) else queue
