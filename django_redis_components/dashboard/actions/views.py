"""The view of the page of actions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses, verbs
from django_redis_components.dashboard.actions import page
from django_redis_components.dashboard.actions.page import LoggedAction
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.change_views import queue_url

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("actions/page.html", "actions/fragment.html")


def actions(model_admin: ModelAdmin[Any], request: HttpRequest, extra: dict[str, Any] | None = None) -> HttpResponse:
    """Respond with the page of actions. The caller has checked the permission."""
    try:
        query = page.query_of(request.GET)
    except ValueError as exc:
        return HttpResponseBadRequest(str(exc), "text/plain")
    context = {
        "title": _("Actions"),
        "page_url": responses.url_of(model_admin, "changelist"),
        **(extra or {}),
    }
    build = partial(
        page.build_page, url_of=partial(_object_url, model_admin), undo_of=partial(_undo_url, model_admin, request)
    )
    return responses.snapshot_response(
        model_admin, request, partial(page.read, query), page.action_data, build, _TEMPLATES, context
    )


def _object_url(model_admin: ModelAdmin[Any], action: LoggedAction) -> str:
    """Return the URL to which the admin's log links."""
    name = f"admin:{model_admin.opts.app_label}_{action.model}_change"
    return reverse(name, args=[quote(action.name)], current_app=model_admin.admin_site.name) if action.name else ""


def _undo_url(model_admin: ModelAdmin[Any], request: HttpRequest, action: LoggedAction) -> str:
    if action.trash and action.model == "queues" and verbs.is_allowed(request, changes.RESTORE):
        return f"{queue_url(model_admin, 'restore', action.name)}?trash={action.trash}"
    return ""
