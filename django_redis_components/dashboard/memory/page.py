"""The template context and the JSON of the page of memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Tile
from django_redis_components.dashboard.formats import number, percent
from django_redis_components.dashboard.memory.uses import MemoryUse, SiteMemory
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems.server import memory_share
from django_redis_components.dashboard.problems.watched.memory import (
    MIN_GROWTH_S,
    full_in,
    growth_per_s,
    is_growth_known,
)
from django_redis_components.dashboard.snapshot import Snapshot
from django_redis_components.dashboard.table import Column, Table


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The keys of a component or a queue. `share` is of all that were measured."""

    name: str
    bytes: int
    keys: int
    share: float


def context(request: PageRequest, read: Snapshot[SiteMemory]) -> dict[str, Any]:
    """Return the context of the templates."""
    uses, unwatched = read.value.uses, read.value.unwatched
    if len(uses) == 1:
        return _use_context(uses[0], read.at)
    return {
        "connections": [{**_section(use, read.at), "number": str(index)} for index, use in enumerate(uses)],
        "unwatched": _("Not watched: %(connections)s.") % {"connections": ", ".join(unwatched)} if unwatched else "",
    }


def memory_data(read: Snapshot[SiteMemory]) -> dict[str, Any]:
    """Return a snapshot as JSON data; sizes in bytes, times in seconds.

    The fields of the first connection are those of the page; further ones are in a list.
    """
    first, *others = read.value.uses
    if not others:
        return _use_data(first)
    further = [{"alias": use.alias, "address": use.address, **_use_data(use), **_state_data(use)} for use in others]
    return {
        **_use_data(first),
        **_state_data(first),
        "connections": further,
        "unwatched_connections": list(read.value.unwatched),
    }


def _use_context(use: MemoryUse, now: datetime) -> dict[str, Any]:
    """Return the figures and the tables of a connection."""
    found = _shown(use.measured)
    return {
        "tiles": [*_tiles(use)],
        "components": _COMPONENTS.context(_groups(found, "components"))["table"] if found else None,
        "queues": _QUEUES.context(_groups(found, "queues"))["table"] if found else None,
        "largest": _LARGEST.context(found["largest"])["table"] if found else None,
        "note": _note(use, found, now),
    }


def _section(use: MemoryUse, now: datetime) -> dict[str, Any]:
    """Return the context of a connection beside others, or of its outage."""
    nodes = use.address.partition(" (connection ")[0]
    section = {"title": _("Connection %(alias)s") % {"alias": use.alias}, "server": nodes}
    if use.error is not None:
        return {**section, "outage": outage_of(use.error, use.address)}
    shown = _use_context(use, now)
    if use.server_of:
        text = _("Another database of the server of connection %(alias)s, which has the figures of the memory.")
        shown |= {"tiles": [_keys_tile(use)], "server_note": text % {"alias": use.server_of}}
    elif policy := use.info.get("maxmemory_policy"):
        shown["tiles"].append(Tile(_("Eviction"), policy))
    return {**section, **shown}


def _use_data(use: MemoryUse) -> dict[str, Any]:
    used, most = memory_share(use.info)
    found, records = _shown(use.measured), use.measured["used"] if use.measured else []
    return {
        "used": used,
        "maxmemory": most,
        "keys": use.keys,
        "growth_per_hour": round(growth_per_s(records) * 3_600),
        "full_in": full_in(records, most),
        "components": _groups(found, "components"),
        "queues": _groups(found, "queues"),
        "largest_keys": [{"bytes": size, "key": key} for size, key in found["largest"]] if found else [],
        "measured_keys": found["keys"] if found else 0,
    }


def _state_data(use: MemoryUse) -> dict[str, Any]:
    """Return what JSON has of a connection beside others."""
    return {
        "maxmemory_policy": use.info.get("maxmemory_policy"),
        "server_of": use.server_of or None,
        "error": outage_of(use.error, use.address) if use.error else None,
    }


