"""The template context of the page of failures, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.settings import conf
from django_redis_components.core.units import moment_of, moment_of_ms
from django_redis_components.dashboard import charts, formats
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.deploy_marks import marked, time_after_deploy
from django_redis_components.dashboard.error_text import error_line, group_line, masked_error
from django_redis_components.dashboard.failures.snapshot import (
    TASKS,
    FailureGroup,
    FailureQuery,
    FailureSnapshot,
    query_of,
    read_failures,
)
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.queues.task_list import TaskRow, TaskUrl, list_row
from django_redis_components.dashboard.queues.task_query import parse_time
from django_redis_components.dashboard.queues.throughput import (
    MINUTES_PER_LABEL,
    SPARK_HEIGHT,
    SPARK_WIDTH,
    spark_path,
)
from django_redis_components.dashboard.side_filter import FilterGroup, KnownCounts, filter_group
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.taskqueue import ErrorSample
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats import fingerprint
from django_redis_components.taskqueue.stats.errors import MAX_ERRORS, MAX_QUEUES, MINUTES

#: Seconds since the last failure for which an error is ongoing.
ONGOING_S = 300.0
#: Most task names, and queues, that are listed.
MAX_NAMES = 10


def parse(request: PageRequest) -> FailureQuery:
    """Return the query of a request."""
    return query_of(request.http.GET)


def read(request: PageRequest) -> Snapshot[FailureSnapshot]:
    """Read the errors, and the failed tasks of one, which a fragment does not show."""
    flow = read_failures(request.query, with_tasks=not request.is_fragment)
    return read_snapshot(flow, counts_of=lambda snapshot: snapshot.counts)


def url_of(request: PageRequest) -> str:
    """Return the URL of an error in detail."""
    known = fingerprint.PATTERN.fullmatch(request.object_id)
    return request.links.error(request.object_id) if known else request.links.here


def context(request: PageRequest, snapshot: Snapshot[FailureSnapshot]) -> dict[str, Any]:
    """Return the context of the templates."""
    return {"page": build_page(snapshot.value, request.links), "verbs": request.links.verbs()}


def build_page(snapshot: FailureSnapshot, links: Links) -> dict[str, Any]:
    """Return the page of a snapshot."""
    selected = snapshot.selected
    gone = ""
    if snapshot.query.group and selected is None:
        gone = _("This error is not kept any more, or not in this queue.")
    return {
        "headline": _headline(snapshot),
        "count": count_of(snapshot),
        "query": snapshot.query,
        "side": _side_filters(snapshot),
        "rows": [_row(failure, snapshot) for failure in snapshot.failures],
        "notes": _notes(snapshot),
        "detail": _detail(selected, snapshot, links) if selected else None,
        "gone": gone,
        "span": _span_note(snapshot.query),
        "empty": _empty_text(snapshot.query),
    }


def group_query(fingerprint: str, query: FailureQuery) -> str:
    """Return the query string of a group, within the queue and the time of a query."""
    values = {"group": fingerprint, **query.filters}
    return urlencode({name: value for name, value in values.items() if value})


def kind_of(failure: FailureGroup) -> str:
    """Return the class of the exception, without the module of built-in ones."""
    return failure.exception


def line_of(failure: FailureGroup) -> str:
    """Return the message of the newest task in one line, masked."""
    sample = failure.sample
    return error_line(sample.message) if sample else group_line(failure.newest)


def _headline(snapshot: FailureSnapshot) -> str:
    errors = len(snapshot.failures)
    queue = snapshot.query.queue
    failed = snapshot.counts.by_queue.get(queue, 0) if queue else snapshot.counts.failed
    is_cut = snapshot.counts.is_partial and not queue
    texts = [
        ngettext("%(count)s error", "%(count)s errors", errors)
        % {"count": _at_least(errors, snapshot.total > snapshot.shown or is_cut)},
        ngettext("%(count)s failed task", "%(count)s failed tasks", failed) % {"count": _at_least(failed, is_cut)},
    ]
    return " · ".join(texts)


def count_of(snapshot: FailureSnapshot) -> ListCount:
    """Return how many errors are listed. Errors of groups that are not read are not counted."""
    shown = len(snapshot.failures)
    return ListCount(shown, None if snapshot.total > snapshot.shown else shown)


def _at_least(count: int, is_least: bool) -> str:
    return f"≥ {number(count)}" if is_least else number(count)


def _side_filters(snapshot: FailureSnapshot) -> list[FilterGroup]:
    """Return the filters of the list: queues with their failed tasks, and exceptions with their errors."""
    query = snapshot.query
    queues = snapshot.counts.by_queue
    failing = sorted(queues, key=lambda name: -queues[name])
    failing += [part.queue for failure in snapshot.failures for part in failure.parts]  # whose tasks were retried since

    def group(slug: str, title: str, values: Iterable[str], counts: Mapping[str, int]) -> FilterGroup | None:
        return filter_group(
            slug, title, values, getattr(query, slug), partial(_narrowed, query, slug), counts=KnownCounts(counts)
        )

    times = {"15m": _("Last 15 minutes"), "1h": _("Last hour"), "midnight": _("Since midnight")}
    groups = [
        filter_group("since", _("time"), times, query.since, partial(_narrowed, query, "since"), times),
        group("queue", _("queue"), failing, queues),
        group("exception", _("exception"), snapshot.exceptions, snapshot.exceptions),
    ]
    return [each for each in groups if each is not None]


def _narrowed(query: FailureQuery, slug: str, value: str) -> str:
    """Return the query string that narrows the list.

    Another time keeps the error in detail: its tasks of that time are those that can be retried. In the list of another
    queue or exception it may not be.
    """
    kept = {"group": query.group, "begin": "", "end": ""} if slug == "since" else {}
    values = {**query.filters, **kept, slug: value}
    return urlencode({name: each for name, each in values.items() if each})


def _notes(snapshot: FailureSnapshot) -> list[str]:
    """Return what the counts leave out."""
    kept = _("Retried attempts count, too. A queue keeps its %(most)s newest errors, each for %(age)s.")
    notes = [kept % {"most": number(MAX_ERRORS), "age": _kept_for()}]
    if snapshot.total > snapshot.shown:
        text = _("Only the newest %(shown)s of %(total)s errors of queues are listed and counted.")
        notes.append(text % {"shown": number(snapshot.shown), "total": number(snapshot.total)})
    if snapshot.counts.is_partial and not snapshot.query.queue:
        notes.append(_("Only the first %(count)s queues are read.") % {"count": number(MAX_QUEUES)})
    return notes


def _span_note(query: FailureQuery) -> str:
    """Return which time the errors are of; "" for all."""
    begin, end = (parse_time(value) for value in (query.begin, query.end))
    if begin is None or end is None:
        return ""
    return _("Errors that failed from %(begin)s to %(end)s.") % {
        "begin": formats.day_and_clock(moment_of_ms(begin)),
        "end": formats.day_and_clock(moment_of_ms(end)),
    }


def _empty_text(query: FailureQuery) -> str:
    if any(query.filters.values()):
        return _("No error matches the filter.")
    return _("No failures. Errors are kept for %(age)s after their last failure.") % {"age": _kept_for()}


def _kept_for() -> str:
    return formats.age(conf.settings().taskqueue.failed_ttl_s)


def _row(failure: FailureGroup, snapshot: FailureSnapshot) -> dict[str, Any]:
    newest, selected, at = failure.newest, snapshot.selected, snapshot.at
    queue = _queue_text(newest.queue, failure.shards[0])
    if len(failure.parts) > 1:
        queue = _("%(queue)s and %(count)s more") % {"queue": queue, "count": number(len(failure.parts) - 1)}
    texts = [
        queue,
        _("since %(time)s") % {"time": formats.timestamp(failure.first_at, at).text},
        _("%(age)s ago") % {"age": _age(newest.last_at, at)},
    ]
    return {
        "kind": kind_of(failure),
        "message": line_of(failure),
        "where": " · ".join(texts),
        "count": number(failure.count),
        "spark": _sparkline(failure, at),
        "query": group_query(newest.fingerprint, snapshot.query),
        "is_current": selected is not None and selected.newest.fingerprint == newest.fingerprint,
    }


def _detail(failure: FailureGroup, snapshot: FailureSnapshot, links: Links) -> dict[str, Any]:
    newest, sample, at = failure.newest, failure.sample, snapshot.at
    scans = snapshot.tasks.values()
    matched = sum(scan.matched for scan in scans)
    tasks = _tasks(snapshot, links.task)
    is_whole = bool(scans) and len(scans) == len(failure.parts) and not any(scan.has_more for scan in scans)
    return {
        "fingerprint": newest.fingerprint,
        "kind": kind_of(failure),
        "message": line_of(failure),
        "is_ongoing": (at - newest.last_at).total_seconds() < ONGOING_S,
        "location": newest.location,
        "first": formats.timestamp(failure.first_at, at),
        "after_deploy": time_after_deploy(failure.first_at, snapshot.deploys),
        "last": formats.timestamp(newest.last_at, at),
        "last_age": _("%(age)s ago") % {"age": _age(newest.last_at, at)},
        "failures": _("%(count)s, final: %(final)s") % {"count": number(failure.count), "final": number(failure.final)},
        "queues": _queues(failure),
        "panel": next(iter(marked(filter(None, [_panel(failure, at, links)]), snapshot.deploys)), None),
        "sample": _masked(sample) if sample else None,
        "sample_url": links.task(sample.task_id) if sample else "",
        "task_count": ListCount(min(len(tasks), matched), matched, is_least=not is_whole),
        "tasks": [(row, links.task(row.task.id, "retry")) for row in tasks],
        "shards": ", ".join(dict.fromkeys(shard.name for shard in failure.shards)) if _has_shards() else "",
        "in_queues": [_in_queue(shard, name, newest.fingerprint, snapshot, links) for shard, name in snapshot.tasks],
        "not_scanned": _not_scanned(failure, snapshot),
        "names": _names(snapshot),
        "has_tasks": matched > 0 or not is_whole,
        "count": number(matched) if is_whole else "",
        "query": group_query(newest.fingerprint, snapshot.query),
    }


def _masked(sample: ErrorSample) -> ErrorSample:
    """Return the error of the newest task, as it was raised; masked by the site."""
    return dataclasses.replace(sample, message=masked_error(sample.message), traceback=masked_error(sample.traceback))


def _tasks(snapshot: FailureSnapshot, url_of: TaskUrl) -> list[TaskRow]:
    """Return the newest failed tasks of all queues."""
    found = [task for scan in snapshot.tasks.values() for task in scan.tasks]
    found.sort(key=lambda task: time_of(task.record, "finished_at") or moment_of(0), reverse=True)
    return [list_row(task, "failed", snapshot.at, url_of) for task in found[:TASKS]]


def _has_shards() -> bool:
    """Return whether the page shows several shards, and so names them."""
    return len(shown_shards().shards) > 1


def _queue_text(queue: str, shard: Shard) -> str:
    """Return the name of a queue, with that of its shard if the page shows several."""
    return _("%(queue)s (shard %(name)s)") % {"queue": queue, "name": shard.name} if _has_shards() else queue


def _in_queue(
    shard: Shard, name: str, group: str, snapshot: FailureSnapshot, links: Links
) -> tuple[str, str, str, str]:
    """Return a queue with the URL of its page, filtered by the error, its failed tasks, and how many were scanned."""
    scan = snapshot.tasks[shard, name]
    if _has_shards():
        links = links.in_shard(shard.name)
    scanned = ""
    if scan.has_more:
        scanned = _("scanned %(scanned)s of %(total)s failed tasks") % {
            "scanned": number(scan.scanned),
            "total": number(scan.total),
        }
    url = links.queue(name, state="failed", error=group, **snapshot.query.span)
    return _queue_text(name, shard), url, _at_least(scan.matched, scan.has_more), scanned


def _queues(failure: FailureGroup) -> str:
    """Return the queues with the failures of each, the newest first."""
    named = [f"{_queue_text(part.queue, shard)} {number(part.count)}" for shard, part in failure.located[:MAX_NAMES]]
    return ", ".join([*named, *(["…"] if len(failure.parts) > MAX_NAMES else [])])


def _not_scanned(failure: FailureGroup, snapshot: FailureSnapshot) -> str:
    rest = len(failure.parts) - len(snapshot.tasks)
    text = ngettext("Not counted: %(count)s more queue.", "Not counted: %(count)s more queues.", rest)
    return text % {"count": number(rest)} if rest else ""


def _names(snapshot: FailureSnapshot) -> list[tuple[str, str]]:
    """Return the most frequent task names with the failed tasks of each."""
    counts: dict[str, int] = {}
    for scan in snapshot.tasks.values():
        for name, (count, _oldest) in scan.names.items():
            counts[name] = counts.get(name, 0) + count
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [(name, number(count)) for name, count in ordered[:MAX_NAMES]]


def _minutes(failure: FailureGroup, at: datetime) -> dict[datetime, int]:
    """Return the failures of each minute of the last hour."""
    counted, last = failure.minutes, at.replace(second=0, microsecond=0)
    minutes = [last - timedelta(minutes=ago) for ago in range(MINUTES - 1, -1, -1)]
    return {minute: counted.get(minute, 0) for minute in minutes}


def _finding(values: dict[datetime, int]) -> str:
    peak = max(values, key=lambda minute: values[minute])
    if not values[peak]:
        return _("No failures in the last hour.")
    return _("Peak: %(peak)s (%(time)s) · In the last hour: %(count)s") % {
        "peak": number(values[peak]),
        "time": formats.clock_short(peak),
        "count": number(sum(values.values())),
    }


def _sparkline(failure: FailureGroup, at: datetime) -> charts.Sparkline:
    values = _minutes(failure, at)
    path = spark_path([*values.values()], max(*values.values(), 1))
    return charts.Sparkline(f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}", "", path, _finding(values))


def _panel(failure: FailureGroup, at: datetime, links: Links) -> charts.ChartPanel | None:
    values = _minutes(failure, at)
    if not any(values.values()):
        return None
    points = [
        charts.Point(
            minute.isoformat(timespec="minutes"), clock, clock, count, count, _minute_url(failure, minute, count, links)
        )
        for minute, count in values.items()
        for clock in [formats.clock_short(minute)]
    ]
    return charts.ChartPanel(
        id="error",
        title=_("Failures per minute, last hour"),
        header=_("Minute"),
        value_label=_("Failures"),
        bad_label="",
        note=_("Failures per minute, last hour"),
        chart=charts.bar_chart(points, _finding(values), MINUTES_PER_LABEL),
    )


def _minute_url(failure: FailureGroup, minute: datetime, count: int, links: Links) -> str:
    """Return the URL of the tasks that failed with an error in a minute, if all of them are in one queue."""
    if not count or len(failure.parts) > 1:
        return ""
    begin, end = formats.input_time(minute), formats.input_time(minute + timedelta(minutes=1))
    newest = failure.newest
    if _has_shards():
        links = links.in_shard(failure.shards[0].name)
    return links.queue(newest.queue, state="failed", error=newest.fingerprint, begin=begin, end=end)


def _age(then: datetime, at: datetime) -> str:
    return formats.age((at - then).total_seconds())
