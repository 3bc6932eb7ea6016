"""The overview: a snapshot of all queues, workers and counters, its problems, its HTML and its JSON."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class OverviewPage(Page):
    """The overview."""

    slug = "overview"
    title = _("Redis operations")
    name = _("Redis operations overview")
    tab = _("Overview")
    templates = "overview"
    shows_all_shards = True
    shows_panels = True
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("data.overview_data")
    context = hook("page.context")
