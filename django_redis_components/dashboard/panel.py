"""Panels: sections of the dashboard's pages that components and sites register.

A panel is a class without state. All panels of a page are read together: each step of their `read` methods shares one
round trip. See docs/guides/panels.md.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils.module_loading import import_string

from django_redis_components.core.arguments import check_int, check_string
from django_redis_components.core.names import dotted_path
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import pages
from django_redis_components.dashboard.display_names import Kind, Names

if TYPE_CHECKING:
    from django_redis_components.core.protocol import Flow

#: Pages that show panels.
PAGES = tuple(page.slug for page in pages.PAGES if page.shows_panels)

_NAME = re.compile(r"[a-z][a-z0-9-]{0,49}")
_PERMISSION = re.compile(r"\w+\.\w+")


class Panel:
    """A section of a page. Subclass it, and register the class with `register_panel`.

    If a method raises, the page shows a note in place of the panel.

    Attributes:
        name: unique slug, for HTML ids and JSON.
        title: the heading; it may be a lazy translation.
        page: "overview", "analytics", "indexes", "messaging" or "files".
        order: panels are sorted by it, then by name. Those of the package have 10, 20, …
        permission: "app.codename" that a user needs in addition to that of the page; "" for none. Without it the
            panel is neither read nor shown.
        parameters: names of query parameters of the page that `read` gets as keyword arguments: as text of at most 200
            characters, "" if absent.
        template_name: the template of the content below the heading. The default shows `facts`, a list of
            (label, value) in the context.
    """

    name: ClassVar[str] = ""
    title: ClassVar[Any] = ""
    page: ClassVar[str] = "overview"
    order: ClassVar[int] = 100
    permission: ClassVar[str] = ""
    parameters: ClassVar[tuple[str, ...]] = ()
    template_name: ClassVar[str] = "django_redis_components/dashboard/panels/facts.html"

    def using(self) -> str:
        """Return the alias of the connection that `read` uses; by default that of the dashboard."""
        return conf.settings().dashboard.using

    def read(self) -> Flow[Any]:
        """Read from Redis: yield `Read` or `Batch` requests, receive their replies, return a value.

        At most three requests, of bounded read commands. The default reads nothing. A panel with `parameters` has an
        argument for each.
        """
        yield from ()

    def context(self, value: Any) -> dict[str, Any]:
        """Return the context of the template for the value of `read`."""
        return {"value": value}

    def data(self, value: Any) -> Any:
        """Return the panel's JSON for the value of `read`: dataclasses, and what `DjangoJSONEncoder` accepts."""
        return value


class NamingPanel(Panel):
    """A panel that shows users or chats by the names of ``DASHBOARD["NAMES"]``, which are looked up once for a page."""

    def ids(self, value: Any) -> Mapping[Kind, Iterable[str]]:
        """Return the ids that are shown, by kind, for the value of `read`."""
        raise NotImplementedError

    def named_context(self, value: Any, names: Names) -> dict[str, Any]:
        """Return the context of the template with names."""
        raise NotImplementedError

    def context(self, value: Any) -> dict[str, Any]:
        """Return the context of the template without names."""
        return self.named_context(value, Names())


P = TypeVar("P", bound=Panel)

_panels: dict[str, Panel] = {}
#: The panels of the package that are not added yet, by name. The first page with panels imports them.
_own = {
    "bloom": "bloom.BloomPanel",
    "broadcasts": "messaging.BroadcastsPanel",
    "chats": "messaging.ChatsPanel",
    "cohorts": "cohorts.CohortsPanel",
    "counters": "names.CountersPanel",
    "events": "events.EventsPanel",
    "files": "files.FilesPanel",
    "funnel": "funnel.FunnelPanel",
    "indexes": "autocomplete.IndexesPanel",
    "logs": "aggregation.LogsPanel",
    "mailboxes": "messaging.MailboxesPanel",
    "presences": "names.PresencesPanel",
    "rankings": "rankings.RankingsPanel",
    "recent-lists": "names.RecentListsPanel",
    "retention": "cohorts.RetentionPanel",
    "search": "search.SearchPanel",
    "sign-in-calendar": "sign_in_calendar.CalendarPanel",
    "sign-ins": "analytics.SignInsPanel",
    "sources": "sources.SourcesPanel",
    "top-pages": "top_pages.TopPagesPanel",
    "traffic": "traffic.TrafficPanel",
    "visitors": "analytics.VisitorsPanel",
}


def register_panel(panel_class: type[P]) -> type[P]:
    """Register a panel and return its class, so that it can be a decorator. Call it in `AppConfig.ready()`.

    Registering the same class again has no effect.

    Raises:
        TypeError: not a subclass of `Panel`.
        ValueError: an attribute is invalid, the name is registered by another class, or there is no such template.
    """
    if not (isinstance(panel_class, type) and issubclass(panel_class, Panel)):
        raise TypeError(f"register_panel({panel_class!r}): expected a subclass of Panel.")
    _check_attributes(panel_class)
    _check_template(panel_class)
    if panel_class.name in _own and not panel_class.__module__.startswith(f"{__package__}."):
        raise _name_is_taken(panel_class, f"{__package__}.panels")
    registered = _panels.setdefault(panel_class.name, panel_class())
    if type(registered) is not panel_class:
        raise _name_is_taken(panel_class, dotted_path(type(registered)))
    return panel_class


def unregister_panel(name: str) -> None:
    """Remove a panel. An unknown name is ignored.

    Raises:
        TypeError: not a name.
    """
    _own.pop(check_string(name, "name"), None)
    _panels.pop(name, None)


def add_own_panels() -> None:
    """Add the panels of the package that the site has not removed. Their templates are not loaded for it."""
    for name, path in [*_own.items()]:
        _panels.setdefault(name, import_string(f"{__package__}.panels.{path}")())
        _own.pop(name, None)


def panels_of(page: str) -> list[Panel]:
    """Return the panels of a page, in their order."""
    found = [panel for panel in _panels.values() if panel.page == page]
    return sorted(found, key=lambda panel: (panel.order, panel.name))


def _check_attributes(panel: type[Panel]) -> None:
    if not (isinstance(panel.name, str) and _NAME.fullmatch(panel.name)):
        expected = "a lower-case letter, then up to 49 lower-case letters, digits and hyphens"
        raise ValueError(f"{dotted_path(panel)}.name={panel.name!r}: expected {expected}.")
    if not panel.title:
        raise ValueError(f"{dotted_path(panel)}.title={panel.title!r}: expected a heading.")
    if panel.page not in PAGES:
        near = difflib.get_close_matches(str(panel.page), PAGES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{dotted_path(panel)}.page={panel.page!r}: expected one of {', '.join(PAGES)}.{hint}")
    check_int(panel.order, f"{dotted_path(panel)}.order")
    if panel.permission and not _PERMISSION.fullmatch(panel.permission):
        raise ValueError(f"{dotted_path(panel)}.permission={panel.permission!r}: expected 'app_label.codename', or ''.")


def _check_template(panel: type[Panel]) -> None:
    expected = "the name of a template that exists, such as 'shop/panels/sales.html'"
    try:
        get_template(panel.template_name)
    except TemplateDoesNotExist:
        raise ValueError(f"{dotted_path(panel)}.template_name={panel.template_name!r}: expected {expected}.") from None


def _name_is_taken(panel: type[Panel], owner: str) -> ValueError:
    return ValueError(
        f"Panel name {panel.name!r} of {dotted_path(panel)} is already registered by {owner}. "
        f"Choose another name, or call unregister_panel({panel.name!r}) first."
    )
