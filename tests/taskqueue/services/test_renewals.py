"""A supervisor renews the leases of all its processes together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.services.child import Child, WorkerOptions
from django_redis_components.taskqueue.services.supervisor import Supervisor
from django_redis_components.taskqueue.workers.unbegun import Unbegun
from tests.support import Proxy, Store
from tests.taskqueue.support import base_key, taskqueue_settings

#: How many processes it has. None of them exists: their pipes are there.
PROCESSES = 12


@pytest.fixture
def crew(proxy: Proxy, settings: Any) -> Iterator[list[Child]]:
    """The processes; they talk through the proxy."""
    url = {"URL": proxy.url, "SOCKET_TIMEOUT": 0.2, "RETRIES": 1}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": url}}
    taskqueue_settings(settings, LEASE=60)
    made, ends = [], []
    for number in range(PROCESSES):
        beacon_read, beacon_write = os.pipe()
        life_read, life_write = os.pipe()
        ends += [beacon_write, life_read]
        made.append(Child(1, f"host:1.{number}", beacon_read, life_write, WorkerOptions(("default",)), Unbegun()))
    yield made
    for child in made:
        child.close()
    for fd in ends:
        os.close(fd)


def supervisor_of(crew: list[Child]) -> Supervisor:
    supervisor = Supervisor(WorkerOptions(("default",)), PROCESSES, poller=False)
    supervisor._children = crew
    return supervisor


def test_all_processes_are_renewed(redis_server: Store, crew: list[Child]) -> None:
    before = [child.renewed_at for child in crew]

    supervisor_of(crew)._renew(now=True)

    assert redis_server.raw.zcard(base_key(redis_server, "workers")) == PROCESSES
    assert all(child.renewed_at > at for child, at in zip(crew, before, strict=True))


def test_a_server_that_hangs_is_waited_for_once_and_not_for_each_process(
    crew: list[Child], proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    connections.client().execute(Command("PING", key="x", retry=True))
    proxy.delay(60)

    supervisor_of(crew)._renew(now=True)

    assert f"The leases of process {', '.join('1' * PROCESSES)} could not be renewed (" in caplog.text
    assert proxy.accepted < PROCESSES
