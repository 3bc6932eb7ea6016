"""Tasks that run in batches. What each run gets is noted in Redis."""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import TaskDelayed
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import Batch, BatchCall, task
from tests.support import Store

#: What the runs in this process got: the first argument of each call.
runs: list[list[Any]] = []
#: Calls of the latest run in this process.
latest: list[BatchCall] = []


def mail(customer: str, number: int = 0) -> None:
    """The parameters of a call."""


def _note(calls: list[BatchCall]) -> None:
    runs.append([call.args[0] if call.args else call.kwargs for call in calls])
    latest[:] = calls


@task(batch=Batch(3, wait=60))
def collect(calls: list[BatchCall]) -> Any:
    _note(calls)


@task(batch=Batch(100))
def collect_ready(calls: list[BatchCall]) -> Any:
    _note(calls)
    return [call.args[0] if call.args else None for call in calls]


@task(batch=Batch(3, wait=60, key="{customer}", signature=mail))
def collect_by_key(calls: list[BatchCall]) -> Any:
    _note(calls)


@task(batch=Batch(3, wait=0.2))
async def collect_async(calls: list[BatchCall]) -> Any:
    await asyncio.sleep(0)
    _note(calls)
    return [call.args[0] for call in calls]


@task(batch=Batch(10), max_attempts=2, backoff=0)
def settle(calls: list[BatchCall]) -> Any:
    """Do with each call what its first argument says; raise an error after "raise"."""
    _note(calls)
    for call in calls:
        word = call.args[0]
        if word == "succeed":
            call.succeed(call.args[1])
        elif word == "fail":
            call.fail(LookupError(call.args[1]))
        elif word == "delay":
            call.fail(TaskDelayed("later", delay_s=60))
        elif word == "unstorable":
            call.succeed(object())
        elif word == "raise":
            raise ZeroDivisionError(f"{len(calls)} calls")


@task(batch=Batch(10))
def give_back(calls: list[BatchCall]) -> Any:
    """Return what the first call has."""
    return calls[0].args[0]


def runs_of(store: Store, name: str) -> list[list[int]]:
    """Return the numbers that each run of `hold_batch` got, in order."""
    return [json.loads(run) for run in store.raw.lrange(f"{store.prefix}:batches:{name}", 0, -1)]


def _hold(calls: list[BatchCall]) -> tuple[str, list[Any]]:
    return str(calls[0].args[0]), [call.args[1] for call in calls]


def _is_released(name: str) -> bool:
    """Whether the test lets the function go on; not while its server is away."""
    try:
        return bool(
            connections.client().execute(Command("EXISTS", f"{conf.settings().prefix}:let-go:{name}", retry=True))
        )
    except RedisError:
        return False


@task(batch=Batch(5, wait=0.05), max_deliveries=4)
def hold_batch(calls: list[BatchCall]) -> Any:
    """Note the numbers, and wait as `hold` does; then those whose call was not cancelled."""
    client, base = connections.client(), conf.settings().prefix
    name, numbers = _hold(calls)
    client.execute(Command("RPUSH", f"{base}:batches:{name}", json.dumps(numbers)))
    client.execute(Command("RPUSH", f"{base}:started:{name}", os.getpid()))
    while not _is_released(name):
        time.sleep(0.005)
    for call in calls:
        if not call.is_cancelled:
            client.execute(Command("RPUSH", f"{base}:done:{name}", call.args[1]))
    return [call.args[1] for call in calls]


@task(batch=Batch(5, wait=0.05), max_deliveries=4)
async def hold_batch_async(calls: list[BatchCall]) -> Any:
    """As `hold_batch`, on the event loop."""
    client, base = connections.aclient(), conf.settings().prefix
    name, numbers = _hold(calls)
    await client.execute(Command("RPUSH", f"{base}:batches:{name}", json.dumps(numbers)))
    await client.execute(Command("RPUSH", f"{base}:started:{name}", os.getpid()))
    while await client.execute(Command("EXISTS", f"{base}:let-go:{name}", retry=True)) == 0:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    for call in calls:
        if not call.is_cancelled:
            await client.execute(Command("RPUSH", f"{base}:done:{name}", call.args[1]))
    return [call.args[1] for call in calls]


@task(batch=Batch(20, wait=0.05))
def count(calls: list[BatchCall]) -> None:
    """Note each number."""
    client, base = connections.client(), conf.settings().prefix
    client.execute(Command("RPUSH", f"{base}:counted", *[call.args[0] for call in calls]))
    client.execute(Command("RPUSH", f"{base}:sizes", len(calls)))
