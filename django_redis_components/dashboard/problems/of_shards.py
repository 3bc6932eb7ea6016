"""The problems of the shards of the task queue beside the home shard."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from functools import partial

from django.utils.translation import gettext as _

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import outages
from django_redis_components.dashboard.problems.facts import ProblemFacts, endpoint_of, read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.incidents import IncidentState
from django_redis_components.dashboard.problems.problem import Problem, outage_problem
from django_redis_components.taskqueue.shard_clients import concurrently
from django_redis_components.taskqueue.shards import Shard, shards_of

#: Facts about a shard, or the error of one that does not answer.
FactsOrError = ProblemFacts | Exception
#: Problems of worker processes. Each is registered in all shards, so that one that is lost is lost in each.
_OF_WORKERS = ("worker_lost", "worker_silent", "threads_lost")


def read_others(using: str = "") -> dict[Shard, FactsOrError]:
    """Read the facts of all shards of a connection but the home shard, side by side; none if it has one shard."""
    using = using or conf.settings().dashboard.using
    others = shards_of(using)[1:]
    found: dict[Shard, FactsOrError] = {}
    for shard, outcome in zip(
        others, concurrently([partial(read_facts, using, shard) for shard in others]), strict=True
    ):
        if isinstance(outcome, Exception) and not isinstance(outcome, outages.SnapshotFailed):
            raise outcome
        found[shard] = error_of(outcome) or outcome
    return found


def error_of(facts: FactsOrError) -> Exception | None:
    """Return why a shard could not be read; None if it could."""
    if isinstance(facts, outages.SnapshotFailed):
        return facts.error
    return facts if isinstance(facts, Exception) else facts.errors.get("queues")


def address_of(shard: Shard) -> str:
    """Return the server of a shard, without credentials; "" if its connection is misconfigured."""
    try:
        return str(endpoint_of(shard.using, shard))
    except outages.SnapshotFailed:
        return ""


def problems_of_others(others: Mapping[Shard, FactsOrError], of_home: Collection[Problem] = ()) -> list[Problem]:
    """Return the problems of shards, each with the name of its shard; see `found_in_others`."""
    return [named(problem, shard) for shard, problem in found_in_others(others, of_home)]


def found_in_others(
    others: Mapping[Shard, FactsOrError], of_home: Collection[Problem] = ()
) -> list[tuple[Shard, Problem]]:
    """Return the problems of shards.

    What concerns the connection as a whole is among the problems of the home shard.

    Args:
        of_home: the problems of the home shard. Those of a worker process are not repeated for each shard.
    """
    known = {problem.id for problem in of_home if problem.code in _OF_WORKERS}
    found: list[tuple[Shard, Problem]] = []
    for shard, facts in others.items():
        problems = [problem for problem in problems_of(shard, facts) if problem.id not in known]
        known |= {problem.id for problem in problems if problem.code in _OF_WORKERS}
        found += [(shard, problem) for problem in problems]
    return found


def problems_of(shard: Shard, facts: FactsOrError) -> Iterator[Problem]:
    """Yield the problems of a shard, or that it does not answer."""
    error = error_of(facts)
    if error is None and isinstance(facts, ProblemFacts):
        yield from find_problems(_of_queues_only(facts))
        return
    outage = outages.outage_of(error or RuntimeError(), address_of(shard))
    text = f"{outage.title} {outage.address}".strip()
    yield outage_problem(outage, text)


def named(problem: Problem, shard: Shard) -> Problem:
    """Return a problem that says which shard has it."""
    text = _("Shard %(name)s: %(problem)s") % {"name": shard.name, "problem": problem.text}
    return dataclasses.replace(problem, text=text, subject=f"{shard.name}/{problem.subject or problem.queue}")


def _of_queues_only(facts: ProblemFacts) -> ProblemFacts:
    """Return the facts without what concerns the connection as a whole."""
    return dataclasses.replace(facts, incidents=IncidentState(), is_watched=True)
