"""Tasks that iterate. Each item that is done is noted in Redis."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.core.settings import conf
from django_redis_components.taskqueue import TaskContext, task
from django_redis_components.taskqueue.logs import current_run
from tests.support import Store, eventually

#: Seconds between two looks whether the test lets an item end.
LOOK_S = 0.005


def key_of(name: str) -> str:
    return f"{conf.settings().prefix}:items:{name}"


def items_done(store: Store, name: str) -> list[int]:
    """Return the items that are done, in order."""
    return [int(item) for item in store.raw.lrange(f"{store.prefix}:items:{name}", 0, -1)]


def wait_until_asked_to_stop(store: Store, name: str) -> None:
    """Wait until a task that waits knows that its worker stops: the process gets the signal after its supervisor."""
    eventually(lambda: store.raw.exists(f"{store.prefix}:asked:{name}"))


@task(takes_context=True)
def go_through(
    context: TaskContext, name: str, count: int, pause_at: int = -1, item_s: float = 0, **options: Any
) -> str:
    """Note each number. At one of them wait as `hold` does, before it is noted."""
    client, base = connections.client(), conf.settings().prefix
    for number in context.iterate(range(count), **options):
        if number == pause_at:
            client.execute(Command("RPUSH", f"{base}:started:{name}", os.getpid()))
            while client.execute(Command("EXISTS", f"{base}:let-go:{name}", retry=True)) == 0:
                if current_run.get().stop_asked:
                    client.execute(Command("SET", f"{base}:asked:{name}", "1", "EX", 60, retry=True))
                time.sleep(LOOK_S)
        time.sleep(item_s)
        client.execute(Command("RPUSH", key_of(name), number))
    return name


@task(takes_context=True)
async def go_through_async(
    context: TaskContext, name: str, count: int, pause_at: int = -1, item_s: float = 0, **options: Any
) -> str:
    """As `go_through`, on the event loop."""
    client, base = connections.aclient(), conf.settings().prefix
    async for number in context.aiterate(range(count), **options):
        if number == pause_at:
            await client.execute(Command("RPUSH", f"{base}:started:{name}", os.getpid()))
            while await client.execute(Command("EXISTS", f"{base}:let-go:{name}", retry=True)) == 0:
                if current_run.get().stop_asked:
                    await client.execute(Command("SET", f"{base}:asked:{name}", "1", "EX", 60, retry=True))
                await asyncio.sleep(LOOK_S)
        await asyncio.sleep(item_s)
        await client.execute(Command("RPUSH", key_of(name), number))
    return name


#: What the tasks below go through; a test sets it.
sources: list[Any] = []
#: What they have seen, in order.
seen: list[Any] = []


@task(takes_context=True, max_attempts=5, backoff=0)
def see(context: TaskContext, fail_at: list[Any] | None = None, **options: Any) -> Any:
    """Note the items of each source; fail once at each of some items, before it is noted."""
    left = fail_at or []
    for source in sources:
        for item in context.iterate(source, **options):
            value = getattr(item, "pk", item)
            if len(left) >= context.attempt and value == left[context.attempt - 1]:
                raise LookupError(value)
            seen.append(value)
    return len(seen)


@task(takes_context=True, max_attempts=5, backoff=0)
async def see_async(context: TaskContext, fail_at: list[Any] | None = None, **options: Any) -> Any:
    """As `see`, on the event loop."""
    left = fail_at or []
    for source in sources:
        async for item in context.aiterate(source, **options):
            value = getattr(item, "pk", item)
            if len(left) >= context.attempt and value == left[context.attempt - 1]:
                raise LookupError(value)
            seen.append(value)
    return len(seen)


class Numbers:
    """An async iterable that can be iterated over again."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def __aiter__(self) -> AsyncIterator[int]:
        for number in range(self._count):
            await asyncio.sleep(0)
            yield number
