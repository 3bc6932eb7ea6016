"""The page of workers: processes, their running tasks, and commands to them."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class WorkersPage(Page):
    """The page of workers. It requires the permission of the overview, and each command its own."""

    slug = "worker"
    title = _("Workers")
    name = _("worker")
    permission = "view_overview"
    permissions = (
        ("quiet_worker", "Can quiet and resume workers"),
        ("change_worker_pool", "Can change the threads, coroutines and queues of workers"),
        ("restart_worker", "Can restart worker processes"),
        ("stop_worker", "Can stop workers"),
    )
    templates = "workers"
    shows_all_shards = True
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("data.worker_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")
