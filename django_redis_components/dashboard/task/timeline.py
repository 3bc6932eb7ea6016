"""The runs of a task on a common axis of time."""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.formats import Timestamp, number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.task.reasons import has_expired_lease
from django_redis_components.taskqueue.record import TaskRun
from django_redis_components.taskqueue.states import Outcome
from django_redis_components.taskqueue.stats.explain import Explanation, moment

#: Runs that are shown, the latest.
MAX_RUNS = 20
#: Least width of a run, in percent of the axis.
LEAST_WIDTH = 0.8


@dataclasses.dataclass(frozen=True, slots=True)
class RunRow:
    """A run. Positions are percentages of the axis, as SVG attributes.

    Attributes:
        kind: CSS class of the outcome: ok, bad, lost or open.
        label: text alternative of the bar.
        worker_url: of the page of workers, where a worker that reports is the first one; "" for others.
        version: of the site's code; "" if unknown.
        wait_x, wait_width: the time before the run, since the task was enqueued or the run before ended.
    """

    number: str
    outcome: str
    kind: str
    worker: str
    worker_url: str
    host: str
    version: str
    started: Timestamp
    finished: Timestamp | None
    duration: str
    label: str
    x: str
    width: str
    wait_x: str
    wait_width: str


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """The runs, and the ends of their axis. `hidden` says how many earlier runs are not shown."""

    rows: list[RunRow]
    first: str
    last: str
    hidden: str


def runs_of(task: Explanation) -> list[TaskRun]:
    """Return the runs of a task; none if its record is corrupt."""
    try:
        return list(task.record.timeline)
    except (ValueError, TypeError, OverflowError, OSError):
        return []


def _run_count(task: Explanation) -> int:
    try:
        return task.record.runs
    except ValueError:
        return 0


def host_of(worker_id: str) -> str:
    """Return the host of a worker: its id begins with it."""
    return worker_id.rpartition(":")[0]


def timeline(task: Explanation, links: Links) -> Timeline | None:
    """Return the timeline of a task; None if it has not run."""
    runs = runs_of(task)
    listed, hidden = runs[-MAX_RUNS:], len(runs[:-MAX_RUNS])
    if not listed:
        return None
    enqueued = time_of(task.record, "enqueued_at")
    before = runs[-MAX_RUNS - 1].finished_at if hidden else enqueued
    first = min(listed[0].started_at, before or listed[0].started_at)
    last = max((run.finished_at or task.at for run in listed), default=task.at)
    axis = _Axis(first, max((last - first).total_seconds(), 0.001))
    total = max(_run_count(task), len(runs))
    urls = {worker.id: _worker_url(worker.supervisor, links) for worker in task.workers}
    rows = []
    for index, run in enumerate(listed):
        count = total - len(listed) + index + 1
        row = _row(run, count, before or run.started_at, task.at, axis, _outcome(run, task))
        version = task.versions.get(run.worker_id, "")
        rows.append(dataclasses.replace(row, worker_url=urls.get(run.worker_id, ""), version=version))
        before = run.finished_at
    clocks = [formats.timestamp(each, task.at).text for each in (first, last)]
    return Timeline(rows, first=clocks[0], last=clocks[1], hidden=_hidden_note(hidden) if hidden else "")


def _hidden_note(count: int) -> str:
    text = ngettext("%(count)s earlier run is not shown.", "%(count)s earlier runs are not shown.", count)
    return text % {"count": number(count)}


def _worker_url(supervisor: str, links: Links) -> str:
    """Return the URL of the page of workers that begins with those of a supervisor."""
    page = links.page("worker")
    return f"{page}?{urlencode({'after': supervisor})}" if page else ""


@dataclasses.dataclass(frozen=True, slots=True)
class _Axis:
    first: datetime
    seconds: float

    def share(self, at: datetime) -> float:
        """Return the position of a time in percent, within the axis."""
        return min(100.0, max(0.0, (at - self.first).total_seconds() / self.seconds * 100))


def _row(
    run: TaskRun, count: int, before: datetime, now: datetime, axis: _Axis, outcome_and_kind: tuple[str, str]
) -> RunRow:
    end = run.finished_at or now
    start_x, end_x, wait_x = axis.share(run.started_at), axis.share(end), axis.share(before)
    width = max(LEAST_WIDTH, end_x - start_x)
    outcome, kind = outcome_and_kind
    duration = formats.duration((end - run.started_at).total_seconds())
    started = formats.timestamp(run.started_at, now)
    names = {"number": number(count), "outcome": outcome, "duration": duration, "time": started.text}
    return RunRow(
        number=number(count),
        outcome=outcome,
        kind=kind,
        worker=run.worker_id or NO_VALUE,
        worker_url="",
        host=host_of(run.worker_id),
        version="",
        started=started,
        finished=formats.timestamp(run.finished_at, now) if run.finished_at else None,
        duration=duration,
        label=_("Run %(number)s: %(outcome)s after %(duration)s, started at %(time)s") % names,
        x=f"{min(start_x, 100 - width):.2f}%",
        width=f"{width:.2f}%",
        wait_x=f"{wait_x:.2f}%",
        wait_width=f"{max(0.0, start_x - wait_x):.2f}%",
    )


def _outcome(run: TaskRun, task: Explanation) -> tuple[str, str]:
    """Return the label and the kind of a run's outcome. Nothing is known of a run after the end of its lease."""
    if run.outcome == "running" and has_expired_lease(task):
        ended = moment(task.fact("score_ms"))
        time = formats.timestamp(ended, task.at).text if ended else NO_VALUE
        return _("Lease ended at %(time)s") % {"time": time}, "lost"
    return outcome_of(run.outcome)


def outcome_of(name: str) -> tuple[str, str]:
    """Return the label and the kind of an outcome by its name, as it is stored."""
    labels: dict[str, tuple[str, str]] = {
        Outcome.succeeded: (Outcome.succeeded.label, "ok"),
        Outcome.failed: (Outcome.failed.label, "bad"),
        Outcome.retried: (Outcome.retried.label, "bad"),
        Outcome.delayed: (Outcome.delayed.label, "open"),
        Outcome.interrupted: (Outcome.interrupted.label, "open"),
        Outcome.cancelled: (Outcome.cancelled.label, "lost"),
        Outcome.unregistered: (Outcome.unregistered.label, "lost"),
        Outcome.recovered: (Outcome.recovered.label, "lost"),
        "running": (pgettext("a run", "Running"), "open"),
    }
    return labels.get(name, (name, "lost"))
