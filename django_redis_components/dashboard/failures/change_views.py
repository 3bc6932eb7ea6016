"""The views of changes of one error's failed tasks: retry and delete, in all of its queues."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.core.text import counted
from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.audit import logged_time
from django_redis_components.dashboard.clients import queue_shard, showing, shown_shards
from django_redis_components.dashboard.failures import page
from django_redis_components.dashboard.failures.snapshot import (
    FailureGroup,
    FailureQuery,
    query_of,
    read_everywhere,
)
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import missing
from django_redis_components.dashboard.queues import changes, task_verbs
from django_redis_components.dashboard.queues.changes import Preview
from django_redis_components.dashboard.queues.confirmations import (
    clock_of,
    outcome_of,
    previewed,
    undo_links,
    undo_text,
)
from django_redis_components.dashboard.queues.filter_text import filters_text
from django_redis_components.dashboard.queues.task_query import TaskQuery
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation, NameCount
from django_redis_components.taskqueue.shards import Shard, named
from django_redis_components.taskqueue.store import control

#: Verbs of an error. The entries in the admin's log link to the error.
RETRY = Verb("retry_error", "retry_task", MODELS["failure"])
DELETE = Verb("delete_error", "delete_task", MODELS["failure"])

#: Most queues whose tasks one change previews.
MAX_QUEUES = 20


def change_error(request: PageRequest, verb: Verb) -> HttpResponse:
    """Ask for confirmation of a retry or deletion of an error's failed tasks, or make it."""
    ticket = verbs.ticket_of(request.http, verb)
    if ticket.is_confirmed:
        return _execute(request, verb, ticket.selection)
    try:
        query = query_of(ticket.selection or request.http.GET.dict() | request.http.POST.dict())
    except ValueError as exc:
        return responses.bad_request(request, exc)
    if not query.group:
        return responses.bad_request(request, missing("group"))
    return verbs.confirm(request, _confirmation(request, verb, query), ticket.problem)


def _confirmation(request: PageRequest, verb: Verb, query: FailureQuery) -> Confirmation:
    title = _("Retry failed tasks") if verb is RETRY else _("Delete failed tasks")
    back = request.links.error(query.group, query.queue)
    failure = run(changes.client(), read_everywhere([query.queue] if query.queue else [], query.group))
    if failure is None:
        gone = _("This error is not kept any more, or not in this queue.")
        return Confirmation(title=title, button=title, back=back, impossible=gone)
    if len(failure.parts) > MAX_QUEUES:
        many = _("This error is in %(count)s queues. Choose one queue.") % {"count": number(len(failure.parts))}
        return Confirmation(title=title, button=title, back=back, impossible=many)
    tasks = TaskQuery("failed", error=query.group, **query.span)
    preview, parts = _preview(request, tasks, failure)
    selection = {"group": query.group, "queue": query.queue, "kind": page.kind_of(failure), "parts": parts}
    question, button, checks = _texts(verb, preview)
    if tasks.begin or tasks.end:
        checks.insert(0, Check(filters_text(tasks, page.kind_of(failure))))
    return Confirmation(
        title=title,
        button=button,
        back=back,
        question=question,
        facts=_facts(failure),
        checks=checks,
        fields={"ticket": verbs.sign(request.http, verb, selection)},
        impossible="" if preview.count or preview.is_partial else _("None of these tasks is in this state any more."),
        is_danger=verb is DELETE,
        **previewed(preview),
    )


def _preview(request: PageRequest, query: TaskQuery, failure: FailureGroup) -> tuple[Preview, list[dict[str, Any]]]:
    """Return what a change applies to in all queues, and the selection of each queue with its own watermark."""
    url_of = request.links.task
    found = []
    for shard in dict.fromkeys(failure.shards):
        queues = [part.queue for part_shard, part in failure.located if part_shard == shard]
        with showing(shard):
            of_shard = changes.preview_matching(queues, query, url_of)
        found += [(preview, {**selection, "shard": shard.name}) for preview, selection in of_shard]
    previews, parts = [preview for preview, _selection in found], [selection for _preview, selection in found]
    has_shards = len({part["shard"] for part in parts}) > 1
    counts = [
        NameCount(_label(selection, row.name, has_shards) if len(parts) > 1 else row.name, row.count, row.oldest)
        for preview, selection in found
        for row in preview.counts
    ]
    return Preview(
        at=previews[0].at,
        count=sum(preview.count for preview in previews),
        counts=counts,
        sample=[task for preview in previews for task in preview.sample][:10],
        is_partial=any(preview.is_partial for preview in previews),
    ), parts


