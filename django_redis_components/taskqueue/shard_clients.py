"""Clients for flows over several shards: each request goes over the connection of the shard that its key names.

A flow over several shards reads them with one batch, which costs one round trip for each server. A shard that does not
answer is an error in the batch, and concerns none of the others.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import (
    AsyncClientProtocol,
    BlockingPop,
    Call,
    Command,
    Flow,
    Read,
    SyncClientProtocol,
    arun,
    run,
)
from django_redis_components.taskqueue.exceptions import PartlyDone
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.shards import Shard, shards_of

T = TypeVar("T")
#: Seconds until one of several shards counts as away.
TIMEOUT_S = 1.0
Request = Call | Command


def client_for(using: str, client_of: Callable[[str], SyncClientProtocol] | None = None) -> SyncClientProtocol:
    """Return the client for flows over the shards of a connection.

    Args:
        client_of: returns the client of an alias; None: `connections.client`.
    """
    client_of = client_of or connections.client
    shards = shards_of(using)
    if len({shard.alias for shard in shards}) == 1:
        client = client_of(shards[0].alias)
        if len(shards) == 1 or not getattr(client, "is_cluster", False):
            return client
    return ShardsClient(shards, client_of)


def run_over(using: str, flow: Flow[T]) -> T:
    """Run a flow over the shards of a connection."""
    return run(client_for(using), flow)


async def arun_over(using: str, flow: Flow[T]) -> T:
    """See `run_over`."""
    shards = shards_of(using)
    several = len({shard.alias for shard in shards}) > 1
    return await arun(AsyncShardsClient(shards) if several else connections.aclient(shards[0].alias), flow)


def over(shards: Sequence[Shard], flow_of: Callable[[Shard], Flow[T]], *, changes: bool = False) -> Flow[list[T]]:
    """Run a flow in each shard, one after another; return the values in the order of the shards.

    Args:
        changes: whether the flows change something. Then the others run after one has failed, too.

    Raises:
        PartlyDone: some flows that change something have failed.
        redis.exceptions.RedisError: the flow of a single shard, or all have failed, or one that only reads.
    """
    done: dict[str, T] = {}
    failed: dict[str, RedisError] = {}
    for shard in shards:
        try:
            done[shard.name] = yield from flow_of(shard)
        except RedisError as exc:
            if not changes:
                raise
            failed[shard.name] = exc
    if failed and done:
        raise PartlyDone(list(done), failed)
    for error in failed.values():
        raise error
    return list(done.values())


def read_each(using: str, flow_of: Callable[[Shard], Flow[T]]) -> tuple[dict[Shard, T], dict[Shard, RedisError]]:
    """Read something from each shard of a connection; return the values, and the errors of shards that do not answer.

    Raises:
        redis.exceptions.RedisError: none answers.
    """
    shards = shards_of(using)
    found: dict[Shard, T] = {}
    away: dict[Shard, RedisError] = {}
    outcomes = concurrently([partial(_run_in, shard, flow_of) for shard in shards])
    for shard, outcome in zip(shards, outcomes, strict=True):
        if isinstance(outcome, RedisError):
            away[shard] = outcome
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            found[shard] = outcome
    if not found:
        raise next(iter(away.values()))
    return found, away


def concurrently(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """Call functions at the same time, one in this thread; return their values, or what they have raised, in order.

    A server that hangs must not delay the requests to the others, nor add its timeout to that of another one.
    """
    outcomes: dict[int, T | Exception] = {}

    def call(number: int) -> None:
        try:
            outcomes[number] = calls[number]()
        except Exception as exc:  # noqa: BLE001 - the caller decides
            outcomes[number] = exc

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(call, number), daemon=True)
        for number in range(1, len(calls))
    ]
    for thread in threads:
        thread.start()
    if calls:
        call(0)
    for thread in threads:
        thread.join()
    return [outcomes[number] for number in range(len(calls))]


def shard_with(task_id: str, using: str) -> Shard:
    """Return the shard that has the record of a task; the home shard if none has it.

    Raises:
        redis.exceptions.RedisError: those that answer do not have it, and one does not answer.
    """
    shards = shards_of(using)
    if len(shards) == 1:
        return shards[0]
    found, away = read_each(using, lambda shard: _has_record(shard, task_id))
    for shard, has_record in found.items():
        if has_record:
            return shard
    for error in away.values():
        raise error
    return shards[0]


def _run_in(shard: Shard, flow_of: Callable[[Shard], Flow[T]]) -> T:
    return run(prompt_client(shard), flow_of(shard))


def _has_record(shard: Shard, task_id: str) -> Flow[bool]:
    return bool((yield Read("HEXISTS", shard.record(task_id), Field.queue)))


def prompt_client(shard: Shard, timeout_s: float = TIMEOUT_S) -> SyncClient:
    """Return the client of a shard for a process that serves others too: it must not wait for one that is hung.

    Its requests are not repeated. The process does so when it tries the shard again.

    Args:
        timeout_s: seconds for each request.
    """
    if len(shards_of(shard.using)) == 1:
        return shard.client()
    return connections.client_with_timeout(shard.alias, timeout_s, retries=0)


def alias_for(shards: Sequence[Shard], key: Any) -> str:
    """Return the connection of the shard that a key belongs to; of other keys that of the home shard."""
    return shard_of_key(shards, key).alias


def shard_of_key(shards: Sequence[Shard], key: Any) -> Shard:
    """Return the shard that a key belongs to; the home shard for other keys."""
    text = key.decode() if isinstance(key, bytes) else str(key)
    for shard in shards:
        if text.startswith(shard.base):
            return shard
    return shards[0]


class ShardsClient:
    """A client of several shards on several servers, or primaries of a Cluster. It uses their connections."""

    def __init__(self, shards: Sequence[Shard], client_of: Callable[[str], SyncClientProtocol]) -> None:
        self._shards = shards
        self._client_of = client_of

    def __getattr__(self, name: str) -> Any:
        """What concerns no key is that of the home shard."""
        return getattr(self._client_of(self._shards[0].alias), name)

    def execute(self, request: Request) -> Any:
        """Execute a request on its shard."""
        return self._client(request.key).execute(request)

    def execute_many(self, requests: Sequence[Request]) -> list[Any]:
        """Execute requests, those of all servers at the same time. The errors of a shard are its replies."""
        groups = self._by_server(requests)
        parts = concurrently(
            [
                partial(self._execute_on, alias, [requests[number] for number in numbers])
                for (alias, _base), numbers in groups.items()
            ]
        )
        replies: dict[int, Any] = {}
        for numbers, part in zip(groups.values(), parts, strict=True):
            replies.update(zip(numbers, [part] * len(numbers) if isinstance(part, Exception) else part, strict=True))
        return [replies[number] for number in range(len(requests))]

    def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Wait for a wakeup on its shard."""
        return self._client(wakeup if isinstance(wakeup, str) else wakeup.keys[0]).wait(wakeup, seconds)

    def _by_server(self, requests: Sequence[Request]) -> dict[tuple[str, str], list[int]]:
        """Return the numbers of the requests for each server; in a Cluster for each shard, which has a primary."""
        found: dict[tuple[str, str], list[int]] = {}
        for number, request in enumerate(requests):
            shard = shard_of_key(self._shards, request.key)
            is_cluster = getattr(self._client_of(shard.alias), "is_cluster", False)
            found.setdefault((shard.alias, shard.base if is_cluster else ""), []).append(number)
        return found

    def _execute_on(self, alias: str, requests: Sequence[Request]) -> list[Any]:
        return self._client_of(alias).execute_many(requests)

    def _client(self, key: Any) -> SyncClientProtocol:
        return self._client_of(alias_for(self._shards, key))


