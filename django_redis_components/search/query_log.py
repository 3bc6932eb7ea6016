"""The log of an index: its slowest queries, and the queries that found nothing, for two weeks at most."""

from __future__ import annotations

import dataclasses
import time

from redis.exceptions import RedisError

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: Queries that are kept of each list and week, and returned.
MAX_SLOW, MAX_EMPTY, MAX_RETURNED = 50, 1_000, 20
#: Seconds from which a query is slow, with its round trip.
SLOW_S = 0.02
#: Characters of a query that are kept.
MAX_CHARS = 100
#: Each week has its own keys; those of the week before are read too.
WEEK_S = 7 * 86_400
TTL_MS = 2 * WEEK_S * 1_000

logger = guarded_logger("django_redis_components")


@dataclasses.dataclass(frozen=True, slots=True)
class QueryStats:
    """Queries of this week and the last; see `SearchIndex.query_stats`.

    Attributes:
        slowest: queries that took 20 ms or more, with the longest time in seconds, the slowest first.
        without_result: queries that found nothing, with their number, the most frequent first.
    """

    slowest: tuple[tuple[str, float], ...]
    without_result: tuple[tuple[str, int], ...]


def log_query(base: str, query: str, seconds: float, *, found_nothing: bool) -> Flow[None]:
    """Write a query to the log if it was slow or found nothing. An error of Redis is ignored."""
    if not found_nothing and seconds < SLOW_S:
        return
    entry = "".join(each if each.isprintable() else " " for each in query[: 4 * MAX_CHARS].casefold())
    entry = " ".join(entry.split())[:MAX_CHARS]
    commands = []
    if found_nothing:
        key = _key(base, "empty", _week())
        commands += [
            Command("ZINCRBY", key, 1, entry),
            Command("ZREMRANGEBYRANK", key, 0, -MAX_EMPTY - 1),
            Command("PEXPIRE", key, TTL_MS),
        ]
    if seconds >= SLOW_S:
        key = _key(base, "slow", _week())
        commands += [
            Command("ZADD", key, "GT", round(seconds * 1_000, 1), entry),
            Command("ZREMRANGEBYRANK", key, 0, -MAX_SLOW - 1),
            Command("PEXPIRE", key, TTL_MS),
        ]
    try:
        yield Batch(commands)
    except RedisError as exc:
        logger.debug("A query of %s was not logged: %s", base, exc)


def read_stats(base: str) -> Flow[QueryStats]:
    """Return the logged queries, in one round trip of 4 commands."""
    week = _week()
    wanted = [(kind, each) for kind in ("slow", "empty") for each in (week, week - 1)]
    replies = yield Batch(
        [Read("ZRANGE", _key(base, kind, each), 0, MAX_RETURNED - 1, "REV", "WITHSCORES") for kind, each in wanted]
    )
    slow: dict[str, float] = {}
    empty: dict[str, int] = {}
    for (kind, _), reply in zip(wanted, replies, strict=True):
        for member, score in pairs_of(reply):
            text = member.decode(errors="replace")
            if kind == "slow":
                slow[text] = max(slow.get(text, 0.0), float(score) / 1_000)
            else:
                empty[text] = empty.get(text, 0) + int(score)
    return QueryStats(
        tuple(sorted(slow.items(), key=lambda one: -one[1])[:MAX_RETURNED]),
        tuple(sorted(empty.items(), key=lambda one: -one[1])[:MAX_RETURNED]),
    )


def log_keys(base: str) -> list[str]:
    """Return the keys of the log, for deletion."""
    week = _week()
    return [_key(base, kind, each) for kind in ("slow", "empty") for each in (week - 2, week - 1, week)]


def _key(base: str, kind: str, week: int) -> str:
    return f"{base}:{kind}:{week}"


def _week() -> int:
    return int(time.time()) // WEEK_S
