"""The page of locks and semaphores: what is held, by whom, and a release."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class LocksPage(Page):
    """The page of locks and semaphores. A release requires its own permission."""

    slug = "lock"
    title = _("Locks and semaphores")
    tab = _("Locks")
    name = _("lock or semaphore")
    permissions = (("release_lock", "Can release locks and permits of other holders"),)
    templates = "locks"
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("data.lock_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")
