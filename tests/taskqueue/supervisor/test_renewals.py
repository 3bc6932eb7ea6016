"""A supervisor renews the leases of all its processes together."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.supervisor.child import Child
from django_redis_components.taskqueue.supervisor.child_pool import ChildPool
from django_redis_components.taskqueue.supervisor.renewals import _leases_of, renew_leases
from django_redis_components.taskqueue.worker.ipc import Heartbeat, PrefetchedLeases
from django_redis_components.taskqueue.worker.options import WorkerOptions
from tests.support import Proxy, Store
from tests.taskqueue.support import base_key, new_fetcher, queue_key, taskqueue_settings
from tests.taskqueue.tasks import note

#: Number of processes. Only their pipes exist.
PROCESSES = 12


@pytest.fixture
def processes(proxy: Proxy, settings: Any) -> Iterator[list[Child]]:
    """The processes; they talk through the proxy."""
    url = {"URL": proxy.url, "SOCKET_TIMEOUT": 0.5, "RETRIES": 1}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": url}}
    taskqueue_settings(settings, LEASE=60)
    made, ends = [], []
    for number in range(PROCESSES):
        heartbeat_read, heartbeat_write = os.pipe()
        command_read, command_write = os.pipe()
        ends += [heartbeat_write, command_read]
        pool = ChildPool(WorkerOptions(("default",)))
        made.append(Child(1, f"host:1.{number}", heartbeat_read, command_write, pool, PrefetchedLeases()))
    yield made
    for child in made:
        child.close()
    for fd in ends:
        os.close(fd)


def test_all_processes_are_renewed(redis_server: Store, processes: list[Child]) -> None:
    before = [child.renewed_at for child in processes]

    assert renew_leases(home(), processes, 60) == ""

    assert redis_server.raw.zcard(base_key(redis_server, "workers")) == PROCESSES
    assert all(child.renewed_at > at for child, at in zip(processes, before, strict=True))


def test_an_unresponsive_server_costs_one_timeout_for_all_processes(processes: list[Child], proxy: Proxy) -> None:
    connections.client().execute(Command("PING", key="x", retry=True))
    proxy.delay(60)

    error = renew_leases(home(), processes, 60)

    assert error.startswith(f"Cannot renew the leases of process {', '.join('1' * PROCESSES)} (")
    assert proxy.accepted < PROCESSES


def test_a_task_that_finished_before_a_renewal_is_not_logged_as_lost(
    redis_server: Store, processes: list[Child], caplog: pytest.LogCaptureFixture
) -> None:
    """Its lease has ended, and older heartbeats list it."""
    processes[0].heartbeat = Heartbeat({"ended": "t1"}, running=["ended"], sent_at=time.monotonic())

    assert renew_leases(home(), processes, 60) == ""
    assert renew_leases(home(), processes, 60) == ""

    assert "has lost its lease" not in caplog.text


def test_a_running_task_without_its_lease_is_logged_once(
    redis_server: Store, processes: list[Child], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(4):
        processes[0].heartbeat = Heartbeat({"lost": "t1"}, running=["lost"], sent_at=time.monotonic())
        renew_leases(home(), processes, 60)

    assert caplog.text.count("Process 1 has lost its lease of task lost.") == 1


def test_many_leases_are_renewed_in_parts(redis_server: Store, processes: list[Child]) -> None:
    """A process that runs batches has thousands: one script for all would keep the server from its other clients."""
    note.enqueue_many([((number,), {}) for number in range(1_100)])
    fetcher = new_fetcher(worker="host:1.0")
    jobs = [job for _ in range(11) for job in fetcher.fetch("0", 100)]
    assert len(jobs) == 1_100
    processes[0].heartbeat = Heartbeat({job.id: job.token for job in jobs})
    processes[1].heartbeat = Heartbeat({"lost": "t1"})
    running = queue_key(redis_server, "running")
    redis_server.raw.zadd(running, {job.id: 1 for job in jobs}, xx=True)

    assert renew_leases(home(), processes, 60) == ""

    assert redis_server.raw.zcount(running, 1, 1) == 0
    assert [len(part) for part in _leases_of(processes[0], home())] == [1_000, 1_000, 200]
    assert redis_server.raw.zcard(base_key(redis_server, "workers")) == PROCESSES
    assert list(processes[1]._unknown) == [("lost", "t1")], "each reply is that of its process"
