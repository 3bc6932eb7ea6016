"""Registered panels: reading and showing them, the pages that consist of them, and the panels of the package."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class PanelPage(Page):
    """A page that consists of registered panels."""

    templates = "panels"
    shows_panels = True
    read = hook("page.read")
    data = hook("page.panel_page_data")
    context = hook("page.context")


class AnalyticsPage(PanelPage):
    """The page of visitors, sign-ins and page views."""

    slug = "analytics"
    title = _("Analytics")
    name = _("analytics")
    templates = "analytics"
    parse = hook("analytics_page.parse")
    context = hook("analytics_page.context")
    csv = hook("analytics_page.csv")


class IndexesPage(PanelPage):
    """The page of the indexes of autocomplete and search."""

    slug = "indexes"
    title = _("Autocomplete and search")
    tab = _("Indexes")
    name = _("autocomplete and search")


class MessagingPage(PanelPage):
    """The page of chats, mailboxes and broadcasts."""

    slug = "messaging"
    title = _("Messages")
    name = _("messages")


class FilesPage(PanelPage):
    """The page of file channels and log files."""

    slug = "files"
    title = _("Files and logs")
    name = _("files and logs")
