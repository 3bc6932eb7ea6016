"""The middleware that counts page views and visitors."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from django_redis_components.analytics import identity, sources
from django_redis_components.analytics.buffer import BUFFER, View
from django_redis_components.analytics.crawlers import is_crawler
from django_redis_components.analytics.safeguard import SAFEGUARD
from django_redis_components.analytics.view_counters import page_name
from django_redis_components.core.client_address import client_address
from django_redis_components.core.request_middleware import RequestMiddleware
from django_redis_components.core.settings import conf

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

#: Content types of a page.
PAGES = ("text/html", "application/xhtml+xml")
#: Headers that browsers and scripts send with requests for pages that nobody sees yet, and what they say.
PREFETCH_HEADERS = ("HTTP_SEC_PURPOSE", "HTTP_PURPOSE", "HTTP_X_PURPOSE", "HTTP_X_MOZ", "HTTP_X_SEC_PURPOSE")
_PREFETCHES = ("prefetch", "prerender", "preview")
#: Headers of htmx and Turbo when they follow a link, or go back to a page that they have to fetch again.
_FOLLOWED = ("HTTP_HX_BOOSTED", "HTTP_HX_HISTORY_RESTORE_REQUEST", "HTTP_X_TURBO_REQUEST_ID")
#: Headers of requests that may be no navigation. Most requests have none of them.
_MARKS = (*PREFETCH_HEADERS, "HTTP_HX_REQUEST", "HTTP_X_REQUESTED_WITH", "HTTP_TURBO_FRAME")


class AnalyticsMiddleware(RequestMiddleware):
    """Count page views, visitors and where they come from, without a round trip.

    A page view is a GET request with an HTML response and a status of 200 to 299. Prefetches, what scripts and frames
    fetch, crawlers and other machines (see `crawlers`, ``EXCLUDE_AGENTS``, ``COUNT_AGENTS``), ``EXCLUDE_PATHS`` and
    visitors who opted out (`opt_out`) are not counted. The name of a page is its path. A view is counted in the memory
    of the process and added to Redis within a second (see `PageViews.hit_later`): a request never waits for Redis.

    List it below the session and authentication middlewares. It never fails a request: errors of counting, invalid
    settings included, are logged once a minute.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._acall(request)
        response = self._next(request)
        with SAFEGUARD.log_errors("page views"):
            if is_page_view(request, response):
                _record(request, response, request.user if _by_user(request) else None)
        return response

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        response = await self._anext(request)
        with SAFEGUARD.log_errors("page views"):
            if is_page_view(request, response):
                _record(request, response, await _auser(request) if _by_user(request) else None)
        return response


def is_page_view(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Return whether the response is a page that a visitor sees, who may be counted."""
    if request.method != "GET" or not 200 <= response.status_code < 300:
        return False
    if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in PAGES:
        return False
    if not _is_navigation(request.META) or _is_download(response):
        return False
    analytics = conf.settings().analytics
    if analytics.exclude_paths and request.path.startswith(analytics.exclude_paths):
        return False
    if is_crawler(sources.user_agent(request), analytics.exclude_agents, analytics.count_agents):
        return False
    return not identity.is_excluded(request)


def _is_navigation(meta: dict[str, Any]) -> bool:
    """Return whether the visitor goes to a page. Old browsers do not tell it from a part that a script fetches."""
    target = meta.get("HTTP_SEC_FETCH_DEST", "document")
    if target == "document" and meta.keys().isdisjoint(_MARKS):
        return True
    purposes = [meta[name].lower() for name in PREFETCH_HEADERS if name in meta]
    if "HTTP_HX_PRELOADED" in meta or any(each in purpose for purpose in purposes for each in _PREFETCHES):
        return False
    if "HTTP_TURBO_FRAME" in meta:
        return False
    if not meta.keys().isdisjoint(_FOLLOWED):
        return True
    if "HTTP_HX_REQUEST" in meta or "." not in meta.get("HTTP_X_REQUESTED_WITH", "."):
        return False  # apps of Android that show pages write their package there: com.example.app
    # A service worker that passes a navigation on has no target.
    return target == "document" or (target == "empty" and meta.get("HTTP_SEC_FETCH_MODE") == "navigate")


def _is_download(response: HttpResponseBase) -> bool:
    return response.headers.get("Content-Disposition", "").lstrip().lower().startswith("attachment")


def _by_user(request: HttpRequest) -> bool:
    """Return whether users identify visitors. Otherwise the session is not read, and the page stays cacheable."""
    return conf.settings().analytics.visitor_identity == "user" and hasattr(request, "user")


async def _auser(request: HttpRequest) -> object:
    """Return the user. An authentication of the site, such as by tokens, may set `user` only."""
    auser = getattr(request, "auser", None)
    return request.user if auser is None else await auser()


def _record(request: HttpRequest, response: HttpResponseBase, user: object) -> None:
    """Buffer the view. The thread that adds it to Redis computes a hash of the address, and its country."""
    analytics = conf.settings().analytics
    visitor = address = agent = None
    if not identity.opts_out(request):
        if analytics.visitor_identity == "user":
            visitor = identity.user_visitor(getattr(user, "pk", None))
        elif analytics.visitor_identity == "cookie":
            visitor = identity.cookie_visitor(request, response)
        else:
            agent = sources.user_agent(request)
        if agent is not None or analytics.country is not None:
            address = client_address(request, analytics.trusted_proxies)
    view = View(
        page_name(request.path),
        visitor,
        address,
        agent,
        sources.referrer(request),
        sources.utm_source(request),
        sources.device(request),
    )
    BUFFER.record(analytics.using, analytics.site, view)
