"""The facts of the panel of the Redis server, from the fields of INFO."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.server import integer, memory_share


@dataclasses.dataclass(frozen=True, slots=True)
class ServerFact:
    """A label and a value of the server's panel. `meter` is the share of a maximum in percent, or ""."""

    label: str
    value: str
    meter: str = ""


def server_facts(info: Mapping[str, str], now: datetime) -> list[ServerFact]:
    """Return the facts of the panel: version, memory, clients, persistence, uptime and role."""
    product = "Valkey" if "valkey_version" in info else "Redis"
    used, most = memory_share(info)
    version = info.get("valkey_version") or info.get("redis_version", "")
    return [
        ServerFact(_("Memory"), _memory_text(info), f"{min(used / most, 1):.1%}" if most else ""),
        ServerFact(_("Eviction"), info.get("maxmemory_policy", "")),
        ServerFact(_("Persistence"), _persistence_text(info, now)),
        ServerFact(_("Role"), _role_text(info)),
        ServerFact(_("Clients"), _clients_text(info)),
        ServerFact(_("Version"), f"{product} {version}"),
        ServerFact(_("Uptime"), formats.age(integer(info, "uptime_in_seconds"))),
    ]


def _memory_text(info: Mapping[str, str]) -> str:
    used, most = memory_share(info)
    if not most:
        return _("%(used)s, no maximum") % {"used": filesizeformat(used)}
    return _("%(used)s of %(most)s, %(share)s") % {
        "used": filesizeformat(used),
        "most": filesizeformat(most),
        "share": formats.percent(used / most),
    }


def _persistence_text(info: Mapping[str, str], now: datetime) -> str:
    if info.get("aof_enabled") == "1":
        return _("append-only file")
    if "rdb_last_save_time" not in info:
        return ""
    if info.get("rdb_last_bgsave_time_sec") == "-1":  # then the time of the last save is that of the start
        return _("no append-only file; no snapshot since the start of the server")
    saved = formats.timestamp(datetime.fromtimestamp(integer(info, "rdb_last_save_time"), UTC), now)
    return _("no append-only file; last snapshot: %(time)s") % {"time": saved.text}


def _role_text(info: Mapping[str, str]) -> str:
    if info.get("role") == "slave":
        return _("replica of %(address)s") % {"address": f"{info.get('master_host')}:{info.get('master_port')}"}
    return _("primary, replicas: %(count)s") % {"count": number(integer(info, "connected_slaves"))}


def _clients_text(info: Mapping[str, str]) -> str:
    return _("%(count)s of %(most)s") % {
        "count": number(integer(info, "connected_clients")),
        "most": number(integer(info, "maxclients")),
    }
