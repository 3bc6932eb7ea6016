"""Tasks whose name is not registered are kept as unregistered and listed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import TaskResultStatus, get_queue, registry
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import REQUEUE_UNREGISTERED
from django_redis_components.taskqueue.store.unregistered import requeue_unregistered
from tests.support import Store
from tests.taskqueue.support import base_key, new_fetcher, queue_key, settle_now, work_off
from tests.taskqueue.tasks import add, echo, note, recorded


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes this process one that does not know these tasks; `forget()` knows all again."""
    everything = dict(registry.tasks)

    def make(*tasks: Any) -> None:
        known = {name: each for name, each in everything.items() if each not in tasks}
        monkeypatch.setattr(registry, "tasks", known)

    return make


def test_task_with_an_unregistered_name_is_kept_and_shown(
    store: Store, forget: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    result = add.enqueue(2, 3)
    forget(add)

    work_off(worker="old:1")

    result.refresh()
    assert (result.state, result.status) == ("unregistered", TaskResultStatus.READY)
    assert (result.attempts, result.worker_ids, result.errors) == (0, [], [])
    depth = get_queue("default").info()
    assert (depth.unregistered, depth.ready, depth.running) == (1, 0, 0)
    assert store.raw.ttl(base_key(store, "t", result.id)) == -1
    assert (
        f"Task tests.taskqueue.tasks.add[{result.id}] cannot run: no task of this name is registered in this worker."
        in caplog.text
    )


def test_unregistered_task_is_requeued_when_its_name_is_registered(
    store: Store, forget: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    result, stranger = add.enqueue(2, 3), note.enqueue("stranger")
    forget(add, note)
    work_off()
    caplog.set_level(logging.INFO)

    forget(note)
    requeue_unregistered(home(), ["other", "default"])

    assert "Requeued 1 task of queue default whose names are registered now." in caplog.text
    depth = get_queue("default").info()
    assert (depth.unregistered, depth.ready) == (1, 1)
    work_off()
    for each in (result, stranger):
        each.refresh()
    assert (result.return_value, stranger.state) == (5, "unregistered")


def test_requeued_tasks_run_before_newer_ones(store: Store, forget: Callable[..., None]) -> None:
    note.enqueue_many([((number,), {}) for number in range(20)])
    forget(note)
    work_off()
    forget()
    note.enqueue("new")

    requeue_unregistered(home(), ["default"])
    work_off()

    assert sorted(recorded[:20]) == list(range(20))
    assert recorded[20:] == ["new"]


def test_all_unregistered_tasks_with_registered_names_are_requeued(
    redis_server: Store, forget: Callable[..., None]
) -> None:
    strangers = echo.enqueue_many([((number,), {}) for number in range(600)])
    note.enqueue_many([((number,), {}) for number in range(1_100)])
    forget(note, echo)
    work_off()
    assert get_queue("default").info().unregistered == 1_700

    forget(echo)
    requeue_unregistered(home(), ["default"])

    assert get_queue("default").info().unregistered == len(strangers)
    work_off()
    assert sorted(recorded) == list(range(1_100))


def test_unregistered_task_without_a_record_is_not_requeued(redis_server: Store, forget: Callable[..., None]) -> None:
    result = add.enqueue(2, 3)
    forget(add)
    work_off()
    redis_server.raw.delete(base_key(redis_server, "t", result.id))
    forget()

    requeue_unregistered(home(), ["default"])

    assert work_off() == []
    assert redis_server.raw.zcard(queue_key(redis_server, "unregistered")) == 0


def test_requeue_ends_although_another_worker_unregisters_the_tasks_again(
    redis_server: Store, forget: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    forget(note)
    work_off()
    forget()
    client, calls = connections.client("default"), 0
    unparking = type(client).execute

    def execute(self: Any, call: Any) -> Any:
        nonlocal calls
        reply = unparking(self, call)
        if call.script is REQUEUE_UNREGISTERED:
            calls += 1
            assert calls < 10, "it repeats while the other worker returns the tasks as unregistered"
            old = new_fetcher(worker="old:1")
            jobs = old.fetch(f"slot{calls}", 3)
            settle_now(old, *[Ack(job.id, job.token, "unregistered") for job in jobs])
        return reply

    monkeypatch.setattr(type(client), "execute", execute)
    requeue_unregistered(home(), ["default"])

    assert get_queue("default").info().unregistered == 3
