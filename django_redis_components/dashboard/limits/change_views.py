"""The view of a reset of a rate limit, with its confirmation."""

from __future__ import annotations

from functools import partial

from django.http import Http404, HttpResponse, HttpResponseBadRequest
from django.utils.translation import gettext as _

from django_redis_components.dashboard import verbs
from django_redis_components.dashboard.limits import page, snapshot
from django_redis_components.dashboard.limits.page import MAX_KEY
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.ratelimits import RateLimit

#: Resets the counters of a key.
RESET = Verb("reset", "reset_ratelimit", MODELS["ratelimit"])


def reset(request: PageRequest) -> HttpResponse:
    """Ask for confirmation of a reset (GET), or reset (POST). The caller has checked the permission."""
    form = request.form
    key = form.get("key", "")
    if not 0 < len(key) <= MAX_KEY:
        return HttpResponseBadRequest(f"Required: limit, and key of at most {MAX_KEY} characters.", "text/plain")
    limit = snapshot.read_limits().get(form.get("limit", ""))
    if limit is None:
        raise Http404("This site has used no such limit.")
    if request.is_post:
        return verbs.execute(request, _change(request, limit, key))
    state = page.verdict(snapshot.peek(limit, key))
    return verbs.confirm(request, _confirmation(request, limit, key, state))


def _confirmation(request: PageRequest, limit: RateLimit, key: str, state: str) -> Confirmation:
    risks = [
        _("The counters of this key are deleted. A penalty block ends."),
        _("Processes that have cached a denial keep denying until the cached denial expires."),
    ]
    return Confirmation(
        title=_("Reset rate limit %(name)s") % {"name": limit.name},
        button=_("Reset"),
        back=_back(request, limit, key),
        facts=[(_("Limit"), limit.name), (_("Key"), key), (_("State"), state)],
        checks=[Check(text, "caution") for text in risks],
        fields={"limit": limit.policy.id, "key": key},
    )


def _change(request: PageRequest, limit: RateLimit, key: str) -> Change:
    action = f"Reset rate limit {limit.name!r} for key {key!r}"
    return Change(RESET, limit.name, action, partial(_run, limit, key), _back(request, limit, key), limit.using)


def _run(limit: RateLimit, key: str) -> ChangeOutcome:
    snapshot.reset(limit, key)
    return ChangeOutcome("done", _("Reset: %(key)s") % {"key": key})


def _back(request: PageRequest, limit: RateLimit, key: str) -> str:
    return request.links.reverse("ratelimit", limit=limit.policy.id, key=key)


#: The view of the verb.
VIEWS = ((RESET, reset),)
