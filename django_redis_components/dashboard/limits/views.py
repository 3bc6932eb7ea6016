"""The views of rate limits: the page, and a reset with its confirmation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from django_redis_components.dashboard import models, outages, responses, verbs
from django_redis_components.dashboard.limits import page, snapshot
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.verbs import Change, Check, Confirmation, Outcome, Verb
from django_redis_components.ratelimits import RateLimit

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

#: Resets the counters of a key.
RESET = Verb("reset", "reset_ratelimit", models.RateLimit)
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
        "may_reset": verbs.is_allowed(request, RESET),
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
    try:
        limit = snapshot.read_limits().get(form.get("limit", ""))
        if limit is None:
            raise Http404("This site has used no such limit.")
        if request.method == "POST":
            return verbs.execute(model_admin, request, _change(model_admin, limit, key))
        decision = snapshot.peek(limit, key)
    except SnapshotFailed as exc:
        return responses.outage_response(model_admin, request, outages.outage_of(exc.error, exc.address))
    state = page.verdict(decision)
    return verbs.confirm(model_admin, request, _confirmation(model_admin, limit, key, state))


def _confirmation(model_admin: ModelAdmin[Any], limit: RateLimit, key: str, state: str) -> Confirmation:
    risks = [
        _("The counters of this key are deleted. A penalty block ends."),
        _("Processes that have cached a denial keep denying until the cached denial expires."),
    ]
    return Confirmation(
        title=_("Reset rate limit %(name)s") % {"name": limit.name},
        button=_("Reset"),
        back=_back(model_admin, limit, key),
        facts=[(_("Limit"), limit.name), (_("Key"), key), (_("State"), state)],
        checks=[Check(text, "caution") for text in risks],
        fields={"limit": limit.policy.id, "key": key},
    )


def _change(model_admin: ModelAdmin[Any], limit: RateLimit, key: str) -> Change:
    action = f"Reset rate limit {limit.name!r} for key {key!r}"
    return Change(RESET, limit.name, action, partial(_run, limit, key), _back(model_admin, limit, key), limit.using)


def _run(limit: RateLimit, key: str) -> Outcome:
    snapshot.reset(limit, key)
    return Outcome("done", _("Reset: %(key)s") % {"key": key})


def _back(model_admin: ModelAdmin[Any], limit: RateLimit, key: str) -> str:
    return f"{responses.url_of(model_admin, 'changelist')}?{urlencode({'limit': limit.policy.id, 'key': key})}"
