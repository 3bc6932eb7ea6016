"""The page, its fragment, its JSON, and the page for when Redis is away."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import django
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from django_redis_components.core import conf
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.text import one_line
from django_redis_components.dashboard import figures, outages, panels, queue_panels, queue_reading, reading
from django_redis_components.dashboard.models import Lock, Overview, RateLimit

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

logger = logging.getLogger("django_redis_components.dashboard")

#: Seconds between two refreshes of an open page.
REFRESH_S = 5
#: What ``?format=`` may be: the whole page, the part that is refreshed, the figures.
FORMATS = ("html", "fragment", "json")
_TEMPLATES = "django_redis_components/dashboard"
#: Templates of each page: the whole, and the part that is refreshed.
_OVERVIEW, _QUEUE = ("overview.html", "figures.html"), ("queue.html", "queue_figures.html")
#: Templates that stand in no frame.
_PARTIAL = {"figures.html", "queue_figures.html", "lock_figures.html", "limit_figures.html", "outage_words.html"}


class Snapshot(Protocol):
    """What was read for a page."""

    @property
    def address(self) -> str: ...


S = TypeVar("S", bound=Snapshot)


def overview(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Answer a request whose permission was checked."""
    return answer(model_admin, request, reading.read, figures.figures, panels.page, _OVERVIEW, extra)


def queue(model_admin: ModelAdmin[Any], request: HttpRequest, name: str) -> HttpResponse:
    """Answer a request for the page of a queue, whose permission was checked and whose name is accepted."""
    extra = {"title": _("Queue %(name)s") % {"name": name}, "is_part": True}
    read = partial(queue_reading.read, name)
    return answer(model_admin, request, read, figures.queue_figures, queue_panels.page, _QUEUE, extra)


def answer(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    read: Callable[[], S],
    figures_of: Callable[[S], dict[str, Any]],
    page_of: Callable[[S], Any],
    templates: tuple[str, str],
    extra: dict[str, Any] | None,
) -> HttpResponse:
    """A page in the form that is wanted, or the page for when Redis is away."""
    wanted = request.GET.get("format", "html")
    if wanted not in FORMATS:
        return HttpResponseBadRequest(f"format={wanted[:40]!r}: expected one of {', '.join(FORMATS)}.", "text/plain")
    try:
        snapshot = read()
    except reading.NothingRead as exc:
        return away(model_admin, request, wanted, outages.outage_of(exc.error, exc.address), extra)
    if wanted == "json":
        return JsonResponse(figures_of(snapshot))
    context = {"page": page_of(snapshot), "address": snapshot.address}
    return rendered(model_admin, request, templates[wanted != "html"], context, extra)


def away(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    wanted: str,
    outage: outages.Outage,
    extra: dict[str, Any] | None,
) -> HttpResponse:
    """The answer while Redis is away."""
    response: Any
    if wanted == "json":
        response = JsonResponse(figures.outage_figures(outage))
    else:
        name = "outage.html" if wanted == "html" else "outage_words.html"
        response = rendered(model_admin, request, name, {"outage": outage}, extra)
    # Django would log each 503 as an error, and mail it to the ADMINS: one from each open page, again and again.
    logger.warning("The dashboard cannot be shown (%s): %s", outage.code, one_line(outage.detail))
    response._has_been_logged = True
    response.status_code = 503
    response["Retry-After"] = str(outages.RETRY_AFTER_S)
    answer: HttpResponse = response
    return answer


def wrongly_set(model_admin: ModelAdmin[Any], request: HttpRequest, error: ConfigurationError) -> HttpResponse:
    """The answer of every page while the settings are wrong."""
    wanted = request.GET.get("format", "html")
    outage = outages.outage_of(error, "")
    return away(model_admin, request, wanted if wanted in FORMATS else "html", outage, None)


def rendered(
    model_admin: ModelAdmin[Any],
    request: HttpRequest,
    name: str,
    context: dict[str, Any],
    extra: dict[str, Any] | None,
) -> TemplateResponse:
    """A template of ours, within the admin's frame unless it is a part of a page."""
    request.current_app = model_admin.admin_site.name  # the links of the fragment, too, are those of this site
    frame = {} if name in _PARTIAL else _frame(model_admin, request)
    return TemplateResponse(request, f"{_TEMPLATES}/{name}", {**frame, **(extra or {}), **context})


def url_of(model_admin: ModelAdmin[Any], name: str) -> str:
    """The address of one of the views of a model, in its site."""
    full = f"admin:{model_admin.opts.app_label}_{model_admin.opts.model_name}_{name}"
    return reverse(full, current_app=model_admin.admin_site.name)


def _frame(model_admin: ModelAdmin[Any], request: HttpRequest) -> dict[str, Any]:
    """What the admin's own templates need, and the toolbar."""
    return {
        **model_admin.admin_site.each_context(request),
        "title": _("Redis operations"),
        "opts": model_admin.opts,
        "breadcrumbs_are_a_list": django.VERSION >= (6, 1),
        "environment": _environment(),
        "refresh_s": REFRESH_S,
        "tabs": _tabs(model_admin, request),
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Tab:
    """A link to one of the pages."""

    label: str
    url: str
    current: bool


def _tabs(model_admin: ModelAdmin[Any], request: HttpRequest) -> list[Tab]:
    """The pages of this site that the user may view."""
    site, app = model_admin.admin_site, model_admin.opts.app_label
    labels: dict[Any, str] = {Overview: _("Overview"), Lock: _("Locks and semaphores"), RateLimit: _("Rate limits")}
    return [
        Tab(label, reverse(f"admin:{app}_{model._meta.model_name}_changelist", current_app=site.name), is_current)
        for model, label in labels.items()
        if site.is_registered(model) and site.get_model_admin(model).has_view_permission(request)
        for is_current in [model is model_admin.model]
    ]


def _environment() -> str | None:
    try:
        return conf.settings().dashboard.environment
    except ConfigurationError:
        return None
