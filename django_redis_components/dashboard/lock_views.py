"""The page of locks and semaphores, and the way to release what somebody else holds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect, QueryDict
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.dashboard import (
    lock_figures,
    lock_panels,
    lock_reading,
    lock_verbs,
    outages,
    scanning,
    views,
)
from django_redis_components.dashboard.audit import Record
from django_redis_components.dashboard.lock_places import Place, place_from
from django_redis_components.dashboard.models import Lock
from django_redis_components.dashboard.reading import NothingRead

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Who has it may release what others hold.
MAY_RELEASE = "django_redis_components.release_lock"
#: Templates of the page: the whole, and the part that is refreshed.
_TEMPLATES = ("lock.html", "lock_figures.html")


def page(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Answer a request whose permission was checked."""
    question = _question(request.GET)
    if question is None:
        return HttpResponseBadRequest("using: there is no such connection.", "text/plain")
    context = {
        "title": _("Locks and semaphores"),
        "may_release": request.user.has_perm(MAY_RELEASE),
        "release_url": views.url_of(model_admin, "release"),
        "page_url": views.url_of(model_admin, "changelist"),
        **(extra or {}),
    }
    read = partial(lock_reading.read, question)
    return views.answer(model_admin, request, read, lock_figures.figures, lock_panels.page, _TEMPLATES, context)


def release(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Ask before a release (GET), or do it (POST). The permission was checked."""
    data = request.POST if request.method == "POST" else request.GET
    place, token, using = place_from(data.dict()), data.get("token", ""), _using(data)
    if place is None or using is None or not 0 < len(token) <= lock_verbs.MAX_TOKEN:
        return HttpResponseBadRequest("Name what is to be released: using, kind, name, group, token.", "text/plain")
    if request.method == "POST":
        return _release(model_admin, request, place, token, using)
    try:
        thing = lock_reading.state_of_place(place, using)
    except NothingRead as exc:
        outage = outages.outage_of(exc.error, exc.address)
        return views.away(model_admin, request, "html", outage, {"title": _("Release")})
    return _confirm(model_admin, request, thing, token, using)


def _confirm(
    model_admin: ModelAdmin[Any], request: HttpRequest, thing: lock_reading.Thing, token: str, using: str
) -> HttpResponse:
    place = thing.place
    holder = next((each for each in thing.holders if each.token == token), None)
    kind = lock_panels.kind_words(place.kind, holder.role if holder else "")
    facts = [(_("Name"), place.name), (_("Group"), place.group), (_("Kind"), kind), (_("Holder"), token)]
    if holder is not None:
        facts += [(_("Expires"), lock_panels.time_left(holder.remaining_s)), (_("Waiting"), str(thing.waiting))]
    context = {
        "title": _("Release %(name)s") % {"name": place.name},
        "facts": [(label, value) for label, value in facts if value],
        "possible": holder is not None,
        "gone": _("This holder does not have it any more. There is nothing to release."),
        "warnings": [
            _("The holder is not stopped: it goes on with its work beside whoever comes next."),
            _("It learns of it when it renews, extends or releases. Only writes with a fencing token are kept apart."),
            _("If somebody else has taken it by the time you confirm, nothing is released."),
        ],
        "button": _("Release"),
        "fields": {"using": using, "kind": place.kind, "group": place.group, "name": place.name, "token": token},
        "back": f"{views.url_of(model_admin, 'changelist')}?{urlencode(_lookup(place, using))}",
    }
    return views.rendered(model_admin, request, "confirm.html", context, None)


def _release(model_admin: ModelAdmin[Any], request: HttpRequest, place: Place, token: str, using: str) -> HttpResponse:
    group = f" of group {place.group!r}" if place.group else ""
    deed = f"Release of {place.kind} {place.name!r}{group} on connection {using!r} from holder {token!r}"
    record = Record(request, Lock, place.name, deed)
    try:
        released = lock_verbs.release(place, token, using)
    except (RedisError, RedisComponentsError) as exc:
        record.ended(f"not known whether it was done, {exc}")
        outage = outages.outage_of(exc, str(connections.endpoint(using)))
        return views.away(model_admin, request, "html", outage, {"title": _("Release")})
    record.ended("done" if released else "refused, since this holder did not have it any more")
    if released:
        messages.success(request, _("Released: %(name)s") % {"name": place.name})
    else:
        messages.warning(
            request, _("Not released: %(name)s. This holder did not have it any more.") % {"name": place.name}
        )
    return HttpResponseRedirect(f"{views.url_of(model_admin, 'changelist')}?{urlencode(_lookup(place, using))}")


def _question(data: QueryDict) -> lock_reading.Question | None:
    using = _using(data)
    if using is None:
        return None
    skip = data.get("skip", "")
    return lock_reading.Question(
        using=using,
        name=data.get("name", "").strip(),
        group=data.get("group", "").strip(),
        positions=scanning.positions_of(data.get("at", "")),
        skip=int(skip) if skip.isascii() and skip.isdigit() and len(skip) < 7 else 0,
    )


def _using(data: QueryDict) -> str | None:
    """The connection; None if the request names one that does not exist."""
    settings, using = conf.settings(), data.get("using")
    if not using:
        return settings.dashboard.using
    return using if using in settings.connections else None


def _lookup(place: Place, using: str) -> dict[str, str]:
    asked = {"using": using, "name": place.name, "group": place.group}
    return {name: value for name, value in asked.items() if value}
