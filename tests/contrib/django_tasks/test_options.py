"""Our options on tasks of Django's framework: in the decorator, in `using()`, and as defaults in OPTIONS."""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django
import pytest

from django_redis_components.taskqueue import exponential, registry
from tests.contrib.django_tasks.framework import REDIS, InvalidTask, task, task_backends
from tests.contrib.django_tasks.shop.tasks import add, fail, look, recorded
from tests.support import Store
from tests.taskqueue.support import queue_key, work_off


@pytest.fixture(autouse=True)
def _backends(configure: Callable[..., None]) -> None:
    configure()


def fail_as_well() -> None:
    """A function that tests make tasks of."""
    recorded.append("failed")
    raise LookupError("as well")


def made_with(**options: Any) -> Any:
    """A task whose decorator got these options. That of Django 6.0 refuses options of a backend."""
    if not (6, 0) <= django.VERSION < (6, 1):
        return task(**options)(fail_as_well)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        task(**options)
    fields = {field.name: getattr(add, field.name) for field in dataclasses.fields(add)}
    return type(add)(**fields | options | {"func": fail_as_well})


def test_the_decorator_takes_our_options(redis_server: Store) -> None:
    made = made_with(max_attempts=3, backoff=[0], result_ttl=5, max_deliveries=2)

    result = made.enqueue()
    work_off()

    assert (made.max_attempts, made.backoff, made.result_ttl, made.max_deliveries) == (3, (0,), 5, 2)
    assert len(recorded) == 3
    assert made.get_result(result.id).attempts == 3


def test_using_takes_our_options_beside_the_framework_s(store: Store) -> None:
    result = fail.using(max_attempts=2, backoff=0, priority=4, queue_name="slow").enqueue()

    work_off("slow")

    read = fail.get_result(result.id)
    assert (read.status, read.attempts, len(read.errors)) == ("FAILED", 2, 2)
    assert (read.task.priority, read.task.queue_name, read.task.max_attempts) == (4, "slow", 2)


def test_using_keeps_the_options_that_are_not_given() -> None:
    first = add.using(max_attempts=2, backoff=5)
    second = first.using(priority=1).using(result_ttl=9)

    assert (second.max_attempts, second.backoff, second.result_ttl, second.priority) == (2, 5, 9, 1)
    assert add.max_attempts is None
    assert first == add.using(max_attempts=2, backoff=5) != add
    assert len({first, second, add}) == 3


