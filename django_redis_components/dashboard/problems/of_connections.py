"""What the components on further connections do: the settings of a component, or its objects, may name another alias.

The active watching process makes the checks of components there, too, and stores what it has found on the connection of
the dashboard, so that a page reads one server.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.exceptions import ConfigurationError, RedisComponentsError
from django_redis_components.core.protocol import Command, Flow, Read, run
from django_redis_components.core.settings import conf
from django_redis_components.core.units import moment_of
from django_redis_components.dashboard import outages
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import FACTS_S, ProblemFacts, facts_of_connection
from django_redis_components.dashboard.problems.problem import Problem, outage_problem
from django_redis_components.dashboard.problems.watched.reading import read_checks
from django_redis_components.taskqueue.shard_clients import concurrently
from django_redis_components.taskqueue.shards import shards_of

#: Most connections that are watched beside that of the dashboard.
MAX_CONNECTIONS = 8
#: Most seconds by which the clock of one of them may differ.
MAX_AHEAD_S = 10 * 365 * 86_400.0
#: Seconds for which the round waits for a request of one of them.
TIMEOUT_S = 2.0
#: The name under which the outage of a connection is stored, beside those of the checks.
_OUTAGE = "outage"
#: The same of what the checks found before an outage: they continue with it, such as the growth of the memory.
_BEFORE = "before_outage"
#: The same of the seconds by which its server's clock is ahead of that of the dashboard's connection.
_AHEAD = "ahead_s"


def further_connections(using: str, limit: int | None = MAX_CONNECTIONS) -> list[str]:
    """Return the aliases of the databases beside that of a connection, if it is that of the dashboard; else none.

    A connection that is misconfigured is left out: the system checks report it.

    Args:
        limit: how many at most; None: all.
    """
    settings = conf.settings()
    if using != settings.dashboard.using:
        return []
    known, found = [connections.endpoint(using)], []
    for alias in settings.connections:
        try:
            endpoint = connections.endpoint(alias)
        except ConfigurationError:
            continue
        if not any(endpoint.same_database(each) for each in known):
            known.append(endpoint)
            found.append(alias)
    return found[:limit]


def watch_connections(facts: ProblemFacts) -> ProblemFacts:
    """Make the checks of components on the further connections, store what they find, and return facts with it.

    Raises:
        redis.exceptions.RedisError: the connection of the dashboard is unavailable.
    """
    aliases, now = further_connections(facts.using), time.time()
    if not aliases:
        return facts
    before = {alias: _before_outage(found) for alias, found in facts.connections.items()}
    at_home = time_of(connections.client(facts.using), facts.using)
    outcomes = concurrently([partial(_watched, alias, before.get(alias, {}), at_home) for alias in aliases])
    found = {
        alias: {_OUTAGE: _outage(outcome), _BEFORE: before.get(alias, {})}
        if isinstance(outcome, Exception)
        else outcome
        for alias, outcome in zip(aliases, outcomes, strict=True)
    }
    stored = json.dumps(
        {alias: {name: [now, data] for name, data in each.items()} for alias, each in found.items()},
        separators=(",", ":"),
    )
    key = keyspace.key("connections", facts.using)
    connections.client(facts.using).execute(Command("SET", key, stored, "EX", FACTS_S, retry=True))
    return dataclasses.replace(facts, connections=found)


def source_of(problem: Problem, facts: ProblemFacts) -> tuple[Problem, ProblemFacts]:
    """Return a problem as it was found, and the facts of its connection, from what `found_in_connections` yields."""
    for alias, found in facts.connections.items():
        if problem.subject.startswith(f"{alias}/") and problem.text.startswith(_text(alias, "")):
            subject = problem.subject.removeprefix(f"{alias}/")
            return dataclasses.replace(problem, subject=subject), there(alias, found, facts.at)
    return problem, facts


def there(alias: str, found: Mapping[str, Any], at: datetime) -> ProblemFacts:
    """Return the facts of a further connection, at the time of its server: so are the times that the checks have found.

    Args:
        at: the time of the server of the dashboard's connection.
    """
    ahead_s = found.get(_AHEAD)
    if not isinstance(ahead_s, int | float) or not abs(ahead_s) < MAX_AHEAD_S:  # another program may have written it
        ahead_s = 0.0
    return facts_of_connection(alias, found, at + timedelta(seconds=ahead_s))


def named(problem: Problem, alias: str) -> Problem:
    """Return a problem that says which connection has it."""
    return dataclasses.replace(problem, text=_text(alias, problem.text), subject=f"{alias}/{problem.subject}")


def time_of(client: SyncClient, alias: str) -> datetime:
    """Return the time of the server of a connection."""
    seconds, micros = run(client, _time(alias))
    return moment_of(int(seconds) * 1_000_000 + int(micros))


def outage_of_connection(found: Mapping[str, Any], alias: str, using: str) -> Iterator[Problem]:
    """Yield the outage of a connection. That of a shard of the task queue is reported as such."""
    stored = found.get(_OUTAGE)
    if stored and alias not in {shard.alias for shard in shards_of(using)}:
        outage = outages.outage_named(stored["code"], str(connections.endpoint(alias)))
        yield outage_problem(outage, f"{outage.title} {outage.address}")


def _text(alias: str, problem: str) -> str:
    return _("Connection %(alias)s: %(problem)s") % {"alias": alias, "problem": problem}


def _watched(alias: str, before: Mapping[str, Any], at_home: datetime) -> dict[str, Any] | Exception:
    """Return what the checks find on a connection, or why it could not be read."""
    started = time.monotonic()
    try:
        client = connections.client_with_timeout(alias, TIMEOUT_S, 0)
        at = time_of(client, alias)
        ahead = at - at_home - timedelta(seconds=time.monotonic() - started)
        found = read_checks(client, facts_of_connection(alias, before, at), of_connection=True)
        return {**found, _AHEAD: ahead.total_seconds()}
    except (RedisError, RedisComponentsError) as exc:
        return exc


def _before_outage(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the checks found when they could last be made."""
    kept = found.get(_BEFORE, found)
    return kept if isinstance(kept, Mapping) else {}


def _time(alias: str) -> Flow[Any]:
    return (yield Read("TIME", key=keyspace.key("facts", alias)))


def _outage(error: Exception) -> dict[str, str]:
    return {"code": outages.outage_of(error, "").code}
