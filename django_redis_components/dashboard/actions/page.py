"""The entries of the admin's log that the dashboard has written, newest first, with links to the undo."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.utils.http import urlencode

from django_redis_components.core.settings import conf
from django_redis_components.core.units import aware
from django_redis_components.dashboard.actions.commands import LoggedCommand, read_commands
from django_redis_components.dashboard.audit import REQUESTED
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.links import APP, Links
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.panels.reading import PagePart, read_parts
from django_redis_components.taskqueue.store.control import TRASH_TTL_MS, existing_trash

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
    """The entries of a page.

    Attributes:
        commands: those of `manage.py`, on the first page without a filter; None if they are not shown or Redis is away.
        address: "": the page is shown without Redis, too.
    """

    at: datetime
    query: ActionQuery
    actions: list[LoggedAction]
    has_older: bool
    commands: list[LoggedCommand] | None = None
    address: str = ""
    cost: Cost = dataclasses.field(default_factory=Cost)
    is_cluster: bool = False


def parse(request: PageRequest) -> ActionQuery:
    """Return the query of a request.

    Raises:
        ValueError: a parameter is invalid.
    """
    model, name, before = (request.http.GET.get(field, "") for field in ("model", "object", "before"))
    if model and model not in MODELS:
        raise ValueError(f"model={model[:40]!r}: expected one of {', '.join(sorted(MODELS))}.")
    if len(name) > MAX_NAME:
        raise ValueError(f"object: expected at most {MAX_NAME} characters.")
    if before and not (before.isascii() and before.isdigit() and len(before) < 20 and int(before) <= MAX_ID):
        raise ValueError(f"before={before[:40]!r}: expected the id of an entry.")
    return ActionQuery(model, name, int(before) if before else MAX_ID)


def read(request: PageRequest) -> ActionSnapshot:
    """Read one page of entries in two queries: the content types, and the entries with their users.

    What commands have changed, and what can still be restored, is read from Redis in one round trip.
    """
    query: ActionQuery = request.query
    names = [query.model] if query.model else [*MODELS]
    found_types = ContentType.objects.filter(app_label=APP, model__in=names)
    types: dict[int, str] = dict(found_types.values_list("pk", "model"))
    entries = LogEntry.objects.filter(content_type_id__in=types, pk__lt=query.before).select_related("user")
    if query.name:
        entries = entries.filter(object_id=query.name)
    found = list(entries.order_by("-pk")[: PAGE_SIZE + 1])
    now = datetime.now(UTC)
    actions = [_action(entry, types[entry.content_type_id or 0], now) for entry in found[:PAGE_SIZE]]
    cost, using = Cost(), conf.settings().dashboard.using
    trash = [(action.name, action.trash) for action in actions if action.trash]
    read_all = [PagePart(lambda: using, lambda: existing_trash(queue_shard(), trash))] if trash else []
    read_all += [PagePart(lambda: using, lambda: read_commands(using))] if query == ActionQuery() else []
    outcomes = read_parts(read_all, cost)
    if trash and outcomes[0].error is None:
        actions = [_without_undo(action, outcomes[0].value) for action in actions]
    commands = outcomes[-1].value if query == ActionQuery() else None
    return ActionSnapshot(now, query, actions, len(found) > PAGE_SIZE, commands, cost=cost)


def context(request: PageRequest, snapshot: ActionSnapshot) -> dict[str, Any]:
    """Return the context of the templates."""
    links = request.links
    rows = [
        {
            "action": action,
            "kind": MODELS[action.model]._meta.verbose_name,
            "url": links.logged(action.model, action.name),
            "undo": _undo(links, action),
        }
        for action in snapshot.actions
    ]
    older = snapshot.query.older(snapshot.actions[-1].id) if snapshot.has_older else ""
    return {
        "rows": rows,
        "commands": snapshot.commands,
        "query": snapshot.query,
        "older": older,
        "is_newest": snapshot.query.before == MAX_ID,
    }


def action_data(snapshot: ActionSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "actions": snapshot.actions,
        "older": snapshot.actions[-1].id if snapshot.has_older else None,
        "commands": snapshot.commands,
    }


def _without_undo(action: LoggedAction, existing: set[str]) -> LoggedAction:
    """Return an entry without its undo if the tasks were restored, or deleted since."""
    return action if action.trash in existing else dataclasses.replace(action, trash="")


def _undo(links: Links, action: LoggedAction) -> str:
    """Return the URL of an entry's undo, or ""."""
    url = links.queue(action.name, "restore") if action.trash and action.model == "queues" else ""
    return f"{url}?trash={action.trash}" if url else ""


def _action(entry: LogEntry, model: str, now: datetime) -> LoggedAction:
    at = entry.action_time if entry.action_time.tzinfo else aware(entry.action_time)
    trash_match = _TRASH.search(entry.change_message)
    is_restorable = trash_match is not None and now - at < timedelta(milliseconds=TRASH_TTL_MS)
    return LoggedAction(
        id=entry.pk,
        at=at,
        user=entry.user.get_username(),
        model=model,
        name=entry.object_id or "",
        text=entry.change_message,
        is_unfinished=entry.change_message.endswith(REQUESTED),
        trash=trash_match[1] if trash_match is not None and is_restorable else "",
    )
