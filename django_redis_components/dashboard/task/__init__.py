"""The page of one task: why it does not run, its runs and errors, arguments, limits, flow; and its changes."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, PageRequest, hook


class TaskPage(Page):
    """The pages of tasks, and ``task/?id=…``, which redirects to one. Each change requires its own permission."""

    slug = "task"
    title = _("tasks")
    name = _("task")
    permission = "view_overview"
    permissions = (
        ("retry_task", "Can retry failed tasks"),
        ("delete_task", "Can delete tasks"),
        ("run_task", "Can run scheduled tasks now"),
        ("reschedule_task", "Can reschedule tasks"),
        ("change_task", "Can change pending tasks"),
        ("cancel_task", "Can cancel tasks"),
        ("view_task_arguments", "Can view masked arguments of tasks"),
        ("view_task_stack", "Can view the stack of running tasks"),
    )
    templates = "task"
    is_object = True
    section = "queues"
    read = hook("page.read")
    data = hook("data.task_data")
    context = hook("page.context")
    index = hook("page.jump")
    missing = hook("page.missing")
    verbs = hook("change_views.VIEWS")

    def heading(self, request: PageRequest) -> Any:
        """Return the heading, with the id."""
        return gettext("Task %(id)s") % {"id": request.object_id}
