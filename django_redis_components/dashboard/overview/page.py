"""The template context of the overview, formatted in the active language."""

from __future__ import annotations

import dataclasses

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import Tile, cost_note
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.overview.cards import cards
from django_redis_components.dashboard.overview.history import HistoryPage, history_page
from django_redis_components.dashboard.overview.problem import Problem
from django_redis_components.dashboard.overview.problems import find_problems
from django_redis_components.dashboard.overview.queue_table import QueueQuery, QueueTable, queue_table
from django_redis_components.dashboard.overview.remedies import Remedy, RemedyUrls, remedies_of
from django_redis_components.dashboard.overview.server import ServerFact, server_facts
from django_redis_components.dashboard.overview.snapshot import OverviewSnapshot
from django_redis_components.dashboard.overview.worker_rows import WorkerRow, worker_rows
from django_redis_components.dashboard.panels.page import ShownPanel, show_panels
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview


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
    history: HistoryPage | None
    query: QueueQuery
    queues: QueueTable | None
    has_queues: bool
    workers: list[WorkerRow] | None
    workers_note: str
    workers_url: str
    server: list[ServerFact] | None
    poller: str | None
    poller_missing: bool
    panels: list[ShownPanel]
    read_at: Timestamp
    zone: str
    cost: str


def build_page(
    snapshot: OverviewSnapshot, *, request: HttpRequest, query: QueueQuery, urls: RemedyUrls
) -> OverviewPage:
    """Return the page of a snapshot.

    Args:
        query: which queues are shown.
        urls: of the pages and changes that problems and key figures link.
    """
    found = find_problems(snapshot)
    overview = snapshot.queues
    return OverviewPage(
        headline=_headline(found, overview),
        counts=_counts(found),
        problems=[ProblemRow(problem, remedies_of(problem, urls)) for problem in found],
        tiles=[*cards(snapshot, urls)],
        history=history_page(snapshot.history) if snapshot.history else None,
        query=query,
        queues=queue_table(overview, query) if overview else None,
        has_queues=bool(overview and overview.queues),
        workers=worker_rows(overview.workers, snapshot.at) if overview else None,
        workers_url=urls.workers,
        workers_note=_workers_note(overview) if overview else "",
        server=server_facts(overview.server, snapshot.at) if overview and overview.server else None,
        poller=overview.poller if overview else None,
        poller_missing=any(problem.code == "poller_missing" for problem in found),
        panels=show_panels(snapshot.panels, request),
        read_at=formats.timestamp(snapshot.at, snapshot.at),
        zone=formats.zone(),
        cost=cost_note(snapshot.cost, per_node=snapshot.is_cluster),
    )


def _headline(found: list[Problem], overview: TaskQueueOverview | None) -> str:
    if found:
        return ngettext("%(count)d problem", "%(count)d problems", len(found)) % {"count": len(found)}
    if overview and not overview.queues and not overview.workers:
        return _("No problems. No tasks have been enqueued yet.")
    failed = sum(queue.failed for queue in overview.queues) if overview else 0
    if failed:
        return _("No threshold is exceeded. Failed tasks: %(count)s") % {"count": number(failed)}
    return _("No problems")


def _counts(found: list[Problem]) -> str:
    """Return how many problems are critical, and how many are warnings."""
    critical = sum(problem.severity == "critical" for problem in found)
    return _("Critical: %(critical)s · Warnings: %(warnings)s") % {
        "critical": number(critical),
        "warnings": number(len(found) - critical),
    }


def _workers_note(overview: TaskQueueOverview) -> str:
    live, lost = overview.live_count, overview.worker_count - overview.live_count
    note = ngettext("%(count)s live worker", "%(count)s live workers", live) % {"count": number(live)}
    return note + (", " + ngettext("%(count)d lost", "%(count)d lost", lost) % {"count": lost} if lost else "")
