"""The JSON views of the widget, in the format of the admin's autocomplete view."""

from __future__ import annotations

import dataclasses
import re

from asgiref.sync import sync_to_async
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
    printable,
)
from django_redis_components.autocomplete.exceptions import UnknownIndex
from django_redis_components.autocomplete.index import PrefixIndex
from django_redis_components.autocomplete.recents import RecentList
from django_redis_components.autocomplete.registry import RegisteredIndex, get_index, min_length_of, read_scope
from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.decorators import refuse_awaitable
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.expected_responses import unlogged
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.slot_waits import slot_wait_limit
from django_redis_components.core.text import fold, match_span

#: Maximum page number; each page is read from the first entry on.
MAX_PAGES = 10
#: Typed characters that are looked for in the texts of suggestions, to mark them there.
MAX_MARKED_CHARS = 40
#: `Retry-After` in seconds while Redis is unavailable.
RETRY_AFTER_S = 5
#: Maximum wait for a Cluster slot in migration, in seconds.
SLOT_WAIT_S = 1.0

_PAGE = re.compile(r"[1-9][0-9]?")

logger = guarded_logger(__name__)


class RequestRejected(Exception):
    """Raised to respond with a status and an error text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclasses.dataclass(frozen=True, slots=True)
class _Query:
    """A permitted request."""

    index: PrefixIndex
    recents: RecentList | None
    typed: str
    page: int
    limit: int
    is_long_enough: bool
    typos: bool

    @property
    def asks_for_recents(self) -> bool:
        """Whether the recent choices are the answer."""
        return not self.is_long_enough and not self.typed and self.recents is not None and self.page == 1

    @property
    def count(self) -> int:
        """Number of suggestions to read: those of the pages up to this one, and one that tells of another."""
        return min(self.page * self.limit + 1, MAX_SUGGESTIONS)


@require_safe
def autocomplete(request: HttpRequest, name: str) -> JsonResponse:
    """Return suggestions for a term.

    Query: ``term`` (the typed text), ``page`` (1 to 10), ``scope`` (signed, for an index with scopes),
    ``forward-<name>`` (the value of another field that determines the scope).
    Response: ``{"results": [{"id", "text", "exact"?, "group"?, "match"?}], "pagination": {"more": bool}, "status":
    str}``; exact is true if the typed text is the whole text, spelling folded; the group is "recent", the match start
    and end of the typed characters in the text. Errors: ``{"error": str}`` with 400 (invalid page, length, characters
    or scope), 403 (not permitted, or the scope is missing, was modified or has expired), 404 (no such index) or 503
    (Redis is unavailable or the settings are invalid).
    """
    try:
        with slot_wait_limit(SLOT_WAIT_S):
            query = _query(request, name)
            suggestions: list[Suggestion] = []
            if query.is_long_enough:
                suggestions = query.index.complete(
                    query.typed, limit=query.count, recents=query.recents, typos=query.typos
                )
            elif query.asks_for_recents and query.recents is not None:
                ids = query.recents.ids()
                suggestions = _in_index(ids, query.index.get_many(ids))
            return _finished(_response(query, suggestions))
    except (RequestRejected, RedisError, RedisComponentsError) as exc:
        return _finished(_error(exc, name))


async def aautocomplete(request: HttpRequest, name: str) -> JsonResponse:
    """The same for ASGI. Only the callbacks of the site run in a thread: they may use the ORM."""
    if request.method not in ("GET", "HEAD"):
        return JsonResponse({"error": gettext("Method not allowed.")}, status=405, headers={"Allow": "GET, HEAD"})
    try:
        with slot_wait_limit(SLOT_WAIT_S):
            query = await sync_to_async(_query)(request, name)
            suggestions: list[Suggestion] = []
            if query.is_long_enough:
                suggestions = await query.index.acomplete(
                    query.typed, limit=query.count, recents=query.recents, typos=query.typos
                )
            elif query.asks_for_recents and query.recents is not None:
                ids = await query.recents.aids()
                suggestions = _in_index(ids, await query.index.aget_many(ids))
            return _finished(_response(query, suggestions))
    except (RequestRejected, RedisError, RedisComponentsError) as exc:
        return _finished(_error(exc, name))


def _query(request: HttpRequest, name: str) -> _Query:
    """Check a request.

    Raises:
        RequestRejected: it is invalid or not permitted.
    """
    try:
        index_source = get_index(name)
    except UnknownIndex:
        raise RequestRejected(404, gettext("Index not found.")) from None
    scope = _scope(request, index_source)
    try:
        index = index_source.index(scope)
    except ValueError:
        raise RequestRejected(400, gettext("Invalid scope.")) from None
    permitted = index_source.is_permitted(request, scope)
    refuse_awaitable(permitted, type(index_source).is_permitted, "a coroutine would count as a permission")
    if not permitted:
        raise RequestRejected(403, gettext("You do not have permission to view these suggestions."))
    typed, page = _typed(request), _number(request)
    recents = index_source.recents(request)
    limit = index_source.limit or conf.settings().autocomplete.limit
    is_long_enough = len(typed) >= min_length_of(index_source)
    return _Query(index, recents, typed, page, limit, is_long_enough, index_source.typos)


def _response(query: _Query, suggestions: list[Suggestion]) -> JsonResponse:
    first, last = (query.page - 1) * query.limit, query.page * query.limit
    more = query.is_long_enough and len(suggestions) > last and query.page < MAX_PAGES
    page = suggestions[first:last]
    folded = folded_prefix(query.typed) if len(query.typed) <= MAX_MARKED_CHARS else ""
    rows = [_row(one, folded, fold(query.typed)) for one in page]
    return JsonResponse({"results": rows, "pagination": {"more": more}, "status": _status(len(page))})


def _error(exc: Exception, name: str) -> JsonResponse:
    if isinstance(exc, RequestRejected) and exc.status == 200:
        return JsonResponse({"results": [], "pagination": {"more": False}, "status": exc.text})
    if isinstance(exc, RequestRejected):
        return JsonResponse({"error": exc.text}, status=exc.status)
    if should_log_failure(f"autocomplete {name}"):  # of a registered index, so there are few topics
        logger.warning("Autocomplete of index %r fails: %s", name[:100], exc)
    text = gettext("Suggestions are not available at the moment.")
    return unlogged(JsonResponse({"error": text}, status=503, headers={"Retry-After": str(RETRY_AFTER_S)}))


def _finished(response: JsonResponse) -> JsonResponse:
    patch_cache_control(response, private=True, max_age=0)
    patch_vary_headers(response, ("Cookie", "Accept-Language"))
    return response


def _in_index(ids: list[str], suggestions: dict[str, Suggestion]) -> list[Suggestion]:
    """Return the recent choices that are in the index, with its texts."""
    return [Suggestion(id_, suggestions[id_].text, is_recent=True) for id_ in ids if id_ in suggestions]


def _scope(request: HttpRequest, index_source: RegisteredIndex) -> str:
    """Return the scope of the request, "" for an index without scopes."""
    if not index_source.scoped:
        return ""
    if index_source.forward:
        values = {name: request.GET.get(f"forward-{name}", "") for name in index_source.forward}
        if chosen := index_source.scope_from(**values):
            return chosen
        raise RequestRejected(200, gettext("First choose a value in the field that this one depends on."))
    scope = index_source.scope_for(request)
    if scope is None:
        scope = read_scope(index_source.name, request.GET.get("scope", ""))
    if not scope:
        raise RequestRejected(403, gettext("You do not have permission to view these suggestions."))
    return scope


def _typed(request: HttpRequest) -> str:
    typed = request.GET.get("term", "").strip()
    if len(typed) > MAX_TERM_CHARS:
        raise RequestRejected(400, gettext("Enter at most %(count)d characters.") % {"count": MAX_TERM_CHARS})
    if printable(typed) != typed:
        raise RequestRejected(400, gettext("The text has invalid characters."))
    return typed if folded_prefix(typed) else ""


def _number(request: HttpRequest) -> int:
    text = request.GET.get("page", "1")
    if not _PAGE.fullmatch(text) or int(text) > MAX_PAGES:
        raise RequestRejected(400, gettext("Page not found."))
    return int(text)


def _status(count: int) -> str:
    """Return the text that a screen reader announces."""
    if not count:
        return gettext("No suggestions")
    return ngettext("%(count)d suggestion", "%(count)d suggestions", count) % {"count": count}


def _row(one: Suggestion, folded: str, whole: str) -> dict[str, object]:
    row: dict[str, object] = {"id": one.id, "text": one.text}
    if fold(one.text) == whole:
        row["exact"] = True
    if one.is_recent:
        row["group"] = "recent"
    if span := match_span(one.text, folded):
        row["match"] = span
    return row
