"""The view of the overview page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, QueryDict

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.failures.change_views import RETRY
from django_redis_components.dashboard.models import Analytics, Failure, Schedule, Worker
from django_redis_components.dashboard.overview import data, page, snapshot
from django_redis_components.dashboard.overview.queue_table import MAX_TEXT, QueueQuery
from django_redis_components.dashboard.overview.remedies import RemedyUrls
from django_redis_components.dashboard.panels.page import permitted_panels
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.change_views import queue_url
from django_redis_components.dashboard.verbs import is_allowed
from django_redis_components.taskqueue.stats.history import check_range

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("overview/page.html", "overview/fragment.html")
#: Parameters of the page that its links keep.
_KEPT = ("queue", "queues", "range", "sort")


def overview(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the overview. The caller has checked the permission."""
    try:
        query = QueueQuery.parse(request.GET)
        range_name = check_range(request.GET.get("range", snapshot.DEFAULT_RANGE))
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    build = partial(page.build_page, request=request, query=query, urls=_urls(model_admin, request))
    read = partial(snapshot.read, permitted_panels("overview", request), range_name, request.GET)
    context = {**(extra or {}), "parameters": _parameters(request.GET)}
    return responses.snapshot_response(model_admin, request, read, data.overview_data, build, _TEMPLATES, context)


def _parameters(query: QueryDict) -> QueryDict:
    """Return the parameters that the links of the page keep. Others could make each link as long as the request."""
    kept = QueryDict(mutable=True)
    kept.update({name: text[:MAX_TEXT] for name in _KEPT if (text := query.get(name))})
    return kept


def _urls(model_admin: ModelAdmin[Any], request: HttpRequest) -> RemedyUrls:
    """Return the URLs of the pages and changes that the user may open."""
    failures = responses.page_url(model_admin, request, Failure)
    may_change = {verb.name: is_allowed(request, verb) for verb in (changes.PAUSE, changes.RESUME)}

    def url_of_queue(verb: str, queue: str) -> str:
        return queue_url(model_admin, verb, queue) if may_change.get(verb, True) else ""

    return RemedyUrls(
        failures=failures,
        workers=responses.page_url(model_admin, request, Worker),
        schedules=responses.page_url(model_admin, request, Schedule),
        analytics=responses.page_url(model_admin, request, Analytics),
        retry_error=f"{failures}{RETRY.name}/" if failures and is_allowed(request, RETRY) else "",
        queue=url_of_queue,
    )
