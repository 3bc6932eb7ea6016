"""The JSON that the widget asks for, in the format of the admin's own autocomplete view."""

from __future__ import annotations

import logging
import re

from django.http import HttpRequest, JsonResponse
from django.utils.cache import patch_cache_control, patch_vary_headers
from django.utils.translation import gettext, ngettext
from django.views.decorators.http import require_safe
from redis.exceptions import RedisError

from django_redis_components.autocomplete.entries import (
    MAX_SUGGESTIONS,
    MAX_TERM_CHARS,
    Suggestion,
    folded_prefix,
)
from django_redis_components.autocomplete.exceptions import UnknownIndex
from django_redis_components.autocomplete.index import PrefixIndex
from django_redis_components.autocomplete.recents import RecentList
from django_redis_components.autocomplete.registry import Source, read_scope, source
from django_redis_components.core import conf
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.exceptions import RedisComponentsError

#: Pages that can be asked for; each is read from the first entry on.
MAX_PAGES = 10
#: Seconds after which a page may ask again when Redis was away.
RETRY_AFTER_S = 5
#: Seconds that a page waits for a Cluster slot that is being moved.
SLOT_WAIT_S = 1.0

_PAGE = re.compile(r"[1-9][0-9]?")

logger = logging.getLogger(__name__)


class Refused(Exception):
    """The request gets this status and text instead of suggestions."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@require_safe
def autocomplete(request: HttpRequest, name: str) -> JsonResponse:
    """Suggestions for what was typed.

    Query: ``term`` (what was typed), ``page`` (1 to 10), ``scope`` (signed, for an index with scopes).
    Answer: ``{"results": [{"id", "text", "group"?}], "pagination": {"more": bool}, "status": str}``; the group is
    "recent". Otherwise ``{"error": str}`` with 400 (page, length, or a scope that no index can have), 403 (not
    permitted, no scope, or one that was tampered with), 404 (no such index) or 503 (Redis is away, or
    the settings are wrong).
    """
    try:
        with slot_wait_limit(SLOT_WAIT_S):
            response = JsonResponse(_answer(request, name))
    except Refused as refused:
        response = JsonResponse({"error": refused.text}, status=refused.status)
    except (RedisError, RedisComponentsError) as exc:
        logger.warning("Autocomplete of index %r has no answer: %s", name[:100], exc)
        response = JsonResponse({"error": gettext("Suggestions are not available at the moment.")}, status=503)
        response["Retry-After"] = str(RETRY_AFTER_S)
    patch_cache_control(response, private=True, max_age=0)
    patch_vary_headers(response, ("Cookie", "Accept-Language"))
    return response


def _answer(request: HttpRequest, name: str) -> dict[str, object]:
    try:
        asked = source(name)
    except UnknownIndex:
        raise Refused(404, gettext("There is no such index.")) from None
    scope = _scope(request, asked)
    try:
        index = asked.index(scope)
    except ValueError:
        raise Refused(400, gettext("The scope is not accepted.")) from None
    permitted = asked.permitted(request, scope)
    refuse_awaitable(permitted, type(asked).permitted, "a coroutine would count as a permission")
    if not permitted:
        raise Refused(403, gettext("You may not see these suggestions."))
    found, more = _page(request, asked, index)
    return {"results": [_row(one) for one in found], "pagination": {"more": more}, "status": _status(len(found))}


def _scope(request: HttpRequest, asked: Source) -> str:
    """The scope of the request, "" for an index without scopes."""
    if not asked.scoped:
        return ""
    scope = asked.scope_for(request)
    if scope is None:
        scope = read_scope(asked.name, request.GET.get("scope", ""))
    if not scope:
        raise Refused(403, gettext("You may not see these suggestions."))
    return scope


def _page(request: HttpRequest, asked: Source, index: PrefixIndex) -> tuple[list[Suggestion], bool]:
    typed, page = _typed(request), _number(request)
    recents = asked.recents(request)
    limit = asked.limit or conf.settings().autocomplete.limit
    if len(typed) >= asked.least_length():
        found = index.complete(typed, min(page * limit + 1, MAX_SUGGESTIONS), recents)
        return found[(page - 1) * limit : page * limit], len(found) > page * limit and page < MAX_PAGES
    if typed or recents is None or page > 1:
        return [], False
    return _only_recents(index, recents)[:limit], False


def _only_recents(index: PrefixIndex, recents: RecentList) -> list[Suggestion]:
    """Recent choices that the index still has, with the index's text."""
    chosen = recents.ids()
    known = index.get_many(chosen)
    return [Suggestion(id_, known[id_].text, recent=True) for id_ in chosen if id_ in known]


def _typed(request: HttpRequest) -> str:
    typed = request.GET.get("term", "").strip()
    if len(typed) > MAX_TERM_CHARS:
        raise Refused(400, gettext("At most %(count)d characters, please.") % {"count": MAX_TERM_CHARS})
    return typed if folded_prefix(typed) else ""


def _number(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    if not _PAGE.fullmatch(text) or int(text) > MAX_PAGES:
        raise Refused(400, gettext("There is no such page."))
    return int(text)


def _status(count: int) -> str:
    """What a screen reader announces."""
    if not count:
        return gettext("No suggestions")
    return ngettext("%(count)d suggestion", "%(count)d suggestions", count) % {"count": count}


def _row(one: Suggestion) -> dict[str, str]:
    row = {"id": one.id, "text": one.text}
    if one.recent:
        row["group"] = "recent"
    return row
