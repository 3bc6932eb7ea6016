"""Names for shards, so that their slots are on different primaries of a Cluster."""

from __future__ import annotations

from collections import Counter
from itertools import count as numbers

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.client.slot_migration import slot_of
from django_redis_components.core.protocol import Command
from django_redis_components.management.base import CommandResult
from django_redis_components.taskqueue.shards import home

#: Most names, and most shards of a site.
MAX_NAMES = 64


def plan_names(using: str, count: int) -> CommandResult:
    """Return names for shards, as many on each primary as on the others, give or take one.

    The slots of names such as "shard0" and "shard1" are often on the same primary.
    """
    client = connections.client(home(using).alias)
    if client.endpoint.kind != "cluster":
        why = "is no Cluster. A shard on another server has another connection, and any name"
        return CommandResult({"names": []}, problem=f"{client.endpoint} {why}.")
    ranges = _slot_ranges(client.execute(Command("CLUSTER", "SLOTS", key=home(using).base, retry=True)))
    primaries, found = sorted({primary for _first, _last, primary in ranges}), dict[str, str]()
    used = Counter(dict.fromkeys(primaries, 0))
    for number in numbers():
        name = f"shard{number}"
        primary = _primary_of(keys.key("taskqueue", name), ranges)
        if primary is not None and used[primary] == min(used.values()):
            found[name] = primary
            used[primary] += 1
        if len(found) == count:
            break
    data = {"names": [{"name": name, "primary": primary} for name, primary in found.items()]}
    width = max(map(len, found))
    return CommandResult(data, "\n".join(f"{name:{width}}  {primary}" for name, primary in found.items()))


def _slot_ranges(reply: list[list[object]]) -> list[tuple[int, int, str]]:
    """Return the first and the last slot of each range, and its primary."""
    ranges = []
    for first, last, (host, port, *_), *_replicas in reply:  # type: ignore[misc]
        ranges.append((int(first), int(last), f"{host.decode()}:{port}"))  # type: ignore[call-overload, has-type]
    return ranges


def _primary_of(key: str, ranges: list[tuple[int, int, str]]) -> str | None:
    slot = slot_of(key)
    return next((primary for first, last, primary in ranges if first <= slot <= last), None)
