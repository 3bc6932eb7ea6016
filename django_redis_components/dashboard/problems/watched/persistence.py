"""Persistence: whether the server writes snapshots. INFO does not say it, and a page may not read the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.utils.translation import gettext as _

from django_redis_components.core.protocol import Batch, Command, Flow
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.server import started_empty
from django_redis_components.dashboard.problems.watched.check import WatchedCheck


def read(facts: ProblemFacts) -> Flow[str | None]:
    """Return the option ``save``: "" without snapshots, None if the Redis user may not read it."""
    request = Command("CONFIG", "GET", "save", key=facts.shard.base, retry=True)
    [reply] = yield Batch([request], return_exceptions=True)
    return reply[1].decode() if isinstance(reply, list) and len(reply) == 2 else None


def find(saves: Any, facts: ProblemFacts) -> Iterator[Problem]:
    """Yield a problem if nothing is written to disk. It is critical once there are queues: a new site loses nothing."""
    if saves == "" and facts.queues is not None and facts.queues.server.get("aof_enabled") == "0":
        text = _("Redis stores nothing on disk: a restart of the server deletes all tasks.")
        text = " ".join(filter(None, [started_empty(facts.queues, facts.watched), text]))
        advice = _("Turn the append-only file on, in the server’s configuration file as well:")
        severity = "critical" if facts.queues.queues else "warning"
        yield Problem("no_persistence", text, advice, "redis-cli CONFIG SET appendonly yes", severity)


CHECK = WatchedCheck("persistence", read, find, is_of_server=True, is_of_shard=True)
