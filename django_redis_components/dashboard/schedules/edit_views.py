"""The view of the form with which a schedule is added or edited."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import outages, responses, verbs
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.schedules import change_views
from django_redis_components.dashboard.schedules.form import ARGUMENTS, ScheduleForm
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.exceptions import ScheduleDoesNotExist
from django_redis_components.taskqueue.schedules.changes import AddedOptions, Schedules, read_definition
from django_redis_components.taskqueue.shard_clients import over, run_over
from django_redis_components.taskqueue.shards import shards_of

EDIT = Verb("edit", "change_schedule", MODELS["schedule"])
#: The permission that shows the arguments of the edited schedule, and the button that does.
VIEW_ARGUMENTS, SHOW_ARGUMENTS = "django_redis_components.view_task_arguments", "show_arguments"


def edit(request: PageRequest) -> HttpResponse:
    """Show the form, or save the schedule. The caller has checked the permission.

    Without the parameter ``name`` a schedule is added. The arguments of a stored schedule are in the form only after a
    POST with `SHOW_ARGUMENTS`, which is logged.
    """
    name, using = request.http.GET.get("name", ""), conf.settings().dashboard.using
    try:
        if name:
            keys.validate_name(name, "name")
        stored = _read(name, using) if name else {}
    except ScheduleDoesNotExist:
        raise Http404(_("No schedule of this name was added at run time.")) from None
    except ValueError as exc:
        return responses.bad_request(request, exc)
    except (RedisError, RedisComponentsError) as exc:
        outage = outages.outage_of(exc, str(connections.endpoint(using)))
        return responses.outage_response(request, outage)
    registry.autodiscover()
    may_view = request.http.user.has_perm(VIEW_ARGUMENTS)
    is_revealed = SHOW_ARGUMENTS in request.http.POST and may_view and bool(stored)
    form = ScheduleForm(
        request.http.POST if request.is_post and SHOW_ARGUMENTS not in request.http.POST else None,
        using=using,
        name=name,
        stored=stored,
        shows_arguments=may_view and (is_revealed or not ARGUMENTS.isdisjoint(request.http.POST)),
    )
    back = request.links.here
    if form.is_valid():
        return verbs.execute(request, _change(form, back))
    if is_revealed:
        AuditEntry(request.http, EDIT.model, name, f"Show arguments of schedule {name!r}").finish("shown")
    title = _("Edit the schedule %(name)s") % {"name": name} if name else _("Add a schedule")
    context = {"title": title, "form": form, "back": back, "is_subpage": True}
    context["has_hidden_arguments"] = may_view and ARGUMENTS.isdisjoint(form.fields)
    response = responses.page_response(request, "edit.html", context)
    if form.is_bound:
        response.status_code = 409
    return response


def _read(name: str, using: str) -> dict[str, Any]:
    """Return the definition of an added schedule.

    Raises:
        ScheduleDoesNotExist: none of this name was added.
        ValueError: it is not JSON, or not an object.
    """
    texts = run_over(using, over(shards_of(using), lambda shard: read_definition(shard, name)))
    text = next((each for each in texts if each is not None), None)
    if text is None:
        raise ScheduleDoesNotExist(name)
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise ValueError(f"name={name!r}: its definition is not a JSON object.")
    return stored


def _change(form: ScheduleForm, back: str) -> Change:
    name, options = form.cleaned_data["name"], form.schedule_options
    action = f"{'Edit' if form.stored else 'Add'} schedule {name!r}: {form.chosen_task.name}, {_describe(options)}"
    return Change(EDIT, name, action, partial(_save, form), back, form.using)


def _describe(options: AddedOptions) -> str:
    """Return the times, the limits and the task's options of a schedule; arguments are not logged."""
    if "every" in options:
        parts = [f"every {options['every']:g} s"]
    else:
        parts = [f"cron {options['cron']}" if "cron" in options else f"at {options['at'].isoformat()}"]
    bounds = {"start": options.get("start"), "end": options.get("end")}
    parts += [f"{name} {moment.isoformat()}" for name, moment in bounds.items() if moment]
    parts += [f"count {options['count']}"] if options.get("count") else []
    return ", ".join([*parts, *(f"{name} {value}" for name, value in options["options"].items())])


def _save(form: ScheduleForm) -> ChangeOutcome:
    name = form.cleaned_data["name"]
    Schedules(using=form.using).add(name, form.chosen_task, **form.schedule_options)
    return ChangeOutcome("done", _("Saved: %(name)s") % {"name": name})


#: The view of each verb.
VIEWS = ((EDIT, edit), *change_views.VIEWS)
