"""The page of one queue: its tasks, throughput and errors; and changes of the queue and of selected tasks."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_redis_components.core import keys
from django_redis_components.dashboard.page import Page, PageRequest, hook


class QueueListPage(Page):
    """The page of all queues, of the slug and the permission of the pages of queues."""

    slug = "queues"
    title = _("Queues")
    name = _("task queues")
    permission = "view_overview"
    templates = "queues"
    shows_all_shards = True
    parse = hook("list_page.parse")
    read = hook("list_page.read")
    data = hook("list_page.data")
    context = hook("list_page.context")


class QueuePage(Page):
    """The pages of queues. They require the permission of the overview, and each change its own."""

    slug = "queues"
    title = _("task queues")
    name = _("task queue")
    permission = "view_overview"
    permissions = (
        ("pause_queue", "Can pause and resume queues"),
        ("purge_queue", "Can purge queues"),
        ("restore_task", "Can restore purged and deleted tasks"),
        ("move_task", "Can move tasks to other queues"),
    )
    templates = "queue"
    is_object = True
    listing = QueueListPage()
    tab = _("Queues")
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("data.queue_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")

    def parse_id(self, object_id: str) -> str:
        """Return the name of a queue."""
        return keys.validate_name(object_id, "queue name")

    def heading(self, request: PageRequest) -> Any:
        """Return the heading, with the name."""
        return gettext("Queue %(name)s") % {"name": request.object_id}
