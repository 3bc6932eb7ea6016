"""The page of schedules, formatted in the active language, and its JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core import keys
from django_redis_components.core.gather import gather_values
from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.charts import ChartPanel, Point, bar_chart
from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.elements import NO_VALUE, Cell, anchor_of, moment_cell
from django_redis_components.dashboard.flows.states import state_label
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.list_counts import FoundCount, ListCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import too_long
from django_redis_components.dashboard.schedules.calendar import runs_by_hour, times_label
from django_redis_components.dashboard.shard_reads import of_shards
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table
from django_redis_components.taskqueue.schedules.status import (
    PAGE_SIZE,
    ScheduleInfo,
    ScheduleSnapshot,
    merged_schedules,
    read_part,
)
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.due import DueCounts, merged_due, read_due

#: Hours between two labels of the chart.
LABEL_EVERY = 6


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduleQuery:
    """Which schedules the page shows: those with a part of the name, after a name."""

    part: str = ""
    after: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class SchedulePageData:
    """The schedules of all shards that the page shows, and how many scheduled tasks are due in each hour.

    Attributes:
        shards: the shard of each schedule, by name; "" if the page shows one.
    """

    query: ScheduleQuery
    found: ScheduleSnapshot
    due: DueCounts
    shards: dict[str, str]


def parse(request: PageRequest) -> ScheduleQuery:
    """Return the query of a request."""
    given = {"q": request.http.GET.get("q", "").strip(), "after": request.http.GET.get("after", "")}
    for name, value in given.items():
        if len(value) > keys.MAX_NAME_BYTES:
            raise too_long(name, keys.MAX_NAME_BYTES)
    return ScheduleQuery(given["q"], given["after"])


def read(request: PageRequest) -> Snapshot[SchedulePageData]:
    """Read the schedules, and how many scheduled tasks are due in each hour, in one round trip."""
    return read_snapshot(_read(request.query))


def _read(query: ScheduleQuery) -> Flow[SchedulePageData]:
    parts = yield from of_shards(partial(_read_shard, query))
    found = merged_schedules([found for found, _due in parts.values()])
    shown = dataclasses.replace(
        found, schedules=found.schedules[:PAGE_SIZE], has_more=found.has_more or len(found.schedules) > PAGE_SIZE
    )
    own = {id(info): shard.name for shard, (part, _due) in parts.items() for info in part.schedules}
    shards = {info.name: own[id(info)] if len(shown_shards().shards) > 1 else "" for info in shown.schedules}
    return SchedulePageData(query, shown, merged_due([due for _found, due in parts.values()]), shards)


def _read_shard(query: ScheduleQuery, shard: Shard) -> Flow[tuple[ScheduleSnapshot, DueCounts]]:
    found, due = yield from gather_values([read_part(shard, part=query.part, after=query.after), read_due(shard)])
    return found, due


def context(request: PageRequest, snapshot: Snapshot[SchedulePageData]) -> dict[str, Any]:
    """Return the context of the templates."""
    urls, found, query = request.links.verbs(), snapshot.value.found, request.query
    table = _table(found.at, urls, request.links, snapshot.value.shards).context(found.schedules)
    part = {"q": query.part} if query.part else {}
    following = urlencode({**part, "after": found.schedules[-1].name}) if found.has_more else ""
    return {
        **table,
        "panel": _panel(snapshot.value),
        "add_url": urls.get("edit", ""),
        "page_url": request.links.here,
        "query": query,
        "next": following,
        "first": urlencode(part),
        "has_search": found.total > len(found.schedules) or bool(query.part or query.after),
        "count": _count(found, query),
    }


def _count(found: ScheduleSnapshot, query: ScheduleQuery) -> ListCount | FoundCount:
    """Return which part of the schedules is on the page. Those that match are counted if one page has all of them."""
    shown, start = len(found.schedules), None if query.after else 0
    if not query.part:
        return ListCount(shown, found.total, start)
    if found.has_more:
        return ListCount(shown, None, start)
    if query.after:
        return ListCount(shown, shown, start, is_least=True)
    return FoundCount(shown, found.total, found.total)


def schedule_data(snapshot: Snapshot[SchedulePageData]) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "schedules": snapshot.value.found.schedules,
        "total": snapshot.value.found.total,
        "count": _count(snapshot.value.found, snapshot.value.query).data(),
        "due": {"first_at": snapshot.value.due.first_at, "hours": snapshot.value.due.counts},
    }


def _table(at: datetime, urls: Mapping[str, str], links: Links, shards: Mapping[str, str]) -> Table[ScheduleInfo]:
    """Return the table of schedules, with their shards if the page shows several.

    Args:
        urls: of the changes that the user may make, by verb.
        links: to the class of each task, and to the latest task.
        shards: of each schedule, by name.
    """

    def last_task(schedule: ScheduleInfo) -> Cell | None:
        outcome = schedule.last_task_state
        if not outcome:
            return None
        url = links.task(schedule.last_task_id) if schedule.last_task_id else ""
        return Cell(state_label(outcome), "alarming" if outcome == "failed" else "", url=url)

    return Table(
        [
            Column("name", _("Name"), lambda schedule: _name(schedule, links), "name"),
            Column(
                "state",
                pgettext("tasks", "State"),
                lambda schedule: Cell(
                    schedule_state(schedule), "alarming" if schedule.state == "late" else "", note=_note(schedule, at)
                ),
                "",
            ),
            Column("next", _("Next run"), lambda schedule: _next(schedule, at)),
            Column("last", _("Last enqueued"), lambda schedule: moment_cell(schedule.last_sent_at, at)),
            Column("task", _("Last task"), last_task, ""),
            Column("queue", _("Queue"), _queue, ""),
            Column("shard", _("Shard"), lambda schedule: shards[schedule.name], "", skip_empty=True),
            Column(
                "actions",
                pgettext("on a row", "Action"),
                lambda schedule: _actions(schedule, urls),
                "whole",
                has_label=False,
            ),
        ]
    )


def _name(schedule: ScheduleInfo, links: Links) -> Cell:
    return Cell(
        schedule.label,
        title=schedule.name,
        note=times_label(schedule.times),
        url=links.task_class(schedule.task),
        anchor=anchor_of("schedule", schedule.name),
    )


def _queue(schedule: ScheduleInfo) -> Cell | None:
    """Return the queue, with the options of the schedule's task."""
    notes = [f"{name} {value}" for name, value in schedule.options.items() if name != "queue_name"]
    return Cell(schedule.queue_name, note=formats.listed(notes)) if schedule.queue_name or notes else None


