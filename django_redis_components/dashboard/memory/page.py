"""The template context and the JSON of the page of memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from django_redis_components.core.client.server import parse_info
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import NO_VALUE, Tile
from django_redis_components.dashboard.formats import number, percent
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import recent_of
from django_redis_components.dashboard.problems.server import memory_share
from django_redis_components.dashboard.problems.watched.memory import full_in, growth_per_s
from django_redis_components.dashboard.snapshot import Snapshot, read_snapshot
from django_redis_components.dashboard.table import Column, Table


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryUse:
    """State of the memory.

    Attributes:
        info: fields of INFO memory; empty if it may not be read.
        keys: of the server, of all programs.
        measured: what the watching process has found; None without one.
    """

    info: Mapping[str, str]
    keys: int
    measured: dict[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The keys of a component or a queue. `share` is of all that were measured."""

    name: str
    bytes: int
    keys: int
    share: float


def read(request: PageRequest) -> Snapshot[MemoryUse]:
    """Read the memory in one round trip."""
    return read_snapshot(_read(conf.settings().dashboard.using))


def context(request: PageRequest, read: Snapshot[MemoryUse]) -> dict[str, Any]:
    """Return the context of the templates."""
    use = read.value
    found = _shown(use.measured)
    return {
        "tiles": [*_tiles(use)],
        "components": _COMPONENTS.context(_groups(found, "components"))["table"] if found else None,
        "queues": _QUEUES.context(_groups(found, "queues"))["table"] if found else None,
        "largest": _LARGEST.context(found["largest"])["table"] if found else None,
        "note": _note(use, found, read.at),
    }


def memory_data(read: Snapshot[MemoryUse]) -> dict[str, Any]:
    """Return a snapshot as JSON data; sizes in bytes, times in seconds."""
    use = read.value
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


def _read(using: str) -> Flow[MemoryUse]:
    key = keyspace.key("facts", using)
    info, keys, stored = yield Batch(
        [Command("INFO", "memory", key=key, retry=True), Read("DBSIZE", key=key), Read("GET", key)],
        return_exceptions=True,
    )
    for reply in (keys, stored):
        if isinstance(reply, Exception):
            raise reply
    fields = parse_info(info).fields if isinstance(info, bytes) else {}
    return MemoryUse(fields, keys, recent_of(stored).get("memory"))


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
    unit = _("of %(most)s") % {"most": filesizeformat(most)} if most else ""
    yield Tile(pgettext("memory", "Used"), filesizeformat(used) if use.info else NO_VALUE, unit=unit)
    yield Tile(_("Keys"), number(use.keys))
    records = use.measured["used"] if use.measured else []
    growth = growth_per_s(records) * 3_600
    since = formats.age(records[-1][0] - records[0][0]) if len(records) > 1 else ""
    text = (
        (_("−%(size)s") if growth < 0 else "%(size)s") % {"size": filesizeformat(abs(growth))} if growth else NO_VALUE
    )
    yield Tile(_("Growth"), text, _("over %(age)s") % {"age": since} if since else "", unit=_("per hour"))
    full_s = full_in(records, most)
    yield Tile(_("Full in"), formats.age(full_s) if full_s is not None else NO_VALUE, _("at this growth"))


def _note(use: MemoryUse, found: dict[str, Any] | None, now: datetime) -> str:
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
    text = ngettext(
        "Measured so far: %(count)s of %(total)s key.", "Measured so far: %(count)s of %(total)s keys.", use.keys
    )
    return text % {"count": number(found["keys"]), "total": number(use.keys)}


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
