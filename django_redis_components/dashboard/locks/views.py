"""The views of locks and semaphores: the page, and a release with its confirmation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_redis_components.core import conf
from django_redis_components.dashboard import outages, responses, verbs
from django_redis_components.dashboard.locks import data, page, scan
from django_redis_components.dashboard.locks import release as releasing
from django_redis_components.dashboard.locks.resources import Resource, resource_from_form
from django_redis_components.dashboard.locks.snapshot import LockQuery, ResourceState, read, read_one
from django_redis_components.dashboard.models import Lock, Task
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.queues.change_views import task_url
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation, Verb

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Releases locks and permits of other holders.
RELEASE = Verb("release", "release_lock", Lock)
_TEMPLATES = responses.Templates("locks/page.html", "locks/fragment.html")


def locks(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the page of locks. The caller has checked the permission."""
    query = _query(request.GET)
    if query is None:
        return HttpResponseBadRequest("using: unknown connection alias.", "text/plain")
    context = {
        "title": _("Locks and semaphores"),
        "may_release": verbs.is_allowed(request, RELEASE),
        "release_url": responses.url_of(model_admin, "release"),
        "page_url": responses.url_of(model_admin, "changelist"),
        **(extra or {}),
    }
    may_view_tasks = bool(responses.page_url(model_admin, request, Task))
    build = partial(page.build_page, url_of=partial(task_url, model_admin) if may_view_tasks else None)
    return responses.snapshot_response(
        model_admin, request, partial(read, query), data.lock_data, build, _TEMPLATES, context
    )


def release(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Ask for confirmation of a release (GET), or release (POST). The caller has checked the permission."""
    form = request.POST if request.method == "POST" else request.GET
    resource, token, using = resource_from_form(form.dict()), form.get("token", ""), _using(form)
    if resource is None or using is None or not 0 < len(token) <= releasing.MAX_TOKEN:
        return HttpResponseBadRequest("Required: using, kind, name, token, and group for kind=group.", "text/plain")
    if request.method == "POST":
        change = _change(model_admin, resource, token, using, request.user.get_username())
        return verbs.execute(model_admin, request, change)
    try:
        state = read_one(resource, using)
    except SnapshotFailed as exc:
        outage = outages.outage_of(exc.error, exc.address)
        return responses.outage_response(model_admin, request, outage, {"title": _("Release")})
    return verbs.confirm(model_admin, request, _confirmation(model_admin, state, token, using))


def _confirmation(model_admin: ModelAdmin[Any], state: ResourceState, token: str, using: str) -> Confirmation:
    resource = state.resource
    holder = next((each for each in state.holders if each.token == token), None)
    kind = page.kind_label(resource.kind, holder.role if holder else "")
    facts = [(_("Name"), resource.name), (_("Group"), resource.group), (_("Kind"), kind), (_("Token"), token)]
    if holder is not None:
        facts += [(_("Holder"), page.holder_text(holder.held_by))] if holder.held_by else []
        facts += [(_("Lease expires in"), page.time_left(holder.remaining_s)), (_("Waiters"), str(state.waiters))]
    risks = [
        _("The holder is not stopped. It keeps running, alongside the next holder."),
        _("The holder notices at its next renewal, extend or release. Until then only fenced writes are rejected."),
        _("If another holder has acquired it before you confirm, nothing is released."),
    ]
    gone = _("This holder no longer holds it. There is nothing to release.")
    return Confirmation(
        title=_("Release %(name)s") % {"name": resource.name},
        button=_("Release"),
        back=_back(model_admin, resource, using),
        facts=[(label, value) for label, value in facts if value],
        checks=[
            *(Check(text, "caution") for text in risks),
            Check(_("The error of the holder names you and the time.")),
        ],
        fields=_fields(resource, token, using),
        impossible="" if holder is not None else gone,
    )


def _change(model_admin: ModelAdmin[Any], resource: Resource, token: str, using: str, author: str) -> Change:
    group = f" of group {resource.group!r}" if resource.group else ""
    action = f"Release {resource.kind} {resource.name!r}{group} on connection {using!r} from holder {token!r}"
    run = partial(_run, resource, token, using, author)
    return Change(RELEASE, resource.name, action, run, _back(model_admin, resource, using), using)


def _run(resource: Resource, token: str, using: str, author: str) -> ChangeOutcome:
    name = {"name": resource.name}
    if releasing.release(resource, token, using, author=author):
        return ChangeOutcome("done", _("Released: %(name)s") % name)
    message = _("Not released: %(name)s. The holder no longer held it.") % name
    return ChangeOutcome("refused, the holder no longer held it", message, is_done=False)


def _query(form: QueryDict) -> LockQuery | None:
    using = _using(form)
    if using is None:
        return None
    skip = form.get("skip", "")
    return LockQuery(
        using=using,
        name=form.get("name", "").strip(),
        group=form.get("group", "").strip(),
        cursors=scan.cursors_from_text(form.get("at", "")),
        skip=int(skip) if skip.isascii() and skip.isdigit() and len(skip) < 7 else 0,
    )


def _using(form: QueryDict) -> str | None:
    """Return the connection alias; None if the request names an unknown one."""
    settings, using = conf.settings(), form.get("using")
    if not using:
        return settings.dashboard.using
    return using if using in settings.connections else None


def _fields(resource: Resource, token: str, using: str) -> dict[str, str]:
    return {"using": using, "kind": resource.kind, "group": resource.group, "name": resource.name, "token": token}


def _back(model_admin: ModelAdmin[Any], resource: Resource, using: str) -> str:
    query = {"using": using, "name": resource.name, "group": resource.group}
    lookup = urlencode({name: value for name, value in query.items() if value})
    return f"{responses.url_of(model_admin, 'changelist')}?{lookup}"
