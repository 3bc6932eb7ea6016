"""The page Live: the newest events of tasks, and of waits for locks and semaphores."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class LivePage(Page):
    """The newest events of tasks and locks."""

    slug = "liveevent"
    title = _("Live")
    name = _("live event")
    templates = "live"
    shows_all_shards = True
    refresh_s = 2
    parse = hook("snapshot.parse")
    read = hook("snapshot.read")
    data = hook("page.live_data")
    context = hook("page.context")
