"""Middleware around the enqueueing and the runs of tasks."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.taskqueue import (
    Middleware,
    NewTask,
    RunContext,
    RunOutcome,
    chain,
    get_queue,
    get_result,
    group,
    signals,
)
from django_redis_components.taskqueue.checks import check_middleware
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.testing import captured, inline
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.middleware import samples
from tests.taskqueue.middleware.samples import called
from tests.taskqueue.support import SITE, new_fetcher, running_worker, work_off, work_until_finished
from tests.taskqueue.tasks import (
    add,
    add_async,
    fail,
    note,
    read_tenant,
    read_tenant_async,
    use_context,
    use_context_async,
)
from tests.taskqueue.tenants import tenant

pytestmark = pytest.mark.integration

#: What a task that takes a context is told to call, to report progress.
PROGRESS = {use_context: ["progress"], use_context_async: ["aprogress"]}


@pytest.fixture
def use(settings: Any) -> Iterator[Callable[..., None]]:
    """Lists samples in the settings."""
    called.clear()

    def use(*names: str) -> None:
        paths = [f"{samples.__name__}.{name}" for name in names]
        settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"MIDDLEWARE": paths}}

    yield use
    called.clear()


@pytest.fixture
def acme() -> Iterator[None]:
    """The current tenant is "acme"."""
    before = tenant.set("acme")
    yield
    tenant.reset(before)


class Metadata(Middleware):
    """Replaces the metadata of each task."""

    def __init__(self, metadata: Any) -> None:
        self._metadata = metadata

    def before_enqueue(self, task: NewTask) -> None:
        task.metadata = self._metadata


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ("tenant", "metadata='tenant': expected a dict."),
        ({"_progress": 5}, "metadata has the key '_progress': keys with a leading underscore are reserved."),
        ({"at": {"rate": float("nan")}}, "metadata['at']['rate'] is nan: JSON has no NaN and no infinities."),
        ({"key": "x" * 70_000}, "metadata is 70,010 bytes of JSON: at most 65,536 are stored."),
    ],
    ids=["a type", "a reserved key", "no JSON", "too much"],
)
def test_metadata_of_middleware_is_checked(redis_server: Store, metadata: Any, text: str) -> None:
    with pipeline.installed(Metadata(metadata)), pytest.raises((TypeError, ValueError), match=f"^{re.escape(text)}$"):
        note.enqueue(1)

    assert get_queue("default").info().ready == 0


def test_middleware_may_remove_metadata(redis_server: Store) -> None:
    with pipeline.installed(Metadata({})):
        result = note.using(metadata={"secret": "x"}).enqueue(1)

    assert get_result(result.id).metadata == result.metadata == {}


def test_headers_travel_with_every_kind_of_enqueueing(
    redis_server: Store, use: Callable[..., None], acme: None
) -> None:
    use("Tenant")

    results = [
        read_tenant.enqueue(),
        asyncio.run(read_tenant.aenqueue()),
        *read_tenant.enqueue_many([((), {}), ((), {})]),
        read_tenant.enqueue_on_commit(),
        *chain(read_tenant.si(), read_tenant.si()).enqueue().results,
        *group(read_tenant.s(), read_tenant.s()).enqueue().results,
    ]
    tenant.set("")
    work_until_finished(*results)

    assert [result.get(0) for result in results] == ["acme"] * 9
    assert {result.metadata["tenant"] for result in results} == {"acme"}
    assert tenant.get() == ""


def test_coroutines_have_the_headers_too(redis_server: Store, use: Callable[..., None], acme: None) -> None:
    use("Tenant")

    with running_worker():
        assert read_tenant_async.enqueue().get(60) == "acme"


def test_before_enqueue_may_refuse(redis_server: Store, use: Callable[..., None], acme: None) -> None:
    use("Tenant")
    tenant.set("nobody")

    with pytest.raises(PermissionError, match=r"tests\.taskqueue\.tasks\.note needs a tenant\."):
        note.enqueue(1)

    assert new_fetcher().fetch("0", 1) == []


def test_headers_that_are_not_json_are_refused(redis_server: Store, use: Callable[..., None], acme: None) -> None:
    use("Tenant")
    tenant.set(object())  # type: ignore[arg-type]

    with pytest.raises(TypeError, match=r"headers"):
        note.enqueue(1)


def test_two_calls_with_one_id_and_other_headers_are_the_same_call(
    redis_server: Store, use: Callable[..., None], acme: None
) -> None:
    use("Tenant")
    first = note.using(id="order-1").enqueue(1)
    tenant.set("other")

    assert note.using(id="order-1").enqueue(1) == first


def test_callbacks_are_nested_in_the_order_of_the_settings(redis_server: Store, use: Callable[..., None]) -> None:
    use("Recorder", "Inner")
    result = add.enqueue(2, b=3)
    work_off()

    assert called == [
        ("inner", "enqueued", result.id),
        ("outer", "enqueued", result.id),
        ("outer", "before", result.id, 1, [2], {"b": 3}),
        ("inner", "before", result.id, 1, [2], {"b": 3}),
        ("inner", "after"),
        ("outer", "after"),
        ("inner", "succeeded", 5, None),
        ("outer", "succeeded", 5, None),
    ]


def test_failure_and_retry_are_outcomes(redis_server: Store, use: Callable[..., None]) -> None:
    use("Recorder")
    fail.using(max_attempts=2, backoff=0).enqueue("boom")
    work_off()
    work_off()

    assert [entry for entry in called if entry[1] in ("retried", "failed")] == [
        ("outer", "retried", None, "boom"),
        ("outer", "failed", None, "boom"),
    ]
    assert [entry[3] for entry in called if entry[1] == "before"] == [1, 2]


def test_middleware_may_change_arguments_and_return_value(redis_server: Store, use: Callable[..., None]) -> None:
    use("Doubling")
    result = add.enqueue(2, 3)
    with running_worker():
        assert result.get(60) == [10]
        assert add_async.enqueue(1, 1).get(60) == [4]


def test_error_of_around_run_is_the_outcome(redis_server: Store, use: Callable[..., None]) -> None:
    use("Recorder", "Refusing")
    results = [note.using(max_attempts=1).enqueue(1), add_async.using(max_attempts=1).enqueue(1, 2)]
    with running_worker():
        for result in results:
            eventually(lambda result=result: result.refresh() or result.is_finished)

    assert [(result.state, result.errors[0].message) for result in results] == [("failed", "no such tenant")] * 2
    assert called.count(("outer", "failed", None, "no such tenant")) == 2


def test_errors_of_other_callbacks_are_logged_and_change_nothing(
    redis_server: Store, use: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    use("Broken", "Recorder")
    result = add.enqueue(1, 2)
    several = add.enqueue_many([((1, 2), {})] * 2)
    work_until_finished(result, *several)

    assert [each.state for each in (result, *several)] == ["successful"] * 3
    path = f"{samples.__name__}.Broken"
    texts = [record.getMessage() for record in caplog.records]
    assert f"Middleware {path} failed after task {result.id} was enqueued." in texts
    assert f"Middleware {path} failed after the end of task {result.id} (succeeded)." in texts
    assert [entry[1] for entry in called].count("succeeded") == 3


@pytest.mark.parametrize("task", [use_context, use_context_async], ids=["function", "coroutine"])
def test_context_of_the_function_is_beside_the_arguments(
    redis_server: Store, use: Callable[..., None], task: Any
) -> None:
    use("Recorder")
    result = task.enqueue([*PROGRESS[task], 1, 2])
    work_until_finished(result)

    assert (result.state, result.progress.done) == ("successful", 1)
    assert called[1] == ("outer", "before", result.id, 1, [[*PROGRESS[task], 1, 2]], {})


def test_receivers_of_signals_run_within_the_middleware(
    redis_server: Store, use: Callable[..., None], acme: None
) -> None:
    use("Tenant")
    seen: list[str] = []

    def receive(**_: Any) -> None:
        seen.append(tenant.get())

    signals.task_started.connect(receive)
    try:
        read_tenant.enqueue()
        tenant.set("")
        work_off()
    finally:
        signals.task_started.disconnect(receive)

    assert seen == ["acme"]


def test_outcome_of_a_coroutine_is_notified_in_a_thread_within_the_exception(redis_server: Store) -> None:
    seen: list[Any] = []

    class Witness(Middleware):
        def on_outcome(self, run: RunContext, outcome: RunOutcome) -> None:
            seen.append((outcome.name, threading.current_thread().name == "event-loop"))

    with pipeline.installed(Witness()), running_worker():
        assert add_async.enqueue(1, 2).get(60) == 3
        eventually(lambda: seen)

    assert seen == [("succeeded", False)]


def test_middleware_is_used_in_tests_without_redis(use: Callable[..., None], acme: None) -> None:
    use("Tenant", "Recorder")

    with inline():
        assert read_tenant.enqueue().get(0) == "acme"
    with captured() as tasks:
        read_tenant.enqueue()
        tenant.set("")
        tasks.run()

    assert [entry[1] for entry in called if entry[1] == "succeeded"] == ["succeeded"] * 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Missing", r"MIDDLEWARE.*'tests\.taskqueue\.middleware\.samples\.Missing' cannot be imported: "),
        ("tenant", r"samples\.tenant' is not a subclass of django_redis_components\.taskqueue\.Middleware\."),
        (
            "Half",
            r"samples\.Half' overrides around_run and not aaround_run\. Override both: tasks that are coroutine funct",
        ),
    ],
)
def test_wrong_entry_is_a_clear_error(use: Callable[..., None], name: str, text: str) -> None:
    use(name)

    with pytest.raises(ConfigurationError, match=text):
        note.enqueue(1)


def test_wrong_entry_is_reported_by_the_system_check(use: Callable[..., None]) -> None:
    use("Half")

    [message] = check_middleware()

    assert message.id == "drc.E045"
    assert "overrides around_run and not aaround_run" in message.msg


def test_worker_and_its_processes_notify_their_middleware(
    redis_server: Store, children: Children, use: Callable[..., None]
) -> None:
    use("Broken", "LifeCycle")
    worker = children.manage("runworker", "default", "--processes", "2", env=SITE | {})
    key = f"{redis_server.prefix}:life"
    eventually(lambda: redis_server.raw.llen(key) == 3)
    worker.terminate()
    assert worker.wait() == 0

    lines = [line.decode().split(" ") for line in redis_server.raw.lrange(key, 0, -1)]
    assert [" ".join(line[:2]) for line in lines] == [
        "worker start",
        "process start",
        "process start",
        "process stop",
        "process stop",
        "worker stop",
    ]
    assert {(line[3], line[4]) for line in lines} == {("default", "default")}
    assert lines[0][2] == lines[-1][2]
    assert {line[2] for line in lines[1:3]} == {line[2] for line in lines[3:5]}
