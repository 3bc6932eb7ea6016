"""Responses that all pages share: the full page, the refreshed fragment, JSON, and 503 while Redis is unavailable."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import django
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_redis_components.core import conf
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.text import encodable, one_line
from django_redis_components.dashboard import json_data, outages
from django_redis_components.dashboard.models import (
    Action,
    Analytics,
    Autocomplete,
    Failure,
    LiveEvent,
    Lock,
    Messaging,
    Overview,
    RateLimit,
    Schedule,
    Task,
    Worker,
)

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

logger = guarded_logger("django_redis_components.dashboard")

#: Seconds between two refreshes of an open page.
REFRESH_S = 5
#: Values of ``?format=``: the full page, the part that is refreshed, the data as JSON.
FORMATS = ("html", "fragment", "json")
_TEMPLATES = "django_redis_components/dashboard"


class Templates(NamedTuple):
    """Template names of a page: the full page, and the fragment that is refreshed."""

    page: str
    fragment: str


_OUTAGE = Templates("outage/page.html", "outage/fragment.html")


class Snapshot(Protocol):
    """The data of a page, read from Redis."""

    @property
    def address(self) -> str: ...


S = TypeVar("S", bound=Snapshot)


class PageResponse(TemplateResponse):
    """A page, or a part of one. Lone surrogates in texts from Redis are escaped: no response can contain them."""

    @property
    def rendered_content(self) -> str:
        return encodable(super().rendered_content)


@dataclasses.dataclass(frozen=True, slots=True)
class Tab:
    """A link to one of the pages."""

    label: str
    url: str
    is_current: bool


def snapshot_response(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    read: Callable[[], S],
    data_of: Callable[[S], dict[str, Any]],
    page_of: Callable[[S], Any],
    templates: Templates,
    extra: dict[str, Any] | None,
) -> HttpResponse:
    """Read a snapshot and respond with it in the requested format, or with 503 if it cannot be read."""
    wanted = request.GET.get("format", "html")
    if wanted not in FORMATS:
        return HttpResponseBadRequest(f"format={wanted[:40]!r}: expected one of {', '.join(FORMATS)}.", "text/plain")
    try:
        snapshot = read()
    except outages.SnapshotFailed as exc:
        return outage_response(model_admin, request, outages.outage_of(exc.error, exc.address), extra, wanted)
    if wanted == "json":
        return JsonResponse(data_of(snapshot))
    context = {**(extra or {}), "page": page_of(snapshot), "address": snapshot.address}
    return _format_response(model_admin, request, templates, wanted, context)


def outage_response(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    outage: outages.Outage,
    extra: dict[str, Any] | None = None,
    wanted: str = "html",
) -> HttpResponse:
    """Respond with 503 and the cause in the requested format."""
    response: Any
    if wanted == "json":
        response = JsonResponse(json_data.outage_data(outage))
    else:
        response = _format_response(model_admin, request, _OUTAGE, wanted, {**(extra or {}), "outage": outage})
    # Django logs each 503 as an error and mails it to ADMINS: one mail per refresh of each open page.
    logger.warning("The dashboard cannot be shown (%s): %s", outage.code, one_line(outage.detail))
    response._has_been_logged = True
    response.status_code = 503
    response["Retry-After"] = str(outages.RETRY_AFTER_S)
    found: HttpResponse = response
    return found


def misconfigured_response(
    model_admin: ModelAdmin[Any], request: HttpRequest, error: ConfigurationError
) -> HttpResponse:
    """Respond with 503 because the settings are invalid."""
    wanted = request.GET.get("format", "html")
    outage = outages.outage_of(error, "")
    return outage_response(model_admin, request, outage, wanted=wanted if wanted in FORMATS else "html")


def page_response(
    model_admin: ModelAdmin[Any], request: HttpRequest, template: str, context: dict[str, Any]
) -> TemplateResponse:
    """Render a full page within the admin's layout."""
    return fragment_response(model_admin, request, template, {**_admin_context(model_admin, request), **context})


def fragment_response(
    model_admin: ModelAdmin[Any], request: HttpRequest, template: str, context: dict[str, Any]
) -> TemplateResponse:
    """Render a part of a page."""
    request.current_app = model_admin.admin_site.name  # `url` resolves the links within this admin site
    return PageResponse(request, f"{_TEMPLATES}/{template}", context)


def url_of(model_admin: ModelAdmin[Any], name: str) -> str:
    """Return the URL of a view of the model, within its admin site."""
    full = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_{name}"
    return reverse(full, current_app=model_admin.admin_site.name)


def page_url(model_admin: ModelAdmin[Any], request: HttpRequest, model: type[Model]) -> str:
    """Return the URL of another model's page in the same admin site; "" unless the user may view it."""
    site = model_admin.admin_site
    if not site.is_registered(model) or not site.get_model_admin(model).has_view_permission(request):
        return ""
    name = f"admin:{model_admin.opts.app_label}_{model._meta.model_name}_changelist"
    return reverse(name, current_app=site.name)


def _format_response(
    model_admin: ModelAdmin[Any], request: HttpRequest, templates: Templates, wanted: str, context: dict[str, Any]
) -> TemplateResponse:
    if wanted == "html":
        return page_response(model_admin, request, templates.page, context)
    return fragment_response(model_admin, request, templates.fragment, context)


def _admin_context(model_admin: ModelAdmin[Any], request: HttpRequest) -> dict[str, Any]:
    """Return the context of the admin's base template, the tabs and the toolbar."""
    return {
        **model_admin.admin_site.each_context(request),
        "is_nav_sidebar_enabled": False,  # the tabs are the navigation, and the tables need the width
        "title": _("Redis operations"),
        "opts": model_admin.opts,
        "breadcrumbs_are_a_list": django.VERSION >= (6, 1),
        "environment": _environment(),
        "refresh_s": REFRESH_S,
        "tabs": _tabs(model_admin, request),
        "jump_url": _jump_url(model_admin, request),
    }


def _jump_url(model_admin: ModelAdmin[Any], request: HttpRequest) -> str:
    """Return the URL of the form that opens a task by its id; "" if the user may not view tasks."""
    site, app = model_admin.admin_site, model_admin.opts.app_label
    if not (site.is_registered(Task) and site.get_model_admin(Task).has_view_permission(request)):
        return ""
    return reverse(f"admin:{app}_task_changelist", current_app=site.name)


def _tabs(model_admin: ModelAdmin[Any], request: HttpRequest) -> list[Tab]:
    """Return the tabs of the pages that the user may view."""
    labels: dict[Any, str] = {
        Overview: _("Overview"),
        Failure: _("Failures"),
        LiveEvent: _("Live"),
        Schedule: _("Schedules"),
        Worker: _("Workers"),
        Lock: _("Locks and semaphores"),
        RateLimit: _("Rate limits"),
        Analytics: _("Analytics"),
        Autocomplete: _("Autocomplete and search"),
        Messaging: _("Messages and files"),
        Action: _("Actions"),
    }
    return [
        Tab(label, url, model is model_admin.model)
        for model, label in labels.items()
        if (url := page_url(model_admin, request, model))
    ]


def _environment() -> str | None:
    try:
        return conf.settings().dashboard.environment
    except ConfigurationError:
        return None
