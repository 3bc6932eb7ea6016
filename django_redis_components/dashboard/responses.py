"""Responses that all pages share: the full page, the refreshed fragment, JSON, and 503 while Redis is unavailable."""

from __future__ import annotations

import dataclasses
from typing import Any

import django
from django.http import Http404, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.template.response import TemplateResponse
from django.utils import translation
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.analytics.csv_text import csv_lines
from django_redis_components.core.circuit_breaker import should_log_failure
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.expected_responses import unlogged
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable, one_line
from django_redis_components.dashboard import formats, json_data, outages, shard_choice
from django_redis_components.dashboard.elements import cost_note
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.page import Page, PageRequest
from django_redis_components.dashboard.pages import PAGES
from django_redis_components.dashboard.parameters import language_of, not_one_of
from django_redis_components.dashboard.task_search.suggestions import suggestions
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts

logger = guarded_logger("django_redis_components.dashboard")

#: Values of ``?format=``: the full page, the part that is refreshed, the data as JSON. A page may have "csv", too.
FORMATS = ("html", "fragment", "json")
_TEMPLATES = "django_redis_components/dashboard"


class PageResponse(TemplateResponse):
    """A page, or a part of one. Lone surrogates in texts from Redis are escaped: no response can contain them."""

    @property
    def rendered_content(self) -> str:
        return encodable(super().rendered_content)


@dataclasses.dataclass(frozen=True, slots=True)
class Tab:
    """A link to one of the pages.

    Attributes:
        current: ``aria-current``: "page" on the page itself, "true" on those of its objects, else "".
        badge: how many there are of what needs attention, or "".
    """

    label: str
    url: str
    current: str
    badge: str = ""


def show(page: Page, request: PageRequest) -> HttpResponse:
    """Respond with a page in the requested format, or with 503 if it cannot be read. The permission was checked."""
    try:
        request.query = page.parse(request)
    except ValueError as exc:
        return bad_request(request, exc if request.wants_html else _english_error(page, request))
    wanted = request.http.GET.get("format", "html")
    formats_of_page = (*FORMATS, "csv") if page.csv else FORMATS
    if wanted not in formats_of_page:
        return bad_request(request, not_one_of("format", wanted, formats_of_page))
    shared = {"title": page.heading(request), "is_subpage": page.is_object, "refresh_s": page.refresh_s}
    try:
        snapshot = page.read(request)
    except outages.SnapshotFailed as exc:
        shown_as = "html" if wanted == "csv" else wanted
        return outage_response(request, outages.outage_of(exc.error, exc.address), shown_as, shared)
    except Http404:
        missing = page.missing(request)
        if missing is None:
            raise
        return missing
    if wanted == "json":
        content = {**page.data(snapshot), **shard_choice.shards_data()}
        return JsonResponse(json_data.page_data(snapshot, content), json_data.JSONEncoder)
    if wanted == "csv":
        return _csv_response(page, snapshot)
    if wanted == "html" and (redirect := page.redirect(request, snapshot)) is not None:
        return redirect
    context = page.context(request, snapshot)
    context = {
        **shared,
        "links": request.links,
        "page_url": request.links.here,
        "address": shard_choice.server_text(snapshot.address),
        "at": snapshot.at,
        "footer": _footer(snapshot),
        "shards_read": shard_choice.shards_read(),
        "tabs": _tabs(request, getattr(snapshot, "failure_counts", None), context.get("problems_count", 0)),
        **context,
    }
    return _format_response(request, page.templates, wanted, context)


def _english_error(page: Page, request: PageRequest) -> ValueError:
    """Return the error of the parameters of a request, for programs."""
    with translation.override("en"):
        try:
            page.parse(request)
        except ValueError as exc:
            return exc
    return ValueError()


def outage_response(
    request: PageRequest, outage: outages.Outage, wanted: str = "html", extra: dict[str, Any] | None = None
) -> HttpResponse:
    """Respond with 503 and the cause in the requested format."""
    response: HttpResponse
    if wanted == "json":
        response = JsonResponse({"error": outage}, json_data.JSONEncoder)
    else:
        server = formats.server(outage.address)
        context = {"refresh_s": Page.refresh_s, "outage": outage, "server": server, **(extra or {})}
        response = _format_response(request, "outage", wanted, context)
    if should_log_failure(f"dashboard {outage.code}"):  # open pages refresh every few seconds
        logger.warning("The dashboard cannot be shown (%s): %s", outage.code, one_line(outage.detail))
    response.status_code = 503
    response["Retry-After"] = str(outages.RETRY_AFTER_S)
    return unlogged(response)


