"""What uses the memory of the server: by component and queue, measured key by key over many rounds; and its growth.

Each round looks at a part of the keys. When all were seen the result replaces the one before, and the next pass begins.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from django_redis_components.core import key_scan
from django_redis_components.core.client.server import parse_info
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients, formats
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.server import integer, memory_share
from django_redis_components.dashboard.problems.watched.check import WatchedCheck

#: Keys of each primary that a round looks at: about 2 ms of the server.
COUNT = 1_000
#: Members of a key that MEMORY USAGE looks at.
SAMPLES = 5
#: Largest keys, components and queues that are kept, and characters of their names.
MAX_KEYS, MAX_GROUPS, MAX_NAME = 10, 40, 200
#: Seconds between two records of the used memory, how many are kept (three hours), and over how much time it must grow.
RECORD_S, MAX_RECORDS, MIN_GROWTH_S = 60.0, 180, 600.0
#: Seconds until the memory is full that are a problem: a day is enough to react in working hours.
FULL_WITHIN_S = 86_400.0


def read(facts: ProblemFacts) -> Flow[dict[str, Any]]:
    """Measure the next keys; return the result of the last pass, that of this one so far, and the used memory."""
    before = facts.watched.get("memory") or {"cursors": {}, "part": _empty(), "whole": None, "used": []}
    part, cursors = before["part"], before["cursors"]
    if not cursors:
        part, cursors = _empty(), key_scan.start(clients.client(facts.using).key_per_primary())
    names, left = yield from key_scan.scan_step(cursors, count=COUNT)
    sizes = yield Batch(
        [Read("MEMORY", "USAGE", name, "SAMPLES", SAMPLES, key=name) for name in names], return_exceptions=True
    )
    for name, size in zip(names, sizes, strict=True):
        if isinstance(size, int):  # not one that was deleted meanwhile
            _add(part, name.decode(errors="backslashreplace"), size)
    info = facts.queues.server if facts.queues else (yield from _server(facts))
    now = facts.at.timestamp()
    return {
        "cursors": left,
        "part": part,
        "whole": before["whole"] if left else {**part, "at": now},
        "used": _recorded(before["used"], info, now),
        "most": memory_share(info)[1],
    }


def find(found: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield a problem if the memory will be full soon. Of a full one the problem `memory` tells."""
    used, most = memory_share(facts.queues.server) if facts.queues else _last(found)
    full_s = full_in(found["used"], most)
    if full_s is None or not 0 < full_s <= FULL_WITHIN_S:
        return
    text = _("Redis grows by %(growth)s per hour: its memory (%(used)s of %(most)s) is full in about %(time)s.") % {
        "growth": filesizeformat(growth_per_s(found["used"]) * 3_600),
        "used": filesizeformat(used),
        "most": filesizeformat(most),
        "time": formats.age(full_s),
    }
    groups = (found["whole"] or found["part"])["components"]
    top = max(groups.items(), key=lambda each: each[1][0], default=None)
    largest = (
        _("Most of it is used by %(component)s (%(size)s).") % {"component": top[0], "size": filesizeformat(top[1][0])}
        if top
        else ""
    )
    advice = " ".join(filter(None, [largest, _("When it is full, Redis rejects new tasks.")]))
    yield Problem("memory_growth", text, advice)


def _last(found: Any) -> tuple[int, int]:
    """Return the used memory at the last record, and its maximum."""
    return (found["used"][-1][1], found["most"]) if found["used"] else (0, 0)


def growth_per_s(used: list[list[float]]) -> float:
    """Return the growth in bytes per second, from the first to the last record; 0 if they are too close."""
    if not is_growth_known(used):
        return 0.0
    return (used[-1][1] - used[0][1]) / (used[-1][0] - used[0][0])


def is_growth_known(used: list[list[float]]) -> bool:
    """Return whether the first and the last record are far enough apart."""
    return len(used) > 1 and used[-1][0] - used[0][0] >= MIN_GROWTH_S


def full_in(used: list[list[float]], most: int) -> float | None:
    """Return the seconds until the maximum is reached; None without growth or maximum."""
    growth = growth_per_s(used)
    if growth <= 0 or not most:
        return None
    return max(0.0, (most - used[-1][1]) / growth)


def _empty() -> dict[str, Any]:
    return {"keys": 0, "bytes": 0, "components": {}, "queues": {}, "largest": []}


def _add(part: dict[str, Any], name: str, size: int) -> None:
    part["keys"] += 1
    part["bytes"] += size
    _add_to(part["components"], _component_of(name), size)
    if queue := _queue_of(name):
        _add_to(part["queues"], queue, size)
    part["largest"] = heapq.nlargest(MAX_KEYS, [*part["largest"], [size, name[:MAX_NAME]]])


def _add_to(groups: dict[str, list[int]], name: str, size: int) -> None:
    name = name if name in groups or len(groups) < MAX_GROUPS else "…"
    size_before, count = groups.get(name, (0, 0))
    groups[name] = [size_before + size, count + 1]


def _component_of(name: str) -> str:
    """Return the component that wrote a key, or the first part of the name of another program's key."""
    prefix = f"{conf.settings().prefix}:"
    own = name.removeprefix(prefix) if name.startswith(prefix) else ""
    first = (own or name).partition(":")[0][:MAX_NAME]
    return first if own else f"{first}:…"


def _queue_of(name: str) -> str:
    found = re.match(rf"{re.escape(conf.settings().prefix)}:taskqueue:{{[^}}]*}}:q:(.+):[^:]+(?::\d+)?$", name)
    return found[1].partition(":")[0] if found else ""


def _server(facts: ProblemFacts) -> Flow[Mapping[str, str]]:
    """Return INFO memory; empty if it may not be read."""
    [info] = yield Batch(
        [Command("INFO", "memory", key=keyspace.key("facts", facts.using), retry=True)], return_exceptions=True
    )
    return parse_info(info).fields if isinstance(info, bytes) else {}


def _recorded(used: list[list[float]], info: Mapping[str, str], now: float) -> list[list[float]]:
    if not info or (used and now - used[-1][0] < RECORD_S):
        return used
    return [*used, [now, integer(info, "used_memory")]][-MAX_RECORDS:]


CHECK = WatchedCheck("memory", read, find, is_of_server=True, is_of_connection=True)
