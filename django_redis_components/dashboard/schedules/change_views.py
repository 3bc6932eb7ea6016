"""The views of changes of schedules: run now, pause, resume, remove."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.core import keys
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.taskqueue.exceptions import InvalidTask, ScheduleDoesNotExist
from django_redis_components.taskqueue.schedules.changes import Schedules

#: The verb of each change.
VERBS: dict[str, Verb] = {
    "run": Verb("run", "run_schedule", MODELS["schedule"]),
    "pause": Verb("pause", "pause_schedule", MODELS["schedule"]),
    "resume": Verb("resume", "pause_schedule", MODELS["schedule"]),
    "remove": Verb("remove", "remove_schedule", MODELS["schedule"]),
}


def change(request: PageRequest, command: str) -> HttpResponse:
    """Ask for confirmation of a change (GET), or make it (POST). The caller has checked the permission."""
    name = request.http.POST.get("name") or request.http.GET.get("name", "")
    try:
        keys.validate_name(name, "name")
    except ValueError as exc:
        return responses.bad_request(request, exc)
    back = request.links.here
    if request.is_post:
        execute = partial(_EXECUTE[command], name, request.author)
        action = f"{command.capitalize()} schedule {name!r}"
        return verbs.execute(request, Change(VERBS[command], name, action, execute, back))
    return verbs.confirm(request, _confirmation(command, name, back))


def _confirmation(command: str, name: str, back: str) -> Confirmation:
    titles = {
        "run": _("Run the schedule %(name)s now"),
        "pause": _("Pause the schedule %(name)s"),
        "resume": _("Resume the schedule %(name)s"),
        "remove": _("Remove the schedule %(name)s"),
    }
    buttons = {
        "run": _("Run now"),
        "pause": _("Pause"),
        "resume": _("Resume"),
        "remove": pgettext("a schedule", "Remove"),
    }
    checks = {
        "run": [Check(_("Its task is enqueued once more. Its next run does not change."))],
        "pause": [Check(_("Nothing is enqueued until it is resumed. Times that pass meanwhile are not made up for."))],
        "resume": [Check(_("Its next time is the next after now."))],
        "remove": [
            Check(_("Tasks that were enqueued are kept.")),
            Check(_("It cannot be restored: add it again."), "caution"),
        ],
    }
    return Confirmation(
        title=titles[command] % {"name": name},
        button=buttons[command],
        back=back,
        checks=checks[command],
        fields={"name": name},
        is_danger=command == "remove",
    )


def _run(name: str, author: str) -> ChangeOutcome:
    try:
        result = _schedules().run_now(name)
    except (ScheduleDoesNotExist, InvalidTask) as exc:
        message = _("Not enqueued: the schedule or its task is not registered in this process.")
        return ChangeOutcome(f"not enqueued, {exc}", message, is_done=False)
    return ChangeOutcome(f"task {result.id} enqueued", _("Enqueued: task %(id)s") % {"id": result.id})


def _pause(name: str, author: str) -> ChangeOutcome:
    try:
        was_active = _schedules().pause(name, author=author)
    except ScheduleDoesNotExist:
        return ChangeOutcome("it does not exist", _("There is no such schedule any more."), is_done=False)
    if was_active:
        return ChangeOutcome("done", _("Paused: %(name)s") % {"name": name})
    return ChangeOutcome("it was paused", _("It was paused already: %(name)s") % {"name": name}, is_done=False)


def _resume(name: str, author: str) -> ChangeOutcome:
    if _schedules().resume(name):
        return ChangeOutcome("done", _("Resumed: %(name)s") % {"name": name})
    return ChangeOutcome("it was not paused", _("Not paused: %(name)s") % {"name": name}, is_done=False)


def _remove(name: str, author: str) -> ChangeOutcome:
    if _schedules().remove(name):
        return ChangeOutcome("done", _("Removed: %(name)s") % {"name": name})
    message = _("Not removed: it was not added at run time, or was removed before: %(name)s")
    return ChangeOutcome("it was not added at run time", message % {"name": name}, is_done=False)


def _schedules() -> Schedules:
    return Schedules(using=conf.settings().dashboard.using)


#: What makes each change, from the name of the schedule and of the user.
_EXECUTE: dict[str, Callable[[str, str], ChangeOutcome]] = {
    "run": _run,
    "pause": _pause,
    "resume": _resume,
    "remove": _remove,
}
#: The view of each verb.
VIEWS = tuple((verb, partial(change, command=command)) for command, verb in VERBS.items())
