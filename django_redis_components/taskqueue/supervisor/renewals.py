"""Renew the leases of worker processes, and read what Redis asks of them: cancellations, commands."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.chunks import pairs_of
from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, shard_of_token
from django_redis_components.taskqueue.store.scripts import RENEW_LEASES
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.remote_control import RemoteControl

#: Leases that one script renews: a process that runs batches has thousands.
MAX_RENEWED = 500


def renew_leases(
    shard: Shard,
    children: Sequence[Child],
    lease_s: float,
    control: RemoteControl | None = None,
    infos: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Renew the leases of these processes in a shard; return the error message, if any.

    One round trip and one timeout for all: with a timeout for each, the last ones would lose their leases while Redis
    does not reply. The first call also reads the commands for the supervisor.

    Args:
        control: receives the commands; None: none are read.
        infos: what is stored of each process, by the worker's id; of others it is computed.
    """
    control = control or RemoteControl("")
    executed, started = control.executed(shard.name), time.perf_counter()
    calls: list[Call] = []
    owners: list[Child] = []
    for child in children:
        info = infos.get(child.worker_id) or child.info(control.facts(child.worker_id))
        for leases in _leases_of(child, shard):
            supervisor = "" if calls else control.supervisor
            calls.append(_renewal_of(shard, child.worker_id, leases, lease_s, info, supervisor, executed))
            owners.append(child)
    replies = prompt_client(shard).execute_many(calls)
    control.round_trip_s = time.perf_counter() - started if children else None
    failed: dict[Child, None] = {}
    error: RedisError | None = None
    for number, (child, reply) in enumerate(zip(owners, replies, strict=True)):
        if isinstance(reply, RedisError):
            failed[child] = None
            error = reply
        else:
            *renewal, commands, fleet = reply
            _apply_renewal(child, *renewal)
            child.report_fleet(fleet)
            if number == 0:
                control.receive(commands, executed, shard.name)
    return (
        f"Cannot renew the leases of process {', '.join(str(child.pid) for child in failed)} ({error})."
        if failed
        else ""
    )


def _leases_of(child: Child, shard: Shard) -> list[list[str]]:
    """Return the leases in a shard, as ids and tokens, in the parts that one script renews: at least one part."""
    leases = [pair for pair in child.heartbeat.leases.items() if shard_of_token(pair[1], shard.using) == shard]
    firsts = range(0, max(1, len(leases)), MAX_RENEWED)
    return [[part for pair in leases[first : first + MAX_RENEWED] for part in pair] for first in firsts]


def _renewal_of(
    shard: Shard, worker: str, leases: Sequence[str], lease_s: float, info: str, supervisor: str, executed: str
) -> Call:
    return RENEW_LEASES(
        base=shard.base,
        worker=worker,
        lease_ms=round(lease_s * 1_000),
        info=info,
        supervisor=supervisor,
        executed=executed if supervisor else "",
        leases=leases,
    )


def _apply_renewal(child: Child, lost: Sequence[bytes], cancel_requests: Sequence[Any]) -> None:
    child.renewed_at = time.monotonic()
    for task_id in lost:
        if child.has_lost(task_id.decode()):
            logger.warning("Process %d has lost its lease of task %s.", child.pid, task_id.decode())
    for task_id, force_ms in pairs_of(cancel_requests):
        child.cancel(task_id.decode(), force_ms / 1_000)
