"""Problems of the Redis server, from the fields of INFO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.taskqueue.stats.queue_stats import TaskQueueOverview

#: Most replicas that are looked at.
MAX_REPLICAS = 20
#: Share of `maxclients` from which the number of connections is a problem.
CLIENTS_SHARE = 0.8


def server_problems(overview: TaskQueueOverview, watched: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of the server, most severe first; none if INFO may not be read.

    Args:
        watched: what the watching process has found lately, by the name of the check.
    """
    info = overview.server
    if info:
        yield from _restart(info, overview, watched)
        for check in (_disk, _snapshots, _memory, _clients, _replica, _replicas):
            yield from check(info, overview)


def clock_problem(offset_s: float | None) -> Iterator[Problem]:
    """Yield a problem if the clocks of the server and of this host differ by more than `CLOCK_OFFSET`."""
    if offset_s is not None and abs(offset_s) > conf.settings().dashboard.clock_offset_s:
        seconds = {"seconds": formats.decimal(abs(offset_s))}
        if offset_s > 0:
            text = _("The clock of Redis is %(seconds)s s ahead of the clock of this host.") % seconds
        else:
            text = _("The clock of Redis is %(seconds)s s behind the clock of this host.") % seconds
        yield Problem("clock", text, _("Synchronize the clocks of both hosts (chrony or systemd-timesyncd)."))


def memory_share(info: Mapping[str, str]) -> tuple[int, int]:
    """Return the used memory and its maximum in bytes; 0 without a maximum."""
    return integer(info, "used_memory"), integer(info, "maxmemory")


