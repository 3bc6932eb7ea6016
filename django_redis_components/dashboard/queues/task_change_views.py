"""The views of changes of tasks in a list: of those that are ticked, or of all that match its filters."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _

from django_redis_components.core.protocol import run
from django_redis_components.core.text import counted
from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.audit import logged_time
from django_redis_components.dashboard.clients import queue_shard, shown_shards
from django_redis_components.dashboard.forms import ChangeForm, MoveForm, RescheduleTasksForm
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.changes import Preview
from django_redis_components.dashboard.queues.confirmations import (
    changed_shards,
    clock_of,
    ids_of,
    in_each,
    merged_preview,
    merged_tick,
    outcome_of,
    parts_of,
    previewed,
    queue_links,
    shard_of,
    totals,
    undo_links,
    undo_text,
)
from django_redis_components.dashboard.queues.filter_text import filters_text
from django_redis_components.dashboard.queues.new_names import candidates_of
from django_redis_components.dashboard.queues.task_list import state_labels
from django_redis_components.dashboard.queues.task_query import FILTERS, TaskQuery, query_of
from django_redis_components.dashboard.queues.task_verbs import (
    DELETE,
    MOVE,
    RENAME,
    RESCHEDULE,
    TASK_VERBS,
    TaskVerb,
)
from django_redis_components.dashboard.shard_choice import name_in_urls
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation, Ticket
from django_redis_components.taskqueue.store import control


def change_tasks(request: PageRequest, task_verb: TaskVerb) -> HttpResponse:
    """Ask for confirmation of a change of selected tasks, or make it."""
    queue, ticket = request.object_id, verbs.ticket_of(request.http, task_verb.verb)
    is_confirmed = ticket.is_confirmed and ticket.selection["queue"] == queue
    form = _form(request, task_verb, ticket)
    if is_confirmed and (form is None or form.is_valid()):
        return _execute(request, task_verb, ticket.selection, form.argument if form else "")
    try:
        query, ids = _selected(request.form, ticket.selection)
    except ValueError as exc:
        return responses.bad_request(request, exc)
    if query.state not in task_verb.states:
        text = _("state=%(state)s: its tasks cannot be changed so.") % {"state": query.state}
        return responses.bad_request(request, InvalidParameter(text))
    if ids is not None and not ids:
        messages.warning(request.http, _("Select at least one task."))
        return HttpResponseRedirect(f"{queue_links(request).queue(queue)}?{query.encoded()}")
    confirmation = _confirmation(request, task_verb, query, ids, form)
    return verbs.confirm(request, confirmation, ticket.problem or (form.problem if form else ""))


def _form(request: PageRequest, task_verb: TaskVerb, ticket: Ticket) -> ChangeForm | None:
    """Return the form of a verb that needs more than a confirmation."""
    data = request.http.POST if ticket.selection else None
    if task_verb.verb is RESCHEDULE:
        return RescheduleTasksForm(data)
    if task_verb.verb is MOVE:
        names, count = run(changes.client(), changes.read_queue_names(queue_shard()))
        others = [name for name in names if name != request.object_id]
        is_target = partial(changes.is_target, request.object_id)
        more = count - len(names) - (request.object_id not in names)
        return MoveForm(data, queues=others, is_target=is_target, more=more)
    return None


def _selected(form: QueryDict, selection: Any) -> tuple[TaskQuery, list[str] | None]:
    """Return the query of a form, or of a ticket to confirm again, and the selected ids; None: all that match.

    A form has the id of the row whose button was pressed, or whether the head of the list is ticked and what it lists,
    or the ids of the ticked rows.
    """
    if selection:
        return TaskQuery(selection["state"], **selection.get("filters", {})), ids_of(selection)
    query = query_of({name: form.get(name, "") for name in ("state", *FILTERS)})
    if form.get("all"):
        return query, None
    field = "only" if form.get("only") else "listed" if form.get("page") else "id"
    ids = list(dict.fromkeys(form.getlist(field)))
    if len(ids) > changes.MAX_TICKED or any(not 0 < len(each) <= 200 for each in ids):
        text = _("%(name)s: expected at most %(most)s ids of at most 200 characters.")
        raise InvalidParameter(text % {"name": field, "most": changes.MAX_TICKED})
    return query, ids


def _confirmation(
    request: PageRequest, task_verb: TaskVerb, query: TaskQuery, ids: list[str] | None, form: ChangeForm | None
) -> Confirmation:
    queue = request.object_id

    def url_of(task_id: str) -> str:
        """Return the URL of a task in the shard that is read."""
        return request.links.in_shard(name_in_urls(shown_shards().shards)).task(task_id)

    checks: list[Check] = []
    if ids is None:
        found = in_each(changed_shards(request), lambda: changes.preview_matching([queue], query, url_of)[0])
        preview = merged_preview({shard: each for shard, (each, _selection) in found.by_shard.items()})
        parts = [{**part, "shard": shard.name} for shard, (_each, part) in found.by_shard.items()]
        selection, checks = {**parts[0], "parts": parts}, found.checks()
    else:
        ticked = in_each(changed_shards(request), lambda: changes.preview_ticked(queue, query.state, ids, url_of))
        preview, selection = merged_tick(ticked)
        checks = ticked.away_checks()
    names = {
        "count": preview.count_text,
        "number": preview.count,
        "name": queue,
        "queue": queue,
        "state": state_labels()[query.state],
    }
    return Confirmation(
        title=task_verb.title % names,
        button=task_verb.button % names,
        back=f"{queue_links(request).queue(queue)}?{query.encoded()}",
        question=task_verb.question % names,
        checks=[*_checks(task_verb, query, preview, names, is_all=ids is None), *checks],
        fields={"ticket": verbs.sign(request.http, task_verb.verb, selection)},
        form=form,
        impossible="" if preview.count or preview.is_partial else _("None of these tasks is in this state any more."),
        is_danger=task_verb.is_danger,
        **previewed(preview),
    )


def _checks(
    task_verb: TaskVerb, query: TaskQuery, preview: Preview, names: dict[str, Any], *, is_all: bool
) -> list[Check]:
    later = _("Tasks that enter the state “%(state)s” after %(time)s are not changed.")
    checks = [Check(later % {**names, "time": clock_of(preview)}), *task_verb.checks(query.state)]
    if is_all:
        checks.insert(0, Check(filters_text(query, preview.error_class)))
    if task_verb.verb is RENAME:
        checks += [Check(text) for text in _new_names(preview)]
    if task_verb.verb is DELETE:
        checks.append(Check(undo_text(preview)))
    if preview.is_partial:
        checks.append(Check(_("Only the first tasks were counted. All that match are changed."), "caution"))
    return checks


def _new_names(preview: Preview) -> Iterator[str]:
    """Yield which registered tasks the names of a preview may have become."""
    for name, candidates in sorted(candidates_of(each.name for each in preview.counts).items()):
        if candidates:
            new = ", ".join(sorted(candidate.name for candidate in candidates))
            yield _("%(old)s runs as %(new)s.") % {"old": name, "new": new}


def _execute(request: PageRequest, task_verb: TaskVerb, selection: Any, argument: str) -> HttpResponse:
    queue, state, verb = selection["queue"], selection["state"], task_verb.verb
    which = ", ".join(ids[:20]) if (ids := ids_of(selection)) else _logged_filters(selection["filters"])
    until = logged_time(selection["until_ms"])
    to = f" to {argument!r}" if argument else ""
    words = verb.name.capitalize().replace("_", " ")
    action = f"{words} {state} tasks of queue {queue!r}{to} until {until} ({which})"
    query = TaskQuery(state, **selection.get("filters", {}))
    back = f"{queue_links(request).queue(queue)}?{query.encoded()}"
    execute = partial(_change, request, task_verb, selection, argument)
    return verbs.execute(request, Change(verb, queue, action, execute, back))


def _logged_filters(filters: dict[str, str]) -> str:
    """Return filters for the admin's log, without parts of arguments and errors of tasks."""
    texts = [f"{name}={'…' if name in ('text', 'error') else repr(text)}" for name, text in filters.items() if text]
    return " ".join(["all that match", *texts]) if texts else "all"


def _change(request: PageRequest, task_verb: TaskVerb, selection: Any, argument: str) -> ChangeOutcome:
    is_deletion = task_verb.verb is DELETE
    argument = control.new_op() if is_deletion else argument
    deadline, parts = time.monotonic() + verbs.BUDGET_S, {shard_of(each): each for each in parts_of(selection)}

    def change() -> tuple[int, bool]:
        return changes.change_tasks(task_verb.verb, parts[queue_shard()], argument, deadline - time.monotonic())

    found = in_each(tuple(parts), change)
    done, is_left = totals(found)
    log = f"{counted(done, 'task')} {task_verb.log}"
    undo = undo_links(request, selection["queue"], argument) if is_deletion and done else ()
    # `outcome_of` puts the formatted number into the text: the plural form is chosen here.
    message = task_verb.done % {"number": done, "count": "%(count)s"}
    log = f"{log}, trash {argument}" if is_deletion else log
    return found.outcome(outcome_of(message, done, is_left, log, undo))


#: The view of each verb.
VIEWS = tuple((each.verb, partial(change_tasks, task_verb=each)) for each in TASK_VERBS)
