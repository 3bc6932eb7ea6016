"""The view of a release of a lock or a permit, with its confirmation."""

from __future__ import annotations

from functools import partial

from django.http import HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.locks import page
from django_redis_components.dashboard.locks.page import using_of
from django_redis_components.dashboard.locks.release import MAX_TOKEN, release
from django_redis_components.dashboard.locks.resources import Resource, resource_from_form
from django_redis_components.dashboard.locks.snapshot import ResourceState, read_one
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import missing
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation

#: Releases locks and permits of other holders.
RELEASE = Verb("release", "release_lock", MODELS["lock"])


def release_lock(request: PageRequest) -> HttpResponse:
    """Ask for confirmation of a release (GET), or release (POST). The caller has checked the permission."""
    form = request.form
    resource, token, using = resource_from_form(form.dict()), form.get("token", ""), using_of(form)
    if resource is None or using is None or not 0 < len(token) <= MAX_TOKEN:
        return responses.bad_request(request, missing("using, kind, name, token, group (kind=group)"))
    if request.is_post:
        change = _change(request, resource, token, using, request.author)
        return verbs.execute(request, change)
    return verbs.confirm(request, _confirmation(request, read_one(resource, using), token, using))


def _confirmation(request: PageRequest, state: ResourceState, token: str, using: str) -> Confirmation:
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
        back=_back(request, resource, using),
        facts=[(label, value) for label, value in facts if value],
        checks=[
            *(Check(text, "caution") for text in risks),
            Check(_("The error of the holder names you and the time.")),
        ],
        fields=_fields(resource, token, using),
        impossible="" if holder is not None else gone,
    )


def _change(request: PageRequest, resource: Resource, token: str, using: str, author: str) -> Change:
    group = f" of group {resource.group!r}" if resource.group else ""
    action = f"Release {resource.kind} {resource.name!r}{group} on connection {using!r} from holder {token!r}"
    run = partial(_run, resource, token, using, author)
    return Change(RELEASE, resource.name, action, run, _back(request, resource, using), using)


def _run(resource: Resource, token: str, using: str, author: str) -> ChangeOutcome:
    name = {"name": resource.name}
    if release(resource, token, using, author=author):
        return ChangeOutcome("done", _("Released: %(name)s") % name)
    message = _("Not released: %(name)s. The holder no longer held it.") % name
    return ChangeOutcome("refused, the holder no longer held it", message, is_done=False)


def _fields(resource: Resource, token: str, using: str) -> dict[str, str]:
    return {"using": using, "kind": resource.kind, "group": resource.group, "name": resource.name, "token": token}


def _back(request: PageRequest, resource: Resource, using: str) -> str:
    return request.links.reverse("lock", using=using, name=resource.name, group=resource.group)


#: The view of the verb.
VIEWS = ((RELEASE, release_lock),)
