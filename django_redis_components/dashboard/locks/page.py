"""The template context of the page of locks and semaphores, formatted in the active language."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_redis_components.core.leasing.holder import LeaseHolder
from django_redis_components.core.observability.declared_names import DeclaredName
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Cell, Link
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.list_counts import FoundCount, ListCount
from django_redis_components.dashboard.locks import scan, snapshot
from django_redis_components.dashboard.locks.resources import Resource, all_kinds, kinds_of
from django_redis_components.dashboard.locks.snapshot import (
    HolderState,
    LockQuery,
    LockSnapshot,
    QueuedWaiter,
    ResourceState,
)
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import InvalidParameter, not_one_of
from django_redis_components.dashboard.side_filter import FilterGroup, KnownCounts, filter_group
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.dashboard.table import Column, Table

#: Most holders of one resource with a row of their own.
MAX_HOLDER_ROWS = 20
#: Most waiters of one resource with a row.
MAX_WAITER_ROWS = 50
#: Values of the filter by waiters.
WAITERS = ("some", "none")


@dataclasses.dataclass(frozen=True, slots=True)
class LockRow:
    """A holder of a resource, or a free resource.

    Attributes:
        token: identifies the holder; "" if the resource is free.
        held_by: process and thread of the holder; "" if unknown.
        work, work_url: its task or request, or ""; the URL of the task's page, or "".
        release: query string of the link to its release; "" without a holder.
        lookup: query string of the link to the resource with its waiters; "" on that page.
        error: why the resource could not be read, or "".
        more: number of holders that are not shown, as text; only on the last row of a resource.
    """

    name: str
    group: str
    kind: str
    waiters: str
    has_waiters: bool
    fencing_token: str
    token: str = ""
    held_by: str = ""
    work: str = ""
    work_url: str = ""
    held_for: str = NO_VALUE
    expires_in: str = NO_VALUE
    release: str = ""
    lookup: str = ""
    error: str = ""
    more: str = ""


def parse(request: PageRequest) -> LockQuery:
    """Return the query of a request."""
    form = request.http.GET
    using, skip = using_of(form), form.get("skip", "")
    if using is None:
        raise InvalidParameter(_("using: unknown connection alias."))
    return LockQuery(
        using=using,
        name=form.get("name", "").strip(),
        group=form.get("group", "").strip(),
        cursors=scan.cursors_from_text(form.get("at", "")),
        skip=int(skip) if skip.isascii() and skip.isdigit() and len(skip) < 7 else 0,
        kind=_choice(form, "kind", all_kinds()),
        waiters=_choice(form, "waiters", WAITERS),
    )


def _choice(form: QueryDict, name: str, accepted: Iterable[str]) -> str:
    """Return a parameter; "" without it.

    Raises:
        ValueError: it is none of the accepted ones.
    """
    value = form.get(name, "")
    if value and value not in accepted:
        raise not_one_of(name, value, accepted)
    return value


def read(request: PageRequest) -> Snapshot[LockSnapshot]:
    """Read the result of the query."""
    return snapshot.read(request.query)


def context(request: PageRequest, read: Snapshot[LockSnapshot]) -> dict[str, Any]:
    """Return the context of the templates. Tasks have links if the user may view them."""
    links, snapshot, query = request.links, read.value, read.value.query
    states = _sorted([state for state in snapshot.states if query.accepts(state)])
    page = {
        "rows": [row for state in states for row in _rows(state, query, links.task)],
        "queues": [_queue(state) for state in states if state.queue] if query.name else [],
        "side": _side_filters(snapshot) if snapshot.scan else [],
        "empty": _empty_text(snapshot),
        "scanned": _scanned_text(snapshot),
        "count": count_of(snapshot),
        "links": [*_links(snapshot)],
        "connections": _connection_links(query),
        "declared": _DECLARED.context(snapshot.declared)["table"],
        "name": query.name,
        "group": query.group,
        "using": query.using,
        "problem": snapshot.problem,
    }
    return {"page": page, "release_url": links.verb("release")}


def _side_filters(snapshot: LockSnapshot) -> list[FilterGroup]:
    """Return the filters of what the page has read; one without a choice is left out."""
    query = snapshot.query

    def group(slug: str, title: str, labels: Mapping[str, str]) -> FilterGroup | None:
        found = [state for state in snapshot.states if query.accepts(state, but=slug)]
        counts = Counter(state.filtered[slug] for state in found)
        current = getattr(query, slug)
        values = sorted(counts, key=lambda value: labels[value]) if current or len(counts) > 1 else []
        return filter_group(
            slug, title, values, current, lambda value: _query(query, **{slug: value}), labels, KnownCounts(counts)
        )

    groups = [
        group("kind", pgettext("of a lock", "kind"), {kind: kind_label(kind) for kind in all_kinds()}),
        group("waiters", pgettext("of a lock", "waiters"), {"some": _("with waiters"), "none": _("without waiters")}),
    ]
    return [each for each in groups if each is not None]


def _query(query: LockQuery, **changed: Any) -> str:
    """Return the query string of the page with some values changed. The part of the keys stays the same."""
    values = {
        "using": query.using,
        "kind": query.kind,
        "waiters": query.waiters,
        "skip": query.skip,
        "at": scan.cursors_to_text(query.cursors),
        **changed,
    }
    return urlencode({name: value for name, value in values.items() if value})


def kind_label(kind: str, role: str = "") -> str:
    """Return the label of a kind of resource, and of the holder's role."""
    return str(all_kinds()[kind].role_labels.get(role) or all_kinds()[kind].label)


