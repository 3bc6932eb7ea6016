"""`min_replicas`: an enqueue waits until replicas have the task, and says whether they have."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.db import transaction
from redis.exceptions import ResponseError

from django_redis_components.taskqueue import InvalidTask, TaskResult, chain, get_queue, group
from django_redis_components.taskqueue.shards import home
from tests.support import Proxy, Store, eventually, run_async
from tests.support.stores import Stores
from tests.taskqueue.shards.support import two_servers
from tests.taskqueue.support import taskqueue_settings, work_off
from tests.taskqueue.tasks import add, note
from tools.localserver import LocalServer

sums = add.using(min_replicas=1)


@pytest.fixture
def away(replica: LocalServer, monkeypatch: pytest.MonkeyPatch) -> LocalServer:
    """The replica of ``own_server``, stopped. It is waited for only briefly."""
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 20)
    os.kill(replica.pid, signal.SIGSTOP)
    return replica


def enqueue_until_replicated(enqueue: Callable[[], TaskResult]) -> TaskResult:
    """Enqueue a task until the replica has acknowledged one: it may be without CPU for a second."""
    results: list[TaskResult] = []

    def is_replicated() -> bool:
        results.append(enqueue())
        return results[-1].replicas == 1

    eventually(is_replicated)
    return results[-1]


def waits(store: Store) -> int:
    """Return how many WAITs the server has executed."""
    return int(store.raw.info("commandstats").get("cmdstat_wait", {}).get("calls", 0))


def test_acknowledged_task_is_on_the_replica(own_server: Store, replica: LocalServer) -> None:
    result = enqueue_until_replicated(lambda: sums.enqueue(2, 3))

    with redis.Redis.from_url(replica.url) as copy:
        assert copy.exists(home().record(result.id))


def test_task_that_no_replica_has_is_accepted_once(
    own_server: Store, away: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "django_redis_components")
    results = [sums.enqueue(2, 3) for _ in range(2)]

    assert [(result.replicas, result.state) for result in results] == [(0, "ready")] * 2
    assert get_queue("default").info().ready == 2
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.startswith("0 of 1 replicas have acknowledged a task (no more within 20 ms). It is accepted, and")
    os.kill(away.pid, signal.SIGCONT)
    enqueue_until_replicated(lambda: sums.enqueue(2, 3))
    assert caplog.records[-1].getMessage().startswith("Enough replicas acknowledge tasks again after ")


def test_task_runs_although_no_replica_has_it(own_server: Store, away: LocalServer) -> None:
    result = sums.enqueue(2, 3)

    work_off()

    assert result.get(0) == 5
    assert result.replicas == 0  # as it was when it was enqueued


@pytest.mark.contract
def test_all_ways_to_enqueue_wait(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 1)
    before = waits(store)

    results = [
        sums.enqueue(1, 1),
        sums.using(priority=3).enqueue(1, 1),
        sums.using(id="order-42").enqueue(1, 1),
        run_async(sums.aenqueue, 1, 1),
        run_async(sums.using(id="order-43").aenqueue, 1, 1),
        *sums.enqueue_many([((1, 1), {}), ((1, 2), {})]),
        *run_async(sums.aenqueue_many, [((1, 1), {})]),
        *chain(sums.si(1, 1), sums.si(1, 1)).enqueue().results,
        *run_async(group(sums.si(1, 1)).aenqueue).results,
    ]

    assert [result.replicas for result in results] == [0] * len(results)
    if store.name != "cluster":
        assert waits(store) >= before + 9  # and one more for each script that was not loaded


def test_callback_that_is_a_flow_is_waited_for_with_its_flow(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 1)
    before = waits(redis_server)

    chain(add.si(1, 1)).enqueue(on_success=chain(sums.si(1, 1), add.si(1, 1)))

    assert waits(redis_server) > before


def test_duplicate_of_a_unique_task_is_waited_for_too(own_server: Store, away: LocalServer) -> None:
    unique = sums.using(unique=True)
    first = unique.enqueue(1, 1)
    os.kill(away.pid, signal.SIGCONT)

    again = enqueue_until_replicated(lambda: unique.enqueue(1, 1))

    assert (again, again.is_duplicate) == (first, True)


def test_each_part_of_many_tasks_is_waited_for(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 1)
    monkeypatch.setattr("django_redis_components.taskqueue.store.messages.CHUNK", 2)
    calls = [((number, 1), {}) for number in range(5)]
    sums.enqueue_many(calls)  # loads the script
    before = waits(redis_server)

    results = sums.enqueue_many(calls)

    assert [result.replicas for result in results] == [0] * 5
    assert waits(redis_server) == before + 3


def test_tasks_without_the_option_send_no_wait(redis_server: Store) -> None:
    before = waits(redis_server)

    results = [add.enqueue(1, 1), *note.enqueue_many([((1,), {})]), run_async(add.aenqueue, 1, 1)]

    assert [result.replicas for result in results] == [None] * 3
    assert waits(redis_server) == before


def test_waiting_coroutine_holds_up_no_other(own_server: Store, replica: LocalServer, settings: Any) -> None:
    connection = settings.REDIS_COMPONENTS["CONNECTIONS"]["default"]
    components = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {**connection, "SOCKET_TIMEOUT": 200}}}
    settings.REDIS_COMPONENTS = components

    async def main() -> None:
        os.kill(replica.pid, signal.SIGSTOP)
        waiting = asyncio.create_task(sums.aenqueue(1, 1))
        await asyncio.to_thread(eventually, lambda: is_blocked(own_server))
        for number in range(3):
            await add.aenqueue(number, 1)
        assert not waiting.done()
        await asyncio.to_thread(os.kill, replica.pid, signal.SIGCONT)
        assert (await waiting).replicas == 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django_redis_components.core.replicas.WAIT_MS", 60_000)
        run_async(main)


def is_blocked(store: Store) -> bool:
    """Return whether a client waits for replicas."""
    return any("b" in client["flags"] and client["cmd"].lower() == "wait" for client in store.raw.client_list())


@pytest.mark.django_db(transaction=True)
def test_commit_is_followed_by_the_wait(own_server: Store, away: LocalServer) -> None:
    with transaction.atomic():
        results = [sums.enqueue_on_commit(1, 1), add.enqueue_on_commit(1, 1), sums.enqueue_on_commit(1, 2)]
        assert results[0].replicas is None

    assert [result.replicas for result in results] == [0, None, 0]
    assert get_queue("default").info().ready == 3


def test_spread_task_is_waited_for_in_its_shard(stores: Stores, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 1)
    with two_servers(stores, settings, QUEUES={"default": ["default", "b"]}) as shards:
        results = [sums.enqueue(1, 1), sums.enqueue(1, 2), *sums.enqueue_many([((1, 1), {}), ((1, 2), {})])]

        assert [result.replicas for result in results] == [0] * 4
        assert min(waits(shards.a), waits(shards.b)) > 0


def test_server_that_forbids_wait_accepts_the_task(
    own_server: Store, caplog: pytest.LogCaptureFixture, settings: Any
) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "default", "-wait")

    assert sums.enqueue(1, 1).replicas == 0
    assert "permission" in caplog.records[-1].getMessage()


def test_refused_task_raises_the_error_of_the_server(own_server: Store) -> None:
    own_server.raw.execute_command("ACL", "SETUSER", "default", "-evalsha")

    with pytest.raises(ResponseError, match="permission"):
        sums.enqueue(1, 1)


def test_task_whose_reply_was_lost_is_accepted_once(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 1)
    proxied = dataclasses.replace(sums, connection="proxied")
    proxy.drop_next_reply(after=b"WAIT")

    result = proxied.enqueue(1, 1)

    assert (result.replicas, proxy.dropped) == (0, 1)
    assert get_queue("default").info().ready == 1


def test_default_of_the_settings_applies(redis_server: Store, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("django_redis_components.core.replicas.WAIT_MS", 1)
    taskqueue_settings(settings, DEFAULTS={"min_replicas": 2})

    assert add.enqueue(1, 1).replicas == 0
    assert add.using(min_replicas=0).enqueue(1, 1).replicas is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1", "min_replicas='1': expected an integer from 0 to 100."),
        (101, "min_replicas=101: expected an integer from 0 to 100."),
    ],
)
def test_wrong_number_is_refused(value: Any, text: str) -> None:
    with pytest.raises(InvalidTask, match=text):
        add.using(min_replicas=value)
