"""Enqueueing tasks and reading results through Django's framework."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from redis.exceptions import RedisError

from django_redis_components.contrib import django_tasks
from django_redis_components.core import discovery
from django_redis_components.core.client import connections
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue import task as native
from tests.contrib.django_tasks.framework import (
    NAME,
    REDIS,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    default_task_backend,
    signals,
    task_backends,
)
from tests.contrib.django_tasks.shop.tasks import add, add_async, echo, note
from tests.support import Proxy, Store, run_async
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add as native_add

LATER = datetime(2040, 2, 29, 12, 30, 15, 123_457, tzinfo=UTC)

#: Tasks whose stored results must equal the enqueued ones.
SENT = {
    "plain": lambda: add,
    "coroutine": lambda: add_async,
    "priority": lambda: add.using(priority=-100),
    "whole float as priority": lambda: add.using(priority=3.0),
    "run_after": lambda: add.using(run_after=LATER),
    "run_after in the past": lambda: add.using(run_after=LATER - timedelta(days=36_500)),
    "queue": lambda: add.using(queue_name="mails, großes Ö"),
    "other backend": lambda: add.using(backend="second"),
    "options": lambda: add.using(max_attempts=4, max_deliveries=2, backoff=[1, 0.5], result_ttl=7),
    "durations": lambda: add.using(backoff=timedelta(seconds=2), result_ttl=timedelta(minutes=1)),
}


@pytest.fixture(autouse=True)
def _two_backends(configure: Any) -> None:
    configure(second={"BACKEND": REDIS, "QUEUES": []})


def test_the_backend_is_that_of_the_framework_in_use() -> None:
    assert isinstance(task_backends["default"], django_tasks.RedisBackend)
    assert isinstance(add, django_tasks.RedisTask)
    assert isinstance(add, Task)
    assert Task.__module__ == f"{NAME}.base"


def test_backend_supports_every_feature() -> None:
    backend = task_backends["default"]
    supports = {name: getattr(backend, name) for name in dir(backend) if name.startswith("supports_")}

    assert supports == dict.fromkeys(
        ["supports_async_task", "supports_defer", "supports_get_result", "supports_priority"], True
    )


def test_creating_a_backend_needs_neither_redis_nor_settings(settings: Any) -> None:
    settings.REDIS_COMPONENTS = "a mistake"

    backend = django_tasks.RedisBackend("mails", {"QUEUES": ["a"], "OPTIONS": {"USING": "nowhere"}})

    assert (backend.alias, backend.queues, backend.connection) == ("mails", {"a"}, "nowhere")


@pytest.mark.parametrize("kind", SENT)
def test_get_result_equals_the_enqueued_result(store: Store, kind: str) -> None:
    task = SENT[kind]()

    sent = task.enqueue(1, b=2)
    read = task.get_result(sent.id)

    assert read == sent
    assert read.task == task
    assert (read.args, read.kwargs, read.status, read.attempts) == ([1], {"b": 2}, "READY", 0)


@pytest.mark.parametrize("kind", SENT)
def test_async_methods_return_equal_results(store: Store, kind: str) -> None:
    async def main() -> tuple[Any, Any]:
        sent = await SENT[kind]().aenqueue(1, b=2)
        return sent, await sent.task.aget_result(sent.id)

    sent, read = run_async(main)

    assert read == sent == sent.task.get_result(sent.id)


def test_async_methods_never_use_the_synchronous_client(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> Any:
        sent = await add.aenqueue(1, 2)
        await sent.arefresh()
        return await add.aget_result(sent.id)

    monkeypatch.setattr(connections, "client", lambda alias: pytest.fail("the synchronous client was asked for"))

    assert run_async(main).status == "READY"


def test_times_are_the_servers_to_the_microsecond(redis_server: Store) -> None:
    before = redis_server.raw.time()
    result = add.enqueue(1, 2)
    after = redis_server.raw.time()

    enqueued_us = int(redis_server.raw.hget(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}", "e"))

    assert result.enqueued_at == datetime.fromtimestamp(0, UTC) + timedelta(microseconds=enqueued_us)
    assert before <= divmod(enqueued_us, 1_000_000) <= after


def test_without_time_zones_times_are_naive_and_equal(redis_server: Store, settings: Any) -> None:
    settings.USE_TZ = False
    result = add.using(run_after=LATER.replace(tzinfo=None)).enqueue(1, 2)

    read = add.get_result(result.id)

    assert read == result
    assert timezone.is_naive(read.enqueued_at)
    assert abs(read.enqueued_at - datetime.now()) < timedelta(minutes=1)  # noqa: DTZ005 - naive is meant


@pytest.mark.parametrize("result_id", ["123", "", "known:errors", "known:done", "ä\x00}", 7], ids=repr)
def test_get_result_raises_for_an_invalid_id(redis_server: Store, result_id: Any) -> None:
    base = f"{redis_server.prefix}:taskqueue:{{default}}:t:known"
    redis_server.raw.rpush(f"{base}:errors", "{}")
    redis_server.raw.set(f"{base}:done", "no list")

    async def main() -> None:
        with pytest.raises(TaskResultDoesNotExist):
            await add.aget_result(result_id)

    with pytest.raises(TaskResultDoesNotExist, match=re.escape(f"There is no task {result_id!r}: it was never")):
        default_task_backend.get_result(result_id)
    run_async(main)


def test_a_result_of_another_task_is_refused(redis_server: Store) -> None:
    result = add.enqueue(1, 2)

    with pytest.raises(TaskResultMismatch, match=r"Task does not match \(received .*shop\.tasks\.add'\)"):
        echo.get_result(result.id)


def test_a_result_stays_readable_when_its_queue_is_no_longer_declared(redis_server: Store, configure: Any) -> None:
    result = add.using(queue_name="old").enqueue(1, 2)

    configure(queues=["default"])

    assert add.get_result(result.id).task.queue_name == "old"


def test_result_names_the_backend_that_enqueued_it(redis_server: Store) -> None:
    result = add.using(backend="second").enqueue(1, 2)

    read = task_backends["default"].get_result(result.id)

    assert (read.backend, read.task.backend) == ("second", "second")


def test_get_result_raises_for_a_task_of_the_native_decorator(redis_server: Store) -> None:
    result = native_add.enqueue(1, 2)

    with pytest.raises(TaskResultDoesNotExist) as raised:
        default_task_backend.get_result(result.id)
    assert str(raised.value) == (
        f"Task {result.id} has the name 'tests.taskqueue.tasks.add', which is not registered as a task in this process."
    )


def test_a_task_that_our_own_decorator_sent_is_run_and_read_after_the_move(redis_server: Store) -> None:
    entry = registry.find(add.module_path)
    registry.tasks.clear()
    result = native(add.func).enqueue(1, b=2)
    registry.tasks[add.module_path] = entry

    work_off()

    read = add.get_result(result.id)
    assert (read.return_value, read.backend, read.task, read.kwargs) == (3, "default", add, {"b": 2})


def test_a_task_that_the_framework_sent_is_run_by_our_own_decorator_after_the_move(redis_server: Store) -> None:
    result = add.using(result_ttl=5, priority=3).enqueue(1, b=2)
    registry.tasks.clear()
    made = native(add.func)

    work_off()

    assert made.get_result(result.id).return_value == 3
    assert 0 < redis_server.raw.pttl(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}") <= 5_000


def test_a_result_is_found_in_a_process_that_has_not_imported_its_module_yet(redis_server: Store) -> None:
    result = add.enqueue(1, 2)
    entry = registry.tasks.pop(add.module_path)
    discovery.after_discovery(lambda: registry.tasks.setdefault(add.module_path, entry))

    try:
        assert default_task_backend.get_result(result.id) == result
    finally:
        discovery.hooks.pop()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("setting", [False, True])
def test_enqueue_does_not_wait_for_the_commit(redis_server: Store, settings: Any, setting: bool) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"ENQUEUE_ON_COMMIT": setting}}

    with transaction.atomic():
        result = note.enqueue("sent")
        assert result.enqueued_at is not None
        assert [job.id for job in work_off()] == [result.id]


def test_a_task_is_validated_again_when_it_is_sent(redis_server: Store, configure: Any) -> None:
    task = add.using(queue_name="mails")
    configure(queues=["default"])

    with pytest.raises(InvalidTask, match=r"^Queue 'mails' is not valid for backend\.$"):
        task.enqueue(1, 2)
    with pytest.raises(InvalidTask, match=r"^Queue 'mails' is not valid for backend\.$"):
        run_async(lambda: task.aenqueue(1, 2))


def test_a_queue_that_no_worker_would_serve_is_refused(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"QUEUES": ["default", "mails"]}}

    with pytest.raises(InvalidTask) as raised:
        add.using(queue_name="mail").enqueue(1, 2)

    assert str(raised.value) == (
        'Queue \'mail\' is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"].'
        " Declared queues: default, mails. Did you mean 'mails'?"
    )


@pytest.mark.parametrize(
    ("queue", "text"),
    [
        ("a" * 201, "has 201 bytes: expected at most 200."),
        ("a\n", "control character '\\n' is not accepted."),
        ("{a}", "braces are not accepted; they mark the Cluster slot in keys."),
        ("", "queue_name is empty: expected 1 to 200 bytes of text."),
    ],
)
def test_a_queue_name_that_cannot_be_a_key_is_refused_at_once(queue: str, text: str) -> None:
    with pytest.raises(InvalidTask, match=f"{re.escape(text)}$"):
        add.using(queue_name=queue)


def test_too_large_a_body_is_refused(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"MAX_BODY_BYTES": 1_024}}

    with pytest.raises(InvalidTask, match=r"^The arguments of .*\.echo are 1,\d{3} bytes of JSON: at most 1,024 are"):
        echo.enqueue("x" * 1_100)


def test_redis_error_is_raised_when_redis_is_unavailable() -> None:
    with pytest.raises(RedisError):
        add.enqueue(1, 2)
    with pytest.raises(RedisError):
        default_task_backend.get_result("123")


def test_task_enqueued_is_sent_when_redis_has_accepted_the_task(redis_server: Store, received: Any) -> None:
    sent = [add.enqueue(1, 2), run_async(lambda: add.using(backend="second").aenqueue(1, 2))]

    assert all(result.enqueued_at for result in sent)
    assert received == [("task_enqueued", django_tasks.RedisBackend, "READY")] * 2


def test_receiver_that_raises_does_not_hide_that_the_task_was_accepted(
    redis_server: Store, received: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(**_: Any) -> None:
        raise LookupError("no audit")

    signals.task_enqueued.connect(fail)
    try:
        sent = [add.enqueue(1, 2), run_async(lambda: add.aenqueue(1, 2))]
    finally:
        signals.task_enqueued.disconnect(fail)

    assert [default_task_backend.get_result(result.id).status.name for result in sent] == ["READY"] * 2
    assert len(received) == 2
    assert caplog.text.count("LookupError: no audit") == 2


def test_an_asynchronous_receiver_is_awaited(redis_server: Store) -> None:
    received = []

    async def receive(task_result: Any, **_: Any) -> None:
        received.append(task_result.id)

    signals.task_enqueued.connect(receive)
    try:
        result = run_async(lambda: add.aenqueue(1, 2))
    finally:
        signals.task_enqueued.disconnect(receive)

    assert received == [result.id]


def test_the_connection_of_options_is_used_and_a_lost_reply_makes_one_task(
    redis_server: Store, proxy: Proxy, configure: Any
) -> None:
    configure(options={"USING": "proxied"})

    proxy.drop_next_reply()
    results = [add.enqueue(1, 2), run_async(lambda: add.aenqueue(3, 4))]
    proxy.drop_next_reply()
    read = add.get_result(results[0].id)

    assert proxy.dropped == 2
    assert read == results[0]
    assert [job.id for job in work_off()] == [result.id for result in results]
