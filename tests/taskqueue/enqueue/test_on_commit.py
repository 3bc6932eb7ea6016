"""Tasks are sent when the surrounding transaction commits, and never after a rollback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from django_redis_components.taskqueue import TaskResult, TaskResultDoesNotExist, get_queue
from tests.support import Store, run_async
from tests.support.processes import ROOT, child_environment
from tests.taskqueue.support import taskqueue_settings
from tests.taskqueue.tasks import add

pytestmark = pytest.mark.integration

database = pytest.mark.django_db(transaction=True)


def on_commit() -> TaskResult:
    return add.enqueue_on_commit(2, 3)


def one() -> TaskResult:
    return add.enqueue(2, 3)


def many() -> TaskResult:
    return add.enqueue_many([((2, 3), {})])[0]


#: How it is sent, and whether the setting makes it wait.
WAYS = pytest.mark.parametrize(("send", "by_setting"), [(on_commit, False), (one, True), (many, True)])


def send_and_roll_back(send: Callable[[], TaskResult]) -> TaskResult:
    with transaction.atomic():
        result = send()
        transaction.set_rollback(True)
    return result


def ready() -> int:
    return get_queue("default").info().ready


@database
@WAYS
def test_task_is_sent_when_the_transaction_commits(
    store: Store, settings: Any, send: Callable[[], TaskResult], by_setting: bool
) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=by_setting)

    with transaction.atomic():
        result = send()
        assert ready() == 0
        assert len(result.id) == 20
        assert result.enqueued_at is None
        with pytest.raises(TaskResultDoesNotExist):
            result.refresh()

    assert ready() == 1
    assert result.enqueued_at is not None
    assert add.get_result(result.id).enqueued_at == result.enqueued_at


@database
@WAYS
def test_task_is_not_sent_after_a_rollback(
    redis_server: Store, settings: Any, send: Callable[[], TaskResult], by_setting: bool
) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=by_setting)

    result = send_and_roll_back(send)

    assert ready() == 0
    assert result.enqueued_at is None


@database
@WAYS
def test_task_is_sent_at_once_without_a_transaction(
    redis_server: Store, settings: Any, send: Callable[[], TaskResult], by_setting: bool
) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=by_setting)

    result = send()

    assert ready() == 1
    assert result.enqueued_at is not None


@database
def test_task_waits_for_the_outermost_commit_and_is_dropped_with_its_savepoint(redis_server: Store) -> None:
    with transaction.atomic():
        with transaction.atomic():
            kept = add.enqueue_on_commit(1, 1)
        send_and_roll_back(on_commit)
        assert ready() == 0

    assert redis_server.raw.llen(f"{redis_server.prefix}:taskqueue:{{default}}:q:default:ready") == 1
    assert add.get_result(kept.id).args == [1, 1]


@database
@pytest.mark.parametrize("send", [one, many])
def test_enqueue_does_not_wait_for_the_commit_by_default(redis_server: Store, send: Callable[[], TaskResult]) -> None:
    with transaction.atomic():
        send()
        assert ready() == 1


@database
def test_invalid_argument_raises_before_the_commit(redis_server: Store) -> None:
    with transaction.atomic(), pytest.raises(TypeError, match=r"^args\[0\] is a builtins\.set"):
        add.enqueue_on_commit({1}, 2)


async def async_on_commit() -> TaskResult:
    return await add.aenqueue_on_commit(2, 3)


async def async_one() -> TaskResult:
    return await add.aenqueue(2, 3)


async def async_many() -> TaskResult:
    return (await add.aenqueue_many([((2, 3), {})]))[0]


@database
@pytest.mark.parametrize(("send", "by_setting"), [(async_on_commit, False), (async_one, True), (async_many, True)])
@pytest.mark.parametrize("end", ["commit", "rollback", "none"])
def test_async_methods_see_the_transaction_of_the_database_thread(
    redis_server: Store, settings: Any, send: Any, by_setting: bool, end: str
) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=by_setting)

    async def act() -> TaskResult:
        atomic = transaction.atomic()
        if end == "none":
            return await send()
        await sync_to_async(atomic.__enter__)()
        result = await send()
        assert await sync_to_async(ready)() == 0
        error = (LookupError, LookupError(), None) if end == "rollback" else (None, None, None)
        await sync_to_async(atomic.__exit__)(*error)
        return result

    result = run_async(act)

    assert ready() == (0 if end == "rollback" else 1)
    assert (result.enqueued_at is None) == (end == "rollback")


SCRIPT = """
import django, sys
from django.conf import settings
from tests import settings as tests_settings
settings.configure(DATABASES={databases!r}, USE_TZ=True, SECRET_KEY="x",
    REDIS_COMPONENTS={{**tests_settings.REDIS_COMPONENTS, "TASKQUEUE": {{"ENQUEUE_ON_COMMIT": True}}}})
django.setup()
import asyncio
from tests.taskqueue.tasks import add
print(add.enqueue_on_commit(1, 2).id, add.enqueue(1, 2).id, add.enqueue_many([((1, 2), {{}})])[0].id)
print(asyncio.run(add.aenqueue_on_commit(1, 2)).id)
"""


@pytest.mark.parametrize(
    "databases", [{}, {"other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}], ids=["none", "other"]
)
def test_a_site_without_a_database_sends_at_once(redis_server: Store, databases: dict[str, Any]) -> None:
    env = {key: value for key, value in (os.environ | child_environment()).items() if key != "DJANGO_SETTINGS_MODULE"}

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT.format(databases=databases)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert ready() == len(done.stdout.split()) == 4
