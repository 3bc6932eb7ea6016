"""The page of actions: what users of the dashboard have changed."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class ActionsPage(Page):
    """The page of actions: entries of the admin's log."""

    slug = "action"
    title = _("Actions")
    name = _("action")
    templates = "actions"
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("page.action_data")
    context = hook("page.context")
