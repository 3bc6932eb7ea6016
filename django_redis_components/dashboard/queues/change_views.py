"""The views of changes of a queue and its groups: pause, resume, purge, restore."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.text import counted
from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.audit import logged_time
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.forms import PauseForm, ReasonForm
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import missing
from django_redis_components.dashboard.queues import changes, task_change_views
from django_redis_components.dashboard.queues.confirmations import (
    InShards,
    changed_shards,
    clock_of,
    in_each,
    merged_preview,
    outcome_of,
    parts_of,
    previewed,
    queue_links,
    shard_of,
    totals,
    undo_links,
    undo_text,
)
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.taskqueue.stats.merging import merged_info
from django_redis_components.taskqueue.store import control


def pause(request: PageRequest) -> HttpResponse:
    """Ask for the reason and the end of a pause (GET), or pause (POST)."""
    queue = request.object_id
    back = queue_links(request).queue(queue)
    form = PauseForm(request.http.POST if request.is_post else None)
    if form.is_valid():
        end_min, reason = form.cleaned_data["minutes"], form.cleaned_data["reason"]
        action = f"Pause queue {queue!r}" + (f" for {end_min} min" if end_min else "")
        execute = partial(_pause, request, queue, reason, request.author[: control.MAX_NOTE], end_min)
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
    back = queue_links(request).queue(queue)
    if request.is_post:
        change = Change(changes.RESUME, queue, f"Resume queue {queue!r}", partial(_resume, request, queue), back)
        return verbs.execute(request, change)
    confirmation = Confirmation(
        title=_("Resume queue %(name)s") % {"name": queue},
        button=_("Resume"),
        back=back,
        checks=[Check(_("Workers fetch its tasks again at once."))],
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def pause_group(request: PageRequest) -> HttpResponse:
    """Ask for the reason of the pause of a group (GET), or pause the group (POST)."""
    queue, group = request.object_id, group_of(request)
    if group is None:
        return responses.bad_request(request, missing("group"))
    back = queue_links(request).queue(queue)
    form = ReasonForm(request.http.POST if request.is_post else None)
    if form.is_valid():
        action = f"Pause group {group!r} of queue {queue!r}"
        author = request.author[: control.MAX_NOTE]
        execute = partial(_pause_group, request, queue, group, form.cleaned_data["reason"], author)
        return verbs.execute(request, Change(changes.PAUSE_GROUP, queue, action, execute, back))
    confirmation = Confirmation(
        title=_("Pause group %(group)s of queue %(name)s") % {"group": group, "name": queue},
        button=_("Pause"),
        back=back,
        checks=[
            Check(_("Its running tasks continue. New tasks are accepted, and wait.")),
            Check(_("The other groups are served as before. “Resume” ends the pause.")),
        ],
        fields={"group": group},
        form=form,
        is_danger=False,
    )
    return verbs.confirm(request, confirmation, form.problem)


def resume_group(request: PageRequest) -> HttpResponse:
    """Ask for confirmation (GET), or resume the group (POST)."""
    queue, group = request.object_id, group_of(request)
    if group is None:
        return responses.bad_request(request, missing("group"))
    back = queue_links(request).queue(queue)
    if request.is_post:
        action, execute = f"Resume group {group!r} of queue {queue!r}", partial(_resume_group, request, queue, group)
        return verbs.execute(request, Change(changes.RESUME_GROUP, queue, action, execute, back))
    confirmation = Confirmation(
        title=_("Resume group %(group)s of queue %(name)s") % {"group": group, "name": queue},
        button=_("Resume"),
        back=back,
        checks=[Check(_("Workers serve its tasks again, in turn with the other groups."))],
        fields={"group": group},
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def group_of(request: PageRequest) -> str | None:
    """Return the group that a request names; None if no group can have this name."""
    group = request.form.get("group")
    try:
        return control.check_group(group)
    except (TypeError, ValueError):
        return None


def purge(request: PageRequest) -> HttpResponse:
    """Ask for confirmation of a purge, or purge."""
    queue = request.object_id
    ticket, back = verbs.ticket_of(request.http, changes.PURGE), queue_links(request).queue(queue)
    if ticket.is_confirmed and ticket.selection["queue"] == queue:
        action = f"Purge queue {queue!r}, tasks until {logged_time(ticket.selection['until_ms'])}"
        execute = partial(_purge, request, ticket.selection)
        return verbs.execute(request, Change(changes.PURGE, queue, action, execute, back))
    trash = control.new_op()  # the same in each shard: one undo restores all
    found = in_each(changed_shards(request), lambda: changes.preview_purge(queue, trash, request.links.task))
    preview = merged_preview({shard: each.preview for shard, each in found.by_shard.items()})
    parts = [{**each.selection, "shard": shard.name} for shard, each in found.by_shard.items()]
    selection = {"queue": queue, "typed": queue, "trash": trash, "until_ms": parts[0]["until_ms"], "parts": parts}
    question = ngettext(
        "Purge %(count)s pending task of the queue “%(queue)s”?",
        "Purge %(count)s pending tasks of the queue “%(queue)s”?",
        preview.count,
    ) % {"count": preview.count_text, "queue": queue}
    pause_url = queue_links(request).queue(queue, "pause")
    confirmation = Confirmation(
        title=_("Purge queue %(name)s") % {"name": queue},
        button=ngettext("Purge %(count)s task", "Purge %(count)s tasks", preview.count) % {"count": preview.count_text},
        back=back,
        question=question,
        checks=[
            Check(undo_text(preview)),
            Check(_("Tasks that are enqueued after %(time)s are kept.") % {"time": clock_of(preview)}),
            Check(changes.kept_text(merged_info([[each.depth] for each in found.by_shard.values()]))),
            Check(_("Unique keys of the removed tasks are free: the same task can be enqueued again."), "caution"),
            *found.checks(),
        ],
        fields={"ticket": verbs.sign(request.http, changes.PURGE, selection)},
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
    trash, back = form.get("trash", ""), queue_links(request).queue(queue)
    if not 0 < len(trash) <= 100:
        return responses.bad_request(request, missing("trash"))
    if request.is_post:
        action = f"Restore trash {trash!r} of queue {queue!r}"
        change = Change(changes.RESTORE, queue, action, partial(_restore, request, queue, trash), back)
        return verbs.execute(request, change)
    found = in_each(changed_shards(request), lambda: changes.count_of_trash(queue, trash))
    count = sum(entry.count for entry in found.by_shard.values() if entry)
    confirmation = Confirmation(
        title=_("Restore tasks of queue %(name)s") % {"name": queue},
        button=ngettext("Restore %(count)s task", "Restore %(count)s tasks", count) % {"count": number(count)},
        back=back,
        checks=[
            Check(_("The tasks return in their order, before those enqueued since.")),
            Check(_("A task whose unique key another task has by now is cancelled."), "caution"),
            *found.checks(),
        ],
        fields={"trash": trash},
        impossible=""
        if count
        else _("There is nothing to restore: it was restored before, or is older than 24 hours."),
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def _purge(request: PageRequest, selection: Any) -> ChangeOutcome:
    deadline, parts = time.monotonic() + verbs.BUDGET_S, {shard_of(each): each for each in parts_of(selection)}
    found = in_each(tuple(parts), lambda: changes.purge(parts[queue_shard()], deadline - time.monotonic()))
    done, is_left = totals(found)
    message = ngettext("Purged %(count)s task.", "Purged %(count)s tasks.", done)
    undo = undo_links(request, selection["queue"], selection["trash"]) if done else ()
    log = f"{counted(done, 'task')} purged, trash {selection['trash']}"
    return found.outcome(outcome_of(message, done, is_left, log, undo))


def _restore(request: PageRequest, queue: str, trash: str) -> ChangeOutcome:
    deadline = time.monotonic() + verbs.BUDGET_S
    found = in_each(changed_shards(request), lambda: changes.restore(queue, trash, deadline - time.monotonic()))
    done, is_left = totals(found)
    message = ngettext("Restored %(count)s task.", "Restored %(count)s tasks.", done)
    return found.outcome(outcome_of(message, done, is_left, f"{counted(done, 'task')} restored"))


def _pause(request: PageRequest, queue: str, reason: str, author: str, end_min: int) -> ChangeOutcome:
    found = _in_shards(request, control.pause, queue, reason, author, end_min * 60 or None)
    log = f"done, reason {reason!r}" if reason else "done"
    return found.outcome(ChangeOutcome(log, _("Paused: %(name)s") % {"name": queue}))


def _resume(request: PageRequest, queue: str) -> ChangeOutcome:
    found = _in_shards(request, control.resume, queue)
    if any(found.by_shard.values()):
        return found.outcome(ChangeOutcome("done", _("Resumed: %(name)s") % {"name": queue}))
    text = _("Not paused: %(name)s") % {"name": queue}
    return found.outcome(ChangeOutcome("it was not paused", text, is_done=False))


def _pause_group(request: PageRequest, queue: str, group: str, reason: str, author: str) -> ChangeOutcome:
    try:
        found = _in_shards(request, control.pause_group, queue, group, reason, author)
    except ValueError:
        most = {"count": number(control.MAX_PAUSED_GROUPS)}
        text = _("Not paused: %(count)s groups of the queue are paused, which is the most.") % most
        return ChangeOutcome("too many groups are paused", text, is_done=False)
    log = f"done, reason {reason!r}" if reason else "done"
    return found.outcome(ChangeOutcome(log, _("Paused: %(name)s") % {"name": group}))


def _resume_group(request: PageRequest, queue: str, group: str) -> ChangeOutcome:
    found = _in_shards(request, control.resume_group, queue, group)
    if any(found.by_shard.values()):
        return found.outcome(ChangeOutcome("done", _("Resumed: %(name)s") % {"name": group}))
    text = _("Not paused: %(name)s") % {"name": group}
    return found.outcome(ChangeOutcome("it was not paused", text, is_done=False))


def _in_shards(request: PageRequest, change: Callable[..., Flow[Any]], *args: Any) -> InShards[Any]:
    """Make a change of a queue in the shards that it applies to."""
    return in_each(changed_shards(request), lambda: run(changes.client(), change(queue_shard(), *args)))


#: The view of each verb.
VIEWS = (
    (changes.PAUSE, pause),
    (changes.RESUME, resume),
    (changes.PAUSE_GROUP, pause_group),
    (changes.RESUME_GROUP, resume_group),
    (changes.PURGE, purge),
    (changes.RESTORE, restore),
    *task_change_views.VIEWS,
)