def _shown(measured: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the result of the last whole pass over the keys; before the first, what was seen so far."""
    return (measured["whole"] or measured["part"]) if measured else None


def _groups(found: dict[str, Any] | None, kind: str) -> list[Group]:
    if found is None:
        return []
    total = max(found["bytes"], 1)
    groups = [Group(name, size, count, size / total) for name, (size, count) in found[kind].items()]
    return sorted(groups, key=lambda each: -each.bytes)


def _tiles(use: MemoryUse) -> Iterator[Tile]:
    used, most = memory_share(use.info)
    label, unit = pgettext("memory", "Used"), _("of %(most)s") % {"most": filesizeformat(most)} if most else ""
    if used:
        yield Tile(label, filesizeformat(used), unit=unit)
    else:
        note = _("the server does not report it") if use.info else _("the Redis user may not run INFO")
        yield Tile(label, NO_VALUE, note)
    yield _keys_tile(use)
    records = use.measured["used"] if use.measured else []
    yield _growth_tile(use, records)
    full_s = full_in(records, most)
    if full_s is not None:
        yield Tile(_("Full in"), formats.age(full_s), _("at this growth"))
    else:
        yield Tile(_("Full in"), NO_VALUE, _no_end(use, records, most))


def _growth_tile(use: MemoryUse, records: list[list[float]]) -> Tile:
    label, growth = _("Growth"), growth_per_s(records) * 3_600
    if not is_growth_known(records):
        return Tile(label, NO_VALUE, _not_measured(use, records))
    text = (_("−%(size)s") if growth < 0 else "%(size)s") % {"size": filesizeformat(abs(growth))}
    age = {"age": formats.age(records[-1][0] - records[0][0])}
    return Tile(label, text, pgettext("measured in this time", "over %(age)s") % age, unit=_("per hour"))


def _not_measured(use: MemoryUse, records: list[list[float]]) -> str:
    """Return why the growth is not known."""
    if not use.info:
        return _("the Redis user may not run INFO")
    if not records:
        return _("not measured")  # the note below the figures says why
    return _("not measured yet: it takes %(age)s") % {"age": formats.age(MIN_GROWTH_S)}


def _no_end(use: MemoryUse, records: list[list[float]], most: int) -> str:
    """Return why it is not known when the memory is full."""
    if use.info and not most:
        return _("no maximum")
    return _("it does not grow") if is_growth_known(records) and most else _not_measured(use, records)


def _keys_tile(use: MemoryUse) -> Tile:
    return Tile(_("Keys"), number(use.keys or 0))


def _note(use: MemoryUse, found: dict[str, Any] | None, now: datetime) -> str:
    if use.stored_at:
        return _("What was measured is stored on connection %(alias)s, which is away.") % {"alias": use.stored_at}
    if found is None:
        return _("Nothing is measured: no worker or poller watches this connection.")
    if use.measured and use.measured["whole"]:
        at = formats.timestamp(datetime.fromtimestamp(found["at"], UTC), now).text
        text = ngettext(
            "Measured key by key; the last pass over %(count)s key ended %(time)s.",
            "Measured key by key; the last pass over all %(count)s keys ended %(time)s.",
            found["keys"],
        )
        return text % {"count": number(found["keys"]), "time": at}
    total = use.keys or 0
    text = ngettext(
        "Measured so far: %(count)s of %(total)s key.", "Measured so far: %(count)s of %(total)s keys.", total
    )
    return text % {"count": number(found["keys"]), "total": number(total)}


def _columns(label: Any) -> list[Column[Group]]:
    return [
        Column("name", label, lambda each: each.name, "name"),
        Column("bytes", gettext_lazy("Memory"), lambda each: filesizeformat(each.bytes)),
        Column("share", gettext_lazy("Share"), lambda each: percent(each.share)),
        Column("keys", gettext_lazy("Keys"), lambda each: each.keys),
    ]


_COMPONENTS: Table[Group] = Table(_columns(gettext_lazy("Component")))
_QUEUES: Table[Group] = Table(_columns(gettext_lazy("Queue")), empty=gettext_lazy("No queue has keys."))
#: The rows are pairs of a size and a key.
_LARGEST: Table[tuple[int, str]] = Table(
    [
        Column("key", gettext_lazy("Key"), lambda each: each[1], "name"),
        Column("bytes", gettext_lazy("Memory"), lambda each: filesizeformat(each[0])),
    ]
)