def holder_text(holder: LeaseHolder) -> str:
    """Return the process, the thread, and the task or request of a holder."""
    return formats.listed(filter(None, (_process_text(holder), _work_text(holder))))


def time_left(seconds: float) -> str:
    """Format the time until a lease expires."""
    return pgettext("a lease expires", "never") if math.isinf(seconds) else formats.age(seconds)


def release_query(resource: Resource, token: str, using: str) -> str:
    """Return the query string of the link to a release."""
    return _resource_query(resource, using, kind=resource.kind, token=token)


def _resource_query(resource: Resource, using: str, **more: str) -> str:
    query = {"using": using, "group": resource.group, "name": resource.name, **more}
    return urlencode({name: value for name, value in query.items() if value})


def _sorted(states: list[ResourceState]) -> list[ResourceState]:
    """Sort resources: errors, then by number of waiters, then by time held."""

    def order(state: ResourceState) -> tuple[bool, int, float, Resource]:
        oldest = max((holder.age_s or 0.0 for holder in state.holders), default=0.0)
        return not state.error, -state.waiters, -oldest, state.resource

    return sorted(states, key=order)


def _rows(state: ResourceState, query: LockQuery, url_of: Callable[[str], str]) -> Iterable[LockRow]:
    lookup = "" if query.name else _resource_query(state.resource, query.using)
    if state.error or not state.holders:
        yield dataclasses.replace(_free_row(state), error=state.error, lookup=lookup)
    shown = state.holders[:MAX_HOLDER_ROWS]
    for index, holder in enumerate(shown, 1):
        row = _holder_row(state, holder, query.using, _more_text(state) if index == len(shown) else "")
        row = dataclasses.replace(row, lookup=lookup)
        yield row if holder.held_by is None else _with_holder(row, holder.held_by, url_of)


def _queue(state: ResourceState) -> dict[str, Any]:
    """Return the waiters of a resource: their table, and how many of all it has."""
    shown = [*enumerate(state.queue[:MAX_WAITER_ROWS], 1)]
    return {
        "id": f"drc-waiters-{state.resource.kind}",
        "kind": kind_label(state.resource.kind),
        "table": _WAITERS.context([(position, waiter, state.resource) for position, waiter in shown])["table"],
        "count": ListCount(len(shown), max(state.waiters, len(shown))),
    }


def _wanted(row: tuple[int, QueuedWaiter, Resource]) -> str:
    """Return what a waiter waits for."""
    _at, waiter, resource = row
    if all_kinds()[resource.kind].is_counted:
        text = ngettext("%(count)s permit", "%(count)s permits", waiter.permits)
        return text % {"count": number(waiter.permits)}
    return kind_label(resource.kind, waiter.role)


def _free_row(state: ResourceState, role: str = "") -> LockRow:
    return LockRow(
        name=state.resource.name,
        group=state.resource.group,
        kind=_kind_text(state, role),
        waiters=number(state.waiters),
        has_waiters=state.waiters > 0,
        fencing_token=str(state.fencing_token or NO_VALUE),
    )


def _holder_row(state: ResourceState, holder: HolderState, using: str, more: str) -> LockRow:
    return dataclasses.replace(
        _free_row(state, holder.role),
        token=holder.token,
        held_for=NO_VALUE if holder.age_s is None else formats.age(holder.age_s),
        expires_in=time_left(holder.remaining_s),
        release=release_query(state.resource, holder.token, using),
        more=more,
    )


def _with_holder(row: LockRow, holder: LeaseHolder, url_of: Callable[[str], str]) -> LockRow:
    url = url_of(holder.task_id) if holder.task_id else ""
    return dataclasses.replace(row, held_by=_process_text(holder), work=_work_text(holder), work_url=url)


def _process_text(holder: LeaseHolder) -> str:
    facts = {"host": holder.host, "pid": holder.pid, "thread": holder.thread}
    return _("%(host)s, process %(pid)s, thread %(thread)s") % facts


