"""Renewal of the leases of worker processes: all of them in one round trip, which also reads the commands."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue.guarded_logger import logger
from django_redis_components.taskqueue.shard_clients import prompt_client
from django_redis_components.taskqueue.shards import Shard, shard_of_token
from django_redis_components.taskqueue.store.scripts import RENEW_LEASES
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.remote_control import RemoteControl


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
    calls = []
    for index, child in enumerate(children):
        info = infos.get(child.worker_id) or child.info(control.facts(child.worker_id))
        calls.append(_renewal_of(shard, child, lease_s, info, control.supervisor if index == 0 else "", executed))
    replies = prompt_client(shard).execute_many(calls)
    control.round_trip_s = time.perf_counter() - started if children else None
    failed: list[str] = []
    error: RedisError | None = None
    for child, reply in zip(children, replies, strict=True):
        if isinstance(reply, RedisError):
            failed.append(str(child.pid))
            error = reply
        else:
            *renewal, commands, fleet = reply
            _apply_renewal(child, *renewal)
            child.report_fleet(fleet)
            if child is children[0]:
                control.receive(commands, executed, shard.name)
    return f"Cannot renew the leases of process {', '.join(failed)} ({error})." if failed else ""


def _renewal_of(shard: Shard, child: Child, lease_s: float, info: str, supervisor: str, executed: str) -> Call:
    leases = child.heartbeat.leases.items()
    return RENEW_LEASES(
        base=shard.base,
        worker=child.worker_id,
        lease_ms=round(lease_s * 1_000),
        info=info,
        supervisor=supervisor,
        executed=executed if supervisor else "",
        leases=[part for pair in leases if shard_of_token(pair[1], shard.using) == shard for part in pair],
    )


def _apply_renewal(child: Child, lost: Sequence[bytes], cancel_requests: Sequence[Any]) -> None:
    child.renewed_at = time.monotonic()
    for task_id in lost:
        if child.has_lost(task_id.decode()):
            logger.warning("Process %d has lost its lease of task %s.", child.pid, task_id.decode())
    for task_id, force_ms in zip(cancel_requests[::2], cancel_requests[1::2], strict=True):
        child.cancel(task_id.decode(), force_ms / 1_000)
