"""Who enqueued a task, as a fact of its page."""

from __future__ import annotations

from django.utils.translation import gettext as _

from django_redis_components.dashboard.links import Links
from django_redis_components.taskqueue.stats.explain import Explanation


def origin_of(task: Explanation, links: Links) -> tuple[str, str]:
    """Return who enqueued a task, and the URL of that; "" if it is not recorded, or has no page."""
    origin = task.record.origin
    if origin is None:
        return "", ""
    texts = {
        "task": _("task %(name)s"),
        "schedule": _("schedule %(name)s"),
        "request": _("request %(name)s, user %(user)s") if origin.user else _("request %(name)s"),
        "command": _("command %(name)s"),
    }
    url = ""
    if origin.kind in ("task", "schedule"):
        url = links.task(origin.name) if origin.kind == "task" else links.page("schedule")
    return texts[origin.kind] % {"name": origin.name, "user": origin.user}, url
