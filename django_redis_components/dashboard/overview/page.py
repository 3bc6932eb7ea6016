"""The template context of the overview, formatted in the active language."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.dashboard.formats import input_time, number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.overview.cards import cards
from django_redis_components.dashboard.overview.history import FailedUrl, history_page, with_deploys
from django_redis_components.dashboard.overview.problems import page_problems, problem_row
from django_redis_components.dashboard.overview.queue_table import MAX_TEXT, QueueQuery, queue_table
from django_redis_components.dashboard.overview.server import server_facts
from django_redis_components.dashboard.overview.shard_table import shard_table
from django_redis_components.dashboard.overview.snapshot import DEFAULT_RANGE, OverviewSnapshot, read_overview_snapshot
from django_redis_components.dashboard.overview.worker_table import worker_table
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.panels.page import permitted_panels, show_panels
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.taskqueue.stats.history import check_range
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview

#: Parameters of the page that its links keep.
_KEPT = ("queue", "queues", "range", "sort")


def parse(request: PageRequest) -> tuple[QueueQuery, str]:
    """Return which queues are shown, and the range of the history."""
    form = request.http.GET
    return QueueQuery.parse(form), check_range(form.get("range", DEFAULT_RANGE))


def read(request: PageRequest) -> OverviewSnapshot:
    """Read the parts of the page, and its panels."""
    _query, range_name = request.query
    return read_overview_snapshot(permitted_panels("overview", request.http), range_name, request.http.GET)


def context(request: PageRequest, snapshot: OverviewSnapshot) -> dict[str, Any]:
    """Return the context of the templates."""
    query, _range = request.query
    page = build_page(snapshot, request=request.http, query=query, links=request.links)
    if page["history"]:
        page["history"] = with_deploys(page["history"], snapshot.deploys or [])
    problems = sum(row.problem.count for row in page["problems"])
    return {"page": page, "parameters": _parameters(request.http.GET), "problems_count": problems}


def _parameters(query: QueryDict) -> QueryDict:
    """Return the parameters that the links of the page keep. Others could make each link as long as the request."""
    kept = QueryDict(mutable=True)
    kept.update({name: text[:MAX_TEXT] for name in _KEPT if (text := query.get(name))})
    return kept


def build_page(snapshot: OverviewSnapshot, *, request: HttpRequest, query: QueueQuery, links: Links) -> dict[str, Any]:
    """Return the page of a snapshot.

    Args:
        query: which queues are shown.
    """
    problems = page_problems(snapshot)
    alarming = [each for each in problems if not snapshot.facts.acknowledgment_of(each.problem)]
    found = [each.problem for each in alarming]
    overview, states = snapshot.queues, snapshot.states
    return {
        "headline": _headline(found, overview),
        "counts": _counts(found),
        "severity": next((each.severity for each in found), ""),  # critical ones come first
        "problems": [problem_row(each, snapshot, links) for each in alarming],
        "acknowledged": [problem_row(each, snapshot, links) for each in problems if each not in alarming],
        "is_watched": snapshot.facts.is_watched,
        "incidents_url": links.page("incident"),
        "tiles": sorted(cards(snapshot, links), key=lambda tile: tile.spark is None),  # two without fill one column
        "history": history_page(snapshot.history, _failed_url(None if states else overview, links))
        if snapshot.history
        else None,
        "query": query,
        "queues": queue_table(overview, query, links, snapshot.overviews) if overview else None,
        "has_queues": bool(overview and overview.queues),
        "workers": worker_table(overview.workers, snapshot.at, snapshot.overviews) if overview else None,
        "workers_url": links.page("worker"),
        "workers_note": _workers_note(overview) if overview else "",
        "server": server_facts(overview.server, snapshot.at) if overview and overview.server else None,
        "shards": shard_table(states, links, snapshot.at) if states else None,
        "poller": overview.poller if overview else None,
        "poller_missing": any(each.problem.code == "poller_missing" for each in problems),
        "panels": show_panels(snapshot.panels, request),
    }


def _failed_url(overview: TaskQueueOverview | None, links: Links) -> FailedUrl:
    """Return what makes the URL of the tasks that failed in a time: the list of their queue, if it is the only one.

    Args:
        overview: None if the page shows several shards. A list has the tasks of one.
    """
    failing = [queue.name for queue in overview.queues if queue.failed] if overview else []

    def url(start: datetime, end: datetime) -> str:
        span = {"begin": input_time(start), "end": input_time(end)}
        if len(failing) == 1:
            return links.queue(failing[0], state="failed", **span)
        return links.reverse("failure", **span) if links.page("failure") else ""

    return url


def _headline(problems: list[Problem], overview: TaskQueueOverview | None) -> str:
    if problems:
        return ngettext("%(count)d problem", "%(count)d problems", _count(problems)) % {"count": _count(problems)}
    if overview and not overview.queues and not overview.workers:
        return _("No problems. No tasks have been enqueued yet.")
    failed = sum(queue.failed for queue in overview.queues) if overview else 0
    if failed:
        return _("No threshold is exceeded. Failed tasks: %(count)s") % {"count": number(failed)}
    return _("No problems")


def _counts(problems: list[Problem]) -> str:
    """Return how many problems are critical, and how many are warnings."""
    critical = _count(problem for problem in problems if problem.severity == "critical")
    return _("Critical: %(critical)s · Warnings: %(warnings)s") % {
        "critical": number(critical),
        "warnings": number(_count(problems) - critical),
    }


def _count(found: Iterable[Problem]) -> int:
    return sum(problem.count for problem in found)


def _workers_note(overview: TaskQueueOverview) -> str:
    live, lost = overview.live_count, overview.worker_count - overview.live_count
    note = ngettext("%(count)s live worker", "%(count)s live workers", live) % {"count": number(live)}
    return note + (", " + ngettext("%(count)d lost", "%(count)d lost", lost) % {"count": lost} if lost else "")
