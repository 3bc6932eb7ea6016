"""The page of incidents: the open ones, their start and acknowledgment, and the resolved ones."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class IncidentsPage(Page):
    """The page of incidents. An acknowledgment requires its own permission."""

    slug = "incident"
    title = _("Incidents")
    name = _("incident")
    permissions = (("acknowledge_problem", "Can acknowledge problems"),)
    templates = "incidents"
    read = hook("page.read")
    data = hook("page.incident_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")
