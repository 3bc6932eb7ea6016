"""Functions that run in child processes of the tests of core."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from typing import Any

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, Read, arun, run

WHO = Read("CLIENT", "ID", key=None)


def one(request: Any):
    return (yield request)


def in_child(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a forked child, or the text of its error."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001 - reported to the parent
            result = repr(exc)
        os.write(writing, json.dumps(result).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        reported = answer.read()
    os.waitpid(pid, 0)
    return json.loads(reported)


def fork_with_open_links(name: str) -> list[Any]:
    """Connections of the parent before, the child, the child through the parent's client, and the parent after."""
    client = connections.client()
    before = run(client, one(WHO))
    answers = in_child(lambda: [run(connections.client(), one(WHO)), client.execute(WHO), count(name)])
    return [before, *answers, run(connections.client(), one(WHO)), count(name)]


def fork_with_a_connection_in_use(name: str) -> list[Any]:
    """Fork while this thread has a connection. Return its id before, in the child, and in the parent after."""
    connection = connections.client().pool_for(name).open()
    before = connection.request(("CLIENT", "ID"))
    child = in_child(lambda: connection.request(("CLIENT", "ID")))
    return [before, child, connection.request(("CLIENT", "ID"))]


def count(name: str) -> int:
    number: int = run(connections.client(), one(Command("INCR", name)))
    return number


def fork_in_a_loop(name: str) -> list[Any]:
    """Fork while connections of an event loop are open; the child runs another loop, the parent continues."""

    async def ask() -> int:
        number: int = await arun(connections.aclient(), one(WHO))
        return number

    async def main() -> list[Any]:
        before = await ask()
        waiting = asyncio.ensure_future(connections.aclient().wait(name, 4))
        await asyncio.sleep(0.01)
        child = in_child(child_loop)
        await arun(connections.aclient(), one(Command("RPUSH", name, "ding")))
        element = await waiting
        return [before, child, await ask(), element.decode() if element else None]

    def child_loop() -> int:
        # Where a thread forks inside a running loop, the child believes that it runs in that loop.
        asyncio._set_running_loop(None)
        with contextlib.suppress(RuntimeError):
            asyncio.set_event_loop(None)
        return asyncio.run(ask())

    return asyncio.run(main())
