"""The template context of one task's page, formatted in the active language."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, TypeVar

from django.http import Http404, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.core.protocol import Flow
from django_redis_components.dashboard import formats, responses
from django_redis_components.dashboard.arguments import argument_lines, masked_text
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.elements import NO_VALUE
from django_redis_components.dashboard.error_text import masked_error
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.listing import time_of
from django_redis_components.dashboard.queues.task_list import TaskUrl, attempts_of, state_labels
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.task import expired, reasons
from django_redis_components.dashboard.task.changes import applies
from django_redis_components.dashboard.task.origin import origin_of
from django_redis_components.dashboard.task.timeline import timeline
from django_redis_components.dashboard.task.usual import is_hanging, overlong_text, usual_text
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.failure import TaskError
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.json_codec import pack
from django_redis_components.taskqueue.stats.explain import (
    MAX_ID,
    Explanation,
    OtherTask,
    explain,
    limit_key,
    number_of,
)
from django_redis_components.taskqueue.store.finished import find_finished

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """A label and its value. `url`: of the object that the value names. `is_code`: monospaced."""

    label: str
    value: str
    url: str = ""
    is_code: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Meter:
    """A share of a whole: text, and the width of its bar."""

    text: str
    width: str


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A limit or a key: its title, state, and the tasks that hold it."""

    title: str
    text: str
    tasks: list[tuple[OtherTask, str, str]]
    meter: Meter | None = None


def read(request: PageRequest) -> Snapshot[Explanation]:
    """Read the task in one round trip. Without its record, read what a list of finished tasks knows, for `missing`.

    Raises:
        Http404: no task has this id, or its result has expired.
    """
    snapshot = read_snapshot(_read(request.object_id, request.http.GET.get("queue", "")[:MAX_ID]))
    if isinstance(snapshot.value, Explanation):
        return snapshot
    request.query = snapshot
    raise Http404(str(TaskResultDoesNotExist(request.object_id)))


def _read(task_id: str, queue: str) -> Flow[Any]:
    try:
        return (yield from explain(queue_shard(), task_id))
    except TaskResultDoesNotExist:
        return (yield from find_finished(queue_shard(), task_id, queue))


def jump(request: PageRequest) -> HttpResponse:
    """Redirect to the page of the task whose id the form has; without an id to the overview."""
    task_id = request.http.GET.get("id", "").strip()
    if not task_id:
        return HttpResponseRedirect(request.links.reverse("overview"))
    if len(task_id) > MAX_ID:
        request.object_id = f"{task_id[:MAX_ID]}…"
        return missing(request)
    return HttpResponseRedirect(request.links.task(task_id))


def missing(request: PageRequest) -> HttpResponse:
    """Respond with what a list of finished tasks still knows, or with 404 and what may have happened to the task."""
    response: HttpResponse
    task_id = request.object_id
    if request.query is not None and request.query.value is not None:
        return expired.respond(request, request.query)
    if request.http.GET.get("format") == "json":
        response = JsonResponse({"error": {"code": "no_task", "id": task_id}})
    else:
        context = {"title": _("No task %(id)s") % {"id": task_id}, "is_subpage": True, "id": task_id}
        response = responses.page_response(request, "task/missing.html", context)
    response.status_code = 404
    return response


def context(request: PageRequest, snapshot: Snapshot[Explanation]) -> dict[str, Any]:
    """Return the context of the templates."""
    task, links = snapshot.value, request.links
    urls = links.verbs(task.record.id)
    verbs = {name: url for name, url in urls.items() if applies(request.page.verb_views[name][0], task)}
    return {"page": build_page(task, verbs, links)}


def build_page(task: Explanation, verbs: dict[str, str], links: Links) -> dict[str, Any]:
    """Return the page of a task.

    Args:
        verbs: URLs of the changes that apply to the task and that the user may make, by name.
    """
    errors = errors_of(task)
    lines, note = _arguments(task)
    rest = task.fact("errors") - len(errors)
    more = ngettext("%(count)s earlier error is not shown.", "%(count)s earlier errors are not shown.", rest)
    limits: list[Limit] = guarded(lambda: [*_limits(task, links.task)], [])
    return {
        "id": task.record.id,
        "name": task.record.name,
        "state": state_label(task.state),
        "kind": _kind(task),
        "verbs": verbs,
        "answer": reasons.answer(task),
        "conditions": reasons.conditions(task),
        "usual": usual_text(task.run_time),
        "overlong": overlong_text(task),
        "timeline": guarded(lambda: timeline(task, links), None),
        "errors": errors[::-1],
        "more_errors": more % {"count": number(rest)} if rest > 0 else "",
        "arguments": lines,
        "can_show_arguments": bool(lines) or guarded(lambda: task.record.is_sealed, False),
        "arguments_note": note,
        "facts": [fact for fact in _facts(task, links) if fact.value],
        "progress": _progress(task),
        "limits": limits,
        "flow": _flow(task, links.task, links.flow),
    }


