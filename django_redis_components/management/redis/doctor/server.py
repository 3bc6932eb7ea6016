"""Facts about the server, and advice on it."""

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
from django_redis_components.core.replicas import wait_limit_ms
from django_redis_components.core.text import counted
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.defaults import options_to_show
from django_redis_components.taskqueue.shards import Shard

#: Packages whose versions are shown.
PACKAGES = ("django-redis-components", "Django", "django-redis", "redis", "hiredis")
#: Most tasks that a finding names.
MAX_NAMED = 5


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
        report.findings.append(Finding("critical", "server_version", str(exc), "Upgrade the server."))
        return
    except ResponseError as exc:
        report.skipped.append(f"Clock: {exc}")
    else:
        received_at = time.time()
        offset_s = int(seconds) + int(micros) / 1e6 - (sent_at + received_at) / 2
        report.facts["clock_offset_s"] = round(offset_s, 3)
    info, save = client.execute_many(
        [Command("INFO", key=base, retry=True), Command("CONFIG", "GET", "save", key=base, retry=True)]
    )
    _check_info(shard, info, save, report)


def _check_info(shard: Shard, info: Any, save: Any, report: Report) -> None:
    if isinstance(info, Exception):
        report.skipped.append(f"Version, eviction, persistence and memory: {info}")
        return
    server = parse_info(info)
    fields = server.fields
    saves = save[1].decode() if isinstance(save, list) and len(save) == 2 else None
    report.facts |= {"server": str(server), **server_facts(fields, saves)}
    report.findings.extend(server_findings(fields, saves))
    report.findings.extend(replica_findings(shard, int(fields.get("connected_slaves", 0))))
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
    """Yield advice on a server that has no problem yet; see `server_facts`."""
    if fields.get("aof_enabled") == "0" and saves != "":
        text = "The append-only file is off: a crash of the server loses tasks since the last snapshot."
        fix = "Turn the append-only file on, in the server's configuration file as well:"
        yield Finding("warning", "no_append_only_file", text, fix, "redis-cli CONFIG SET appendonly yes")


def replica_findings(shard: Shard, replicas: int) -> Iterator[Finding]:
    """Yield the tasks that wait for more replicas than the server has: each call of them waits until its time limit."""
    tasks = [task for task in registry.all_tasks() if task.connection == shard.using]
    found = sorted(task.name for task in tasks if options_to_show(task).min_replicas > replicas)
    if found:
        names = f"{', '.join(found[:MAX_NAMED])}{', …' if len(found) > MAX_NAMED else ''}"
        text = (
            f"The server has {counted(replicas, 'replica')}. Tasks that wait for more (min_replicas): {names}."
            f" Each call of them takes {wait_limit_ms(shard.alias) / 1_000:g} s longer."
        )
        yield Finding("warning", "too_few_replicas", text, "Start replicas, or lower min_replicas.")


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
