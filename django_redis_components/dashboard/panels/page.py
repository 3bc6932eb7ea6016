"""Registered panels as HTML and as JSON. A panel that raises becomes a note."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exception_text import safe_text
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.protocol import Flow
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.bounded_client import Cost, UnboundedRead
from django_redis_components.dashboard.display_names import Kind, Names, find_names
from django_redis_components.dashboard.json_data import JSONEncoder
from django_redis_components.dashboard.outages import SnapshotFailed, outage_of
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.panel import NamingPanel, Panel, add_own_panels, panels_of
from django_redis_components.dashboard.panels.budget import PanelBudgetExceeded, budget_of
from django_redis_components.dashboard.panels.reading import (
    PagePart,
    PanelResult,
    panel_parts,
    panel_results,
    read_parts,
)
from django_redis_components.dashboard.shard_reads import read_all_counts
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts

logger = guarded_logger("django_redis_components.dashboard")

#: Characters of an error's text in a note.
MAX_NOTE_CHARS = 300
#: The content of a panel without data: one paragraph.
_EMPTY = re.compile(r'\s*<p class="drc-empty">(?:(?!</?p\b).)*</p>\s*', re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True)
class ShownPanel:
    """A panel on a page.

    Attributes:
        html: the rendered content; "" if the panel failed.
        note: why it failed, or "".
    """

    name: str
    title: str
    html: str
    note: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether all it shows is a line that says so; pages show it as a line, not as a box."""
        return _EMPTY.fullmatch(self.html) is not None


def permitted_panels(page: str, request: HttpRequest) -> list[Panel]:
    """Return the panels of a page that the user may view."""
    add_own_panels()
    return [panel for panel in panels_of(page) if not panel.permission or request.user.has_perm(panel.permission)]


def read(request: PageRequest) -> Snapshot[list[PanelResult]]:
    """Read the panels of the page that the user may view.

    Raises:
        SnapshotFailed: Redis could not be read for any of them.
    """
    cost = Cost()
    try:
        endpoint = connections.endpoint(conf.settings().dashboard.using)
    except ConfigurationError as exc:
        raise SnapshotFailed(exc, "") from exc
    panels = permitted_panels(request.page.slug, request.http)
    parts = panel_parts(panels, budget_of(request.page.slug), request.http.GET)
    outcomes = read_parts([*parts, PagePart(_alias_of_tabs, _read_counts)], cost)
    results = panel_results(panels, outcomes[: len(parts)])
    errors = [result.error for result in results if result.error is not None or result.was_read]
    if errors and all(isinstance(error, RedisError | ConfigurationError) for error in errors):
        raise SnapshotFailed(errors[0] or RedisError(), str(endpoint))
    counts: FailureCounts | None = outcomes[-1].value
    return Snapshot(results, timezone.now(), cost, str(endpoint), endpoint.kind == "cluster", counts)


def _alias_of_tabs() -> str:
    return conf.settings().dashboard.using


def _read_counts() -> Flow[FailureCounts]:
    return read_all_counts()


def context(request: PageRequest, snapshot: Snapshot[list[PanelResult]]) -> dict[str, Any]:
    """Return the context of the templates."""
    return {"page": {"panels": show_panels(snapshot.value, request.http)}}


def panel_page_data(snapshot: Snapshot[list[PanelResult]]) -> dict[str, Any]:
    """Return the JSON of panels. One that failed is null and listed in ``errors``."""
    return {**panel_data(snapshot.value), "days_time_zone": formats.days_zone()}


def show_panels(results: Iterable[PanelResult], request: HttpRequest) -> list[ShownPanel]:
    """Render panels."""
    found: dict[Kind, list[str]] = {}
    results = [_add_ids(result, found) for result in results]
    names = find_names(found)
    return [_show(result, request, names) for result in results]


def panel_data(results: Iterable[PanelResult]) -> dict[str, Any]:
    """Return the JSON of panels, and the errors of those that failed, by name."""
    data: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for result in results:
        name = result.panel.name
        try:
            data[name] = _json(result)
        except Exception as exc:  # noqa: BLE001 - the other panels are shown
            data[name], errors[name] = None, _note(result, exc)
    return {"panels": data, "errors": errors}


def _add_ids(result: PanelResult, found: dict[Kind, list[str]]) -> PanelResult:
    """Add the ids that a panel shows, by kind. Return the result, with the error if that fails."""
    if not isinstance(result.panel, NamingPanel) or result.error is not None:
        return result
    try:
        for kind, ids in result.panel.ids(result.value).items():
            found.setdefault(kind, []).extend(str(id_) for id_ in ids if id_)
    except Exception as exc:  # noqa: BLE001 - the other panels are shown
        _log(result, exc)
        return dataclasses.replace(result, error=exc)
    return result


def _show(result: PanelResult, request: HttpRequest, names: Names) -> ShownPanel:
    panel, title = result.panel, result.panel.name
    try:
        title = str(panel.title)
        html = _render(result, request, names)
    except Exception as exc:  # noqa: BLE001 - the other panels are shown
        return ShownPanel(panel.name, title, "", _note(result, exc))
    return ShownPanel(panel.name, title, html)


def _render(result: PanelResult, request: HttpRequest, names: Names) -> str:
    if result.error is not None:
        raise result.error
    panel, value = result.panel, result.value
    context = panel.named_context(value, names) if isinstance(panel, NamingPanel) else panel.context(value)
    return render_to_string(panel.template_name, {"panel": panel, **context}, request)


def _json(result: PanelResult) -> Any:
    """Return the panel's data in types of JSON, so that an unknown type fails here and not in the response."""
    if result.error is not None:
        raise result.error
    return json.loads(json.dumps(result.panel.data(result.value), cls=JSONEncoder))


def _note(result: PanelResult, error: Exception) -> str:
    if error is not result.error:  # that of `read` is logged already
        _log(result, error)
    if isinstance(error, PanelBudgetExceeded | UnboundedRead):
        title = _("This panel was stopped.")
    else:
        title = outage_of(error, "").title
    return f"{title} ({safe_text(error)[:MAX_NOTE_CHARS]})"


def _log(result: PanelResult, error: Exception) -> None:
    logger.log_exception(error, "Panel %r of the dashboard failed.", result.panel.name)
