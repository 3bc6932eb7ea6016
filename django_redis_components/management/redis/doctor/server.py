"""Checks of the server: version, eviction, persistence, memory, role and clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any

from redis.exceptions import ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.client.server import parse_info
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.protocol import Command, Read
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.taskqueue.shards import Shard

#: Share of maxmemory above which memory is reported.
MEMORY_SHARE = 0.8
#: Difference in seconds between the clocks of this host and the server that is reported. Due times given as a datetime
#: are compared with the server's clock.
CLOCK_OFFSET_S = 1.0
#: Packages whose versions are shown.
PACKAGES = ("django-redis-components", "Django", "django-redis", "redis", "hiredis")


def check_server(shard: Shard, client: SyncClient, report: Report) -> None:
    """Read the server's state in two round trips and report its problems.

    Raises:
        redis.exceptions.ConnectionError: Redis is unavailable.
    """
    report.facts["versions"] = _versions()
    base = shard.base
    sent_at = time.time()
    try:
        seconds, micros = client.execute(Read("TIME", key=base))
    except UnsupportedServer as exc:
        report.findings.append(Finding("error", "server_version", str(exc), "Upgrade the server."))
        return
    except ResponseError as exc:
        report.skipped.append(f"Clock: {exc}")
    else:
        received_at = time.time()
        offset_s = int(seconds) + int(micros) / 1e6 - (sent_at + received_at) / 2
        report.facts["clock_offset_s"] = round(offset_s, 3)
        report.findings.extend(clock_findings(offset_s, (received_at - sent_at) / 2))
    info, save = client.execute_many(
        [Command("INFO", key=base, retry=True), Command("CONFIG", "GET", "save", key=base, retry=True)]
    )
    _check_info(info, save, report)


def _check_info(info: Any, save: Any, report: Report) -> None:
    if isinstance(info, Exception):
        report.skipped.append(f"Version, eviction, persistence and memory: {info}")
        return
    server = parse_info(info)
    fields = server.fields
    saves = save[1].decode() if isinstance(save, list) and len(save) == 2 else None
    report.facts |= {"server": str(server), **server_facts(fields, saves)}
    report.findings.extend(server_findings(fields, saves))
    if saves is None and fields.get("aof_enabled") == "0":
        report.skipped.append("Snapshots: CONFIG GET save is not allowed.")


def server_facts(fields: Mapping[str, str], saves: str | None) -> dict[str, Any]:
    """Return facts about the server.

    Args:
        fields: of INFO.
        saves: the option ``save``; "" without snapshots, None if unknown.
    """
    snapshots = "unknown" if saves is None else saves or "off"
    return {
        "role": fields.get("role", ""),
        "uptime_s": int(fields.get("uptime_in_seconds", 0)),
        "used_memory": int(fields.get("used_memory", 0)),
        "maxmemory": int(fields.get("maxmemory", 0)),
        "maxmemory_policy": fields.get("maxmemory_policy", ""),
        "append_only_file": fields.get("aof_enabled") == "1",
        "snapshots": snapshots,
        "clients": int(fields.get("connected_clients", 0)),
    }


def server_findings(fields: Mapping[str, str], saves: str | None) -> Iterator[Finding]:
    """Yield the problems of a server; see `server_facts`."""
    policy = fields.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        yield Finding(
            "error",
            "eviction",
            f"Redis deletes keys when its memory is full, tasks among them: maxmemory-policy is {policy}.",
            "Set the policy to noeviction, in the server's configuration file as well:",
            "redis-cli CONFIG SET maxmemory-policy noeviction",
        )
    yield from _persistence(fields, saves)
    used, maximum = int(fields.get("used_memory", 0)), int(fields.get("maxmemory", 0))
    if maximum and used > maximum * MEMORY_SHARE:
        text = f"Redis uses {used / maximum:.0%} of its memory. At 100 % it rejects new tasks."
        yield Finding("warning", "memory", text, "Raise maxmemory, or remove data that is not needed.")
    if fields.get("role") == "slave":
        text = "The connection leads to a replica, which rejects writes."
        yield Finding(
            "error", "replica", text, "Set the URL of the connection to the primary, or use redis+sentinel://."
        )


def _persistence(fields: Mapping[str, str], saves: str | None) -> Iterator[Finding]:
    command = "redis-cli CONFIG SET appendonly yes"
    fix = "Turn the append-only file on, in the server's configuration file as well:"
    if fields.get("aof_enabled") == "0":
        if saves == "":
            text = "Redis stores nothing on disk: a restart of the server deletes all tasks."
            yield Finding("error", "no_persistence", text, fix, command)
        else:
            text = "The append-only file is off: a crash of the server loses tasks since the last snapshot."
            yield Finding("warning", "no_append_only_file", text, fix, command)
    for field in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"):
        if fields.get(field) == "err":
            text = f"The last write to disk failed: {field} is err."
            yield Finding("error", "disk", text, "Check the server's log, and the free space of its disk.")


def clock_findings(offset_s: float, uncertainty_s: float) -> Iterator[Finding]:
    """Yield a finding if the clocks of this host and of the server differ.

    Args:
        offset_s: the server's time minus this host's, in seconds.
        uncertainty_s: half of the round trip, in seconds.
    """
    if abs(offset_s) - uncertainty_s > CLOCK_OFFSET_S:
        text = f"The server's clock is {abs(offset_s):.1f} s {'ahead of' if offset_s > 0 else 'behind'} this host's."
        yield Finding("warning", "clock", text, "Synchronize the clocks of both hosts (chrony or systemd-timesyncd).")


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