def test_an_option_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_attempt'"):
        add.using(max_attempt=2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_attempts": 0}, "max_attempts=0: expected an integer from 1 to 1000000."),
        ({"max_attempts": True}, "max_attempts=True: expected an integer from 1 to 1000000."),
        ({"max_deliveries": 1.5}, "max_deliveries=1.5: expected an integer from 1 to 1000."),
        ({"backoff": "soon"}, "backoff='soon': expected seconds, a list of seconds, or a callable."),
        ({"backoff": []}, "backoff=[]: expected at least one number of seconds."),
        ({"result_ttl": 0}, "result_ttl=0: expected a number of seconds above 0, or a timedelta."),
        (
            {"result_ttl": timedelta(days=-1)},
            "result_ttl=-86400.0: expected a number of seconds above 0, or a timedelta.",
        ),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_where_it_is_given(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        add.using(**options)

    assert str(raised.value) == text


def test_the_lifetime_of_a_result_is_that_of_its_task(store: Store) -> None:
    result = add.using(result_ttl=timedelta(seconds=30)).enqueue(1, 2)

    work_off()

    assert 0 < store.raw.pttl(f"{store.prefix}:taskqueue:{{default}}:t:{result.id}") <= 30_000


def test_backend_options_are_the_defaults_of_tasks(redis_server: Store, configure: Any) -> None:
    configure(options={"MAX_ATTEMPTS": 3, "BACKOFF": [0], "RESULT_TTL": 20, "MAX_DELIVERIES": 9})

    silent, outspoken, fine = fail.enqueue(), fail.using(max_attempts=1).enqueue(), add.enqueue(1, 2)
    deliveries = redis_server.raw.hget(f"{redis_server.prefix}:taskqueue:{{default}}:t:{fine.id}", "D")
    work_off()

    assert [fail.get_result(each.id).attempts for each in (silent, outspoken)] == [3, 1]
    assert fail.get_result(silent.id).task == fail
    assert deliveries == b"9"
    assert 0 < redis_server.raw.pttl(f"{redis_server.prefix}:taskqueue:{{default}}:t:{fine.id}") <= 20_000


def test_each_backend_has_separate_options(redis_server: Store, configure: Any) -> None:
    stubborn = {"BACKEND": REDIS, "QUEUES": [], "OPTIONS": {"MAX_ATTEMPTS": 2, "BACKOFF": 0}}
    configure(options={"MAX_ATTEMPTS": 1}, stubborn=stubborn)

    results = [fail.enqueue(), fail.using(backend="stubborn").enqueue()]
    work_off()

    assert [fail.get_result(each.id).attempts for each in results] == [1, 2]


def test_a_callable_backoff_of_the_backend_is_used_for_tasks_made_for_it(redis_server: Store, configure: Any) -> None:
    configure(options={"MAX_ATTEMPTS": 2, "BACKOFF": exponential(base=0.0)})
    made = task(fail_as_well)

    result = made.enqueue()
    work_off()

    read = made.get_result(result.id)
    assert (read.attempts, read.task) == (2, made)


def test_callable_backoff_of_the_decorator_is_used_and_in_the_result(redis_server: Store) -> None:
    delays: list[Any] = []

    def none_at_all(exception: BaseException, tried: Any) -> float:
        delays.append((repr(exception), tried.attempts))
        return 0.0

    made = made_with(max_attempts=3, backoff=none_at_all)

    result = made.using(priority=1).enqueue()
    work_off()

    assert delays == [("LookupError('as well')", 1), ("LookupError('as well')", 2)]
    assert made.get_result(result.id).task == made.using(priority=1)


def test_using_rejects_a_callable_backoff(redis_server: Store, configure: Any) -> None:
    text = re.escape("a callable cannot be sent to workers. Define the task with it (@task, or BACKOFF in the")

    with pytest.raises(InvalidTask, match=text):
        add.using(backoff=exponential())
    configure(late={"BACKEND": REDIS, "QUEUES": [], "OPTIONS": {"BACKOFF": exponential()}})
    with pytest.raises(InvalidTask, match=text):
        add.using(backend="late")


def test_options_of_the_decorator_are_not_sent(redis_server: Store) -> None:
    """A worker with a newer release follows the new decorator; only what `using()` says travels."""
    result = look.using(result_ttl=77).enqueue()

    body = redis_server.raw.hget(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}", "b")

    assert body == b'[[],{},{"result_ttl":77.0,"django":{"result_ttl":77}}]'


def test_plain_task_stores_few_bytes_more_than_a_native_one(redis_server: Store) -> None:
    result = add.enqueue(1, 2)

    record = redis_server.raw.hgetall(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}")

    assert record[b"b"] == b'[[1,2],{},{"django":{}}]'
    assert set(record) == {b"q", b"e", b"n", b"b"}
    assert redis_server.raw.lrange(queue_key(redis_server, "ready"), 0, -1) == [result.id.encode()]


def test_a_task_of_another_backend_gets_the_options_of_the_one_that_sends_it(
    redis_server: Store, configure: Any
) -> None:
    configure(options={"MAX_ATTEMPTS": 2, "BACKOFF": 0})
    made = task(backend="immediate")(fail_as_well)

    result = made.using(backend="default").enqueue()
    registry.tasks[made.module_path] = _as_a_worker_finds_it(made)
    work_off()

    assert made.using(backend="default").get_result(result.id).attempts == 2


def _as_a_worker_finds_it(made: Any) -> Any:
    registry.tasks.pop(made.module_path)
    module = types.ModuleType("found")
    module.made = made  # type: ignore[attr-defined]
    task_backends["default"].register_module(module)
    return registry.find(made.module_path)


@pytest.mark.parametrize("when", [5, timedelta(seconds=5), "noon"], ids=repr)
def test_run_after_that_is_no_datetime_raises(when: object) -> None:
    with pytest.raises(InvalidTask) as raised:
        add.using(run_after=when)

    assert str(raised.value) == f"run_after={when!r}: expected a datetime."
