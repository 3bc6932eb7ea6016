"""The page of rate limits, and the way to forget what was counted for a key."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseRedirect
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.dashboard import limit_panels, limit_reading, outages, views
from django_redis_components.dashboard.audit import Record
from django_redis_components.dashboard.models import RateLimit as Anchor
from django_redis_components.dashboard.reading import NothingRead
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.limit import registered_limits

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Who has it may forget what was counted.
MAY_RESET = "django_redis_components.reset_ratelimit"
#: Longest key that is taken from a form, in characters.
MAX_KEY = 1_000
#: Templates of the page: the whole, and the part that is refreshed.
_TEMPLATES = ("limit.html", "limit_figures.html")


def page(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Answer a request whose permission was checked."""
    chosen, key = request.GET.get("limit", ""), request.GET.get("key", "")
    if len(key) > MAX_KEY:
        return HttpResponseBadRequest(f"key: expected at most {MAX_KEY} characters.", "text/plain")
    context = {
        "title": _("Rate limits"),
        "may_reset": request.user.has_perm(MAY_RESET),
        "reset_url": views.url_of(model_admin, "reset"),
        "page_url": views.url_of(model_admin, "changelist"),
        **(extra or {}),
    }
    read = partial(limit_reading.read, chosen, key)
    return views.answer(model_admin, request, read, limit_panels.figures, limit_panels.page, _TEMPLATES, context)


def reset(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Ask before a reset (GET), or do it (POST). The permission was checked."""
    data = request.POST if request.method == "POST" else request.GET
    key = data.get("key", "")
    if not 0 < len(key) <= MAX_KEY:
        return HttpResponseBadRequest("Name what is to be reset: limit, key.", "text/plain")
    limit = registered_limits().get(data.get("limit", ""))
    if limit is None:
        raise Http404("This process does not know the limit.")
    if request.method == "POST":
        return _reset(model_admin, request, limit, key)
    return _confirm(model_admin, request, limit, key)


def _confirm(model_admin: ModelAdmin[Any], request: HttpRequest, limit: RateLimit, key: str) -> HttpResponse:
    try:
        decision = limit_reading.read(limit.policy.id, key).decision
    except NothingRead as exc:
        return views.away(model_admin, request, "html", outages.outage_of(exc.error, exc.address), None)
    state = limit_panels.verdict(decision) if decision is not None else ""
    context = {
        "title": _("Reset %(name)s for a key") % {"name": limit.name},
        "facts": [(_("Limit"), limit.name), (_("Key"), key), (_("State"), state)],
        "possible": True,
        "warnings": [
            _("All that was counted for this key is forgotten, and a block ends."),
            _("A process that was told of a denial goes on to deny for as long as it was told."),
        ],
        "button": _("Reset"),
        "fields": {"limit": limit.policy.id, "key": key},
        "back": _back(model_admin, limit, key),
    }
    return views.rendered(model_admin, request, "confirm.html", context, None)


def _reset(model_admin: ModelAdmin[Any], request: HttpRequest, limit: RateLimit, key: str) -> HttpResponse:
    deed = f"Reset of rate limit {limit.name!r} for key {key!r}"
    record = Record(request, Anchor, limit.name, deed)
    try:
        limit_reading.reset(limit, key)
    except (RedisError, RedisComponentsError) as exc:
        record.ended(f"not known whether it was done, {exc}")
        outage = outages.outage_of(exc, str(connections.endpoint(limit.using)))
        return views.away(model_admin, request, "html", outage, None)
    record.ended("done")
    messages.success(request, _("Reset: %(key)s") % {"key": key})
    return HttpResponseRedirect(_back(model_admin, limit, key))


def _back(model_admin: ModelAdmin[Any], limit: RateLimit, key: str) -> str:
    return f"{views.url_of(model_admin, 'changelist')}?{urlencode({'limit': limit.policy.id, 'key': key})}"
