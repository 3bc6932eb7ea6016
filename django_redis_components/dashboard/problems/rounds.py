"""A round of the active watching process: check, store, compare with the incidents, announce."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.conf import settings as django_settings
from django.utils import translation
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, Read, SyncClientProtocol
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.outages import SnapshotFailed, outage_of
from django_redis_components.dashboard.problems import keyspace, notifications
from django_redis_components.dashboard.problems.deliveries import deliver
from django_redis_components.dashboard.problems.facts import (
    FACTS_S,
    ProblemFacts,
    is_starting,
    read_facts,
    recent_of,
)
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.held import HeldData
from django_redis_components.dashboard.problems.incidents import (
    Announcement,
    Incident,
    IncidentState,
    advance,
    record_deliveries,
)
from django_redis_components.dashboard.problems.of_connections import time_of, watch_connections
from django_redis_components.dashboard.problems.of_shards import FactsOrError, problems_of_others, read_others
from django_redis_components.dashboard.problems.problem import Problem, outage_problem
from django_redis_components.dashboard.problems.storage import change_state
from django_redis_components.dashboard.problems.watched import CHECKS
from django_redis_components.dashboard.problems.watched.data_loss import held_data
from django_redis_components.dashboard.problems.watched.reading import read_checks
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, home

#: What each shard held, by its name; None: it is not known.
Remembered = dict[str, HeldData | None]
#: Seconds after which an announcement that a process has claimed is delivered by another one.
CLAIMED_S = 120.0
#: Problems that end when all processes of a site have started.
STARTING_CODES = ("no_worker", "poller_missing")
#: Seconds for which a round starts deliveries; the next round makes the others. Less than the lease and `CLAIMED_S`.
DELIVERY_S = 20.0


def watch(using: str, remembered: Remembered, keep_lease: Callable[[], bool]) -> Remembered:
    """Watch a connection once; return what it holds.

    Args:
        remembered: what each of its shards held, as far as this process knows.
        keep_lease: renews the lease of this process; returns whether it has it. Another process has announced meanwhile
            what this one has found, if it took the lease during a round that was slow.

    Raises:
        redis.exceptions.RedisError, RedisComponentsError: Redis is unavailable.
    """
    client, now = connections.client(using), time.time()
    facts = _facts(using)
    found = read_checks(client, _continued(facts))
    held = {facts.shard.name: _remember(facts, remembered.get(facts.shard.name), found)}
    _store(facts.shard, found, now)
    facts = watch_connections(dataclasses.replace(facts, watched=found))
    others = {shard: _watched(shard, each, remembered, held, now) for shard, each in read_others(using).items()}
    with translation.override(django_settings.LANGUAGE_CODE):
        problems = find_problems(facts)
        problems += problems_of_others(others, problems)
    problems = _without_late_processes(problems, facts)
    if keep_lease():
        # By the server's clock, which all processes of the site share: another one may continue with another clock.
        _announce(problems, using, facts.at.timestamp())
    return held


def _continued(facts: ProblemFacts) -> ProblemFacts:
    """Return facts with what the checks found before an outage, if they have found nothing lately.

    Those that each connection has continue with it, such as the growth of the memory; see `of_connections`.
    """
    if facts.watched:
        return facts
    key = keyspace.key(keyspace.of_shard("facts", facts.shard), facts.using)
    before = recent_of(connections.client(facts.using).execute(Read("GET", key)), FACTS_S)
    kept = {check.name: before[check.name] for check in CHECKS if check.is_of_connection and check.name in before}
    return dataclasses.replace(facts, watched=kept)


def _without_late_processes(problems: list[Problem], facts: ProblemFacts) -> list[Problem]:
    """Return the problems of which incidents are opened: while the site starts, some processes start after others.

    Pages show them at once.
    """
    late = [each for each in problems if each.code in STARTING_CODES and facts.incident_of(each) is None]
    key = keyspace.key("starting", facts.using)
    if not late or not is_starting(connections.client(facts.using).execute(Read("GET", key))):
        return problems
    return [each for each in problems if each not in late]


def outage_incident(error: Exception, using: str, since: float) -> Incident:
    """Announce that Redis is away, without Redis; return the incident."""
    outage = outage_of(error, str(connections.endpoint(using)))
    problem = outage_problem(outage, outage.title)
    state, _ = advance(IncidentState(), [problem], since, channels=notifications.channel_names())
    for announcement in state.pending:
        deliver(announcement)
    return state.incidents[problem.id]


def end_outage(incident: Incident, using: str) -> None:
    """Announce that Redis is back, and store the incident, by the server's clock, with those that are resolved.

    Raises:
        redis.exceptions.RedisError, RedisComponentsError: it is away again.
    """
    now = time.time()
    over = dataclasses.replace(incident, resolved_at=now, seen_at=now)
    deliver(Announcement("resolved", over, tuple(notifications.channel_names()), now))
    ahead_s = time_of(connections.client(using), using).timestamp() - time.time()
    times = {name: getattr(over, name) + ahead_s for name in ("started_at", "seen_at", "resolved_at")}
    change_state(lambda state: (state, [dataclasses.replace(over, **times)]), using)


def _watched(shard: Shard, facts: FactsOrError, remembered: Remembered, held: Remembered, now: float) -> FactsOrError:
    """Return the facts of a further shard with what its checks have found, which is stored on the connection."""
    held[shard.name] = remembered.get(shard.name)
    if not isinstance(facts, ProblemFacts):
        return facts
    try:
        found = read_checks(prompt_client(shard), facts, of_shard=True)
        held[shard.name] = _remember(facts, remembered.get(shard.name), found)
    except RedisError as exc:
        return exc
    _store(shard, found, now)
    return dataclasses.replace(facts, watched=found)


def _store(shard: Shard, found: Mapping[str, Any], now: float) -> None:
    """Store what the checks have found in a shard."""
    stored = json.dumps({name: [now, data] for name, data in found.items()}, separators=(",", ":"))
    key = keyspace.key(keyspace.of_shard("facts", shard), shard.using)
    connections.client(shard.using).execute(Command("SET", key, stored, "EX", FACTS_S, retry=True))


def _facts(using: str) -> ProblemFacts:
    try:
        return read_facts(using)
    except SnapshotFailed as exc:
        raise exc.error from exc


def _remember(facts: ProblemFacts, remembered: HeldData | None, found: dict[str, Any]) -> HeldData | None:
    """Compare what the server holds with what it held at the last round, and store what it holds."""
    if facts.queues is None:
        return remembered
    key = keyspace.key(keyspace.of_shard("held", facts.shard), facts.using)
    is_home = facts.shard == home(facts.using)
    client = connections.client(facts.using) if is_home else prompt_client(facts.shard)
    stored = client.execute(Read("GET", key))
    is_lost = stored is None and remembered is not None  # not if another version has written what is stored
    before = HeldData.parse(stored) or remembered
    memory, stats = found.get("memory"), _command_stats(client, key) if is_lost else b""
    held = held_data(facts.queues, before, is_lost=is_lost, memory=memory, command_stats=stats)
    found["data_loss"] = held.loss
    client.execute(Command("SET", key, held.encode(), retry=True))
    return held


def _command_stats(client: SyncClientProtocol, key: str) -> bytes:
    """Return how often the server was sent each command since its start; empty if it may not be read."""
    [reply] = client.execute_many([Command("INFO", "commandstats", key=key, retry=True)])
    return reply if isinstance(reply, bytes) else b""


def _announce(problems: Sequence[Problem], using: str, now: float) -> None:
    """Compare the problems with the incidents, and deliver the announcements."""
    settings, names = conf.settings().notifications, notifications.channel_names()

    def change(state: IncidentState) -> tuple[IncidentState, list[Incident]]:
        after, resolved = advance(state, problems, now, channels=names, least=settings.severity)
        return dataclasses.replace(after, pending=tuple(_claimed(each, now) for each in after.pending)), resolved

    state = change_state(change, using)
    claimed = [each for each in state.pending if each.claimed_at == now]
    if claimed:
        _store_left(*_deliver_all(claimed, now), now, using)


def _deliver_all(claimed: Sequence[Announcement], now: float) -> tuple[list[Announcement], dict[str, str]]:
    """Deliver announcements. Those for which no time is left are not claimed.

    Returns:
        Each with what is left of it, and the last error of each channel, "" once it has delivered.
    """
    ends_at, left = time.monotonic() + DELIVERY_S, []
    errors: dict[str, str] = {}
    for each in claimed:
        if time.monotonic() < ends_at:
            rest, outcome = deliver(each, now)
            left.append(rest)
            errors |= outcome
        else:
            left.append(dataclasses.replace(each, claimed_at=0.0))
    return left, errors


def _store_left(left: Sequence[Announcement], errors: Mapping[str, str], claimed_at: float, using: str) -> None:
    """Replace announcements by what is left of them, unless another process has claimed them meanwhile."""
    by_key = {each.key: each for each in left}

    def change(state: IncidentState) -> tuple[IncidentState, list[Incident]]:
        pending = [by_key.get(each.key, each) if each.claimed_at == claimed_at else each for each in state.pending]
        after = dataclasses.replace(state, pending=tuple(each for each in pending if each.channels))
        return record_deliveries(after, errors, claimed_at), []

    change_state(change, using)


def _claimed(announcement: Announcement, now: float) -> Announcement:
    """Return an announcement that this process delivers, unless another one is about to."""
    is_claimed = now - announcement.claimed_at < CLAIMED_S
    return announcement if is_claimed else dataclasses.replace(announcement, claimed_at=now)