def _restart(info: Mapping[str, str], overview: TaskQueueOverview, watched: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield that the server has restarted, unless another problem has the same cause."""
    if (uptime_s := _recent_uptime_s(info)) is None:
        return
    age = {"age": formats.age(uptime_s)}
    text, command = _("Redis restarted %(age)s ago.") % age, "redis-cli CONFIG SET appendonly yes"
    if info.get("aof_enabled") != "0":
        yield Problem("restarted", text, _("Check the server’s log for the cause."))
    elif _has_loaded(info):
        advice = _("The append-only file is off: changes after the last snapshot are lost. Turn it on:")
        yield Problem("restarted", text, advice, command, "critical")
    elif watched.get("persistence") != "" and (text := started_empty(overview, watched)):
        advice = _("The append-only file is off: a restart loses what no snapshot has saved. Turn it on:")
        yield Problem("restarted", text, advice, command)


def started_empty(overview: TaskQueueOverview, watched: Mapping[str, Any]) -> str:
    """Return a sentence about a server that has started lately without data. It is empty for others.

    It is so, too, if a process knows what data the server had: that is a problem of its own (`data_lost`).
    """
    uptime_s = _recent_uptime_s(overview.server)
    if uptime_s is None or _has_loaded(overview.server) or _has_lost(overview, uptime_s, watched.get("data_loss")):
        return ""
    return _("Redis started %(age)s ago without data.") % {"age": formats.age(uptime_s)}


def _recent_uptime_s(info: Mapping[str, str]) -> int | None:
    """Return the seconds since the start of the server; None if they are unknown, or `RESTARTED_WITHIN` has passed."""
    uptime_s = integer(info, "uptime_in_seconds")
    is_recent = "uptime_in_seconds" in info and uptime_s < conf.settings().dashboard.restarted_within_s
    return uptime_s if is_recent else None


def _has_loaded(info: Mapping[str, str]) -> bool:
    """Return whether the server found data on its disk when it started."""
    return info.get("rdb_last_load_keys_loaded") != "0"


def _has_lost(overview: TaskQueueOverview, uptime_s: int, loss: Any) -> bool:
    """Return whether the server has lost its data in this start."""
    return loss is not None and loss["is_restart"] and loss["at"] >= overview.at.timestamp() - uptime_s - 1


def _disk(info: Mapping[str, str], overview: TaskQueueOverview) -> Iterator[Problem]:
    for field in ("rdb_last_bgsave_status", "aof_last_write_status", "aof_last_bgrewrite_status"):
        if info.get(field) == "err":
            text = _("Redis could not write to disk: %(field)s is err.") % {"field": field}
            advice = _("Check the server’s log and the free space of its disk.")
            yield Problem("disk", text, advice, severity="critical", subject=field)


def _snapshots(info: Mapping[str, str], overview: TaskQueueOverview) -> Iterator[Problem]:
    changes, saved_at = integer(info, "rdb_changes_since_last_save"), integer(info, "rdb_last_save_time")
    age_s = overview.at.timestamp() - saved_at
    if info.get("aof_enabled") == "0" and changes and age_s > conf.settings().dashboard.snapshot_age_s:
        text = ngettext(
            "Redis has not saved %(count)s change of the last %(age)s to disk.",
            "Redis has not saved %(count)s changes of the last %(age)s to disk.",
            changes,
        ) % {"count": number(changes), "age": formats.age(age_s)}
        advice = _("A restart loses them. Turn the append-only file on, in the server’s configuration file as well:")
        yield Problem("no_persistence", text, advice, "redis-cli CONFIG SET appendonly yes", "critical")


def _memory(info: Mapping[str, str], overview: TaskQueueOverview) -> Iterator[Problem]:
    used, most = memory_share(info)
    if most and used > most * conf.settings().dashboard.memory_share:
        text = _("Redis uses %(share)s of its memory (%(used)s of %(most)s).") % {
            "share": formats.percent(used / most),
            "used": filesizeformat(used),
            "most": filesizeformat(most),
        }
        if _rejects_writes(info):
            advice = _("It rejects new tasks and other writes. Raise maxmemory, or remove data that is not needed.")
            yield Problem("memory", text, advice, severity="critical")
            return
        advice = _("When it is full, it rejects new tasks. Raise maxmemory, or remove data that is not needed.")
        yield Problem("memory", text, advice)


def _rejects_writes(info: Mapping[str, str]) -> bool:
    """Return whether the memory is full as the server counts it, without buffers, and no key may be evicted."""
    used, most = memory_share(info)
    counted = used - integer(info, "mem_not_counted_for_evict")
    return info.get("maxmemory_policy") == "noeviction" and counted > most


def _clients(info: Mapping[str, str], overview: TaskQueueOverview) -> Iterator[Problem]:
    count, most = integer(info, "connected_clients"), integer(info, "maxclients")
    if most and count > most * CLIENTS_SHARE:
        text = _("Redis has %(count)s of at most %(most)s connections.") % {
            "count": number(count),
            "most": number(most),
        }
        advice = _("At the maximum it rejects further ones. Raise maxclients, or start fewer processes.")
        yield Problem("clients", text, advice)


def _replica(info: Mapping[str, str], overview: TaskQueueOverview) -> Iterator[Problem]:
    if info.get("role") == "slave" and info.get("master_link_status") != "up":
        text = _("This server is a replica without a connection to its primary.")
        advice = _("The data is stale. Check the primary and the network.")
        yield Problem("replica_link", text, advice, severity="critical")
    elif info.get("role") == "slave":
        text = _("The connection leads to a replica, which rejects writes.")
        advice = _("Set the URL of the connection to the primary, or use redis+sentinel://.")
        yield Problem("replica", text, advice, severity="critical")


def _replicas(info: Mapping[str, str], overview: TaskQueueOverview) -> Iterator[Problem]:
    for replica in _replicas_of(info):
        lag_s = integer(replica, "lag")
        if lag_s > conf.settings().dashboard.replica_lag_s:
            address = f"{replica.get('ip', '?')}:{replica.get('port', '?')}"
            text = _("Replica %(address)s lags %(age)s behind.") % {"address": address, "age": formats.age(lag_s)}
            advice = _("A failover to it loses tasks. Check its load and the network.")
            yield Problem("replica_lag", text, advice, subject=address)


def _replicas_of(info: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the fields of each connected replica: ip, port, state, offset, lag."""
    values = [info[f"slave{index}"] for index in range(MAX_REPLICAS) if f"slave{index}" in info]
    return [dict(part.split("=", 1) for part in value.split(",") if "=" in part) for value in values]


def integer(fields: Mapping[str, str], name: str) -> int:
    """Return an integer field; 0 if it is missing."""
    text = fields.get(name, "").strip()
    return int(text) if text.isdecimal() else 0


def eviction(overview: TaskQueueOverview) -> Iterator[Problem]:
    """Yield a problem if the server may delete tasks."""
    if overview.evicts:
        text = _("Redis may evict tasks when its memory is full: maxmemory-policy is %(policy)s.")
        advice = _("Set maxmemory-policy to noeviction, or use a separate server for the task queue.")
        command = "redis-cli CONFIG SET maxmemory-policy noeviction"
        yield Problem("evicts", text % {"policy": overview.eviction_policy}, advice, command, "critical")
