"""The middleware that counts page views and visitors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction

from django_redis_components.analytics import identity
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.pageviews import PageViews, hit_call
from django_redis_components.analytics.safeguard import SAFEGUARD
from django_redis_components.analytics.visitors import UniqueVisitors, add_call
from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.leasing.holder import working_for
from django_redis_components.core.protocol import Batch, Call, Flow, arun, run

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponseBase

#: Content types of a page.
PAGES = ("text/html", "application/xhtml+xml")
#: Headers that browsers send with prefetch requests.
PREFETCH_HEADERS = ("Sec-Purpose", "Purpose", "X-Moz")


class AnalyticsMiddleware:
    """Count page views and visitors, in one round trip to Redis.

    A page view is a GET request with an HTML response and a status of 200 to 299. Prefetches, crawlers
    (``IGNORE_AGENTS``) and ``EXCLUDE_PATHS`` are not counted. The name of a page is its path.

    List it below the session and authentication middlewares. It never fails a request: errors of counting, invalid
    settings included, are logged once a minute. After an error of Redis nothing is counted for five seconds, so that
    requests do not wait for its timeout. A slow Redis delays a response by at most ``TIMEOUT`` (0.25 seconds), and slow
    replies take at most a tenth of the time.
    """

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self.get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self._is_async:
            return self._acall(request)
        response = self._next(request)
        if SAFEGUARD.should_count("page views", partial(is_page_view, request, response)):
            with SAFEGUARD.suppress_errors("page views"):
                pk = request.user.pk if _by_user(request) else None
                analytics = conf.settings().analytics
                client = connections.client_with_timeout(analytics.using, analytics.timeout_s, retries=0)
                run(client, _count(request, response, pk))
        return response

    async def _acall(self, request: HttpRequest) -> HttpResponseBase:
        response = await self._anext(request)
        if SAFEGUARD.should_count("page views", partial(is_page_view, request, response)):
            with SAFEGUARD.suppress_errors("page views"):
                pk = (await request.auser()).pk if _by_user(request) else None
                analytics = conf.settings().analytics
                client = connections.aclient_with_timeout(analytics.using, analytics.timeout_s, retries=0)
                async with asyncio.timeout(analytics.timeout_s):  # includes the wait for a free connection
                    await arun(client, _count(request, response, pk))
        return response

    def _next(self, request: HttpRequest) -> HttpResponseBase:
        with working_for(request):
            return cast("HttpResponseBase", self.get_response(request))

    async def _anext(self, request: HttpRequest) -> HttpResponseBase:
        with working_for(request):
            return cast("HttpResponseBase", await self.get_response(request))


def is_page_view(request: HttpRequest, response: HttpResponseBase) -> bool:
    """Return whether the response is a page that a visitor sees."""
    if request.method != "GET" or not 200 <= response.status_code < 300:
        return False
    if response.headers.get("Content-Type", "").partition(";")[0].strip().lower() not in PAGES:
        return False
    if any("prefetch" in request.headers.get(name, "").lower() for name in PREFETCH_HEADERS):
        return False
    analytics = conf.settings().analytics
    if request.path.startswith(tuple(analytics.exclude_paths)):
        return False
    agent = request.headers.get("User-Agent", "").lower()
    return not any(part.lower() in agent for part in analytics.ignore_agents)


def _by_user(request: HttpRequest) -> bool:
    """Return whether users identify visitors. Otherwise the session is not read, and the page stays cacheable."""
    return conf.settings().analytics.visitor_identity == "user" and hasattr(request, "user")


def _count(request: HttpRequest, response: HttpResponseBase, pk: object) -> Flow[None]:
    """Count a view and its visitor in one round trip."""
    analytics = conf.settings().analytics
    day = site_date()
    requests: list[Call] = [hit_call(PageViews(analytics.site), request.path, day)]
    visitor = None
    if not identity.opts_out(request):
        if analytics.visitor_identity == "user":
            visitor = identity.user_visitor(pk)
        elif analytics.visitor_identity == "cookie":
            visitor = identity.cookie_visitor(request, response)
        else:
            visitor = yield from identity.hash_visitor(request, analytics.site, analytics.using, day)
    if visitor is not None:
        requests.append(add_call(UniqueVisitors(analytics.site), [visitor], day))
    yield Batch(requests)