class AsyncShardsClient:
    """See `ShardsClient`."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards

    async def execute(self, request: Request) -> Any:
        """Execute a request on its shard."""
        return await self._client(request.key).execute(request)

    async def execute_many(self, requests: Sequence[Request]) -> list[Any]:
        """Execute requests, those of all servers at the same time. The errors of a shard are its replies."""
        groups = _by_alias(self._shards, requests)
        parts = await asyncio.gather(
            *(
                connections.aclient(alias).execute_many([requests[number] for number in numbers])
                for alias, numbers in groups.items()
            ),
            return_exceptions=True,
        )
        replies: dict[int, Any] = {}
        for numbers, part in zip(groups.values(), parts, strict=True):
            if isinstance(part, BaseException) and not isinstance(part, Exception):
                raise part
            replies.update(zip(numbers, [part] * len(numbers) if isinstance(part, Exception) else part, strict=True))
        return [replies[number] for number in range(len(requests))]

    async def wait(self, wakeup: str | BlockingPop, seconds: float) -> bytes | None:
        """Wait for a wakeup on its shard."""
        return await self._client(wakeup if isinstance(wakeup, str) else wakeup.keys[0]).wait(wakeup, seconds)

    def _client(self, key: Any) -> AsyncClientProtocol:
        return connections.aclient(alias_for(self._shards, key))


def _by_alias(shards: Sequence[Shard], requests: Sequence[Request]) -> dict[str, list[int]]:
    """The numbers of the requests for each connection."""
    found: dict[str, list[int]] = {}
    for number, request in enumerate(requests):
        found.setdefault(alias_for(shards, request.key), []).append(number)
    return found
