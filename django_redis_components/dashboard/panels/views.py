"""The view of pages that consist of registered panels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse

from django_redis_components.dashboard import responses
from django_redis_components.dashboard.panel import add_own_panels
from django_redis_components.dashboard.panels import page, snapshot
from django_redis_components.dashboard.panels.aggregation import LogsPanel
from django_redis_components.dashboard.panels.analytics import SignInsPanel, VisitorsPanel
from django_redis_components.dashboard.panels.autocomplete import IndexesPanel
from django_redis_components.dashboard.panels.bloom import BloomPanel
from django_redis_components.dashboard.panels.cohorts import CohortsPanel, RetentionPanel
from django_redis_components.dashboard.panels.events import EventsPanel
from django_redis_components.dashboard.panels.files import FilesPanel
from django_redis_components.dashboard.panels.messaging import BroadcastsPanel, ChatsPanel, MailboxesPanel
from django_redis_components.dashboard.panels.names import CountersPanel, PresencesPanel, RecentListsPanel
from django_redis_components.dashboard.panels.rankings import RankingsPanel
from django_redis_components.dashboard.panels.search import SearchPanel
from django_redis_components.dashboard.panels.sign_in_calendar import CalendarPanel
from django_redis_components.dashboard.panels.traffic import SourcesPanel, TopPagesPanel, TrafficPanel

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

_TEMPLATES = responses.Templates("panels/page.html", "panels/fragment.html")


def panel_page(
    model_admin: ModelAdmin[Any], request: HttpRequest, name: str, extra: dict[str, Any] | None = None
) -> HttpResponse:
    """Respond with a page of panels. The caller has checked the permission of the page."""
    return responses.snapshot_response(
        model_admin,
        request,
        partial(snapshot.read, name, page.permitted_panels(name, request), request.GET),
        page.page_data,
        partial(page.build_page, request=request),
        _TEMPLATES,
        {"title": str(model_admin.opts.verbose_name_plural), **(extra or {})},
    )


add_own_panels(
    [
        TrafficPanel,
        VisitorsPanel,
        SignInsPanel,
        TopPagesPanel,
        SourcesPanel,
        EventsPanel,
        RetentionPanel,
        CalendarPanel,
        CohortsPanel,
        RankingsPanel,
        CountersPanel,
        PresencesPanel,
        RecentListsPanel,
        IndexesPanel,
        SearchPanel,
        BloomPanel,
        ChatsPanel,
        MailboxesPanel,
        BroadcastsPanel,
        FilesPanel,
        LogsPanel,
    ]
)
