"""The page that searches the tasks of all queues and states; the field on each page leads there."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class TaskSearchPage(Page):
    """The search. An id opens its task."""

    slug = "tasksearch"
    title = _("Search tasks")
    name = _("search of tasks")
    permission = "view_overview"
    templates = "task_search"
    shows_all_shards = True
    has_tab = False
    section = "queues"
    parse = hook("query.parse")
    read = hook("page.read")
    data = hook("page.data")
    context = hook("page.context")
    redirect = hook("page.redirect")
