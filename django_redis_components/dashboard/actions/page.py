"""The entries of the admin's log that the dashboard has written, newest first, with links to the undo."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.utils.http import urlencode

from django_redis_components.core.gather import gather_values
from django_redis_components.core.settings import conf
from django_redis_components.core.units import aware, moment_of_ms
from django_redis_components.dashboard.actions.commands import LoggedCommand, count_commands, read_commands
from django_redis_components.dashboard.actions.sentences import VERBS, sentence_of
from django_redis_components.dashboard.audit import REQUESTED
from django_redis_components.dashboard.bounded_client import Cost
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.limits.key_access import may_view_keys, without_keys
from django_redis_components.dashboard.links import APP, Links
from django_redis_components.dashboard.list_counts import ListCount
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.pages import PAGES
from django_redis_components.dashboard.panels.reading import PagePart, read_parts
from django_redis_components.dashboard.parameters import not_of_a_link, not_one_of, too_long
from django_redis_components.dashboard.queues.task_query import check_span, parse_time
from django_redis_components.taskqueue.store.control import TRASH_TTL_MS, existing_trash

#: Entries on a page.
PAGE_SIZE = 50
#: Longest name of an object and of a user in the query, in characters, and largest id of an entry.
MAX_NAME, MAX_USER, MAX_ID = 1_000, 200, 2**63 - 1
#: The id of the trash at the end of an entry whose tasks can be restored.
_TRASH = re.compile(r", trash ([0-9a-f]{16})(?:, stopped before the end)?\.$")

#: The model of rate limits, and the beginning of their commands.
LIMIT_MODEL, _LIMIT_COMMAND = "ratelimit", re.compile(r"redis .*?\blimits\b(?: \w+)?")


@dataclasses.dataclass(frozen=True, slots=True)
class ActionQuery:
    """Which entries are shown.

    Attributes:
        model: name of the model of the changed objects; "" for all.
        name: of the changed object; "" for all.
        user: author of the change; "" for all.
        verb: the word with which entries begin, one of `VERBS`; "" for all.
        begin, end: bounds of the time, as `parse_time` takes them.
        before: id of an entry: only older ones are shown.
    """

    model: str = ""
    name: str = ""
    user: str = ""
    verb: str = ""
    begin: str = ""
    end: str = ""
    before: int = MAX_ID

    @property
    def is_filtered(self) -> bool:
        """Whether not all entries are shown, page by page."""
        return dataclasses.replace(self, before=MAX_ID) != ActionQuery()

    def encoded(self, before: int | None = None) -> str:
        """Return the query string of the newest entries, or of those before an entry."""
        fields = {**dataclasses.asdict(self), "object": self.name, "name": "", "before": before}
        return urlencode({name: value for name, value in fields.items() if value})

    def conditions(self) -> dict[str, Any]:
        """Return the conditions of the entries, as `QuerySet.filter` takes them."""
        found = {
            "object_id": self.name,
            f"user__{get_user_model().USERNAME_FIELD}": self.user,
            "change_message__startswith": f"{self.verb} " if self.verb else "",
            "action_time__gte": _moment(self.begin),
            "action_time__lte": _moment(self.end),
        }
        return {name: value for name, value in found.items() if value}


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
        command_count: how many commands are kept.
        commands: those of `manage.py`, on the first page without a filter; None if they are not shown or Redis is away.
        address: "": the page is shown without Redis, too.
    """

    at: datetime
    query: ActionQuery
    actions: list[LoggedAction]
    has_older: bool
    commands: list[LoggedCommand] | None = None
    command_count: int = 0
    address: str = ""
    cost: Cost = dataclasses.field(default_factory=Cost)
    is_cluster: bool = False


def parse(request: PageRequest) -> ActionQuery:
    """Return the query of a request.

    Raises:
        ValueError: a parameter is invalid.
    """
    form = request.http.GET
    model, name, before = (form.get(field, "") for field in ("model", "object", "before"))
    if model and model not in MODELS:
        raise not_one_of("model", model, sorted(MODELS))
    if len(name) > MAX_NAME:
        raise too_long("object", MAX_NAME)
    if before and not (before.isascii() and before.isdigit() and len(before) < 20 and int(before) <= MAX_ID):
        raise not_of_a_link("before")
    user, verb = form.get("user", "").strip(), form.get("verb", "")
    if len(user) > MAX_USER:
        raise too_long("user", MAX_USER)
    if verb and verb not in VERBS:
        raise not_one_of("verb", verb, VERBS)
    begin, end = form.get("begin", ""), form.get("end", "")
    query = ActionQuery(model, name, user, verb, begin, end, int(before) if before else MAX_ID)
    check_span(query)
    return query