def misconfigured_response(request: PageRequest, error: ConfigurationError) -> HttpResponse:
    """Respond with 503 because the settings are invalid."""
    wanted = request.http.GET.get("format", "html")
    return outage_response(request, outages.outage_of(error, ""), wanted if wanted in FORMATS else "html")


def bad_request(request: PageRequest, error: ValueError) -> HttpResponse:
    """Respond with 400, and what is invalid."""
    if not request.wants_html:
        return HttpResponseBadRequest(str(error), "text/plain")
    return _error_response(request, 400, _("Invalid request"), str(error), language_of(error))


def not_found(request: PageRequest, reason: str, reason_language: str = "") -> HttpResponse:
    """Respond with 404 and the reason, which is in the language of the page if `reason_language` is empty."""
    return _error_response(request, 404, _("Not found"), reason, reason_language)


def _error_response(
    request: PageRequest, status: int, title: str, reason: str, reason_language: str
) -> TemplateResponse:
    context = {"title": title, "is_subpage": True, "reason": reason, "reason_language": reason_language}
    response = page_response(request, "error.html", context)
    response.status_code = status
    return response


def page_response(request: PageRequest, template: str, context: dict[str, Any]) -> TemplateResponse:
    """Render a full page within the admin's layout."""
    return fragment_response(request, template, {**_admin_context(request), **context})


def fragment_response(request: PageRequest, template: str, context: dict[str, Any]) -> TemplateResponse:
    """Render a part of a page."""
    # `url` resolves the links within this admin site.
    request.http.current_app = request.model_admin.admin_site.name
    return PageResponse(request.http, f"{_TEMPLATES}/{template}", context)


def _csv_response(page: Page, snapshot: Any) -> HttpResponse:
    """Return the CSV as a download."""
    content = encodable("".join(csv_lines(*page.csv(snapshot))))
    disposition = f'attachment; filename="{page.slug}.csv"'
    return HttpResponse(content, "text/csv; charset=utf-8", headers={"Content-Disposition": disposition})


def _format_response(request: PageRequest, folder: str, wanted: str, context: dict[str, Any]) -> TemplateResponse:
    if wanted == "html":
        return page_response(request, f"{folder}/page.html", context)
    return fragment_response(request, "refresh.html", {**context, "fragment": f"{_TEMPLATES}/{folder}/fragment.html"})


def _footer(snapshot: Any) -> dict[str, Any]:
    """Return when the page was read, and what that has cost."""
    return {
        "cost": cost_note(snapshot.cost, per_node=snapshot.is_cluster),
        "read_at": formats.timestamp(snapshot.at, snapshot.at),
        "zone": formats.zone(),
    }


def _admin_context(request: PageRequest) -> dict[str, Any]:
    """Return the context of the admin's base template, the tabs and the toolbar."""
    return {
        **request.model_admin.admin_site.each_context(request.http),
        "is_nav_sidebar_enabled": False,  # the tabs are the navigation, and the tables need the width
        "title": _("Redis operations"),
        "opts": request.model_admin.opts,
        "breadcrumbs_are_a_list": django.VERSION >= (6, 1),
        "environment": _environment(),
        "tabs": _tabs(request),
        "search_url": _navigation(request).page("tasksearch"),
        "links": request.links,
        "shards": shard_choice.links(request),
        "search_suggestions": suggestions,
    }


def _tabs(request: PageRequest, counts: FailureCounts | None = None, problems: int = 0) -> list[Tab]:
    """Return the tabs of the pages that the user may view, with counts that were read with the page."""
    section, badges = request.page.section or request.page.slug, _badges(counts, problems)
    here = "true" if request.object_id or section != request.page.slug else "page"
    links = _navigation(request)
    return [
        Tab(str(page.tab or page.title), url, here if page.slug == section else "", badges.get(page.slug, ""))
        for page in PAGES
        if page.has_tab and (url := links.page(page.slug))
    ]


def _navigation(request: PageRequest) -> Links:
    """Return the links to other pages. They keep the shard that was selected for a list, not that of an object."""
    return request.links.in_shard("" if request.object_id else request.shard_name)


def _badges(counts: FailureCounts | None, problems: int) -> dict[str, str]:
    """Return the counts beside the tabs, by slug."""
    found = {"overview": formats.number(problems)} if problems else {}
    if counts is not None and counts.failed:
        found["failure"] = formats.number(counts.failed) + ("+" if counts.is_partial else "")
    if counts is not None and counts.lost_workers:
        lost = ngettext("%(count)s lost", "%(count)s lost", counts.lost_workers)
        found["worker"] = lost % {"count": formats.number(counts.lost_workers)}
    return found


def _environment() -> str | None:
    try:
        return conf.settings().dashboard.environment
    except ConfigurationError:
        return None
