"""The views of changes of a key of a rate limit, with their confirmations: reset, block, unblock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps

from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.forms import BlockForm
from django_redis_components.dashboard.limits import page, snapshot
from django_redis_components.dashboard.limits.page import MAX_KEY
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.ratelimits import RateLimit

#: Resets the counters of a key.
RESET = Verb("reset", "reset_ratelimit", MODELS["ratelimit"])
#: Denies all hits of a key for a time, and ends that.
BLOCK = Verb("block", "block_ratelimit", MODELS["ratelimit"])
UNBLOCK = Verb("unblock", "block_ratelimit", MODELS["ratelimit"])

View = Callable[[PageRequest], HttpResponse]
KeyView = Callable[[PageRequest, RateLimit, str], HttpResponse]


def _of_a_key(view: KeyView) -> View:
    """Pass the limit and the key of the request to the view."""

    @wraps(view)
    def respond(request: PageRequest) -> HttpResponse:
        key = request.form.get("key", "")
        if not 0 < len(key) <= MAX_KEY:
            text = _("Required: limit, and key of at most %(most)s characters.") % {"most": MAX_KEY}
            return responses.bad_request(request, InvalidParameter(text))
        limit = snapshot.read_limits().get(request.form.get("limit", ""))
        if limit is None:
            raise Http404(_("This site has used no such limit."))
        return view(request, limit, key)

    return respond


@_of_a_key
def reset(request: PageRequest, limit: RateLimit, key: str) -> HttpResponse:
    """Ask for confirmation of a reset (GET), or reset (POST). The caller has checked the permission."""
    if request.is_post:
        action = f"Reset rate limit {limit.name!r} for key {key!r}"
        return verbs.execute(request, _change(request, RESET, limit, key, action, partial(_reset, limit, key)))
    risks = [
        _("The counters of this key are deleted. A block ends."),
        _("Processes that have cached a denial keep denying until the cached denial expires."),
    ]
    confirmation = Confirmation(
        title=_("Reset rate limit %(name)s") % {"name": limit.name},
        button=_("Reset"),
        back=_back(request, limit, key),
        facts=_facts(limit, key),
        checks=[Check(text, "caution") for text in risks],
        fields={"limit": limit.policy.id, "key": key},
    )
    return verbs.confirm(request, confirmation)


@_of_a_key
def block(request: PageRequest, limit: RateLimit, key: str) -> HttpResponse:
    """Ask for the time of a block (GET), or block (POST). The caller has checked the permission."""
    form = BlockForm(request.http.POST if request.is_post else None)
    if form.is_valid():
        seconds = form.cleaned_data["seconds"]
        lasts = "until unblocked" if seconds is None else f"for {seconds // 60} min"
        action = f"Block key {key!r} of rate limit {limit.name!r} {lasts}"
        run = partial(_block, request, limit, key, seconds)
        return verbs.execute(request, _change(request, BLOCK, limit, key, action, run))
    confirmation = Confirmation(
        title=_("Block a key of rate limit %(name)s") % {"name": limit.name},
        button=_("Block"),
        back=_back(request, limit, key),
        facts=_facts(limit, key),
        checks=[
            Check(_("“Unblock” ends the block at any time. The counters of the key are kept.")),
            Check(_("All hits of this key are denied, of any cost. A block that the key has is replaced."), "caution"),
        ],
        fields={"limit": limit.policy.id, "key": key},
        form=form,
    )
    return verbs.confirm(request, confirmation, form.problem)


@_of_a_key
def unblock(request: PageRequest, limit: RateLimit, key: str) -> HttpResponse:
    """Ask for confirmation (GET), or end the block (POST). The caller has checked the permission."""
    if request.is_post:
        action = f"Unblock key {key!r} of rate limit {limit.name!r}"
        return verbs.execute(request, _change(request, UNBLOCK, limit, key, action, partial(_unblock, limit, key)))
    confirmation = Confirmation(
        title=_("Unblock a key of rate limit %(name)s") % {"name": limit.name},
        button=_("Unblock"),
        back=_back(request, limit, key),
        facts=_facts(limit, key),
        checks=[
            Check(_("The counters of the key, and a block by the penalty, are kept.")),
            Check(_("Processes that have cached the block keep denying for up to 5 seconds.")),
        ],
        fields={"limit": limit.policy.id, "key": key},
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def _facts(limit: RateLimit, key: str) -> list[tuple[str, str]]:
    state = page.verdict(snapshot.peek(limit, key))
    return [(_("Limit"), limit.name), (_("Key"), key), (_("State"), state)]


def _change(
    request: PageRequest, verb: Verb, limit: RateLimit, key: str, action: str, run: Callable[[], ChangeOutcome]
) -> Change:
    return Change(verb, limit.name, action, run, _back(request, limit, key), limit.using)


def _reset(limit: RateLimit, key: str) -> ChangeOutcome:
    snapshot.reset(limit, key)
    return ChangeOutcome("done", _("Reset: %(key)s") % {"key": key})


def _block(request: PageRequest, limit: RateLimit, key: str, seconds: int | None) -> ChangeOutcome:
    snapshot.block(limit, key, seconds, request.author)
    url = request.links.verb("unblock", limit=limit.policy.id, key=key)
    return ChangeOutcome("done", _("Blocked: %(key)s") % {"key": key}, links=[(_("Unblock…"), url)])


def _unblock(limit: RateLimit, key: str) -> ChangeOutcome:
    if snapshot.unblock(limit, key):
        return ChangeOutcome("done", _("Unblocked: %(key)s") % {"key": key})
    return ChangeOutcome("was not blocked", _("Not blocked: %(key)s") % {"key": key}, is_done=False)


def _back(request: PageRequest, limit: RateLimit, key: str) -> str:
    return request.links.reverse("ratelimit", limit=limit.policy.id, key=key)


#: The views of the verbs.
VIEWS = ((RESET, reset), (BLOCK, block), (UNBLOCK, unblock))
