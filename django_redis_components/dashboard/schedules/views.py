"""The view of the page of schedules."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.queues.change_views import task_url
from django_redis_components.dashboard.schedules import page, snapshot
from django_redis_components.dashboard.schedules.change_views import VERBS
from django_redis_components.dashboard.schedules.edit_views import EDIT

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("schedules/page.html", "schedules/fragment.html")


def schedules(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the page of schedules. The caller has checked the permission."""
    all_verbs = {**VERBS, "edit": EDIT}
    urls = {
        name: responses.url_of(model_admin, name) for name, verb in all_verbs.items() if verbs.is_allowed(request, verb)
    }
    build = partial(page.build_page, urls=urls, url_of=partial(task_url, model_admin))
    context = {"title": _("Schedules"), "add_url": urls.get("edit", ""), **(extra or {})}
    return responses.snapshot_response(
        model_admin, request, snapshot.read, page.schedule_data, build, _TEMPLATES, context
    )
