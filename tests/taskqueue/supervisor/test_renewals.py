"""A supervisor renews the leases of all its processes together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.supervisor.child import Beacon, Child, WorkerOptions
from django_redis_components.taskqueue.supervisor.lease_renewal import renew
from django_redis_components.taskqueue.supervisor.supervisor import Supervisor
from django_redis_components.taskqueue.worker.prefetched import Unbegun
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


def test_a_task_that_ended_before_a_renewal_is_not_told_as_lost(
    redis_server: Store, crew: list[Child], caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease is gone from Redis, and beacons that were written before name it."""
    crew[0].beacon = Beacon({"ended": "t1"}, running=["ended"], made_at=time.monotonic())

    assert renew(crew, 60, "default") == ""
    assert renew(crew, 60, "default") == ""

    assert "has lost its lease" not in caplog.text


def test_a_task_that_runs_on_without_its_lease_is_told_once(
    redis_server: Store, crew: list[Child], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        crew[0].beacon = Beacon({"lost": "t1"}, running=["lost"], made_at=time.monotonic())
        renew(crew, 60, "default")

    assert caplog.text.count("Process 1 has lost its lease of task lost.") == 1
