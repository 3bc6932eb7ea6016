"""The template context of one queue's page, formatted in the active language."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.http import Http404
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import ChartPanel
from django_redis_components.dashboard.deploy_marks import marked
from django_redis_components.dashboard.elements import NO_VALUE, Tile, pause_note
from django_redis_components.dashboard.error_text import group_line
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems.problem import worker_command
from django_redis_components.dashboard.problems.queues import will_be_unserved
from django_redis_components.dashboard.queues.shard_rows import shard_rows
from django_redis_components.dashboard.queues.snapshot import QueueSnapshot, read_queue
from django_redis_components.dashboard.queues.task_list import UrlIn, state_tabs, task_list
from django_redis_components.dashboard.queues.task_query import TaskQuery, query_of
from django_redis_components.dashboard.queues.task_verbs import bulk_actions
from django_redis_components.dashboard.queues.throughput import (
    drain_time,
    hours_chart,
    minutes_chart,
    quantile_text,
    task_row,
)
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue import ErrorGroup
from django_redis_components.taskqueue.store.control import TRASH_TTL_MS, TrashEntry


def parse(request: PageRequest) -> TaskQuery:
    """Return the state, the filters and the page of the list of tasks."""
    return query_of(request.http.GET)


def read(request: PageRequest) -> Snapshot[QueueSnapshot]:
    """Read the queue. A fragment has no list of tasks.

    Raises:
        Http404: it is not known.
    """
    name, chosen = request.object_id, "state" in request.http.GET or request.query.filters.are_set
    chooses_state = not chosen and request.http.GET.get("format") != "json"
    flow = read_queue(
        name,
        request.query,
        with_list=not request.is_fragment,
        chooses_state=chooses_state,
        of_all=not request.shard_name,  # as the changes of the page
    )
    snapshot = read_snapshot(flow)
    request.query = snapshot.value.query
    if not snapshot.value.is_known:
        text = _("Queue “%(name)s” has had no task for at least a day, and no task of this process is enqueued there.")
        raise Http404(text % {"name": name})
    return snapshot


def context(request: PageRequest, snapshot: Snapshot[QueueSnapshot]) -> dict[str, Any]:
    """Return the context of the templates."""
    name, links, query = request.object_id, request.links, request.query
    urls = links.in_shard(request.shard_name).verbs(name)  # a change applies to all shards, unless the URL names one
    page = build_page(snapshot.value, url_in=_urls_in(links, snapshot.value))
    has_names = page["listing"] is not None and any(row.new_name for row in page["listing"]["rows"])
    bulk = bulk_actions(query.state, urls, is_search=query.filters.are_set, has_names=has_names)
    page["shards"] = shard_rows(snapshot.value.depth, snapshot.value.elsewhere, links)
    return {
        "page": page,
        "page_url": links.queue(name),
        "actions_url": links.actions("queues", name),
        "verbs": urls,
        "bulk": bulk,
        "row_actions": [action for action in bulk if action["row"] or action["needs_name"]],
    }


def build_page(snapshot: QueueSnapshot, *, url_in: UrlIn) -> dict[str, Any]:
    """Return the page of a snapshot.

    Args:
        url_in: returns what returns the URL of a task's page, or "", for a shard.
    """
    depth, at, using = snapshot.depth, snapshot.at, conf.settings().dashboard.using
    total, is_unserved = snapshot.total, snapshot.total.is_unserved
    return {
        "name": depth.name,
        "paused": pause_note(depth.paused, at) if depth.paused else "",
        "is_paused": depth.paused is not None,
        "worker_command": worker_command(depth.name, using=using) if is_unserved or will_be_unserved(total) else "",
        "is_unserved": is_unserved,
        "detail": {"query": snapshot.query.encoded()},  # a refresh keeps the state that was chosen
        "states": state_tabs(snapshot),
        "listing": task_list(snapshot, snapshot.listing, url_in) if snapshot.listing else None,
        "trash": [(entry, _trash_text(entry, at)) for entry in snapshot.trash],
        "throughput": [*_throughput_tiles(snapshot)],
        "figures_note": _figures_note(snapshot),
        "charts": marked(_charts(snapshot), snapshot.deploys),
        "groups": [*_group_rows(snapshot)],
        "groups_note": _groups_note(snapshot),
        "tasks": [task_row(task) for task in snapshot.minutes.tasks],
        "errors": [(group, group_line(group), _last_hour(group, at)) for group in snapshot.errors],
    }


def _urls_in(links: Links, snapshot: QueueSnapshot) -> UrlIn:
    """Return what returns the URLs of tasks in a shard: of a list of several shards each names its own."""
    return lambda shard: (links.in_shard(shard.name) if snapshot.is_of_all else links).task


def _group_rows(snapshot: QueueSnapshot) -> Iterable[dict[str, Any]]:
    for group in snapshot.groups.groups:
        yield {
            "name": group.name,
            "ready": number(group.ready),
            "oldest": NO_VALUE if group.oldest_age is None else formats.age(group.oldest_age),
            "paused": pause_note(group.paused, snapshot.at) if group.paused else "",
        }


def _groups_note(snapshot: QueueSnapshot) -> str:
    """Return how many groups are served in turn, if the page does not show all of them."""
    found = snapshot.groups
    if not found.is_partial and found.count <= sum(not group.paused for group in found.groups):
        return ""
    text = ngettext("%(count)s group is served in turn.", "%(count)s groups are served in turn.", found.count)
    shown = _("Those with most ready tasks are shown.")
    return " ".join([text % {"count": number(found.count)}, shown])


def _last_hour(group: ErrorGroup, at: datetime) -> int:
    return sum(count for minute, count in group.minutes if minute > at - timedelta(hours=1))


def _figures_note(snapshot: QueueSnapshot) -> str:
    """Return of which shards the figures are; "" if there is one."""
    if not snapshot.is_of_all:
        return ""
    names = ", ".join(snapshot.missing)
    missing = _("They do not include %(names)s.") % {"names": names} if names else ""
    text = _("Figures, charts and the list of tasks: all shards.")
    return " ".join(filter(None, [text, missing]))


def _charts(snapshot: QueueSnapshot) -> Iterable[ChartPanel]:
    minutes, hours = minutes_chart(snapshot.minutes), hours_chart(snapshot.hours)
    labels: dict[str, Any] = {
        "value_label": _("Finished"),
        "bad_label": pgettext("tasks", "Failed"),
        "note": _("Failed tasks are marked at the foot of each bar."),
    }
    yield ChartPanel("minutes", _("Throughput per minute, last hour"), _("Minute"), chart=minutes, **labels)
    yield ChartPanel("hours", _("Throughput per hour, last 24 hours"), _("Hour"), chart=hours, **labels)


def _throughput_tiles(snapshot: QueueSnapshot) -> Iterable[Tile]:
    metrics, depth = snapshot.minutes, snapshot.total
    age = depth.oldest_age
    yield Tile(_("Oldest"), NO_VALUE if age is None else formats.age(age))
    yield Tile(_("Throughput"), formats.rate(metrics.per_minute()), _("per minute, last hour"))
    for label, histogram in ((_("Wait p50"), metrics.wait_time), (_("Run time p50"), metrics.run_time)):
        quantiles = {"p95": quantile_text(histogram.p95), "p99": quantile_text(histogram.p99)}
        note = _("p95 %(p95)s, p99 %(p99)s") % quantiles if histogram.count else ""
        yield Tile(label, quantile_text(histogram.p50), note)
    yield Tile(_("ETA"), drain_time(depth, metrics))
    note = _("no live worker") if depth.is_unserved or will_be_unserved(depth) else ""
    yield Tile(_("Workers"), number(depth.live_workers), note, alarming=depth.is_unserved)


def _trash_text(entry: TrashEntry, at: datetime) -> str:
    text = ngettext(
        "%(count)s task purged or deleted %(age)s ago. It can be restored until %(time)s.",
        "%(count)s tasks purged or deleted %(age)s ago. They can be restored until %(time)s.",
        entry.count,
    )
    return text % {
        "count": number(entry.count),
        "age": formats.age((at - entry.at).total_seconds()),
        "time": formats.timestamp(entry.at + timedelta(milliseconds=TRASH_TTL_MS), at).text,
    }