def _work_text(holder: LeaseHolder) -> str:
    if holder.task:
        return _("task %(name)s %(id)s") % {"name": holder.task, "id": holder.task_id}
    return _("request %(request)s") % {"request": holder.request} if holder.request else ""


def _kind_text(state: ResourceState, role: str) -> str:
    if not all_kinds()[state.resource.kind].is_counted:
        return kind_label(state.resource.kind, role)
    if state.limit is None:
        return _("semaphore, %(held)s held") % {"held": number(state.held)}
    return _("semaphore, %(held)s of %(limit)s held") % {"held": number(state.held), "limit": number(state.limit)}


def _more_text(state: ResourceState) -> str:
    shown = sum(holder.permits for holder in state.holders[:MAX_HOLDER_ROWS])
    rest = state.held - shown
    return ngettext("and %(count)s more", "and %(count)s more", rest) % {"count": number(rest)} if rest > 0 else ""


def _empty_text(snapshot: LockSnapshot) -> str:
    if snapshot.scan is None:
        return ""
    if snapshot.states and (snapshot.query.kind or snapshot.query.waiters):
        return _("None of the locks and semaphores on this page matches.")
    if snapshot.scan.cursors:
        return _("No held locks or semaphores among the scanned keys.")
    if snapshot.query.cursors:
        return _("No held locks or semaphores among the remaining keys.")
    return _("No locks or semaphores are held.")


def _scanned_text(snapshot: LockSnapshot) -> str:
    """Return how much of the keyspace was scanned."""
    found = snapshot.scan
    if found is None:
        return ""
    if not found.cursors and not snapshot.query.cursors:
        text = ngettext("Scanned %(total)s key.", "Scanned all %(total)s keys.", found.total)
        return text % {"total": number(found.total)}
    counts = {"scanned": number(found.scanned), "total": number(found.total)}
    if found.cursors:
        return _("Scanned about %(scanned)s of %(total)s keys.") % counts
    return _("Scanned the last keys, about %(scanned)s of %(total)s.") % counts


def count_of(snapshot: LockSnapshot) -> ListCount | FoundCount | None:
    """Return which of the found resources are on the page; with a filter, how many of these match. None for a name."""
    query, scanned = snapshot.query, snapshot.scan
    if scanned is None:
        return None
    found, shown = len(scanned.items), len(snapshot.states)
    if query.kind or query.waiters:
        return FoundCount(sum(map(query.accepts, snapshot.states)), shown, found, query.skip)
    return ListCount(shown, found, query.skip, is_least=bool(scanned.cursors or query.cursors))


def _links(snapshot: LockSnapshot) -> Iterable[Link]:
    query, scanned = snapshot.query, snapshot.scan
    if scanned is None or query.cursors or query.skip:
        yield Link(_("Start over"), _query(query, at="", skip=0))
    if scanned is None:
        return
    if snapshot.not_shown:
        skip = len(scanned.items) - snapshot.not_shown
        label = ngettext("Show %(count)s more", "Show %(count)s more", snapshot.not_shown)
        yield Link(label % {"count": number(snapshot.not_shown)}, _query(query, skip=skip))
    if scanned.cursors:
        yield Link(_("Continue the scan"), _query(query, at=scan.cursors_to_text(scanned.cursors), skip=0))


def _connection_links(query: LockQuery) -> list[Link]:
    """Return links to the connections, if there are several."""
    names = sorted(conf.settings().connections)
    return [Link(name, urlencode({"using": name}), name == query.using) for name in names] if names[1:] else []


def _declared_name(declared: DeclaredName) -> Cell:
    """Return the name of a decorator, with a link to its state unless the name depends on the call."""
    query = urlencode({"using": declared.using, "name": declared.name})
    return Cell(declared.name or _("computed by a function"), url=f"?{query}" if declared.is_exact else "")


def _declared_kind(declared: DeclaredName) -> str:
    return str(kinds_of(declared.component)[0].label)


_WAITERS: Table[tuple[int, QueuedWaiter, Resource]] = Table(
    [
        Column("token", gettext_lazy("Waiter"), lambda row: row[1].token, "name"),
        Column("place", gettext_lazy("Place"), lambda row: row[0]),
        Column("wanted", gettext_lazy("Waits for"), _wanted, ""),
        Column("waited", gettext_lazy("Waiting for"), lambda row: formats.age(row[1].waited_s)),
    ]
)

_DECLARED: Table[DeclaredName] = Table(
    [
        Column("name", gettext_lazy("Name"), _declared_name, "name"),
        Column("kind", gettext_lazy("Kind"), _declared_kind, ""),
        Column("function", gettext_lazy("Function"), lambda each: each.function, ""),
    ]
)


def using_of(form: QueryDict) -> str | None:
    """Return the connection alias; None if the request names an unknown one."""
    settings, using = conf.settings(), form.get("using")
    if not using:
        return settings.dashboard.using
    return using if using in settings.connections else None
