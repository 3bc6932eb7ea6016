"""The page of memory: what uses it, how it grows, and the largest keys."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class MemoryPage(Page):
    """The page of memory of each connection, from what the watching process has measured."""

    slug = "memory"
    title = _("Memory")
    name = _("memory")
    templates = "memory"
    shows_all_shards = True
    refresh_s = 15
    read = hook("uses.read")
    data = hook("page.memory_data")
    context = hook("page.context")
