"""The stored incidents of a connection: read, and changed by transactions."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from django_redis_components.core.protocol import Flow, Read
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.incidents import Incident, IncidentState, parse_incident
from django_redis_components.transactions import Pipe, atomic_update

#: Most incidents that are kept after their end, and for how long, in seconds: 90 days.
MAX_RESOLVED, KEPT_S = 200, 90 * 86_400


def read_state(using: str) -> Flow[IncidentState]:
    """Read the incidents that last."""
    return parse_state((yield Read("GET", keyspace.key("incidents", using))))


def read_resolved(using: str) -> Flow[list[Incident]]:
    """Read the resolved incidents, the latest first."""
    found = []
    for stored in (yield Read("LRANGE", keyspace.key("resolved", using), 0, MAX_RESOLVED - 1)):
        try:
            found.append(parse_incident(json.loads(stored)))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            continue  # another version or program has written it
    return found


def change_state(
    change: Callable[[IncidentState], tuple[IncidentState, Sequence[Incident]]], using: str
) -> IncidentState:
    """Replace the state by what `change` returns for it, with the incidents that it resolves; return the new state.

    `change` is called again if another process has changed the state meanwhile.

    Raises:
        redis.exceptions.RedisError, TransactionError: Redis is unavailable, or the state changes all the time.
    """
    key, resolved_key = keyspace.key("incidents", using), keyspace.key("resolved", using)

    def update(pipe: Pipe) -> IncidentState:
        before = parse_state(pipe.get(key))
        after, resolved = change(before)
        pipe.multi()
        if after != before:
            pipe.set(key, _json(after.encode()), ex=KEPT_S)
        if resolved:
            pipe.lpush(resolved_key, *[_json(each) for each in _as_dicts(resolved)])
            pipe.ltrim(resolved_key, 0, MAX_RESOLVED - 1)
            pipe.expire(resolved_key, KEPT_S)
        return after

    return atomic_update(update, key, using=using)


def _as_dicts(incidents: Sequence[Incident]) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = IncidentState({each.id: each for each in incidents}).encode()["incidents"]
    return encoded


def parse_state(stored: bytes | str | None) -> IncidentState:
    """Return the stored state. What another version or program has written counts as nothing."""
    try:
        return IncidentState.parse(json.loads(stored or b"null"))
    except (ValueError, RecursionError):
        return IncidentState()


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
