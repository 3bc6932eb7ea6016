"""Counts of allowed and denied hits, for the dashboard: per limit and minute, and the keys that were denied most.

An allowed hit costs one step of a counter, without a lock. A thread adds the counts to Redis
(`core.observability.flushing`), and takes them as hits of the minute in which it does so.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from django_redis_components.core import keys
from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.observability.flushing import Collector
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.ratelimits.decision import Decision

#: How long counts are kept after the last one of their hour, in milliseconds.
KEPT_MS = 7_200_000
#: Limits whose counts are sent in one transfer; the counts of others follow in a later one.
MAX_COUNTED = 1_000
#: Denied keys of a limit that are counted between two transfers, those of them that are sent, and those kept in Redis.
MAX_DENIED, MAX_SENT, MAX_KEPT = 1_000, 20, 1_000
#: Characters of a denied key, if the site stores their text, and of one that a process keeps as it is until it is sent.
MAX_KEY = 200
#: Fields of a minute: allowed, denied, and allowed or denied without Redis.
KINDS = ("allowed", "denied", "unchecked")
_DIGEST = re.compile(r"[0-9a-f]{32}")


class _SentName(str):
    """A denied key as it is sent: its hash or its text."""

    __slots__ = ()


class HitTally:
    """The hits of one limit in this process. `RateLimit` objects of the same policy share it.

    Attributes:
        policy: connection and id of the limit.
        is_due: whether the next transfer takes it.
    """

    __slots__ = ("__weakref__", "_denied_keys", "_lock", "_numbers", "_steps", "_taken", "is_due", "policy")

    def __init__(self, policy: tuple[str, str]) -> None:
        self.policy = policy
        self.is_due = False
        #: `next` is atomic, unlike adding to an attribute: the threads of a site share no lock.
        self._numbers = [itertools.count() for _ in KINDS]
        self._steps = [number.__next__ for number in self._numbers]
        self._taken = [0] * len(KINDS)
        self._denied_keys: dict[str | bytes | int, int] = {}
        self._lock = threading.Lock()

    def record(self, key: str | bytes | int, decision: Decision) -> None:
        """Count a hit."""
        if decision.is_allowed and decision.is_checked:
            self._steps[0]()
        elif decision.is_checked:
            self._steps[1]()
            self._count_key(key)
        else:
            self._steps[2]()
        if not self.is_due:  # after the count, which a transfer may miss otherwise
            COUNTER.add(self)

    def take(self) -> tuple[list[int], dict[str, int]]:
        """Return the number of each of `KINDS` and the denials by name since the last call."""
        with self._lock:
            denied_keys, self._denied_keys = self._denied_keys, {}
        denied: dict[str, int] = {}
        for key, times in denied_keys.items():
            name = key if isinstance(key, _SentName) else _sent_name(key)
            denied[name] = denied.get(name, 0) + times
        numbers = []
        for index, step in enumerate(self._steps):
            total = step()
            numbers.append(total - self._taken[index])
            self._taken[index] = total + 1  # this call has counted one
        return numbers, denied

    def _count_key(self, key: str | bytes | int) -> None:
        """Count a denial of a key. Its hash is computed by the thread that sends it, unless the key is long."""
        if not isinstance(key, int) and len(key) > MAX_KEY:
            key = _sent_name(key)
        with self._lock:
            denied = self._denied_keys
            if key in denied or len(denied) < MAX_DENIED:
                denied[key] = denied.get(key, 0) + 1


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
    logger = guarded_logger("django_redis_components.ratelimits")
    warning = "Hits of rate limits cannot be counted for the dashboard: %s"

    def reset(self) -> None:
        """See the base class."""
        super().reset()
        #: The tallies in use, by policy; another object after each reset.
        self.tallies: weakref.WeakValueDictionary[tuple[str, str], HitTally] = weakref.WeakValueDictionary()
        self._tallies_lock = threading.Lock()
        self._due: deque[HitTally] = deque()

    def tally(self, using: str, limit_id: str) -> HitTally:
        """Return the tally of a limit."""
        policy = using, limit_id
        with self._tallies_lock:
            found = self.tallies.get(policy)
            if found is None:
                found = self.tallies[policy] = HitTally(policy)
            return found

    def add(self, tally: HitTally) -> None:
        """Have the next transfer take a tally."""
        if len(self._due) < MAX_COUNTED:
            tally.is_due = True
            self._due.append(tally)
        self.notify()

    def take(self) -> Mapping[str, list[Command]]:
        """See the base class."""
        minute = int(time.time()) // 60
        requests: dict[str, list[Command]] = {}
        for _ in range(len(self._due)):
            tally = self._due.popleft()
            tally.is_due = False  # before it is taken: a hit that is counted now adds it again
            using, limit_id = tally.policy
            requests.setdefault(using, []).extend(_requests(limit_id, minute, *tally.take()))
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
    counts = {}
    for index, limit_id in enumerate(ids):
        minutes = {minute: (0,) * len(KINDS) for minute in range(now - 59, now + 1)}
        for hour, values in zip(hours, replies[index * len(hours) : (index + 1) * len(hours)], strict=True):
            minutes |= _parse(_minutes(now, hour), values)
        pairs = replies[len(ids) * len(hours) + index] if denied else []
        denied_keys = [(name.decode("utf-8", "replace"), int(float(score))) for name, score in pairs_of(pairs)]
        counts[limit_id] = LimitCounts(minutes, denied_keys)
    return counts


def digest_of(stored: str) -> str:
    """Return the hash of a denied key from its stored name, which is its text, or its hash."""
    is_hash = conf.settings().ratelimits.denied_keys == "hash" and _DIGEST.fullmatch(stored)
    return stored if is_hash else keys.digest(stored)


def _sent_name(key: str | bytes | int) -> _SentName:
    """Return the hash of a denied key, or its text if the site stores it."""
    if conf.settings().ratelimits.denied_keys == "text":
        return _SentName(str(key if not isinstance(key, bytes) else key.decode("utf-8", "replace"))[:MAX_KEY])
    return _SentName(keys.digest(str(key) if isinstance(key, int) else key))


def _requests(limit_id: str, minute: int, numbers: Sequence[int], denied_keys: Mapping[str, int]) -> list[Command]:
    """Return the commands that add counts. They are never repeated: that could count hits twice."""
    key, denied = _key(limit_id, minute // 60), _key(limit_id, minute // 60, "denied")
    requests = [
        Command("HINCRBY", key, f"{minute}{kind[0]}", number)
        for kind, number in zip(KINDS, numbers, strict=True)
        if number
    ]
    requests.append(Command("PEXPIRE", key, KEPT_MS))
    most = sorted(denied_keys.items(), key=lambda item: -item[1])[:MAX_SENT]
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
    return {minute: tuple(numbers[index * size : (index + 1) * size]) for index, minute in enumerate(minutes)}


def _number(value: bytes | None) -> int:
    return int(value) if value and value.isdigit() else 0


#: The counter of this process.
COUNTER = HitCounter()
