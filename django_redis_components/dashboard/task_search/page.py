"""The page of the search: what it reads, its template context and its JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from django_redis_components.dashboard.clients import shown_shards
from django_redis_components.dashboard.elements import Link
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.list_counts import FoundCount
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.data import task_data
from django_redis_components.dashboard.queues.task_list import TaskRow, found_counts, list_row, state_labels
from django_redis_components.dashboard.side_filter import FilterGroup, FoundCounts, filter_group, version_names
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.task_search.query import STATE_WORDS, SearchQuery, word_of
from django_redis_components.dashboard.task_search.snapshot import SearchHit, SearchSnapshot, search
from django_redis_components.dashboard.task_search.suggestions import MAX_SUGGESTED, TIMES
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.store.scan import STATES


@dataclasses.dataclass(frozen=True, slots=True)
class PrefixHelp:
    """What a prefix means, and links that add it to the search."""

    prefix: str
    text: str
    links: list[Link]


@dataclasses.dataclass(frozen=True, slots=True)
class HitRow:
    """A task that was found, with links to its queue's list."""

    row: TaskRow
    queue: str
    state: str
    list_url: str
    shard: str = ""


def read(request: PageRequest) -> Snapshot[SearchSnapshot]:
    """Search."""
    return read_snapshot(search(request.query))


def redirect(request: PageRequest, snapshot: Snapshot[SearchSnapshot]) -> HttpResponse | None:
    """Open the task whose id was typed; if its record has expired, its page looks in the list of its queue first."""
    found = snapshot.value
    url = request.links.task(found.task_id) if found.task_id else ""
    if url and found.finished_in:
        url = f"{url}?{urlencode({'queue': found.finished_in})}"
    return HttpResponseRedirect(url) if url else None


def context(request: PageRequest, snapshot: Snapshot[SearchSnapshot]) -> dict[str, Any]:
    """Return the context of the templates."""
    found, links, labels = snapshot.value, request.links, state_labels()
    query, has_shards = found.query, len(shown_shards().shards) > 1
    rows = []
    for hit in found.hits:
        of_hit = links.in_shard(hit.shard.name) if has_shards else links
        row = list_row(hit.task, hit.state, found.at, of_hit.task)
        url = of_hit.queue(hit.queue, state=hit.state)
        rows.append(HitRow(row, hit.queue, labels[hit.state], url, hit.shard.name if has_shards else ""))
    helps = _helps(query, found)
    return {
        "search_url": "",  # the field of all pages: this one has its own
        "query": query,
        "rows": rows,
        "has_shards": has_shards,
        "helps": helps,
        "side": _side_filters(query, found, labels),
        "count": None if query.is_empty or query.problem else _count(found),
        "queue_count": _queue_count(found),
        "is_cut": _("Not all queues are searched. Name one: queue:…") if found.is_cut else "",
        "more": query.continued(found.after, found.searched) if found.after else "",
        "suggested": [f"{each.prefix}:{link.label}" for each in helps for link in each.links],
    }


def data(snapshot: Snapshot[SearchSnapshot]) -> dict[str, Any]:
    """Return a snapshot as JSON."""
    found = snapshot.value
    return {
        "search": {
            "text": found.query.source,
            "problem": found.query.problem or None,
            "id": found.task_id or None,
            "total": found.total,
            "searched": found.searched,
            "count": _count(found).data(),
            "next": found.query.continued(found.after, found.searched) if found.after else None,
            "tasks": [
                {"queue": hit.queue, "state": hit.state, **task_data(hit.task), **_shard(hit)} for hit in found.hits
            ],
        }
    }


def _shard(hit: SearchHit) -> dict[str, str]:
    return {"shard": hit.shard.name} if len(shown_shards().shards) > 1 else {}


def _count(found: SearchSnapshot) -> FoundCount:
    """Return how many tasks this page has found, and at which it has looked."""
    start = min(found.query.searched, found.searched)
    return FoundCount(len(found.hits), found.searched - start, found.total, start)


def _queue_count(found: SearchSnapshot) -> str:
    queues = len(found.queues)
    text = ngettext("tasks in %(count)s queue", "tasks in %(count)s queues", queues)
    return text % {"count": number(queues)}


def _side_filters(query: SearchQuery, found: SearchSnapshot, labels: dict[str, str]) -> list[FilterGroup]:
    """Return the filters beside the list."""
    is_whole = not query.is_empty and not query.problem and not query.after and found.after is None and not found.is_cut
    counts = found_counts([hit.task for hit in found.hits], is_whole=is_whole)

    def group(prefix: str, title: str, values: Iterable[str], **more: Any) -> FilterGroup | None:
        return filter_group(
            prefix,
            title,
            values,
            query.values.get(prefix, ""),
            partial(query.with_word, prefix),
            **{"counts": counts.get(prefix), **more},
        )

    names = [*(hit.task.record.name for hit in found.hits), *sorted(registry.names())]
    states = FoundCounts([hit.state for hit in found.hits], is_whole)
    queues = FoundCounts([hit.queue for hit in found.hits], is_whole)
    groups = [
        group("state", pgettext("of a task", "state"), STATES, labels=labels, counts=states),
        group("queue", pgettext("of a task", "queue"), found.queues, counts=queues),
        group("name", _("task name"), names),
        group("version", pgettext("of the code", "version"), version_names(found.deploys)),
        group("host", pgettext("of a worker", "host"), found.hosts),
    ]
    return [each for each in groups if each is not None]


def _helps(query: SearchQuery, found: SearchSnapshot) -> list[PrefixHelp]:
    """Return the prefixes with suggestions from what exists."""

    def links(prefix: str, values: list[str]) -> list[Link]:
        current = word_of(prefix, query.values.get(prefix, ""))
        return [Link(value, query.with_word(prefix, value), value == current) for value in values[:MAX_SUGGESTED]]

    part = query.values.get("name", "")
    names = dict.fromkeys([*(hit.task.record.name for hit in found.hits), *sorted(registry.names())])
    return [
        PrefixHelp("name", _("Part of the name of the task"), links("name", [name for name in names if part in name])),
        PrefixHelp("arg", _("Part of the arguments, such as order_id=7; masked values never match"), []),
        PrefixHelp("error", _("Part of the class or the text of the last error, or a fingerprint"), []),
        PrefixHelp("queue", _("Name of the queue"), links("queue", found.queues)),
        PrefixHelp("state", _("State of the task"), links("state", [*STATE_WORDS])),
        PrefixHelp(
            "version",
            _("Version of the code that runs the task, or has run it last, whole"),
            links("version", version_names(found.deploys)),
        ),
        PrefixHelp("host", _("Host of that worker, whole"), links("host", found.hosts)),
        PrefixHelp(
            "since",
            _("Since when: of the failure, of the next run of a scheduled task, else of the enqueue"),
            links("since", list(TIMES)),
        ),
        PrefixHelp(
            "until", _("Until when, a named day included; both also take a date, such as 2026-11-23, and a time"), []
        ),
    ]
