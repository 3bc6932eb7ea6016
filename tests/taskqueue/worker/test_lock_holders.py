"""Locks that a task holds name the task."""

from __future__ import annotations

import os
import socket

import pytest

from django_redis_components.core.leasing.holder import describe_caller
from tests.support import Store
from tests.taskqueue.support import running_worker, work_off
from tests.taskqueue.tasks import holder_of_a_lock, holder_of_a_lock_async

pytestmark = pytest.mark.integration


def prefix() -> str:
    return f"{socket.gethostname()}, process {os.getpid()}, thread "


def test_holder_names_the_running_task(store: Store) -> None:
    result = holder_of_a_lock.enqueue("stock")

    work_off()

    result.refresh()
    assert result.return_value == [f"{prefix()}MainThread, task tests.taskqueue.tasks.holder_of_a_lock {result.id}"]
    assert "task=" not in describe_caller()


def test_holder_names_the_running_coroutine_also_in_a_thread(store: Store) -> None:
    result = holder_of_a_lock_async.enqueue("stock")
    with running_worker():
        found = result.get(60)

    assert len(found) == 2
    for text in found:
        assert text.startswith(prefix())
        assert text.endswith(f", task tests.taskqueue.tasks.holder_of_a_lock_async {result.id}")


def test_tasks_of_one_thread_are_described_each_by_itself(redis_server: Store) -> None:
    results = [holder_of_a_lock.enqueue("stock") for _ in range(3)]

    work_off()

    for result in results:
        result.refresh()
        assert result.return_value[0].endswith(result.id)
