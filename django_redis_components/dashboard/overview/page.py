"""The template context of the overview, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import date

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core import conf
from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.elements import Tile, cost_note
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.overview.cards import cards
from django_redis_components.dashboard.overview.problem import Problem
from django_redis_components.dashboard.overview.problems import find_problems
from django_redis_components.dashboard.overview.queue_table import QueueQuery, QueueTable, queue_table
from django_redis_components.dashboard.overview.remedies import Remedy, RemedyUrls, remedies_of
from django_redis_components.dashboard.overview.server import ServerFact, server_facts
from django_redis_components.dashboard.overview.snapshot import DailySignIns, DailyVisitors, OverviewSnapshot
from django_redis_components.dashboard.overview.worker_rows import WorkerRow, worker_rows
from django_redis_components.taskqueue.stats.overview import TaskQueueOverview


@dataclasses.dataclass(frozen=True, slots=True)
class DailyPanel:
    """A panel with daily counts. `chart` is None if all counts are zero."""

    id: str
    name: str
    chart: charts.Chart | None
    today: str
    range_label: str
    range: str
    note: str


@dataclasses.dataclass(frozen=True, slots=True)
class ProblemRow:
    """A problem and its links."""

    problem: Problem
    remedies: list[Remedy]


@dataclasses.dataclass(frozen=True, slots=True)
class OverviewPage:
    """The content of the page. A part that could not be read is None."""

    headline: str
    counts: str
    problems: list[ProblemRow]
    tiles: list[Tile]
    query: QueueQuery
    queues: QueueTable | None
    has_queues: bool
    workers: list[WorkerRow] | None
    workers_note: str
    workers_url: str
    server: list[ServerFact] | None
    poller: str | None
    poller_missing: bool
    visitors: DailyPanel | None
    sign_ins: DailyPanel | None
    read_at: Timestamp
    zone: str
    cost: str


def build_page(snapshot: OverviewSnapshot, *, query: QueueQuery, urls: RemedyUrls) -> OverviewPage:
    """Return the page of a snapshot.

    Args:
        query: which queues are shown.
        urls: of the pages and changes that problems link.
    """
    found = find_problems(snapshot)
    overview = snapshot.queues
    return OverviewPage(
        headline=_headline(found, overview),
        counts=_counts(found),
        problems=[ProblemRow(problem, remedies_of(problem, urls)) for problem in found],
        tiles=[*cards(overview, urls.failures)] if overview else [],
        query=query,
        queues=queue_table(overview, query) if overview else None,
        has_queues=bool(overview and overview.queues),
        workers=worker_rows(overview.workers, snapshot.at) if overview else None,
        workers_url=urls.workers,
        workers_note=_workers_note(overview) if overview else "",
        server=server_facts(overview.server, snapshot.at) if overview and overview.server else None,
        poller=overview.poller if overview else None,
        poller_missing=any(problem.code == "poller_missing" for problem in found),
        visitors=_visitors(snapshot.visitors) if snapshot.visitors else None,
        sign_ins=_sign_ins(snapshot.sign_ins) if snapshot.sign_ins else None,
        read_at=formats.timestamp(snapshot.at, snapshot.at),
        zone=formats.zone(),
        cost=cost_note(snapshot.cost, per_node=snapshot.is_cluster),
    )


def _headline(found: list[Problem], overview: TaskQueueOverview | None) -> str:
    if found:
        return ngettext("%(count)d problem", "%(count)d problems", len(found)) % {"count": len(found)}
    if overview and not overview.queues and not overview.workers:
        return _("No problems. No tasks have been enqueued yet.")
    return _("No problems")


def _counts(found: list[Problem]) -> str:
    """Return how many problems are critical, and how many are warnings."""
    critical = sum(problem.severity == "critical" for problem in found)
    return _("Critical: %(critical)s · Warnings: %(warnings)s") % {
        "critical": number(critical),
        "warnings": number(len(found) - critical),
    }


def _workers_note(overview: TaskQueueOverview) -> str:
    lost = sum(1 for worker in overview.workers if not worker.is_alive)
    live = len(overview.workers) - lost
    note = ngettext("%(count)s live worker", "%(count)s live workers", live) % {"count": number(live)}
    return note + (", " + ngettext("%(count)d lost", "%(count)d lost", lost) % {"count": lost} if lost else "")


def _visitors(visitors: DailyVisitors) -> DailyPanel:
    days = {"days": len(visitors.days)}
    note = _("HyperLogLog estimates, standard error ±%(error)s.") % {"error": formats.percent(visitors.range.error)}
    if visitors.range.exact_range:
        label = _("Unique visitors, %(days)d days") % days
    else:
        label = _("Daily visitors, sum of %(days)d days") % days
        policy = _("Returning visitors count once per day: ids rotate daily (VISITOR_IDENTITY “%(policy)s”).")
        note = f"{note} {policy % {'policy': conf.settings().analytics.visitor_identity}}"
    return _daily_panel("visitors", visitors.name, visitors.days, label, int(visitors.range), note)


def _sign_ins(sign_ins: DailySignIns) -> DailyPanel:
    label = _("Sign-ins, %(days)d days") % {"days": len(sign_ins.days)}
    note = _("Each user counts once per day.")
    return _daily_panel("sign-ins", sign_ins.name, sign_ins.days, label, sum(sign_ins.days.values()), note)


def _daily_panel(panel: str, name: str, counts: Mapping[date, int], label: str, total: int, note: str) -> DailyPanel:
    zone = _("Dates are in %(zone)s.") % {"zone": formats.days_zone()}
    return DailyPanel(
        id=panel,
        name=name,
        chart=charts.daily_chart(counts) if any(counts.values()) else None,
        today=number(list(counts.values())[-1]),
        range_label=label,
        range=number(total),
        note=f"{note} {zone}",
    )