def schedule_state(schedule: ScheduleInfo) -> str:
    """Return the label of a schedule's state."""
    labels = {
        "on": pgettext("schedule", "on"),
        "off": pgettext("schedule", "off"),
        "paused": pgettext("schedule", "paused"),
        "late": pgettext("schedule", "overdue"),
        "finished": pgettext("schedule", "finished"),
        "gone": pgettext("schedule", "not declared"),
        "new": pgettext("schedule", "not registered"),
    }
    return labels[schedule.state]


def _note(schedule: ScheduleInfo, at: datetime) -> str:
    notes = []
    if schedule.paused_at:
        names = {
            "age": formats.age((at - schedule.paused_at).total_seconds()),
            "author": schedule.paused_by or NO_VALUE,
        }
        notes.append(_("paused %(age)s ago by %(author)s") % names)
    if schedule.is_added:
        notes.append(_("added at run time"))
    if schedule.count is not None:
        counts = {"sent": number(schedule.sent), "count": number(schedule.count)}
        notes.append(_("%(sent)s of %(count)s runs") % counts)
    if schedule.start is not None and schedule.start > at:
        notes.append(_("from %(time)s") % {"time": formats.timestamp(schedule.start, at).text})
    if schedule.end is not None:
        notes.append(_("until %(time)s") % {"time": formats.timestamp(schedule.end, at).text})
    return formats.listed(notes)


def _next(schedule: ScheduleInfo, at: datetime) -> str:
    if schedule.next_at is None:
        return NO_VALUE
    if schedule.next_at <= at:
        return _("now")
    return _("in %(age)s") % {"age": formats.age((schedule.next_at - at).total_seconds())}


def _actions(schedule: ScheduleInfo, urls: Mapping[str, str]) -> Cell | None:
    labels = {"run": _("Run now…")}
    labels |= {"resume": _("Resume…")} if schedule.state == "paused" else {"pause": _("Pause…")}
    labels |= {"edit": _("Edit…"), "remove": _("Remove…")} if schedule.is_added else {}
    query = urlencode({"name": schedule.name})
    links = [(label, f"{urls[verb]}?{query}") for verb, label in labels.items() if verb in urls]
    return Cell(title=schedule.label, links=links) if links else None


def _panel(snapshot: SchedulePageData) -> ChartPanel:
    due = snapshot.due
    runs, not_counted = runs_by_hour(snapshot.found.schedules, due.first_at, len(due.counts))
    not_shown = snapshot.found.total - len(snapshot.found.schedules)
    points = []
    for hour, counts in enumerate(zip(due.counts, runs, strict=True)):
        start = due.first_at + timedelta(hours=hour)
        clock = formats.clock_short(start)
        points.append(Point(start.isoformat(timespec="minutes"), clock, clock, sum(counts)))
    tasks, periodic = sum(due.counts), sum(runs)
    texts = [
        ngettext("%(count)s scheduled task", "%(count)s scheduled tasks", tasks) % {"count": number(tasks)},
        ngettext("%(count)s run of periodic tasks", "%(count)s runs of periodic tasks", periodic)
        % {"count": number(periodic)},
    ]
    often = ngettext(
        "%(count)s schedule that runs often is not counted.",
        "%(count)s schedules that run often are not counted.",
        not_counted,
    ) % {"count": number(not_counted)}
    others = ngettext(
        "%(count)s schedule that is not on this page is not counted.",
        "%(count)s schedules that are not on this page are not counted.",
        not_shown,
    ) % {"count": number(not_shown)}
    notes = [text for text, amount in ((often, not_counted), (others, not_shown)) if amount]
    return ChartPanel(
        id="due",
        title=_("Due in the next 24 hours"),
        header=_("Hour"),
        value_label=_("Tasks"),
        bad_label="",
        note=formats.listed(notes),
        chart=bar_chart(points, " · ".join(texts), LABEL_EVERY, is_last_open=False),
    )
