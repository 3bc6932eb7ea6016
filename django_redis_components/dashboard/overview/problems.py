"""The problems that the overview lists: those of the site, and the parts of the page that could not be read."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.deploy_marks import time_after_deploy
from django_redis_components.dashboard.formats import Timestamp
from django_redis_components.dashboard.incidents.page import acknowledgment_note, moment
from django_redis_components.dashboard.json_data import fields_of
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.overview.remedies import Remedy, causes_of, remedies_of, retries_of
from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.finding import find_problems, unread_part
from django_redis_components.dashboard.problems.of_connections import source_of
from django_redis_components.dashboard.problems.of_shards import found_in_others, named, problems_of
from django_redis_components.dashboard.problems.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class ProblemRow:
    """A problem as the overview shows it.

    Attributes:
        since: when it started, as far as the site was watched; None if it was not. By the clock of its shard's server.
        after_deploy: how long after a deploy the main error of a failing queue was first seen, or "".
        note: its acknowledgment, or "".
        remedies: links to its cause and to what remedies it, the acknowledgment last.
        retries: of each error that is a cause, if there are several; their labels are the errors.
    """

    problem: Problem
    since: Timestamp | None
    after_deploy: str
    note: str
    remedies: list[Remedy]
    retries: list[Remedy]


@dataclasses.dataclass(frozen=True, slots=True)
class FoundProblem:
    """A problem of a shard.

    Attributes:
        problem: as it is shown, with the name of the shard if it is not the home shard.
        source: as it was found in the facts.
        shard: that its links name, or "".
    """

    problem: Problem
    source: Problem
    facts: ProblemFacts
    shard: str = ""


def page_problems(snapshot: OverviewSnapshot) -> list[FoundProblem]:
    """Return the problems, critical ones first, in the active language."""
    facts = snapshot.facts
    at_home = _problems_at_home(snapshot)
    home = facts.shard.name if snapshot.others else ""
    found = [FoundProblem(problem, problem, facts, home) for problem in at_home]
    if not snapshot.others:
        return found
    for shard, problem in found_in_others(snapshot.others, at_home):
        found.append(FoundProblem(named(problem, shard), problem, snapshot.others[shard], shard.name))
    return sorted(found, key=lambda each: each.problem.severity != "critical")


def _problems_at_home(snapshot: OverviewSnapshot) -> list[Problem]:
    parts = {"history": _("history"), "visitors": _("visitors"), "sign_ins": _("sign-ins"), "deploys": _("deploys")}
    unread = [
        unread_part(parts[name], error, snapshot.address, subject=name) for name, error in snapshot.errors.items()
    ]
    home = snapshot.facts.shard
    if snapshot.others and snapshot.facts.queues is None:
        return [*unread, *(named(problem, home) for problem in problems_of(home, snapshot.facts))]
    return [*unread, *find_problems(snapshot.facts)]


def problem_row(found: FoundProblem, snapshot: OverviewSnapshot, links: Links) -> ProblemRow:
    """Return the row of a problem."""
    facts, problem, errors = snapshot.facts, found.problem, causes_of(found.source, found.facts)
    source, facts_of_source = source_of(found.source, found.facts)
    links_of_shard = links.in_shard(found.shard) if found.shard else links
    incident, held = facts.incident_of(problem), facts.acknowledgment_of(problem)
    verb, label = ("withdraw", _("Withdraw…")) if held else ("acknowledge", pgettext("a problem", "Acknowledge…"))
    url = links.verb(verb, "incident", problem=problem.id)
    return ProblemRow(
        problem,
        _since(incident.started_at, found.facts, facts.at) if incident else None,
        time_after_deploy(errors[0].first_at, snapshot.deploys or []) if errors else "",
        acknowledgment_note(held, facts.at) if held else "",
        [*remedies_of(source, facts_of_source, links_of_shard), *([Remedy(label, url)] if url else [])],
        retries_of(found.source, errors, links_of_shard),
    )


def _since(started_at: float, facts: ProblemFacts | Exception, at: datetime) -> Timestamp:
    """Format the start of a problem by the clock of the server whose times its text has, if the clocks differ.

    Args:
        started_at: by the clock of the dashboard's connection.
        facts: of the shard that has the problem; an error if it does not answer.
        at: the time of the dashboard's connection.
    """
    start = moment(started_at)
    if isinstance(facts, ProblemFacts):
        ahead = facts.at - at
        if abs(ahead.total_seconds()) > conf.settings().dashboard.clock_offset_s:  # else the time of the reads differs
            return formats.timestamp(start + ahead, facts.at)
    return formats.timestamp(start, at)


def problem_data(problem: Problem, facts: ProblemFacts) -> dict[str, Any]:
    """Return a problem as JSON data."""
    incident, held = facts.incident_of(problem), facts.acknowledgment_of(problem)
    return {
        **fields_of(problem),
        "id": problem.id,
        "started_at": moment(incident.started_at) if incident else None,
        "acknowledged": fields_of(held) if held else None,
    }