def _label(part: Mapping[str, Any], name: str, has_shards: bool) -> str:
    return " · ".join([*([part["shard"]] if has_shards else []), part["queue"], name])


def _texts(verb: Verb, preview: Preview) -> tuple[str, str, list[Check]]:
    """Return the question, the label of the button, and what the operator should know."""
    count = {"count": preview.count_text}
    checks = [Check(_("Tasks that fail after %(time)s are not changed.") % {"time": clock_of(preview)})]
    if verb is RETRY:
        question = ngettext(
            "Retry %(count)s failed task of this error?", "Retry %(count)s failed tasks of this error?", preview.count
        )
        button = ngettext("Retry %(count)s task", "Retry %(count)s tasks", preview.count)
        checks.append(Check(_("Each gets all of its attempts again, and keeps its errors.")))
        checks.append(Check(_("A retry cannot be undone: tasks may start at once."), "caution"))
    else:
        question = ngettext(
            "Delete %(count)s failed task of this error?", "Delete %(count)s failed tasks of this error?", preview.count
        )
        button = ngettext("Delete %(count)s task", "Delete %(count)s tasks", preview.count)
        checks.append(Check(undo_text(preview)))
        checks.append(Check(_("The error itself stays in the list, with its counts.")))
    if away := shown_shards().away:
        names = {"names": ", ".join(shard.name for shard in away)}
        checks.append(Check(_("Tasks in shards that do not answer are not changed: %(names)s.") % names, "caution"))
    if preview.is_partial:
        checks.append(Check(_("Only the first tasks were counted. All that match are changed."), "caution"))
    return question % count, button % count, checks


def _facts(failure: FailureGroup) -> list[tuple[str, str]]:
    facts = [
        (_("Error"), page.kind_of(failure)),
        (_("Message"), page.line_of(failure)),
        (_("Raised in"), failure.newest.location),
        (_("Queues"), ", ".join(dict.fromkeys(part.queue for part in failure.parts))),
    ]
    return [(label, value) for label, value in facts if value]


def _execute(request: PageRequest, verb: Verb, selection: Mapping[str, Any]) -> HttpResponse:
    what = "Retry" if verb is RETRY else "Delete"
    queues = ", ".join(f"{part['queue']!r}{_span_text(part)}" for part in selection["parts"])
    action = f"{what} failed tasks of error {selection['group']} ({selection['kind']}) in {queues}"
    back = request.links.error(selection["group"], selection["queue"])
    execute = partial(_change, request, verb, selection["parts"])
    return verbs.execute(request, Change(verb, selection["group"], action, execute, back))


def _span_text(part: Mapping[str, Any]) -> str:
    """Return the times of a queue's failed tasks, for the log."""
    begin, end = part["filters"]["begin"], part["filters"]["end"]
    bounds = [f" from {begin}" if begin else "", f" before {end}" if end else ""]
    return "".join(bounds) + f" until {logged_time(part['until_ms'])}"


def _change(request: PageRequest, verb: Verb, parts: list[dict[str, Any]]) -> ChangeOutcome:
    """Change the tasks of one queue after the other, within the time of one change."""
    deadline, total, is_left = time.monotonic() + verbs.BUDGET_S, 0, False
    links: list[tuple[str, str]] = []
    trashes = []
    for part in parts:
        trash, each = control.new_op(), task_verbs.RETRY if verb is RETRY else task_verbs.DELETE
        with showing(shard := _shard_of(part)):
            done, rest = changes.change_tasks(each, part, trash, deadline - time.monotonic())
        total, is_left = total + done, is_left or rest
        if done and verb is DELETE:
            trashes.append(trash)
            undo = undo_links(request, part["queue"], trash, shard.name)
            links += [(f"{label} {part['queue']}" if len(parts) > 1 else label, url) for label, url in undo]
    if verb is RETRY:
        message = ngettext("Retrying %(count)s task.", "Retrying %(count)s tasks.", total)
        return outcome_of(message, total, is_left, f"{counted(total, 'task')} retried")
    message = ngettext("Deleted %(count)s task.", "Deleted %(count)s tasks.", total)
    log = f"{counted(total, 'task')} deleted, trash {', '.join(trashes)}"
    return outcome_of(message, total, is_left, log, links)


def _shard_of(part: Mapping[str, Any]) -> Shard:
    """Return the shard of a part of a selection. One that an earlier version has signed names none."""
    using = conf.settings().dashboard.using
    return named(part["shard"], using) if "shard" in part else queue_shard()


#: The view of each verb.
VIEWS = tuple((verb, partial(change_error, verb=verb)) for verb in (RETRY, DELETE))
