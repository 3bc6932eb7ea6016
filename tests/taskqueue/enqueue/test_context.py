"""A task's context: attempt, metadata, progress, and what it refuses after the run."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import pytest
import redis

from django_redis_components.taskqueue import (
    Concurrency,
    InvalidTask,
    LeaseLost,
    Progress,
    Rate,
    TaskContext,
    Unique,
    context,
    task,
)
from django_redis_components.taskqueue.record import MAX_METADATA_BYTES, check_progress
from django_redis_components.taskqueue.run_start import aresult_of_run, result_of_run
from django_redis_components.taskqueue.store.job import Ack, Job
from django_redis_components.taskqueue.worker.execution import Execution
from tests.support import Proxy, Store, eventually
from tests.support.asynchronous import run_async
from tests.taskqueue import tasks
from tests.taskqueue.support import base_key, new_fetcher, running_worker, settle_now, work_off, work_until_finished
from tests.taskqueue.tasks import add, recorded, use_context, use_context_async


def test_context_is_the_first_argument(store: Store) -> None:
    result = use_context.using(metadata={"by": "kim", "n": [1, {"ä": None}]}).enqueue(["look"])
    assert result.metadata == {"by": "kim", "n": [1, {"ä": None}]}

    work_off()

    assert result.get(0) == {"by": "kim", "n": [1, {"ä": None}]}
    assert (result.metadata, result.progress, result.attempts) == (result.return_value, None, 1)
    assert result.args == [["look"]], "the context does not travel"


def test_metadata_is_empty_by_default(store: Store) -> None:
    result = use_context.enqueue()

    work_off()

    assert (result.get(0), result.metadata, result.progress) == ({}, {}, None)
    assert add.enqueue(1, 2).metadata == {}
    assert store.raw.hexists(base_key(store, "t", result.id), "m") is False


def test_next_attempt_receives_saved_metadata(store: Store) -> None:
    result = use_context.using(metadata={"a": 1}).enqueue(
        ["set", "b", 2], ["look"], ["save_metadata"], ["look"], ["set", "c", 3], fails=1
    )

    work_until_finished(result)

    [[*_, before, _, after, _], [_, second, *_]] = recorded
    assert (before, after) == ([{"a": 1}, None], [{"a": 1, "b": 2}, None])
    assert second == [{"a": 1, "b": 2}, None]
    assert result.return_value == {"a": 1, "b": 2, "c": 3}
    assert result.metadata == {"a": 1, "b": 2}, "what was not saved is not kept"


def test_context_has_the_attempt_and_the_earlier_errors(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts: list[TaskContext] = []
    monkeypatch.setattr(tasks, "_take", lambda context, *_: contexts.append(context))
    result = use_context.enqueue(["keep"], fails=2)

    work_until_finished(result)

    assert [(each.attempt, each.run) for each in contexts] == [(1, 1), (2, 2), (3, 3)]
    assert [each.task_result.attempts for each in contexts] == [1, 2, 3]
    assert [len(each.task_result.errors) for each in contexts] == [0, 1, 2]
    assert {each.task_result.id for each in contexts} == {result.id}
    assert {each.task_result.status for each in contexts} == {"RUNNING"}


def test_progress_is_readable_during_and_after_the_run(store: Store) -> None:
    result = use_context.enqueue(["progress", 1, 4, "first"], ["look"], ["progress", 2], ["look"])

    work_off()

    assert recorded == [[None, [{}, [1, 4, "first"]], None, [{}, [2, None, ""]]]]
    result.refresh()
    assert result.progress == Progress(2)
    assert result.progress.fraction is None
    assert Progress(1, 4).fraction == 0.25
    assert Progress(5, 4).fraction == 1.0


def test_progress_writes_are_limited_and_the_last_one_is_written(redis_server: Store) -> None:
    result = use_context.enqueue(*[["progress", number, 1_000] for number in range(1_001)], ["look"])
    calls_before = redis_server.raw.info("commandstats").get("cmdstat_hset", {"calls": 0})["calls"]

    started_s = time.monotonic()
    work_off()
    spent_s = time.monotonic() - started_s

    writes = redis_server.raw.info("commandstats")["cmdstat_hset"]["calls"] - calls_before
    assert writes <= context.BURST + spent_s / context.REFILL_S + 10, "others are the task's own"
    assert recorded[0][-1][1][0] < 1_000, "the last was not written at once"
    result.refresh()
    assert result.progress == Progress(1_000, 1_000)


def test_the_last_progress_of_a_failed_attempt_is_kept(redis_server: Store) -> None:
    result = use_context.enqueue(*[["progress", number] for number in range(50)], fails=3)

    work_until_finished(result)

    assert (result.state, result.progress) == ("failed", Progress(49))


def test_progress_writes_resume_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("django_redis_components.taskqueue.context.time.monotonic", lambda: now[0])
    limiter = context.WriteLimiter()
    assert [limiter.allows() for _ in range(4)] == [True, True, True, False]

    now[0] += context.REFILL_S * 1.5

    assert [limiter.allows() for _ in range(2)] == [True, False]


def test_metadata_and_progress_are_independent(redis_server: Store) -> None:
    result = use_context.enqueue(
        ["progress", 1], ["set", "a", 1], ["progress", 2], ["look"], ["save_metadata"], ["progress", 3], ["look"]
    )

    work_off()

    assert recorded[0][3] == [{}, [2, None, ""]]
    assert recorded[0][6] == [{"a": 1}, [3, None, ""]]
    result.refresh()
    assert (result.metadata, result.progress) == ({"a": 1}, Progress(3))


@pytest.mark.contract
def test_coroutine_uses_the_async_twins(store: Store) -> None:
    result = use_context_async.using(metadata={"a": 1}).enqueue(
        ["aprogress", 1, 2], ["asave_metadata"], ["is_cancelled"], *[["aprogress", number, 9] for number in range(9)]
    )

    work_off()

    assert result.get(0) == {"a": 1}
    assert recorded == [None, None, False] + [None] * 9
    assert (result.metadata, result.progress) == ({"a": 1}, Progress(8, 9))


def test_context_works_on_the_event_loop(redis_server: Store) -> None:
    with running_worker():
        result = use_context_async.using(metadata={"a": 1}).enqueue(*[["aprogress", number, 9] for number in range(9)])

        assert result.get(60) == {"a": 1}
    assert result.progress == Progress(8, 9)


@pytest.mark.contract
def test_save_metadata_raises_when_the_lease_is_lost(store: Store) -> None:
    result = use_context.using(metadata={"a": 1}, max_attempts=1).enqueue(["set", "a", 2], ["lose"], ["save_metadata"])

    work_off()

    result.refresh()
    assert result.metadata == {"a": 1}
    assert str(LeaseLost("x")) == "The run of task x has lost its lease; the task may be running on another worker."


def context_of(task: Any, job: Job) -> TaskContext:
    """The context that the run of a job gets."""
    _, context = result_of_run(task, job, task.connection)
    assert context is not None
    return context


def test_earlier_run_of_the_same_worker_cannot_overwrite_metadata(redis_server: Store) -> None:
    result = use_context.enqueue()
    fetcher = new_fetcher()
    [first] = fetcher.fetch("0", 1)
    late = context_of(use_context, first)
    redis_server.raw.hset(base_key(redis_server, "t", result.id), mapping={"L": "here:1/0/9"})

    late.metadata["late"] = True
    with pytest.raises(LeaseLost, match=result.id):
        late.save_metadata()
    with pytest.raises(LeaseLost) as raised:
        run_async(late.asave_metadata)

    assert raised.value.id == result.id
    assert redis_server.raw.hget(base_key(redis_server, "t", result.id), "m") is None


def test_save_metadata_raises_after_the_run(redis_server: Store) -> None:
    result = use_context.enqueue()
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    kept = context_of(use_context, job)
    settle_now(fetcher, ok(job))

    with pytest.raises(LeaseLost):
        kept.save_metadata()
    result.refresh()
    assert result.metadata == {}


def ok(job: Job) -> Ack:
    return Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000)


def test_lost_progress_is_logged_once(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = use_context.enqueue()
    [job] = new_fetcher().fetch("0", 1)
    late = context_of(use_context, job)
    redis_server.raw.hset(base_key(redis_server, "t", result.id), mapping={"L": "here:1/0/9"})

    for number in range(5):
        late.progress(number)
    run_async(late.aprogress, 6)

    texts = [record.getMessage() for record in caplog.records]
    assert texts == [f"The progress of task {result.id} was discarded: the run has lost its lease."]


def test_progress_never_fails_a_task_that_was_deleted_after_an_outage(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    result = use_context.enqueue()
    [job] = new_fetcher().fetch("0", 1)
    unread = TaskContext(result, job, None)  # as if Redis had not answered when the run began
    assert redis_server.raw.delete(base_key(redis_server, "t", result.id)) == 1

    unread.progress(1)
    run_async(unread.aprogress, 2)

    [record] = [record for record in caplog.records if record.name == "django_redis_components.taskqueue"]
    assert record.getMessage() == f"The progress of task {result.id} was discarded: the run has lost its lease."


def test_progress_is_written_after_an_outage(
    redis_server: Store, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxied = through_the_proxy()
    result = proxied.enqueue()
    [job] = new_fetcher(using="proxied").fetch("0", 1)
    execution = Execution(job, proxied)
    execution.start()
    execution.read()
    attempt = execution.task_context
    assert attempt is not None

    proxy.stop_accepting()
    proxy.cut()
    attempt.progress(1, 2)
    run_async(attempt.aprogress, 2, 2)
    proxy.accept_again()
    error = LookupError("x")
    execution.finish(execution.failure(error), error)

    texts = [record.getMessage() for record in caplog.records]
    assert sum(f"The progress of task {result.id} could not be written (" in text for text in texts) == 2
    result.refresh()
    assert result.progress == Progress(2, 2)


@pytest.mark.parametrize("read", [result_of_run, aresult_of_run])
def test_run_starts_without_its_record_while_redis_is_away(
    redis_server: Store, proxy: Proxy, caplog: pytest.LogCaptureFixture, read: Any
) -> None:
    proxied = through_the_proxy()
    result = proxied.using(metadata={"by": "kim"}).enqueue()
    [job] = new_fetcher(using="proxied").fetch("0", 1)
    proxy.stop_accepting()
    proxy.cut()

    _, context = run_async(read, proxied, job, "proxied") if read is aresult_of_run else read(proxied, job, "proxied")

    assert f"The earlier runs of task {result.id} of {proxied.name} cannot be read (" in caplog.text
    proxy.accept_again()
    assert context.metadata == {"by": "kim"}


def test_metadata_that_could_not_be_read_is_not_overwritten(redis_server: Store, proxy: Proxy) -> None:
    proxied = through_the_proxy()
    result = proxied.using(metadata={"a": 1}).enqueue()
    [job] = new_fetcher(using="proxied").fetch("0", 1)
    proxy.stop_accepting()
    proxy.cut()
    given = context_of(proxied, job)
    again = context_of(proxied, job)
    with pytest.raises(redis.exceptions.RedisError):
        print(given.metadata)

    proxy.accept_again()

    eventually(lambda: given.progress(1) or use_context.get_result(result.id).progress == Progress(1))
    assert use_context.get_result(result.id).metadata == {"a": 1}
    assert given.metadata == again.metadata == {"a": 1}
    again.metadata["b"] = 2
    again.save_metadata()
    assert use_context.get_result(result.id).metadata == {"a": 1, "b": 2}


def through_the_proxy() -> Any:
    return dataclasses.replace(use_context, connection="proxied")


def test_is_cancelled_is_true_after_cancellation_is_requested(redis_server: Store) -> None:
    result = use_context.enqueue(["is_cancelled"])

    work_off()

    result.refresh()
    assert (result.state, recorded) == ("successful", [[False]])


def wants_none() -> None: ...


def wants_another(request: Any) -> None: ...


def keyed(context: TaskContext, order_id: int) -> None: ...


@pytest.mark.parametrize("func", [wants_none, wants_another])
def test_first_parameter_must_be_named_context(func: Any) -> None:
    with pytest.raises(InvalidTask) as raised:
        task(takes_context=True)(func)

    assert str(raised.value) == (
        f"{__name__}.{func.__name__} takes a context: its first parameter must be named 'context'."
    )


@pytest.mark.parametrize("value", ["no", 1, None, []], ids=repr)
def test_takes_context_is_true_or_false(value: Any) -> None:
    with pytest.raises(InvalidTask) as raised:
        task(takes_context=value)(keyed)

    assert str(raised.value) == f"takes_context={value!r}: expected True or False."


def test_unique_key_ignores_the_context(redis_server: Store) -> None:
    made = task(takes_context=True, unique=Unique(key="order:{order_id}"))(keyed)

    first, same, other = made.enqueue(1), made.enqueue(order_id=1), made.enqueue(2)

    assert first.id == same.id != other.id
    with pytest.raises(InvalidTask, match=r"takes no argument 'context'"):
        made.using(unique=Unique(key="{context}"))


@pytest.mark.parametrize(
    ("option", "limit"),
    [("concurrency", Concurrency(1, key="{order_id}")), ("rate", Rate("1/h", key=lambda order_id: order_id))],
)
def test_limit_key_ignores_the_context(redis_server: Store, option: str, limit: Any) -> None:
    made = task(takes_context=True, **{option: limit})(keyed)

    first, same, other = made.enqueue(1), made.enqueue(order_id=1), made.enqueue(2)

    assert [job.id for job in new_fetcher().fetch("0", 9)] == [first.id, other.id]
    assert same.id not in (first.id, other.id)
    with pytest.raises(InvalidTask, match=r"takes no argument 'context'"):
        made.using(**{option: dataclasses.replace(limit, key="{context}")})


def test_function_can_be_called_with_another_context() -> None:
    assert keyed(None, 1) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ([1], "metadata=[1]: expected a dict."),
        ({"_a": 1}, "metadata has the key '_a': keys with a leading underscore are reserved."),
        ({1: 2}, "metadata has the key 1: JSON objects have strings as keys."),
        ({"at": {1}}, "metadata['at'] is a builtins.set: expected JSON"),
        ({"a": "x" * MAX_METADATA_BYTES}, "metadata is 65,544 bytes of JSON: at most 65,536 are stored."),
    ],
    ids=str,
)
def test_invalid_metadata_is_refused(redis_server: Store, metadata: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        use_context.using(metadata=metadata)

    assert str(raised.value).startswith(text)


def test_metadata_is_refused_by_the_decorator_and_copied_by_using() -> None:
    with pytest.raises(
        InvalidTask, match=r"^metadata is an option of a call, not of @task: task\.using\(metadata=…\)\.enqueue\("
    ):
        task(metadata={"a": 1})
    given = {"a": [1]}

    sending = use_context.using(metadata=given)
    given["a"].append(2)

    assert sending.options.metadata == {"a": [1]}


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("1", None, ""), "done='1': expected a number."),
        ((True, None, ""), "done=True: expected a number."),
        ((1, "2", ""), "total='2': expected a number above 0."),
        ((1, 0, ""), "total=0: expected a number above 0."),
        ((float("nan"), None, ""), "done=nan: expected a finite number."),
        ((1, None, 5), "note=5: expected a string."),
    ],
)
def test_invalid_progress_is_refused(args: tuple[Any, ...], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        check_progress(*args)

    assert str(raised.value) == text


def test_a_long_note_is_cut() -> None:
    assert len(check_progress(1, None, "x" * 1_000).note) == 500
