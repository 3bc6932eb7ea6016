"""The entries of the admin's log that the dashboard has written, newest first, with links to the undo."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.http import QueryDict
from django.utils.http import urlencode

from django_redis_components.core import conf
from django_redis_components.core.units import aware
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.audit import REQUESTED
from django_redis_components.dashboard.formats import Timestamp
from django_redis_components.dashboard.json_data import time_data
from django_redis_components.dashboard.models import UnmanagedModel
from django_redis_components.taskqueue.store.control import TRASH_TTL_MS

APP = "django_redis_components"
#: Entries on a page.
PAGE_SIZE = 50
#: Longest name of an object in the query, in characters, and largest id of an entry.
MAX_NAME, MAX_ID = 1_000, 2**63 - 1
#: The id of the trash at the end of an entry whose tasks can be restored.
_TRASH = re.compile(r", trash ([0-9a-f]{16})(?:, stopped before the end)?\.$")


@dataclasses.dataclass(frozen=True, slots=True)
class ActionQuery:
    """Which entries are shown.

    Attributes:
        model: name of the model of the changed objects; "" for all.
        name: of the changed object; "" for all.
        before: id of an entry: only older ones are shown.
    """

    model: str = ""
    name: str = ""
    before: int = MAX_ID

    def older(self, last: int) -> str:
        """Return the query string of the page after the entry `last`."""
        fields = {"model": self.model, "object": self.name, "before": str(last)}
        return urlencode({name: value for name, value in fields.items() if value})


@dataclasses.dataclass(frozen=True, slots=True)
class LoggedAction:
    """An entry.

    Attributes:
        text: what was requested and done, in English.
        is_unfinished: whether the outcome is unknown: the process ended, or is still changing tasks.
        trash: id of the trash from which its tasks can be restored, or "".
    """

    id: int
    at: datetime
    user: str
    model: str
    name: str
    text: str
    is_unfinished: bool
    trash: str


@dataclasses.dataclass(frozen=True, slots=True)
class ActionSnapshot:
    """The entries of a page. `address` is empty: no Redis server is read."""

    at: datetime
    query: ActionQuery
    actions: list[LoggedAction]
    has_older: bool
    address: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ActionRow:
    """A row. `kind` is the object's; `url` leads to it, and `undo` to the undo: each may be ""."""

    action: LoggedAction
    kind: str
    at: Timestamp
    url: str
    undo: str


@dataclasses.dataclass(frozen=True, slots=True)
class ActionsPage:
    """The content of the page."""

    rows: list[ActionRow]
    filter: str
    older: str
    is_newest: bool


def query_of(parameters: QueryDict) -> ActionQuery:
    """Return the query of a request.

    Raises:
        ValueError: a parameter is invalid.
    """
    model, name, before = (parameters.get(field, "") for field in ("model", "object", "before"))
    if model and model not in _models():
        raise ValueError(f"model={model[:40]!r}: expected one of {', '.join(sorted(_models()))}.")
    if len(name) > MAX_NAME:
        raise ValueError(f"object: expected at most {MAX_NAME} characters.")
    if before and not (before.isascii() and before.isdigit() and len(before) < 20 and int(before) <= MAX_ID):
        raise ValueError(f"before={before[:40]!r}: expected the id of an entry.")
    return ActionQuery(model, name, int(before) if before else MAX_ID)


def read(query: ActionQuery) -> ActionSnapshot:
    """Read one page of entries in two queries: the content types, and the entries with their users."""
    names = [query.model] if query.model else [*_models()]
    found_types = ContentType.objects.filter(app_label=APP, model__in=names)
    types: dict[int, str] = dict(found_types.values_list("pk", "model"))
    entries = LogEntry.objects.filter(content_type_id__in=types, pk__lt=query.before).select_related("user")
    if query.name:
        entries = entries.filter(object_id=query.name)
    found = list(entries.order_by("-pk")[: PAGE_SIZE + 1])
    now = datetime.now(UTC)
    actions = [_action(entry, types[entry.content_type_id or 0], now) for entry in found[:PAGE_SIZE]]
    return ActionSnapshot(now, query, actions, has_older=len(found) > PAGE_SIZE)


def build_page(
    snapshot: ActionSnapshot, url_of: Callable[[LoggedAction], str], undo_of: Callable[[LoggedAction], str]
) -> ActionsPage:
    """Return the page of a snapshot.

    Args:
        url_of: the URL of an entry's object, or "".
        undo_of: the URL of an entry's undo, or "".
    """
    rows = [
        ActionRow(
            action,
            kind=str(_models()[action.model]._meta.verbose_name),
            at=formats.timestamp(action.at, snapshot.at),
            url=url_of(action),
            undo=undo_of(action),
        )
        for action in snapshot.actions
    ]
    older = snapshot.query.older(snapshot.actions[-1].id) if snapshot.has_older else ""
    return ActionsPage(rows, snapshot.query.name, older, snapshot.query.before == MAX_ID)


def action_data(snapshot: ActionSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "at": time_data(snapshot.at),
        "environment": conf.settings().dashboard.environment,
        "actions": [{**dataclasses.asdict(action), "at": time_data(action.at)} for action in snapshot.actions],
        "older": snapshot.actions[-1].id if snapshot.has_older else None,
    }


def _models() -> dict[str, type[UnmanagedModel]]:
    """Return the models of the dashboard by name."""
    models = apps.get_app_config(APP).get_models()
    return {str(model._meta.model_name): model for model in models if issubclass(model, UnmanagedModel)}


def _action(entry: LogEntry, model: str, now: datetime) -> LoggedAction:
    at = entry.action_time if entry.action_time.tzinfo else aware(entry.action_time)
    found = _TRASH.search(entry.change_message)
    is_restorable = found is not None and now - at < timedelta(milliseconds=TRASH_TTL_MS)
    return LoggedAction(
        id=entry.pk,
        at=at,
        user=entry.user.get_username(),
        model=model,
        name=entry.object_id or "",
        text=entry.change_message,
        is_unfinished=entry.change_message.endswith(REQUESTED),
        trash=found[1] if found is not None and is_restorable else "",
    )