def state_label(state: str) -> str:
    """Return the label of a state."""
    return state_labels().get(state, state)


def guarded(read: Callable[[], T], default: T) -> T:
    """Return a value of the record, or the default if another client wrote it, or the site's codec refuses it."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - the site's codec may raise anything
        return default


def errors_of(task: Explanation) -> list[TaskError]:
    """Return the errors that were read, oldest first, masked by the site; none if one is corrupt."""
    found: list[TaskError] = guarded(lambda: task.record.errors, [])
    parts = [part for error in found for part in (error.exception_class_path, error.message, error.traceback)]
    if not all(isinstance(part, str) for part in parts):
        return []
    return [
        dataclasses.replace(error, message=masked_error(error.message), traceback=masked_error(error.traceback))
        for error in found
    ]


def result_of(task: Explanation) -> str:
    """Return the return value as masked JSON; "" if the task has not succeeded."""
    if task.state != "successful":
        return ""
    if Field.return_value in task.sizes:
        return _size(task.sizes[Field.return_value])
    return guarded(lambda: masked_text(pack(task.record.return_value)), "")


def metadata_of(task: Explanation) -> str:
    """Return the metadata as masked JSON; "" without any."""
    found: dict[str, Any] = guarded(lambda: task.record.metadata, {})
    return guarded(lambda: masked_text(found), "") if found else ""


def cursor_text(task: Explanation) -> str:
    """Return the item after which the next run of the task continues, masked; "" without one, and after a success."""
    cursor = guarded(lambda: task.record.cursor, None)
    if cursor is None or cursor.after is None or task.state == "successful":
        return ""
    if cursor.key is None:
        return guarded(lambda: _("item %(number)s") % {"number": number(int(cursor.after or 0))}, "")
    return guarded(lambda: masked_text({cursor.key: cursor.after}), "")


def _kind(task: Explanation) -> str:
    if task.state == "failed" or any(each.code in ("unknown", "no_worker", "unregistered") for each in task.reasons):
        return "bad"
    if is_hanging(task) or reasons.has_expired_lease(task):
        return "caution"
    return "ok" if task.state in ("successful", "running") else ""


def _arguments(task: Explanation) -> tuple[list[str], str]:
    if Field.body in task.sizes:
        return [], _("The arguments are not shown: they have %(size)s.") % {"size": _size(task.sizes[Field.body])}
    lines = guarded(lambda: argument_lines(task.record), None)
    if lines is None:
        return [], _("The arguments are not readable.")
    if task.record.is_sealed:
        return [], _("The arguments are sealed.")
    return lines, "" if lines else _("The task has no arguments.")


def _facts(task: Explanation, links: Links) -> Iterator[Fact]:
    record = task.record
    attempts, priority = attempts_of(record), number_of(task.text(Field.priority))
    yield Fact(_("ID"), record.id, is_code=True)
    yield Fact(_("Name"), record.name, links.task_class(record.name))
    yield Fact(_("Queue"), task.queue, guarded(lambda: links.queue(task.queue), ""))
    yield Fact(_("Shard"), links.shard)
    yield Fact(_("Priority"), number(priority) if priority else "")
    yield Fact(_("Enqueued"), _ago(time_of(record, "enqueued_at"), task.at))
    yield Fact(_("Enqueued by"), *origin_of(task, links))
    yield Fact(_("Due"), _in(task.due_at, task.at))
    yield Fact(pgettext("a time", "Started"), _ago(time_of(record, "started_at"), task.at))
    yield Fact(
        pgettext("a time", "Finished"), _ago(time_of(record, "finished_at"), task.at) if task.is_finished else ""
    )
    yield Fact(_("Attempts"), NO_VALUE if attempts is None else number(attempts))
    lost = number_of(task.text(Field.deliveries))
    yield Fact(_("Workers lost with it"), number(lost) if lost else "")
    batch_size = number_of(task.text(Field.batch_calls))
    yield Fact(_("Calls in its batch"), number(batch_size) if batch_size else "")
    expires = time_of(record, "expires_at") if not task.is_finished else None
    yield Fact(_("Expires"), _in(expires, task.at))
    kept_ms = task.fact("ttl_ms")
    yield Fact(_("Record kept for"), formats.age(kept_ms / 1_000) if kept_ms > 0 else "")
    yield Fact(_("Continues after"), cursor_text(task))
    yield Fact(_("Metadata"), metadata_of(task), is_code=True)
    yield Fact(_("Result"), result_of(task), is_code=True)


def _progress(task: Explanation) -> Meter | None:
    progress = guarded(lambda: task.record.progress, None)
    if progress is None:
        return None

    def meter() -> Meter:
        done = f"{progress.done:g}"
        if progress.total is None:
            return Meter(f"{done} {progress.note}".strip(), "")
        text = _("%(done)s of %(total)s") % {"done": done, "total": f"{progress.total:g}"}
        return Meter(f"{text} {progress.note}".strip(), f"{(progress.fraction or 0.0) * 100:.2f}%")

    return guarded(meter, None)


def _limits(task: Explanation, url_of: TaskUrl) -> Iterator[Limit]:
    if key := limit_key(task, Field.concurrency):
        held, limit = task.fact("holders"), max(task.fact("max_running"), 1)
        text = _("%(held)s of %(limit)s held") % {"held": number(held), "limit": number(limit)}
        own = _("one by this task") if task.fact("is_holder") else _("none by this task")
        meter = Meter(text, f"{min(held / limit, 1) * 100:.2f}%")
        yield Limit(
            _("Concurrency limit %(name)s") % {"name": key},
            formats.listed([text, own]),
            _links(task.holders, url_of),
            meter,
        )
    if key := limit_key(task, Field.rate):
        yield Limit(_("Rate limit %(name)s") % {"name": key}, _rate_text(task), [])
    if task.group:
        yield Limit(pgettext("of tasks, served in turn", "Group"), task.group, [])
    if claim := task.text(Field.unique_claim):
        yield _unique(task, claim, url_of)


def _rate_text(task: Explanation) -> str:
    interval_us, _slash, tolerance_us = task.facts.get("rate", "").partition("/")
    pace = _("one start every %(time)s") % {"time": formats.duration(number_of(interval_us) / 1e6)}
    left_s = (task.fact("next_us") - number_of(tolerance_us)) / 1e6 - task.at.timestamp()
    following = _("the next may start now")
    if left_s > 0:
        following = _("the next in %(time)s") % {"time": formats.duration(left_s)}
    return formats.listed([pace, following])


def _unique(task: Explanation, claim: str, url_of: TaskUrl) -> Limit:
    until = {"f": _("until it has finished"), "s": _("until it starts")}.get(claim[:1], _("for a time"))
    holder, links = task.unique_holder, list[tuple[OtherTask, str, str]]()
    if holder is None:
        text = _("Not held.")
    elif holder.id == task.record.id:
        text = _("Held by this task, %(until)s.") % {"until": until}
    else:
        text, links = _("Held by another task."), _links((holder,), url_of)
    return Limit(_("Unique key"), text, links)


def _flow(task: Explanation, url_of: TaskUrl, flow_url: TaskUrl) -> dict[str, Any] | None:
    """Return the flow, its progress, the tasks that this one waits for, and those that wait for it."""
    flow_id, tasks = task.text(Field.flow_ref).rpartition("/")[0], task.fact("flow_tasks")
    if not flow_id or not tasks:
        return None
    finished = max(0, tasks - task.fact("flow_unfinished"))
    text = ngettext("%(done)s of %(total)s task finished.", "%(done)s of %(total)s tasks finished.", tasks)
    text %= {"done": number(finished), "total": number(tasks)}
    others = {"parents": _links(task.parents, url_of), "followers": _links(task.followers, url_of)}
    return {"id": flow_id, "url": flow_url(flow_id), "text": text, **others}


def _links(tasks: tuple[OtherTask, ...], url_of: TaskUrl) -> list[tuple[OtherTask, str, str]]:
    """Return other tasks, the label of the state and the URL of each; "" if its record has expired."""
    return [(each, state_label(each.state or "ready"), url_of(each.id) if each.name else "") for each in tasks]


def _ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    facts = {"time": _clock(at, now), "age": formats.age((now - at).total_seconds())}
    return _("%(time)s, %(age)s ago") % facts


def _in(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    text = _clock(at, now)
    if at < now:
        return text
    return _("%(time)s, in %(age)s") % {"time": text, "age": formats.age((at - now).total_seconds())}


def _clock(at: datetime, now: datetime) -> str:
    # The year 9999 has no local time east of Greenwich.
    return guarded(lambda: formats.timestamp(at, now).text, at.isoformat(" ", "seconds"))


def _size(size: int) -> str:
    return _("%(size)s KiB") % {"size": number(size // 1_024)}
