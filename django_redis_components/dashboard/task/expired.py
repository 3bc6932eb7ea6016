"""The page of a finished task whose record has expired: what the list of finished tasks still knows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard import formats, json_data, responses
from django_redis_components.dashboard.arguments import argument_lines
from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.queues.task_list import attempts_of, state_labels
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.record import TaskRecord
from django_redis_components.taskqueue.store.finished import FinishedRow

_TIMES = ("enqueued_at", "started_at", "last_attempted_at", "finished_at")


def respond(request: PageRequest, snapshot: Snapshot[FinishedRow]) -> HttpResponse:
    """Respond with the row of a task, as a page or as JSON."""
    row = snapshot.value
    record: TaskRecord[Any] = TaskRecord(row.name, row.id, row.fields, [])
    lines = _lines(record)
    if request.http.GET.get("format") == "json":
        data = {"finished": _data(row, record, lines)}
        return JsonResponse(json_data.page_data(snapshot, data), json_data.JSONEncoder)
    context = {
        "title": _("Task %(id)s") % {"id": row.id},
        "is_subpage": True,
        "id": row.id,
        "name": row.name,
        "state": state_labels()[record.state],
        "queue": record.queue_name,
        "queue_url": request.links.queue(record.queue_name),
        "facts": [(label, text) for label, text in _facts(row, record, snapshot.at) if text],
        "arguments": lines,
        "is_clipped": row.is_clipped,
    }
    return responses.page_response(request, "task/expired.html", context)


def _lines(record: TaskRecord[Any]) -> list[str] | None:
    """Return the masked arguments; None if they are not readable."""
    try:
        return argument_lines(record)
    except Exception:  # noqa: BLE001 - the site's codec may raise anything
        return None


def _data(row: FinishedRow, record: TaskRecord[Any], lines: list[str] | None) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "queue": record.queue_name,
        "state": record.state,
        "attempts": attempts_of(record),
        "duration_s": row.duration,
        "worker_ids": record.worker_ids,
        **{name: time_of(record, name) for name in _TIMES},
        "arguments": lines,
        "are_arguments_clipped": row.is_clipped,
    }


def _facts(row: FinishedRow, record: TaskRecord[Any], at: datetime) -> Iterator[tuple[str, str]]:
    moments = {name: time_of(record, name) for name in _TIMES}
    attempts = attempts_of(record)
    yield _("Enqueued"), _ago(moments["enqueued_at"], at)
    if moments["started_at"] != moments["last_attempted_at"]:
        yield _("First started"), _ago(moments["started_at"], at)
    yield pgettext("a time", "Started"), _ago(moments["last_attempted_at"], at)
    yield pgettext("a time", "Finished"), _ago(moments["finished_at"], at)
    yield _("Run time"), "" if row.duration is None else formats.duration(row.duration)
    yield _("Attempts"), NO_VALUE if attempts is None else number(attempts)
    yield _("Worker"), row.fields.get(Field.worker_ids, b"").decode()


def _ago(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return ""
    try:
        time = formats.timestamp(moment, now).text
    except OverflowError:  # the year 9999 has no local time east of Greenwich
        time = moment.isoformat(" ", "seconds")
    return _("%(time)s, %(age)s ago") % {"time": time, "age": formats.age((now - moment).total_seconds())}
