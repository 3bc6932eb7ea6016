"""The page of schedules: when each runs, what is due in the next hours, and changes."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class SchedulesPage(Page):
    """The page of schedules. It requires the permission of the overview, and each change its own."""

    slug = "schedule"
    title = _("Schedules")
    name = _("schedule")
    permission = "view_overview"
    permissions = (
        ("run_schedule", "Can run schedules now"),
        ("pause_schedule", "Can pause and resume schedules"),
        ("change_schedule", "Can add schedules, and edit those that were added at run time"),
        ("remove_schedule", "Can remove schedules that were added at run time"),
    )
    templates = "schedules"
    shows_all_shards = True
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("page.schedule_data")
    context = hook("page.context")
    verbs = hook("edit_views.VIEWS")
