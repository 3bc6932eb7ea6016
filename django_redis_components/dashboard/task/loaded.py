"""Views of a task that was read: what all of them show, and whether a change applies."""

from __future__ import annotations

import functools
from collections.abc import Callable

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.core.protocol import run
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.changes import client
from django_redis_components.dashboard.task import changes, page
from django_redis_components.dashboard.task.reasons import answer
from django_redis_components.dashboard.verb import Verb
from django_redis_components.taskqueue.exceptions import TaskResultDoesNotExist
from django_redis_components.taskqueue.stats.explain import Explanation, explain

#: A view of a task that was read.
TaskView = Callable[[PageRequest, Explanation], HttpResponse]


def loaded(view: TaskView) -> Callable[..., HttpResponse]:
    """Return a view that gets the task that its URL names; 404 if there is none."""

    @functools.wraps(view)
    def wrapper(request: PageRequest) -> HttpResponse:
        try:
            task = run(client(), explain(queue_shard(), request.object_id))
        except TaskResultDoesNotExist as exc:
            raise Http404(_("No task has this ID")) from exc
        return view(request, task)

    return wrapper


def impossible_text(verb: Verb, task: Explanation) -> str:
    """Return why a change does not apply to the task, or ""."""
    if changes.applies(verb, task):
        return ""
    state = page.state_label(task.state)
    return _("This does not apply to the task in its state: %(state)s. %(answer)s") % {
        "state": state,
        "answer": answer(task),
    }


def facts_of(task: Explanation) -> list[tuple[str, str]]:
    """Return what identifies the task on the page of a change."""
    return [
        (_("Task"), task.record.name),
        (_("ID"), task.record.id),
        (_("Queue"), task.queue),
        (_("State"), page.state_label(task.state)),
    ]