def read(request: PageRequest) -> ActionSnapshot:
    """Read one page of entries in two queries: the content types, and the entries with their users.

    What commands have changed, and what can still be restored, is read from Redis in one round trip.
    """
    query: ActionQuery = request.query
    names = [query.model] if query.model else [*MODELS]
    found_types = ContentType.objects.filter(app_label=APP, model__in=names)
    types: dict[int, str] = dict(found_types.values_list("pk", "model"))
    entries = LogEntry.objects.filter(content_type_id__in=types, pk__lt=query.before, **query.conditions())
    entries = entries.select_related("user")
    found = list(entries.order_by("-pk")[: PAGE_SIZE + 1])
    now = datetime.now(UTC)
    actions = [_action(entry, types[entry.content_type_id or 0], now) for entry in found[:PAGE_SIZE]]
    shows_keys = may_view_keys(request.http)
    if not shows_keys:
        actions = [_without_key(action) for action in actions]
    cost, using = Cost(), conf.settings().dashboard.using
    trash = [(action.name, action.trash) for action in actions if action.trash]
    read_all = [PagePart(lambda: using, lambda: existing_trash(queue_shard(), trash))] if trash else []
    read_all += (
        [PagePart(lambda: using, lambda: gather_values([read_commands(using), count_commands(using)]))]
        if query == ActionQuery()
        else []
    )
    outcomes = read_parts(read_all, cost)
    if trash and outcomes[0].error is None:
        actions = [_without_undo(action, outcomes[0].value) for action in actions]
    commands, command_count = (outcomes[-1].value or (None, 0)) if query == ActionQuery() else (None, 0)
    if commands and not shows_keys:
        commands = [_command_without_key(command) for command in commands]
    return ActionSnapshot(now, query, actions, len(found) > PAGE_SIZE, commands, command_count, cost=cost)


def context(request: PageRequest, snapshot: ActionSnapshot) -> dict[str, Any]:
    """Return the context of the templates."""
    links = request.links
    rows = [
        {
            "action": action,
            "sentence": sentence_of(action.text),
            "kind": MODELS[action.model]._meta.verbose_name,
            "url": links.logged(action.model, action.name),
            "undo": _undo(links, action),
        }
        for action in snapshot.actions
    ]
    older = snapshot.query.encoded(snapshot.actions[-1].id) if snapshot.has_older else ""
    return {
        "rows": rows,
        "count": _count(snapshot),
        "commands": snapshot.commands,
        "command_count": _command_count(snapshot),
        "query": snapshot.query,
        "older": older,
        "newest": snapshot.query.encoded(),
        "is_newest": snapshot.query.before == MAX_ID,
        "verbs": VERBS,
        "kinds": _kinds(snapshot),
    }


def action_data(snapshot: ActionSnapshot) -> dict[str, Any]:
    """Return a snapshot as JSON data."""
    return {
        "actions": snapshot.actions,
        "older": snapshot.actions[-1].id if snapshot.has_older else None,
        "commands": snapshot.commands,
        "count": _count(snapshot).data(),
        "command_count": count.data() if (count := _command_count(snapshot)) else None,
    }


def _count(snapshot: ActionSnapshot) -> ListCount:
    """Return which entries are on the page. The log has no bound, so entries on other pages are not counted."""
    shown = len(snapshot.actions)
    if snapshot.query.before == MAX_ID:
        return ListCount(shown, None if snapshot.has_older else shown)
    return ListCount(shown, None if snapshot.has_older else shown, None, is_least=True)


def _command_count(snapshot: ActionSnapshot) -> ListCount | None:
    if snapshot.commands is None:
        return None
    return ListCount(len(snapshot.commands), max(snapshot.command_count, len(snapshot.commands)))


def _kinds(snapshot: ActionSnapshot) -> list[tuple[str, Any]]:
    """Return the models whose objects can be changed, with their names, in their order."""
    changed = [page.slug for page in PAGES if page.verbs or page.slug == snapshot.query.model]
    return sorted(((slug, MODELS[slug]._meta.verbose_name) for slug in changed), key=lambda item: str(item[1]))


def _moment(text: str) -> datetime | None:
    """Return a time of the query as the database of the site compares it; None for ""."""
    at_ms = parse_time(text)
    return None if at_ms is None else moment_of_ms(at_ms)


def _without_key(action: LoggedAction) -> LoggedAction:
    """Return an entry with the hash of the key of a rate limit."""
    is_limit = action.model == LIMIT_MODEL
    return dataclasses.replace(action, text=without_keys(action.text)) if is_limit else action


def _command_without_key(logged: LoggedCommand) -> LoggedCommand:
    """Return a command without the key of a rate limit, which is an argument and a part of what it printed."""
    found = _LIMIT_COMMAND.match(logged.command)
    return dataclasses.replace(logged, command=f"{found[0]} …", outcome="…") if found else logged


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
