"""The views of changes: pause, resume, purge, restore, and retry or delete of selected tasks."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseBadRequest, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import run
from django_redis_components.dashboard import formats, verbs
from django_redis_components.dashboard.audit import logged_time
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.forms import PauseForm
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.changes import Preview
from django_redis_components.dashboard.queues.task_list import DELETED, RETRIED, state_labels
from django_redis_components.dashboard.queues.task_query import FILTERS, TaskQuery, query_of
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.taskqueue.store import control

logger = guarded_logger("django_redis_components.dashboard")


def pause(request: PageRequest) -> HttpResponse:
    """Ask for the reason and the end of a pause (GET), or pause (POST)."""
    queue = request.object_id
    back = request.links.queue(queue)
    form = PauseForm(request.http.POST if request.is_post else None)
    if form.is_valid():
        end_min, reason = form.cleaned_data["minutes"], form.cleaned_data["reason"]
        action = f"Pause queue {queue!r}" + (f" for {end_min} min" if end_min else "")
        execute = partial(_pause, queue, reason, request.author[: control.MAX_NOTE], end_min)
        return verbs.execute(request, Change(changes.PAUSE, queue, action, execute, back))
    confirmation = Confirmation(
        title=_("Pause queue %(name)s") % {"name": queue},
        button=_("Pause"),
        back=back,
        checks=[
            Check(_("Running tasks continue. New tasks are accepted, and wait.")),
            Check(_("“Resume” ends the pause at any time.")),
        ],
        form=form,
        is_danger=False,
    )
    return verbs.confirm(request, confirmation, form.problem)


def resume(request: PageRequest) -> HttpResponse:
    """Ask for confirmation (GET), or resume (POST)."""
    queue = request.object_id
    back = request.links.queue(queue)
    if request.is_post:
        change = Change(changes.RESUME, queue, f"Resume queue {queue!r}", partial(_resume, queue), back)
        return verbs.execute(request, change)
    confirmation = Confirmation(
        title=_("Resume queue %(name)s") % {"name": queue},
        button=_("Resume"),
        back=back,
        checks=[Check(_("Workers fetch its tasks again at once."))],
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def purge(request: PageRequest) -> HttpResponse:
    """Ask for confirmation of a purge, or purge."""
    queue = request.object_id
    ticket, back = verbs.ticket_of(request.http, changes.PURGE), request.links.queue(queue)
    if ticket.is_confirmed and ticket.selection["queue"] == queue:
        action = f"Purge queue {queue!r}, tasks until {logged_time(ticket.selection['until_ms'])}"
        execute = partial(_purge, request, ticket.selection)
        return verbs.execute(request, Change(changes.PURGE, queue, action, execute, back))
    purge_preview = changes.preview_purge(queue, request.links.task)
    preview = purge_preview.preview
    question = ngettext(
        "Purge %(count)s pending task of the queue “%(queue)s”?",
        "Purge %(count)s pending tasks of the queue “%(queue)s”?",
        preview.count,
    ) % {"count": preview.count_text, "queue": queue}
    pause_url = request.links.queue(queue, "pause")
    confirmation = Confirmation(
        title=_("Purge queue %(name)s") % {"name": queue},
        button=ngettext("Purge %(count)s task", "Purge %(count)s tasks", preview.count) % {"count": preview.count_text},
        back=back,
        question=question,
        checks=[
            Check(undo_text(preview)),
            Check(_("Tasks that are enqueued after %(time)s are kept.") % {"time": clock_of(preview)}),
            Check(changes.kept_text(purge_preview.depth)),
            Check(_("Unique keys of the removed tasks are free: the same task can be enqueued again."), "caution"),
        ],
        fields={"ticket": verbs.sign(request.http, changes.PURGE, purge_preview.selection)},
        typed=(queue, _("Type the queue’s name to confirm: %(name)s") % {"name": queue}),
        impossible="" if preview.count > 0 else _("The queue has no pending tasks."),
        gentler=[(_("Pause the queue…"), pause_url)] if pause_url else [],
        **previewed(preview),
    )
    return verbs.confirm(request, confirmation, ticket.problem)


def restore(request: PageRequest) -> HttpResponse:
    """Ask for confirmation of the undo of a purge or deletion (GET), or restore its tasks (POST)."""
    queue = request.object_id
    form = request.form
    trash, back = form.get("trash", ""), request.links.queue(queue)
    if not 0 < len(trash) <= 100:
        return HttpResponseBadRequest("Required: trash.", "text/plain")
    if request.is_post:
        action = f"Restore trash {trash!r} of queue {queue!r}"
        change = Change(changes.RESTORE, queue, action, partial(_restore, queue, trash), back)
        return verbs.execute(request, change)
    entry = changes.count_of_trash(queue, trash)
    count = entry.count if entry else 0
    confirmation = Confirmation(
        title=_("Restore tasks of queue %(name)s") % {"name": queue},
        button=ngettext("Restore %(count)s task", "Restore %(count)s tasks", count) % {"count": number(count)},
        back=back,
        checks=[
            Check(_("The tasks return in their order, before those enqueued since.")),
            Check(_("A task whose unique key another task has by now is cancelled."), "caution"),
        ],
        fields={"trash": trash},
        impossible=""
        if count
        else _("There is nothing to restore: it was restored before, or is older than 24 hours."),
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def change_tasks(request: PageRequest, verb: Verb) -> HttpResponse:
    """Ask for confirmation of a retry or deletion of selected tasks, or make it."""
    queue, ticket = request.object_id, verbs.ticket_of(request.http, verb)
    if ticket.is_confirmed and ticket.selection["queue"] == queue:
        return _execute_tasks(request, verb, ticket.selection)
    form = request.form
    try:
        query, ids = _selected(form, ticket.selection)
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    if query.state not in (RETRIED if verb is changes.RETRY else DELETED):
        return HttpResponseBadRequest(f"state={query.state!r}: its tasks cannot be changed so.", "text/plain")
    if ids is not None and not ids:
        messages.warning(request.http, _("Select at least one task."))
        return HttpResponseRedirect(f"{request.links.queue(queue)}?{query.encoded()}")
    url_of = request.links.task
    if ids is None:
        [(preview, selection)] = changes.preview_matching([queue], query, url_of)
    else:
        preview, selection = changes.preview_ticked(queue, query.state, ids, url_of)
    confirmation = _tasks_confirmation(request, verb, queue, query, preview, selection)
    return verbs.confirm(request, confirmation, ticket.problem)


def _selected(form: QueryDict, selection: Any) -> tuple[TaskQuery, list[str] | None]:
    """Return the query of a form, or of a ticket to confirm again, and the ticked ids; None: all that match."""
    if selection:
        return TaskQuery(selection["state"], **selection.get("filters", {})), selection.get("ids")
    query = query_of({name: form.get(name, "") for name in ("state", *FILTERS)})
    if form.get("all"):
        return query, None
    ids = list(dict.fromkeys(form.getlist("id")))
    if len(ids) > changes.MAX_TICKED or any(not 0 < len(each) <= 200 for each in ids):
        raise ValueError(f"id: expected at most {changes.MAX_TICKED} ids of at most 200 characters.")
    return query, ids


def _tasks_confirmation(
    request: PageRequest,
    verb: Verb,
    queue: str,
    query: TaskQuery,
    preview: Preview,
    selection: Any,
) -> Confirmation:
    names = {"count": preview.count_text, "queue": queue, "state": state_labels()[query.state]}
    later = _("Tasks that enter the state “%(state)s” after %(time)s are not changed.")
    checks = [Check(later % {**names, "time": clock_of(preview)})]
    if verb is changes.RETRY:
        title = _("Retry tasks of queue %(name)s") % {"name": queue}
        question = ngettext(
            "Retry %(count)s failed task of the queue “%(queue)s”?",
            "Retry %(count)s failed tasks of the queue “%(queue)s”?",
            preview.count,
        )
        button = ngettext("Retry %(count)s task", "Retry %(count)s tasks", preview.count)
        checks.append(Check(_("Each gets all of its attempts again, and keeps its errors.")))
        checks.append(Check(_("A retry cannot be undone: tasks may start at once."), "caution"))
    else:
        title = _("Delete tasks of queue %(name)s") % {"name": queue}
        question = ngettext(
            "Delete %(count)s task of the queue “%(queue)s” in the state “%(state)s”?",
            "Delete %(count)s tasks of the queue “%(queue)s” in the state “%(state)s”?",
            preview.count,
        )
        button = ngettext("Delete %(count)s task", "Delete %(count)s tasks", preview.count)
        checks.append(Check(undo_text(preview)))
    if preview.is_partial:
        checks.append(Check(_("Only the first tasks were counted. All that match are changed."), "caution"))
    return Confirmation(
        title=title,
        button=button % names,
        back=f"{request.links.queue(queue)}?{query.encoded()}",
        question=question % names,
        checks=checks,
        fields={"ticket": verbs.sign(request.http, verb, selection)},
        impossible="" if preview.count or preview.is_partial else _("None of these tasks is in this state any more."),
        is_danger=verb is changes.DELETE,
        **previewed(preview),
    )


def _execute_tasks(request: PageRequest, verb: Verb, selection: Any) -> HttpResponse:
    queue, state = selection["queue"], selection["state"]
    which = ", ".join(selection["ids"][:20]) if "ids" in selection else f"all that match {selection['filters']!r}"
    until = logged_time(selection["until_ms"])
    action = f"{verb.name.capitalize()} {state} tasks of queue {queue!r} until {until} ({which})"
    query = TaskQuery(state, **selection.get("filters", {}))
    back = f"{request.links.queue(queue)}?{query.encoded()}"
    execute = partial(_change_tasks, request, verb, selection)
    return verbs.execute(request, Change(verb, queue, action, execute, back))


def _change_tasks(request: PageRequest, verb: Verb, selection: Any) -> ChangeOutcome:
    trash = control.new_op()
    done, is_left = changes.change_tasks(verb, selection, trash)
    if verb is changes.RETRY:
        message = ngettext("Retrying %(count)s task.", "Retrying %(count)s tasks.", done)
        return outcome_of(message, done, is_left, f"{changes.tasks_text(done)} retried")
    message = ngettext("Deleted %(count)s task.", "Deleted %(count)s tasks.", done)
    undo = undo_links(request, selection["queue"], trash) if done else ()
    return outcome_of(message, done, is_left, f"{changes.tasks_text(done)} deleted, trash {trash}", undo)


def _purge(request: PageRequest, selection: Any) -> ChangeOutcome:
    done, is_left = changes.purge(selection)
    message = ngettext("Purged %(count)s task.", "Purged %(count)s tasks.", done)
    undo = undo_links(request, selection["queue"], selection["trash"]) if done else ()
    return outcome_of(message, done, is_left, f"{changes.tasks_text(done)} purged, trash {selection['trash']}", undo)


def _restore(queue: str, trash: str) -> ChangeOutcome:
    done, is_left = changes.restore(queue, trash)
    message = ngettext("Restored %(count)s task.", "Restored %(count)s tasks.", done)
    return outcome_of(message, done, is_left, f"{changes.tasks_text(done)} restored")


def _pause(queue: str, reason: str, author: str, end_min: int) -> ChangeOutcome:
    run(changes.client(), control.pause(queue_shard(), queue, reason, author, end_min * 60 or None))
    return ChangeOutcome(f"done, reason {reason!r}" if reason else "done", _("Paused: %(name)s") % {"name": queue})


def _resume(queue: str) -> ChangeOutcome:
    if run(changes.client(), control.resume(queue_shard(), queue)):
        return ChangeOutcome("done", _("Resumed: %(name)s") % {"name": queue})
    return ChangeOutcome("it was not paused", _("Not paused: %(name)s") % {"name": queue}, is_done=False)


def outcome_of(message: str, done: int, is_left: bool, log: str, links: Any = ()) -> ChangeOutcome:
    """Return the outcome of a change of `done` tasks, for a message with their count."""
    text = message % {"count": number(done)}
    if is_left:
        text = f"{text} {_('The time was up before all were changed. Repeat it for the rest.')}"
        log = f"{log}, stopped before the end"
    return ChangeOutcome(log, text, done > 0 and not is_left, links)


def undo_links(request: PageRequest, queue: str, trash: str) -> list[tuple[str, str]]:
    """Return the link to the undo of a purge or deletion, if the user may undo it."""
    url = request.links.queue(queue, "restore")
    return [(_("Undo…"), f"{url}?trash={trash}")] if url else []


def undo_text(preview: Preview) -> str:
    """Return until when a deletion can be undone."""
    return _("Can be undone for 24 hours, until %(time)s.") % {"time": changes.undo_until(preview.at)}


def clock_of(preview: Preview) -> str:
    """Return the time of the watermark."""
    return formats.timestamp(preview.at, preview.at).text


def previewed(preview: Preview) -> dict[str, Any]:
    """Return the fields of a confirmation that a preview fills."""
    note = _("%(count)s of %(total)s") % {"count": number(len(preview.sample)), "total": preview.count_text}
    return {
        "counts": preview.counts,
        "total_label": _("Total at %(time)s") % {"time": clock_of(preview)},
        "total": preview.count_text,
        "sample": preview.sample,
        "sample_note": note,
    }


#: The view of each verb.
VIEWS = (
    (changes.PAUSE, pause),
    (changes.RESUME, resume),
    (changes.PURGE, purge),
    (changes.RESTORE, restore),
    (changes.RETRY, partial(change_tasks, verb=changes.RETRY)),
    (changes.DELETE, partial(change_tasks, verb=changes.DELETE)),
)
