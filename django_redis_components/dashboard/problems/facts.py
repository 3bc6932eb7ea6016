"""What problems are found in: queues, workers, the server, schedules, and what the watching process has found."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.gather import GatherResult
from django_redis_components.core.protocol import Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.panels.reading import PagePart, read_parts
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.incidents import MAX_TIME, Acknowledgment, Incident, IncidentState
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.storage import parse_state
from django_redis_components.taskqueue.schedules import status
from django_redis_components.taskqueue.shards import Shard, home
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview, read_overview

#: Seconds after which what the watching process has found is too old to be shown.
STALE_S = 300.0
#: Seconds for which what the checks have found is stored.
FACTS_S = 3_600
#: Seconds without a round after which a connection counts as not watched: a lease and a round of the watching process.
UNWATCHED_S = 60.0
#: Seconds after the start of a process in which its first round is expected.
STARTING_S = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class ProblemFacts:
    """Facts about a connection. A part that could not be read is None and has an entry in `errors`.

    Attributes:
        at: the server's time, or the local time if the task queue could not be read.
        queues: queues, workers, the poller and the server.
        watched: what the watching process has found lately, by the name of the check.
        incidents: the open incidents: start and acknowledgment of each problem.
        errors: by part: "queues", "schedules", "watched".
        endpoint: the server, without credentials.
        using: alias of the connection.
        shard: of the task queue whose state it is.
        clock_offset_s: the least difference between the server's clock and this host's that explains their times;
            above 0 if the server's is ahead, None if unknown.
        connections: what it has found lately on further connections, by alias and the name of the check.
        is_watched: whether a process watches the connection, or need not: `WATCH` is off, or it is not known.
    """

    at: datetime
    queues: TaskQueueOverview | None
    schedules: status.ScheduleSnapshot | None
    watched: Mapping[str, Any]
    incidents: IncidentState
    errors: dict[str, Exception]
    endpoint: Endpoint
    using: str
    shard: Shard
    clock_offset_s: float | None = None
    is_watched: bool = True
    connections: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def incident_of(self, problem: Problem) -> Incident | None:
        """Return the incident of a problem; None if it was not watched yet."""
        return self.incidents.incidents.get(problem.id)

    def acknowledgment_of(self, problem: Problem) -> Acknowledgment | None:
        """Return the acknowledgment of a problem that holds, or None."""
        incident = self.incident_of(problem)
        if incident is None or not dataclasses.replace(incident, severity=problem.severity).is_acknowledged(
            self.at.timestamp()
        ):
            return None
        return incident.acknowledged


def read_facts(using: str = "", shard: Shard | None = None) -> ProblemFacts:
    """Read the facts of a connection, by default that of the dashboard, in two round trips.

    Args:
        shard: of the task queue of the connection; None: the one that the page shows, or the home shard.

    Raises:
        SnapshotFailed: nothing could be read.
    """
    parts, started = fact_parts(using, shard), time.time()
    outcomes = dict(zip(parts, read_parts([*parts.values()], Cost()), strict=True))
    if all(outcome.error for outcome in outcomes.values()):
        raise SnapshotFailed(outcomes["queues"].error or RedisError(), str(endpoint_of(using, shard)))
    return facts_of(outcomes, started, using, shard)


def fact_parts(using: str = "", shard: Shard | None = None) -> dict[str, PagePart]:
    """Return what reads the facts, by part; see `read_facts`."""
    return {
        "queues": _part(using, lambda alias: read_overview(shard or _shard_of(alias))),
        "schedules": _part(using, lambda alias: status.read_registered(shard or _shard_of(alias))),
        "watched": _part(using, lambda alias: read_watched(alias, shard)),
    }


def facts_of(
    outcomes: Mapping[str, GatherResult], started: float, using: str = "", shard: Shard | None = None
) -> ProblemFacts:
    """Return the facts from the outcomes of their parts; see `read_facts`.

    Args:
        started: when the read of the parts started, by the clock of this host.
    """
    using = using or conf.settings().dashboard.using
    finished = time.time()
    errors = {name: outcome.error for name, outcome in outcomes.items() if outcome.error is not None}
    queues = outcomes["queues"].value
    watched, incidents, is_watched, of_connections = outcomes["watched"].value or ({}, IncidentState(), True, {})
    return ProblemFacts(
        at=queues.at if queues else timezone.now(),
        queues=queues,
        schedules=outcomes["schedules"].value,
        watched=watched,
        incidents=incidents,
        errors=errors,
        endpoint=endpoint_of(using, shard),
        using=using,
        shard=shard or _shard_of(using),
        clock_offset_s=_clock_offset(queues.at.timestamp(), started, finished) if queues else None,
        is_watched=is_watched,
        connections=of_connections,
    )


def facts_of_connection(alias: str, found: Mapping[str, Any], at: datetime) -> ProblemFacts:
    """Return the facts of a further connection: what the checks of components have found there."""
    return ProblemFacts(at, None, None, found, IncidentState(), {}, connections.endpoint(alias), alias, home(alias))


def endpoint_of(using: str = "", shard: Shard | None = None) -> Endpoint:
    """Return the server of a connection, by default that of the dashboard; see `read_facts`.

    Raises:
        SnapshotFailed: the connection is unknown or misconfigured.
    """
    using = using or conf.settings().dashboard.using
    try:
        return connections.endpoint((shard or _shard_of(using)).alias)
    except RedisComponentsError as exc:
        raise SnapshotFailed(exc, "") from exc


def read_watched(
    using: str, shard: Shard | None = None
) -> Flow[tuple[dict[str, Any], IncidentState, bool, dict[str, dict[str, Any]]]]:
    """Read what the watching process has found in the last minutes, the incidents, whether one watches, and what it has
    found on further connections.

    Args:
        shard: of which it was found; None: the home shard, and the connection as a whole.
    """
    key = keyspace.key(keyspace.of_shard("facts", shard), using)
    others, starting = keyspace.key("connections", using), keyspace.key("starting", using)
    facts, incidents, of_connections, started = yield Read(
        "MGET", key, keyspace.key("incidents", using), others, starting
    )
    found = recent_of_connections(of_connections) if shard is None else {}
    return recent_of(facts), parse_state(incidents), is_watched(facts, started), found


def is_watched(stored: bytes | None, started: bytes | None) -> bool:
    """Return whether what checks have found is from the last minute, or a process makes its first round soon, or
    `WATCH` is off.

    Args:
        stored: what they have found.
        started: when a process has started to watch.
    """
    return not conf.settings().dashboard.watch or is_starting(started) or bool(recent_of(stored, UNWATCHED_S))


def is_starting(started: bytes | None) -> bool:
    """Return whether a process has announced its start in the last seconds, and none in the minutes before."""
    try:
        return started is not None and abs(time.time() - float(started)) < STARTING_S
    except ValueError:  # of another program
        return False


def recent_of(stored: bytes | None, within_s: float = STALE_S) -> dict[str, Any]:
    """Return what checks have found, without what is too old. What another program has written counts as nothing."""
    return {name: data for name, (made_at, data) in _entries(stored).items() if abs(time.time() - made_at) < within_s}


def recent_of_connections(stored: bytes | None) -> dict[str, dict[str, Any]]:
    """Return what the checks have found lately on each connection."""
    try:
        parts = {str(alias): json.dumps(found).encode() for alias, found in json.loads(stored or b"{}").items()}
    except (AttributeError, TypeError, ValueError, RecursionError):
        return {}
    return {alias: recent_of(part) for alias, part in parts.items()}


def last_round_at(stored: bytes | None) -> float | None:
    """Return when the last round was, in seconds since the epoch; None if there was none."""
    times = (made_at for made_at, _data in _entries(stored).values())
    return max((made_at for made_at in times if 0 <= made_at < MAX_TIME), default=None)


def _entries(stored: bytes | None) -> dict[str, tuple[float, Any]]:
    try:
        return {name: (float(made_at), data) for name, (made_at, data) in json.loads(stored or b"{}").items()}
    except (AttributeError, TypeError, ValueError, RecursionError):
        return {}


def _shard_of(using: str) -> Shard:
    """Return the shard of the task queue of a connection: of that of the dashboard the one that the page shows."""
    return queue_shard() if using == conf.settings().dashboard.using else home(using)


def _part(using: str, read: Callable[[str], Flow[Any]]) -> PagePart:
    def alias() -> str:
        return using or conf.settings().dashboard.using

    return PagePart(alias, lambda: read(alias()))


def _clock_offset(server: float, started: float, finished: float) -> float:
    """Return how far the server's time lies outside of the interval in which it was read."""
    return min(server - started, 0.0) + max(server - finished, 0.0)
