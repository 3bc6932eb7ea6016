"""Fixtures of the tests of core, among them one for both drivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, arun, run
from tests.support import run_async
from tests.support.stores import Stores
from tools.localserver import LocalServer


class Driver:
    """Runs flows on one of the two clients. An asynchronous one lives for one call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, flow: Flow[Any], using: str = "default") -> Any:
        if self.name == "run":
            return run(connections.client(using), flow)

        async def main() -> Any:
            return await arun(connections.aclient(using), flow)

        return run_async(main)

    def ask(self, *requests: Any, using: str = "default") -> Any:
        """Return the reply to the last of these requests, sent one after the other."""

        def flow() -> Flow[Any]:
            reply = None
            for request in requests:
                reply = yield request
            return reply

        return self(flow(), using)


@pytest.fixture(params=["run", "arun"])
def drive(request: pytest.FixtureRequest) -> Driver:
    """Each driver in turn."""
    return Driver(request.param)


@pytest.fixture
def start_server(stores: Stores) -> Iterator[Callable[..., LocalServer]]:
    """Starts servers for one test, with given options."""
    started: list[LocalServer] = []

    def start(*args: str, **options: Any) -> LocalServer:
        server = LocalServer(
            directory=stores.new_directory("special"), extra_args=args, die_with_parent=True, **options
        )
        started.append(server.start())
        return server

    yield start
    connections.close_all()
    for server in started:
        server.kill()
