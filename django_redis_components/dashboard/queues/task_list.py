"""The tabs and the list of a queue's tasks, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.core.settings import conf
from django_redis_components.core.text import has_part
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.arguments import arguments_text
from django_redis_components.dashboard.elements import NO_VALUE, Link, TaskLine
from django_redis_components.dashboard.error_text import masked_error
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.list_counts import FoundCount, ListCount
from django_redis_components.dashboard.queues.listing import BY_DUE_TIME, TaskListing, time_of
from django_redis_components.dashboard.queues.new_names import new_names
from django_redis_components.dashboard.queues.snapshot import QueueSnapshot
from django_redis_components.dashboard.queues.task_query import FILTERS, PAGE_SIZE, TaskQuery
from django_redis_components.dashboard.side_filter import FilterGroup, FoundCounts, filter_group, version_names
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.defaults import options_to_show
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.shards import Shard
from django_redis_components.taskqueue.stats.deploys import Deploy
from django_redis_components.taskqueue.stats.workers import host_of
from django_redis_components.taskqueue.store.finished import FINISHED
from django_redis_components.taskqueue.store.scan import MAX_MESSAGE, STATES, ScannedTask

#: Characters of the text of an error in the list.
MAX_ERROR = 160

#: States of tasks that a worker runs or has run.
RUN_STATES = ("running", "retrying", "failed", "successful")

#: Returns the URL of a task's page, or "".
TaskUrl = Callable[[str], str]
#: The same of the tasks in a shard.
UrlIn = Callable[[Shard], TaskUrl]


@dataclasses.dataclass(frozen=True, slots=True)
class StateTab:
    """A link to the tasks in a state."""

    label: str
    query: str
    count: str
    is_current: bool
    is_alarming: bool
    note: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class TaskRow:
    """A task in the list.

    Attributes:
        moment: until it is due, since it runs, or since it failed or finished.
        duration: of the run of a finished task.
        error_class, error_text: of the last error, or "".
        version: of the code that runs it, or has run it last, or "".
        new_name: under which an unregistered task can run, or "".
        shard: name of its shard if the list is of several, or "".
    """

    task: TaskLine
    moment: str
    duration: str
    attempts: str
    error_class: str
    error_text: str
    version: str = ""
    new_name: str = ""
    shard: str = ""


def state_tabs(snapshot: QueueSnapshot) -> list[StateTab]:
    """Return the tabs of all states."""
    labels = state_labels()
    notes = {
        "limited": _("Limited tasks are ready or scheduled, too."),
        "retrying": _("Retrying tasks are scheduled, too."),
    }
    tabs = []
    for state in STATES:
        count = snapshot.finished[state] if state in FINISHED else getattr(snapshot.total, state)
        tabs.append(
            StateTab(
                label=labels[state],
                query=f"state={state}",
                count=_newest(count) if state in FINISHED else number(count),
                is_current=state == snapshot.query.state,
                is_alarming=state in ("failed", "unregistered") and count > 0,
                note=notes.get(state, ""),
            )
        )
    return tabs


def _newest(count: int) -> str:
    """Return the number of listed tasks; there were more if the list is full."""
    is_full = count and count >= conf.settings().taskqueue.keep_finished
    return _("%(count)s newest") % {"count": number(count)} if is_full else number(count)


def task_list(snapshot: QueueSnapshot, listing: TaskListing, url_in: UrlIn) -> dict[str, Any]:
    """Return the list of a snapshot. The times of a task are compared with the clock of the server that it is on."""
    query, state = snapshot.query, snapshot.query.state
    is_by_time = state in BY_DUE_TIME
    is_first_only = listing.is_search or listing.is_merged
    newer = query.encoded(cursor=listing.first, direction="before") if listing.first else ""
    if is_first_only:
        newer = query.encoded(cursor="", direction="") if query.cursor else ""
    older = query.encoded(cursor=listing.last, direction="after") if listing.has_more else ""
    names = new_names(listing.tasks) if state == "unregistered" else {}
    return {
        "state": state,
        "state_label": state_labels()[state],
        "rows": [
            dataclasses.replace(
                list_row(task, state, listing.lists[shard].at, url_in(shard)),
                new_name=names.get(task.record.id, ""),
                shard=shard.name if listing.is_merged else "",
            )
            for shard, task in listing.rows
        ],
        "has_shards": listing.is_merged,
        "moment_label": _moment_labels().get(state, ""),
        "has_durations": state == "successful",
        "has_errors": state in ("failed", "retrying"),
        "empty": _empty_text(listing),
        "count": count_of(listing),
        "newer": newer,
        "older": older,
        "newer_label": _("Back to the first") if is_first_only else _("Earlier") if is_by_time else _("Newer"),
        "older_label": _("Continue scan") if listing.is_search else _("Later") if is_by_time else _("Older"),
        "is_search": listing.is_search,
        "presets": _presets(query, snapshot.deploys),
        "fields": {name: getattr(query, name) for name in ("state", *FILTERS)},
        "time_help": _time_help(state),
        "side": _side_filters(snapshot),
        "hidden": {name: value for name in ("version", "host") if (value := getattr(query, name))},
    }


def _side_filters(snapshot: QueueSnapshot) -> list[FilterGroup]:
    """Return the filters beside the list. Tasks that no worker has run have neither version nor host."""
    query, queue = snapshot.query, snapshot.depth.name
    counts = found_counts(snapshot.listing.tasks, is_whole=is_whole_list(snapshot.listing)) if snapshot.listing else {}

    def group(slug: str, title: str, values: Iterable[str]) -> FilterGroup | None:
        def query_of(value: str) -> str:
            return query.encoded(**{slug: value, "cursor": ""})

        return filter_group(slug, title, values, getattr(query, slug), query_of, counts=counts.get(slug))

    known = [task.name for task in registry.all_tasks() if options_to_show(task).queue_name == queue]
    listed = sorted({task.record.name for task in snapshot.listing.tasks}) if snapshot.listing else []
    names = [*(task.name for task in snapshot.minutes.tasks), *listed, *sorted(known)]
    has_workers = query.state in RUN_STATES
    groups = [
        group("name", _("task name"), names),
        group("version", pgettext("of the code", "version"), version_names(snapshot.deploys) if has_workers else ()),
        group("host", pgettext("of a worker", "host"), snapshot.hosts if has_workers else ()),
    ]
    return [each for each in groups if each is not None]


def is_whole_list(listing: TaskListing) -> bool:
    """Return whether a page has all tasks of the list, or all that match."""
    return not listing.start and not listing.has_more


def found_counts(tasks: Sequence[ScannedTask], *, is_whole: bool) -> dict[str, FoundCounts]:
    """Return how many tasks on a page have each name, of which a filter is a part, each version and each host."""
    versions = [task.version for task in tasks]
    hosts = [host_of(ids[-1]) if (ids := workers_of(task.record)) else "" for task in tasks]
    return {
        "name": FoundCounts([task.record.name for task in tasks], is_whole, has_part),
        "version": FoundCounts(versions, is_whole and all(versions)),  # "" is not known
        "host": FoundCounts(hosts, is_whole and all(hosts)),
    }


def _presets(query: TaskQuery, deploys: Sequence[Deploy]) -> list[Link]:
    """Return links that set a bound of the time, and keep the other filters. The minute of a deploy counts for it."""
    if query.state in ("scheduled", "retrying"):
        name, labels = "within", {"15m": _("Next 15 minutes"), "1h": _("Next hour"), "midnight": _("Until midnight")}
    else:
        name, labels = "since", {"15m": _("Last 15 minutes"), "1h": _("Last hour"), "midnight": _("Since midnight")}
    rest = query.encoded(begin="", end="", cursor="")
    presets = [Link(label, f"{rest}&{name}={value}") for value, label in labels.items()]
    if deploys and query.state in ("failed", "unregistered", *FINISHED):
        begin = formats.input_time(deploys[-1].at)
        presets.append(Link(_("Since deploy"), query.encoded(begin=begin, end="", cursor="")))
    return presets


def _time_help(state: str) -> str:
    """Return what the bounds of the time are compared with."""
    if state in ("failed", "unregistered"):
        return _("Time of the failure, or of the fetch of an unregistered task")
    if state in FINISHED:
        return _("Time at which the task finished")
    return _("Time of the next run") if state in ("scheduled", "retrying") else _("Time at which the task was enqueued")


def task_line(task: ScannedTask, at: datetime, url_of: TaskUrl) -> TaskLine:
    """Return a task with masked arguments."""
    record, arguments = task.record, ""
    if task.size > MAX_MESSAGE:
        arguments = _("%(size)s KiB") % {"size": number(task.size // 1_024)}
    else:
        arguments = arguments_text(record)
        if task.is_clipped and not arguments.endswith("…"):
            arguments = f"{arguments}, …" if arguments else "…"
    return TaskLine(record.id, record.name, url_of(record.id), arguments, _since(time_of(record, "enqueued_at"), at))


def list_row(task: ScannedTask, state: str, at: datetime, url_of: TaskUrl) -> TaskRow:
    """Return the row of a task."""
    record, attempts, line = task.record, attempts_of(task.record), task_line(task, at, url_of)
    if line.url and state in FINISHED:  # if its record has expired, its page looks in the list of this queue first
        line = dataclasses.replace(line, url=f"{line.url}?{urlencode({'queue': record.queue_name})}")
    moments: dict[str, Callable[[], str]] = {
        "scheduled": lambda: _until(time_of(record, "run_after"), at),
        "retrying": lambda: _until(time_of(record, "run_after"), at),
        "running": lambda: _since(time_of(record, "last_attempted_at"), at),
        **dict.fromkeys(("failed", *FINISHED), lambda: _since(time_of(record, "finished_at"), at)),
    }
    return TaskRow(
        task=line,
        moment=moments[state]() if state in moments else "",
        duration=NO_VALUE if task.duration is None else formats.duration(task.duration),
        attempts=NO_VALUE if attempts is None else number(attempts),
        error_class=task.error_class.removeprefix("builtins."),
        error_text=_cut(masked_error(task.error_text), MAX_ERROR),
        version=task.version,
    )


def state_labels() -> dict[str, str]:
    """Return the labels of the states."""
    return {
        "ready": pgettext("tasks", "Ready"),
        "scheduled": pgettext("tasks", "Scheduled"),
        "retrying": pgettext("tasks", "Retrying"),
        "limited": pgettext("tasks", "Limited"),
        "waiting": pgettext("tasks", "Waiting"),
        "running": pgettext("tasks", "Running"),
        "failed": pgettext("tasks", "Failed"),
        "unregistered": pgettext("tasks", "Unregistered"),
        "successful": pgettext("tasks", "Succeeded"),
        "cancelled": pgettext("tasks", "Cancelled"),
        "expired": pgettext("tasks", "Expired"),
    }


def _moment_labels() -> dict[str, str]:
    due = _("Due in")
    finished = dict.fromkeys(FINISHED, _("Finished ago"))
    return {"scheduled": due, "retrying": due, "running": _("Running for"), "failed": _("Failed ago"), **finished}


def attempts_of(record: TaskRecord[Any]) -> int | None:
    """Return how many attempts a task has used; None if the record is corrupt."""
    try:
        return record.attempts
    except ValueError:
        return None


def workers_of(record: TaskRecord[Any]) -> list[str]:
    """Return the workers that ran the task; none if the record is corrupt."""
    try:
        return record.worker_ids
    except ValueError:
        return []


def _since(then: datetime | None, at: datetime) -> str:
    return NO_VALUE if then is None else formats.age((at - then).total_seconds())


def _until(then: datetime | None, at: datetime) -> str:
    if then is None:
        return NO_VALUE
    return formats.age((then - at).total_seconds()) if then > at else _("now")


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _empty_text(listing: TaskListing) -> str:
    if listing.tasks:
        return ""
    if listing.is_search:
        return _("No task among the scanned ones matches.")
    return _("No tasks in this state.")


def count_of(listing: TaskListing) -> ListCount | FoundCount:
    """Return how far a search has looked, and what it found there; else which part of the list is shown."""
    if listing.is_search:
        return FoundCount(len(listing.tasks), listing.scanned, listing.total, listing.start)
    return ListCount(listing.scanned, listing.total, listing.start)


def sample(tasks: Iterable[ScannedTask], at: datetime, url_of: TaskUrl) -> list[TaskLine]:
    """Return the first ten tasks."""
    return [task_line(task, at, url_of) for task in tasks][: PAGE_SIZE // 5]
