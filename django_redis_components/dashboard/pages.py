"""The pages of the dashboard, in the order of their tabs."""

from __future__ import annotations

from django.utils.module_loading import import_string

from django_redis_components.dashboard.page import Page

#: A new page is a package with a `Page`, two templates, and a line here.
PAGES: tuple[Page, ...] = tuple(
    import_string(f"{__package__}.{name}")()
    for name in (
        "overview.OverviewPage",
        "queues.QueuePage",
        "task.TaskPage",
        "failures.FailuresPage",
        "live.LivePage",
        "schedules.SchedulesPage",
        "incidents.IncidentsPage",
        "flows.FlowPage",
        "workers.WorkersPage",
        "locks.LocksPage",
        "limits.LimitsPage",
        "panels.AnalyticsPage",
        "panels.IndexesPage",
        "panels.MessagingPage",
        "panels.FilesPage",
        "memory.MemoryPage",
        "actions.ActionsPage",
        "task_class.TaskClassPage",
        "task_search.TaskSearchPage",
    )
)
_BY_SLUG = {page.slug: page for page in PAGES}


def page_of(slug: str) -> Page:
    """Return the page with a slug."""
    return _BY_SLUG[slug]
