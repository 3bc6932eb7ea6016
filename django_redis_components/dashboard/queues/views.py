"""The view of one queue's page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.queues import data, page, snapshot

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("queue/page.html", "queue/fragment.html")


def queue(model_admin: ModelAdmin[Any], request: HttpRequest, name: str) -> HttpResponse:
    """Respond with the page of a queue. The caller has checked the permission and validated the name."""
    extra = {"title": _("Queue %(name)s") % {"name": name}, "is_subpage": True}
    read = partial(snapshot.read, name)
    return responses.snapshot_response(model_admin, request, read, data.queue_data, page.build_page, _TEMPLATES, extra)
