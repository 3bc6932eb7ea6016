"""Counts of allowed and denied hits, for the dashboard: per limit and minute, and the keys that were denied most.

A hit costs one update of a dict. A thread adds the counts to Redis (`core.flushing`).
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Iterable, Mapping

from django_redis_components.core import conf, keys
from django_redis_components.core.flushing import Collector
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.ratelimits.decision import Decision

#: How long counts are kept after the last one of their hour, in milliseconds.
KEPT_MS = 7_200_000
#: Pairs of limit and minute that a process counts between two transfers; hits of others are not counted.
MAX_COUNTED = 1_000
#: Denied keys of a limit that are counted between two transfers, those of them that are sent, and those kept in Redis.
MAX_DENIED, MAX_SENT, MAX_KEPT = 1_000, 20, 1_000
#: Characters of a denied key, if the site stores their text.
MAX_KEY = 200
#: Fields of a minute: allowed, denied, and allowed or denied without Redis.
KINDS = ("allowed", "denied", "unchecked")


@dataclasses.dataclass(slots=True)
class _Counts:
    """The counts of a limit in one minute: a number for each of `KINDS`, and denials by key."""

    numbers: list[int] = dataclasses.field(default_factory=lambda: [0] * len(KINDS))
    denied_keys: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class LimitCounts:
    """The counts of a limit in the last hour.

    Attributes:
        minutes: by minute since the epoch, oldest first: a number for each of `KINDS`.
        denied_keys: the keys that were denied most in this clock hour, with the number of denials.
    """

    minutes: dict[int, tuple[int, ...]]
    denied_keys: list[tuple[str, int]]

    @property
    def totals(self) -> tuple[int, ...]:
        """The sums: a number for each of `KINDS`."""
        return tuple(map(sum, zip(*self.minutes.values(), strict=True)))


class HitCounter(Collector):
    """Counts the hits of this process."""

    name = "ratelimit-counts"
    logger = logging.getLogger("django_redis_components.ratelimits")
    warning = "Hits of rate limits cannot be counted for the dashboard: %s"

    def reset(self) -> None:
        """See the base class."""
        super().reset()
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str, int], _Counts] = {}

    def record(self, using: str, limit_id: str, key: str | bytes | int, decision: Decision) -> None:
        """Count a hit."""
        slot = using, limit_id, int(time.time()) // 60
        kind = 2 if not decision.checked else 0 if decision.allowed else 1
        with self._lock:
            counts = self._counts.get(slot)
            if counts is None:
                if len(self._counts) >= MAX_COUNTED:
                    return
                counts = self._counts[slot] = _Counts()
            counts.numbers[kind] += 1
            if kind == 1:
                _count_key(counts.denied_keys, key)
        self.notify()

    def take(self) -> Mapping[str, list[Command]]:
        """See the base class."""
        with self._lock:
            counted, self._counts = self._counts, {}
        requests: dict[str, list[Command]] = {}
        for (using, limit_id, minute), counts in counted.items():
            requests.setdefault(using, []).extend(_requests(limit_id, minute, counts))
        return requests

    def timeout_s(self) -> float:
        """See the base class."""
        return conf.settings().ratelimits.timeout_s


def read_counts(limit_ids: Iterable[str], denied: int = 0) -> Flow[dict[str, LimitCounts]]:
    """Read the counts of the last 60 minutes of limits of one connection, in one round trip.

    Args:
        denied: how many of the keys that were denied most are read.
    """
    ids, now = list(limit_ids), int(time.time()) // 60
    hours = sorted({(now - 59) // 60, now // 60})
    requests = [Read("HMGET", _key(each, hour), *_fields(now, hour)) for each in ids for hour in hours]
    if denied:
        requests += [Read("ZREVRANGE", _key(each, hours[-1], "denied"), 0, denied - 1, "WITHSCORES") for each in ids]
    replies = yield Batch(requests)
    found = {}
    for at, limit_id in enumerate(ids):
        minutes = {minute: (0,) * len(KINDS) for minute in range(now - 59, now + 1)}
        for hour, values in zip(hours, replies[at * len(hours) : (at + 1) * len(hours)], strict=True):
            minutes |= _parse(_minutes(now, hour), values)
        pairs = replies[len(ids) * len(hours) + at] if denied else []
        denied_keys = [
            (name.decode("utf-8", "replace"), int(float(score)))
            for name, score in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        found[limit_id] = LimitCounts(minutes, denied_keys)
    return found


def _count_key(denied: dict[str, int], key: str | bytes | int) -> None:
    """Count a denial of a key: by its hash, unless the site stores the text."""
    if conf.settings().ratelimits.denied_keys == "text":
        name = str(key if not isinstance(key, bytes) else key.decode("utf-8", "replace"))[:MAX_KEY]
    else:
        name = keys.digest(str(key) if isinstance(key, int) else key)
    if name in denied or len(denied) < MAX_DENIED:
        denied[name] = denied.get(name, 0) + 1


def _requests(limit_id: str, minute: int, counts: _Counts) -> list[Command]:
    """Return the commands that add counts. They are never repeated: that could count hits twice."""
    key, denied = _key(limit_id, minute // 60), _key(limit_id, minute // 60, "denied")
    requests = [
        Command("HINCRBY", key, f"{minute}{kind[0]}", number)
        for kind, number in zip(KINDS, counts.numbers, strict=True)
        if number
    ]
    requests.append(Command("PEXPIRE", key, KEPT_MS))
    most = sorted(counts.denied_keys.items(), key=lambda item: -item[1])[:MAX_SENT]
    if most:
        requests += [Command("ZINCRBY", denied, times, name.encode("utf-8", "replace")) for name, times in most]
        requests += [Command("ZREMRANGEBYRANK", denied, 0, -MAX_KEPT - 1), Command("PEXPIRE", denied, KEPT_MS)]
    return requests


def _key(limit_id: str, hour: int, part: str = "hits") -> str:
    return keys.key("ratelimits", limit_id, part, str(hour))


def _minutes(now: int, hour: int) -> range:
    """Return those of the last 60 minutes that are in an hour."""
    return range(max(now - 59, hour * 60), min(now, hour * 60 + 59) + 1)


def _fields(now: int, hour: int) -> list[str]:
    return [f"{minute}{kind[0]}" for minute in _minutes(now, hour) for kind in KINDS]


def _parse(minutes: range, values: list[bytes | None]) -> Mapping[int, tuple[int, ...]]:
    numbers = [_number(value) for value in values]
    size = len(KINDS)
    return {minute: tuple(numbers[at * size : (at + 1) * size]) for at, minute in enumerate(minutes)}


def _number(value: bytes | None) -> int:
    return int(value) if value and value.isdigit() else 0


#: The counter of this process.
COUNTER = HitCounter()
