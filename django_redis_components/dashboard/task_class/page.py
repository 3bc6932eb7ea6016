"""The template context of the page of a task class, formatted in the active language."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.http import QueryDict
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import Cell, Tile
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.queues.task_list import list_row
from django_redis_components.dashboard.queues.throughput import quantile_text
from django_redis_components.dashboard.schedules.calendar import times_label
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.dashboard.task_class import charts
from django_redis_components.dashboard.task_class.options import LIMITS, option_lines
from django_redis_components.dashboard.task_class.snapshot import (
    MINUTES_RANGE,
    SHOWN_TASKS,
    FailedTasks,
    TaskClassSnapshot,
    slowest_tasks,
)
from django_redis_components.dashboard.task_class.tables import BY_DEPLOY, BY_QUEUE, CountRow
from django_redis_components.taskqueue.stats.deploys import Deploy
from django_redis_components.taskqueue.stats.task_class import MAX_ROWS, RunCounts, TaskClass


def context(request: PageRequest, snapshot: Snapshot[TaskClassSnapshot]) -> dict[str, Any]:
    """Return the context of the templates."""
    name = request.object_id
    return {
        "page": build_page(snapshot.value, request.links),
        "page_url": request.links.task_class(name),
        "parameters": _parameters(snapshot.value),
        "verbs": request.links.verbs(name),
    }


def _parameters(snapshot: TaskClassSnapshot) -> QueryDict:
    """Return the parameters that the links of the page keep."""
    kept = QueryDict(mutable=True)
    if snapshot.range != MINUTES_RANGE:
        kept["range"] = snapshot.range
    return kept


def build_page(snapshot: TaskClassSnapshot, links: Links) -> dict[str, Any]:
    """Return the page of a snapshot."""
    task, at = snapshot.task, snapshot.at
    by_queue: list[CountRow] = [(Cell(queue, url=links.queue(queue)), counts) for queue, counts in task.by_queue]
    by_deploy = [(_deploy_cell(deploy, snapshot), counts) for deploy, counts in snapshot.by_deploy]
    history = snapshot.history
    options = option_lines(task.name)
    return {
        "name": task.name,
        "range": snapshot.range,
        "tiles": [*_tiles(snapshot.counts, snapshot.range)],
        "notes": [*_notes(task)],
        "by_queue": BY_QUEUE.context(by_queue, totals=()) if by_queue else None,
        "by_deploy": BY_DEPLOY.context(by_deploy) if by_deploy and snapshot.deploys else None,
        "ranges": charts.range_links(snapshot.range),
        "history": charts.history(history, snapshot.deploys) if history else None,
        "charts": charts.panels(task, snapshot.deploys) if history is None else charts.histograms(snapshot.counts),
        "has_versions": bool(snapshot.deploys),
        "failed": _failed_rows(snapshot.failed, snapshot, links),
        "failed_lists": [*_failed_lists(snapshot.failed, task.name, links)],
        "slowest": [
            (task.record.queue_name, list_row(task, "successful", at, links.task)) for task in slowest_tasks(snapshot)
        ],
        "slowest_note": _slowest_note(snapshot),
        "options": [each for each in options or [] if each.name not in LIMITS],
        "limits": [each for each in options or [] if each.name in LIMITS],
        "is_registered": options is not None,
        "schedules": [
            (each.label, times_label(each.times), formats.timestamp(each.next_at, at) if each.next_at else None)
            for each in snapshot.schedules
        ],
        "schedules_url": links.page("schedule"),
    }


def _tiles(counts: RunCounts, range_name: str) -> Iterator[Tile]:
    totals = counts.totals
    share = formats.percent(totals.failed / totals.finished) if totals.finished else ""
    yield Tile(_("Finished"), number(totals.finished), _range_text(range_name))
    yield Tile(pgettext("tasks", "Failed"), number(totals.failed), share, alarming=totals.failed > 0)
    yield Tile(_("Retries"), number(totals.retried))
    for label, histogram in ((_("Wait p50"), counts.wait_time), (_("Run time p50"), counts.run_time)):
        quantiles = {"p95": quantile_text(histogram.p95), "p99": quantile_text(histogram.p99)}
        yield Tile(
            label, quantile_text(histogram.p50), _("p95 %(p95)s, p99 %(p99)s") % quantiles if histogram.count else ""
        )


def _range_text(range_name: str) -> str:
    return {"3h": _("last 3 hours"), "3d": _("last 3 days"), "7d": _("last 7 days")}[range_name]


def _notes(task: TaskClass) -> Iterator[str]:
    """Yield what the counts leave out."""
    if task.more_queues:
        text = ngettext(
            "Read: %(most)s queues. %(count)s more queue ran it.",
            "Read: %(most)s queues. %(count)s more queues ran it.",
            task.more_queues,
        )
        yield text % {"most": number(MAX_ROWS), "count": number(task.more_queues)}
    if task.uncounted_queues:
        text = ngettext(
            "%(count)s queue has more than 30 task names an hour. Runs of this name there may not be counted.",
            "%(count)s queues have more than 30 task names an hour. Runs of this name there may not be counted.",
            task.uncounted_queues,
        )
        yield text % {"count": number(task.uncounted_queues)}


def _deploy_cell(deploy: Deploy | None, snapshot: TaskClassSnapshot) -> Cell:
    if deploy is None:
        return Cell(_("before the first known version"))
    since = _("since %(time)s") % {"time": formats.timestamp(deploy.at, snapshot.at).text}
    return Cell(deploy.version, note=since)


def _failed_rows(failed: Iterable[FailedTasks], snapshot: TaskClassSnapshot, links: Links) -> list[Any]:
    """Return the newest failed tasks of all queues that were looked at."""
    tasks = [task for each in failed for task in each.tasks]
    newest = sorted(tasks, key=lambda task: time_of(task.record, "finished_at") or snapshot.at, reverse=True)
    return [list_row(task, "failed", snapshot.at, links.task) for task in newest[:SHOWN_TASKS]]


def _slowest_note(snapshot: TaskClassSnapshot) -> str:
    """Return of how many runs the slowest are shown."""
    count, scanned = (sum(getattr(part, name) for part in snapshot.slowest) for name in ("matched", "scanned"))
    text = ngettext(
        "Of the newest %(count)s run that succeeded (succeeded tasks scanned: %(scanned)s).",
        "Of the newest %(count)s runs that succeeded (succeeded tasks scanned: %(scanned)s).",
        count,
    )
    return text % {"count": number(count), "scanned": number(scanned)}


def _failed_lists(failed: Iterable[FailedTasks], name: str, links: Links) -> Iterator[tuple[str, str, str]]:
    """Yield queue, URL of its failed tasks of the class, and how far it was looked if not through all."""
    for each in failed:
        if each.tasks or each.scanned < each.total:
            part = {"scanned": number(each.scanned), "total": number(each.total)}
            scanned = _("%(scanned)s of %(total)s failed tasks scanned") % part if each.scanned < each.total else ""
            page = links.queue(each.queue)
            query = urlencode({"state": "failed", "name": name})
            yield each.queue, f"{page}?{query}" if page else "", scanned
