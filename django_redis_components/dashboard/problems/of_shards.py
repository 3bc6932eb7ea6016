"""The problems of the shards of the task queue beside the one that is read first."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from django.utils.translation import gettext as _

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients, outages
from django_redis_components.dashboard.problems.facts import ProblemFacts, read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.incidents import IncidentState
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.taskqueue.shards import Shard, shards_of


def problems_of_others(using: str = "") -> list[Problem]:
    """Return the problems of all shards of a connection but the home shard, each with the name of its shard.

    What concerns the connection as a whole is among the problems of the home shard.
    """
    using = using or conf.settings().dashboard.using
    return [problem for shard in shards_of(using)[1:] for problem in problems_of(shard)]


def problems_of(shard: Shard) -> Iterator[Problem]:
    """Yield the problems of a shard, or that it does not answer."""
    with clients.showing(shard):
        try:
            facts = read_facts(shard.using)
            error, address = facts.errors.get("queues"), str(facts.endpoint)
        except outages.SnapshotFailed as exc:
            error, address = exc.error, exc.address
        if error is None:
            found = find_problems(_of_queues_only(facts))
        else:
            outage = outages.outage_of(error, address)
            text = f"{outage.title} {outage.address}".strip()
            found = [Problem(f"redis_{outage.code}", text, outage.advice, severity="critical")]
    for problem in found:
        yield named(problem, shard)


def named(problem: Problem, shard: Shard) -> Problem:
    """Return a problem that says which shard has it."""
    text = _("Shard %(name)s: %(problem)s") % {"name": shard.name, "problem": problem.text}
    return dataclasses.replace(problem, text=text, subject=f"{shard.name}/{problem.subject or problem.queue}")


def _of_queues_only(facts: ProblemFacts) -> ProblemFacts:
    """Return the facts without what concerns the connection as a whole."""
    return dataclasses.replace(facts, watched={}, incidents=IncidentState(), is_watched=True)
