"""The views of rate limits: the page, and a reset with its confirmation."""

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
from django_redis_components.dashboard import models, outages, responses
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.limits import page, snapshot
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.ratelimits import RateLimit
from django_redis_components.ratelimits.limit import registered_limits

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Permission to reset the counters of a key.
RESET_PERMISSION = "django_redis_components.reset_ratelimit"
#: Longest key that a form accepts, in characters.
MAX_KEY = 1_000
_TEMPLATES = responses.Templates("limits/page.html", "limits/fragment.html")


def limits(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the page of rate limits. The caller has checked the permission."""
    limit_id, key = request.GET.get("limit", ""), request.GET.get("key", "")
    if len(key) > MAX_KEY:
        return HttpResponseBadRequest(f"key: expected at most {MAX_KEY} characters.", "text/plain")
    context = {
        "title": _("Rate limits"),
        "may_reset": request.user.has_perm(RESET_PERMISSION),
        "reset_url": responses.url_of(model_admin, "reset"),
        "page_url": responses.url_of(model_admin, "changelist"),
        **(extra or {}),
    }
    read = partial(snapshot.read, limit_id, key)
    return responses.snapshot_response(
        model_admin, request, read, page.limit_data, page.build_page, _TEMPLATES, context
    )


def reset(model_admin: ModelAdmin[Any], request: HttpRequest) -> HttpResponse:
    """Ask for confirmation of a reset (GET), or reset (POST). The caller has checked the permission."""
    form = request.POST if request.method == "POST" else request.GET
    key = form.get("key", "")
    if not 0 < len(key) <= MAX_KEY:
        return HttpResponseBadRequest(f"Required: limit, and key of at most {MAX_KEY} characters.", "text/plain")
    limit = registered_limits().get(form.get("limit", ""))
    if limit is None:
        raise Http404("This limit is not registered in this process.")
    if request.method == "POST":
        return _reset(model_admin, request, limit, key)
    return _confirm(model_admin, request, limit, key)


def _confirm(model_admin: ModelAdmin[Any], request: HttpRequest, limit: RateLimit, key: str) -> HttpResponse:
    try:
        decision = snapshot.read(limit.policy.id, key).decision
    except SnapshotFailed as exc:
        return responses.outage_response(model_admin, request, outages.outage_of(exc.error, exc.address))
    state = page.verdict(decision) if decision is not None else ""
    context = {
        "title": _("Reset rate limit %(name)s") % {"name": limit.name},
        "facts": [(_("Limit"), limit.name), (_("Key"), key), (_("State"), state)],
        "is_possible": True,
        "warnings": [
            _("The counters of this key are deleted. A penalty block ends."),
            _("Processes that have cached a denial keep denying until the cached denial expires."),
        ],
        "button": _("Reset"),
        "fields": {"limit": limit.policy.id, "key": key},
        "back": _back(model_admin, limit, key),
    }
    return responses.page_response(model_admin, request, "confirm.html", context)


def _reset(model_admin: ModelAdmin[Any], request: HttpRequest, limit: RateLimit, key: str) -> HttpResponse:
    entry = AuditEntry(request, models.RateLimit, limit.name, f"Reset rate limit {limit.name!r} for key {key!r}")
    try:
        snapshot.reset(limit, key)
    except (RedisError, RedisComponentsError) as exc:
        entry.finish(f"outcome unknown, {exc}")
        outage = outages.outage_of(exc, str(connections.endpoint(limit.using)))
        return responses.outage_response(model_admin, request, outage)
    entry.finish("done")
    messages.success(request, _("Reset: %(key)s") % {"key": key})
    return HttpResponseRedirect(_back(model_admin, limit, key))


def _back(model_admin: ModelAdmin[Any], limit: RateLimit, key: str) -> str:
    return f"{responses.url_of(model_admin, 'changelist')}?{urlencode({'limit': limit.policy.id, 'key': key})}"
