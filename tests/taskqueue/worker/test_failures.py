"""Failing tasks: retries, backoff, stored errors."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import TaskFailed, TaskResult, Unique, chain, get_queue, group
from django_redis_components.taskqueue.failure import describe
from django_redis_components.taskqueue.fields import Field
from tests.support import Store
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    taskqueue_settings,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import (
    come_back,
    fail,
    fail_and_give_up,
    fail_thrice,
    fail_with_an_exit,
    fail_with_broken_backoff,
    fail_with_jitter,
    fail_without_text,
    leave_the_house,
    note,
    recorded,
)

LOGGER = "django_redis_components.taskqueue"


def test_failing_task_runs_max_attempts_times(store: Store) -> None:
    result = fail_thrice.enqueue("no")

    work_until_finished(result, worker="host:1")

    assert (result.state, result.attempts, result.worker_ids) == ("failed", 3, ["host:1"] * 3)
    assert [error.message for error in result.errors] == ["no", "no", "no"]
    assert result.started_at is not None
    assert result.last_attempted_at is not None
    assert (result.last_attempted_at - result.started_at).total_seconds() >= 0.03, "the second pause of its backoff"


def test_task_is_not_retried_by_default(store: Store) -> None:
    result = fail.enqueue()

    work_off()

    result.refresh()
    assert (result.state, result.attempts) == ("failed", 1)


@pytest.mark.parametrize("backoff", [0.01, timedelta(milliseconds=10), [0, 0.01], (0.01,), None])
def test_using_options_are_stored_with_the_task(redis_server: Store, backoff: Any) -> None:
    options = {} if backoff is None else {"backoff": backoff}
    result = fail_with_jitter.using(max_attempts=4, **options).enqueue()

    work_until_finished(result)

    assert (result.state, result.attempts) == ("failed", 4)


def test_exponential_backoff_delays_the_retry(store: Store) -> None:
    result = fail_with_jitter.enqueue()

    work_until_finished(result)

    assert (result.state, result.attempts) == ("failed", 2)


def test_backoff_that_returns_none_fails_the_task(redis_server: Store) -> None:
    result = fail_and_give_up.enqueue()

    work_off()

    result.refresh()
    assert (result.state, result.attempts) == ("failed", 1)


def test_error_of_a_backoff_fails_the_task(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = fail_with_broken_backoff.enqueue()

    work_off()

    result.refresh()
    assert [error.message for error in result.errors] == ["mine"]
    assert (result.state, result.attempts) == ("failed", 1)
    assert (
        "The backoff of task tests.taskqueue.tasks.fail_with_broken_backoff raised an exception,"
        " so the task is not retried." in caplog.text
    )


@pytest.mark.parametrize("kind", ["SystemExit", "KeyboardInterrupt"])
def test_base_exception_fails_the_task_without_a_retry(redis_server: Store, kind: str) -> None:
    result = leave_the_house.enqueue(kind)

    work_off()

    result.refresh()
    assert (result.state, result.attempts) == ("failed", 1)
    assert result.errors[0].exception_class_path == f"builtins.{kind}"


def test_exception_whose_str_raises_fails_the_task(redis_server: Store) -> None:
    result = fail_without_text.enqueue()
    note.enqueue("next")

    work_off()

    result.refresh()
    assert result.state == "failed"
    assert result.errors[0].exception_class_path == "tests.taskqueue.tasks.BrokenTextError"
    assert result.errors[0].message == "<no text: LookupError>"
    assert recorded == ["next"]


def test_exception_whose_str_exits_fails_the_task(redis_server: Store) -> None:
    result = fail_with_an_exit.enqueue()
    note.enqueue("next")

    work_off()

    result.refresh()
    assert result.errors[0].message == "<no text: SystemExit>"
    assert recorded == ["next"]


def test_wrong_arguments_fail_the_task(redis_server: Store) -> None:
    """Another version of the site may have sent them."""
    result = note.enqueue("one")
    redis_server.raw.hset(base_key(redis_server, f"t:{result.id}"), "b", b'[["one","too many"],{}]')

    work_off()

    result.refresh()
    assert result.errors[0].exception_class_path == "builtins.TypeError"
    assert "takes 1 positional argument but 2 were given" in result.errors[0].message


def test_long_texts_are_cut(redis_server: Store) -> None:
    result = fail.enqueue("x" * 50_000)

    work_off()

    result.refresh()
    [error] = result.errors
    assert 1_800 < len(error.message) <= 2_000
    assert re.search(r"x\n… 48,\d\d\d characters cut …\nx", error.message)
    assert 18_000 < len(error.traceback) <= 20_000
    assert error.traceback.startswith("Traceback (most recent call last):")
    assert error.traceback.endswith("x\n")


@pytest.mark.parametrize(
    "text", ["\0" * 50_000, "漢" * 50_000, "\ud800" * 50_000], ids=["escaped", "wide", "surrogate"]
)
def test_limit_of_error_texts_counts_bytes_of_json(redis_server: Store, settings: Any, text: str) -> None:
    taskqueue_settings(settings, MAX_ERROR_BYTES=5_000)
    result = fail.enqueue(text)

    work_off()

    [stored] = redis_server.raw.lrange(base_key(redis_server, "t", result.id, "errors"), 0, -1)
    assert len(stored) < 5_700
    result.refresh()
    assert "characters cut" in result.errors[0].message
    assert "in fail" in result.errors[0].traceback or text[0] in result.errors[0].traceback


def test_name_of_an_exceptions_class_is_cut(redis_server: Store) -> None:
    described = describe(type("X" * 5_000, (Exception,), {})("text"))

    assert len(described["exception_class_path"]) == 500


def test_failures_are_logged_with_their_attempt(redis_server: Store, caplog: pytest.LogCaptureFixture) -> None:
    result = fail.using(max_attempts=2, backoff=0).enqueue("boom")

    work_until_finished(result)

    [again, failed] = [record for record in caplog.records if record.name == LOGGER]
    assert (again.levelno, failed.levelno) == (logging.WARNING, logging.ERROR)
    name = f"Task tests.taskqueue.tasks.fail[{result.id}]"
    assert re.fullmatch(
        re.escape(f"{name} raised LookupError('boom') (attempt 1 of 2) after ") + r"\d\.\d{3} s; retrying in 0 s\.",
        again.getMessage(),
    )
    assert re.fullmatch(re.escape(f"{name} failed (attempt 2 of 2) after ") + r"\d\.\d{3} s\.", failed.getMessage())
    assert failed.exc_info


@pytest.mark.parametrize(("delay_s", "least_s", "most_s"), [(0.02, 0.019, 10), (None, 0.99, 11), (30, 29.9, 50)])
def test_delayed_task_uses_no_attempt(store: Store, delay_s: float | None, least_s: float, most_s: float) -> None:
    result = come_back.enqueue(delay_s)

    work_off(worker="host:1")

    result.refresh()
    assert (result.attempts, result.errors) == (0, [])
    assert result.run_after is not None
    assert result.last_attempted_at is not None
    assert least_s <= (result.run_after - result.last_attempted_at).total_seconds() <= most_s
    store.raw.zadd(queue_key(store, "scheduled"), {result.id: 1})
    work_off(worker="host:2")
    result.refresh()
    assert (result.state, result.return_value, result.worker_ids) == ("successful", "came back", ["host:2"])


def test_invalid_delay_of_a_delayed_task_fails_it(redis_server: Store) -> None:
    result = come_back.enqueue(-5)

    work_off()

    result.refresh()
    assert result.state == "failed"
    assert result.errors[0].message == "delay=-5: expected a number of seconds of at least 0, or a timedelta."


def test_queue_keeps_the_newest_failures(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_LIMIT=3)
    results = [fail.enqueue(str(number)) for number in range(5)]

    work_off()

    kept = store.raw.zrange(queue_key(store, "failed"), 0, -1)
    assert set(kept) == {result.id.encode() for result in results[2:]}
    assert get_queue("default").info().failed == 3
    assert kept_keys(store, results) == keys_of(store, *results[2:])


def keys_of(store: Store, *results: TaskResult) -> list[str]:
    return [
        key
        for result in results
        for key in (base_key(store, "t", result.id), base_key(store, "t", result.id, "errors"))
    ]


def kept_keys(store: Store, results: list[TaskResult]) -> list[str]:
    return [key for key in keys_of(store, *results) if store.raw.exists(key)]


def test_failures_beyond_a_lowered_limit_are_deleted_in_steps(store: Store, settings: Any) -> None:
    results = [fail.enqueue(str(number)) for number in range(150)]
    work_off()
    taskqueue_settings(settings, FAILED_LIMIT=10)

    recover()  # a poller's round
    assert get_queue("default").info().failed == 50
    results.append(fail.enqueue("another"))
    work_off()
    assert get_queue("default").info().failed == 41
    recover()

    assert get_queue("default").info().failed == 10
    assert kept_keys(store, results) == keys_of(store, *results[-10:])


def test_failures_of_lost_workers_are_bounded_too(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_LIMIT=3)
    results = [note.enqueue(number) for number in range(8)]
    new_fetcher(worker="dead:1").fetch("0", 8)
    end_lease(store, *(result.id for result in results))

    recover(max_deliveries=1)

    assert get_queue("default").info().failed == 3
    assert len(kept_keys(store, results)) == 6


def test_failure_that_a_client_waits_for_stays_for_a_minute(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_LIMIT=1)
    result = fail.enqueue("first")
    store.raw.hset(base_key(store, "t", result.id), Field.waiters, 1)
    fail.enqueue("second")

    work_off()

    for key in keys_of(store, result):
        assert 50 < store.raw.ttl(key) <= 60
    with pytest.raises(TaskFailed, match="first"):
        result.get(60)


def test_failure_that_holds_a_unique_key_for_a_time_expires_with_it(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_LIMIT=1)
    throttled = fail.using(unique=Unique(until=600, key="once"))
    result = throttled.enqueue("first")
    fail.enqueue("second")
    work_off()

    again = throttled.enqueue("third")

    record, errors = keys_of(store, result)
    assert (again.is_duplicate, again.id) == (True, result.id)
    assert 590 < store.raw.ttl(record) <= 600
    assert store.raw.exists(errors) == 0


def test_followers_that_failed_with_a_deleted_failure_are_deleted_too(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_LIMIT=1)
    first = chain(fail.s("first"), note.s(), group(note.s(), note.s()), note.s()).enqueue()
    second = chain(fail.s("second"), note.s()).enqueue()

    work_off()

    assert kept_keys(store, first.results) == []
    assert len(kept_keys(store, second.results)) == 4
    assert get_queue("default").retry_failed() == 1
    second.refresh()
    assert [result.state for result in second.results] == ["ready", "waiting"]


def test_failed_ttl_sets_the_lifetime_of_failures(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, FAILED_TTL=timedelta(hours=2))
    result = fail.enqueue()

    work_off()

    for key in (base_key(store, "t", result.id), base_key(store, "t", result.id, "errors"), queue_key(store, "failed")):
        assert 7_100 < store.raw.ttl(key) <= 7_200
