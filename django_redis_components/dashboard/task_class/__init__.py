"""The page of a task class: all runs of one task name, its failed tasks, options, limits and schedules."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.links import MAX_TASK_NAME
from django_redis_components.dashboard.page import Page, PageRequest, hook


class TaskClassPage(Page):
    """The pages of task classes. They require the permission of the overview; enqueueing has its own."""

    slug = "taskclass"
    title = _("task classes")
    name = _("task class")
    permission = "view_overview"
    permissions = (("enqueue_task", "Can enqueue tasks"),)
    templates = "task_class"
    section = "queues"
    is_object = True
    refresh_s = 15
    parse = hook("snapshot.parse")
    read = hook("snapshot.read")
    data = hook("data.task_class_data")
    context = hook("page.context")
    verbs = hook("enqueue_view.VIEWS")

    def parse_id(self, object_id: str) -> str:
        """Return the name of a task."""
        if not 0 < len(object_id) <= MAX_TASK_NAME:
            from django_redis_components.dashboard.parameters import too_long

            raise too_long("task name", MAX_TASK_NAME)
        return object_id

    def heading(self, request: PageRequest) -> Any:
        """Return the heading, with the name."""
        return gettext("Task class %(name)s") % {"name": request.object_id}
