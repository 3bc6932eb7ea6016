"""The option `batch`: what it accepts, what it cannot be combined with, and what a call may have."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import Batch, BatchCall, FairShare, InvalidTask, TaskResult, task
from django_redis_components.taskqueue.batch_task import BatchTask
from tests.support import Store
from tests.taskqueue.batching.tasks import collect, collect_by_key, collect_ready, mail, settle
from tests.taskqueue.support import base_key, taskqueue_settings
from tests.taskqueue.tasks import note


def serve_badly(calls: list[BatchCall]) -> None: ...


def without_calls() -> None: ...


def with_more(calls: list[BatchCall], customer: str) -> None: ...


@pytest.mark.parametrize("size", [0, 1, 501, 2.5, True, "9", None], ids=repr)
def test_size_that_is_not_accepted_is_refused(size: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"size={size!r}: expected an integer from 2 to 500"):
        Batch(size)


@pytest.mark.parametrize("wait", [-1, "1s", None, float("nan")], ids=repr)
def test_wait_that_is_not_accepted_is_refused(wait: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="wait"):
        Batch(9, wait=wait)


def test_wait_may_be_a_timedelta(store: Store) -> None:
    made = task(batch=Batch(2, wait=timedelta(seconds=2)))(serve_badly)

    result = made.enqueue()

    assert store.raw.hget(base_key(store, "t", result.id), "B") == b"2/2000"


def test_key_that_is_no_key_is_refused() -> None:
    with pytest.raises(TypeError, match=r"key=7: expected a template such as '\{id\}', a function or None"):
        Batch(9, key=7)  # type: ignore[arg-type]


def test_signature_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"signature='x': expected a function or None"):
        Batch(9, signature="x")  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [100, "100", (100, 1.0), True], ids=repr)
def test_batch_that_is_none_is_refused(batch: Any) -> None:
    with pytest.raises(InvalidTask, match=r"batch=.*: expected a Batch, such as Batch\(100, wait=1.0\)"):
        task(batch=batch)(serve_badly)


def test_context_cannot_be_combined_with_it() -> None:
    with pytest.raises(
        InvalidTask, match=r"takes_context=True cannot be combined with batch: a context belongs to one"
    ):
        task(batch=Batch(9), takes_context=True)(serve_badly)  # type: ignore[call-overload]


@pytest.mark.parametrize("fair", ["{customer}", FairShare("x")], ids=["template", "object"])
def test_fair_cannot_be_combined_with_it(fair: Any) -> None:
    with pytest.raises(
        InvalidTask, match=r"fair=.* cannot be combined with batch: .* Batch\(key=…\) makes one for each"
    ):
        task(batch=Batch(9), fair=fair)(serve_badly)


def test_using_refuses_fair() -> None:
    with pytest.raises(InvalidTask, match=r"collect: fair='x' cannot be combined with batch"):
        collect.using(fair="x")


def test_using_refuses_batch() -> None:
    with pytest.raises(InvalidTask, match="Unknown option: batch"):
        collect.using(batch=Batch(9))  # type: ignore[call-arg]


@pytest.mark.parametrize("function", [without_calls, with_more])
def test_function_that_does_not_accept_a_list_of_calls_is_refused(function: Any) -> None:
    text = rf"{function.__name__} has the option batch: it is called with one argument, a list of calls"
    with pytest.raises(InvalidTask, match=text):
        task(batch=Batch(9))(function)


@pytest.mark.parametrize("expires", [1, 60, timedelta(seconds=59.9)], ids=repr)
def test_expiry_within_the_wait_is_refused(expires: Any) -> None:
    """Each call of a batch that others do not fill in time would expire."""
    text = rf"expires={re.escape(repr(expires))} with Batch\(wait=60\): a call would expire while it waits for others"
    with pytest.raises(InvalidTask, match=text):
        task(batch=Batch(9, wait=60), expires=expires)(serve_badly)
    with pytest.raises(InvalidTask, match=text):
        collect.using(expires=expires)


def test_expiry_after_the_wait_is_accepted() -> None:
    assert collect.using(expires=60.001).options.expires == 60.001
    assert collect.using(expires=datetime(2030, 1, 1, tzinfo=UTC)).options.expires is not None
    assert collect_ready.using(expires=0.001).options.expires == 0.001


def test_key_that_names_an_unknown_argument_is_refused_when_it_is_declared() -> None:
    text = r"batch key '\{client\}' of .*: the function takes no argument 'client'; it has customer, number"

    with pytest.raises(InvalidTask, match=text):
        task(batch=Batch(9, key="{client}", signature=mail))(serve_badly)


def test_call_without_the_argument_of_the_key_is_refused() -> None:
    made = task(batch=Batch(9, key="{client}"))(serve_badly)

    with pytest.raises(ValueError, match=r"batch key '\{client\}' .*: this call has no argument 'client'"):
        made.enqueue(7)


def test_calls_are_checked_against_the_signature() -> None:
    with pytest.raises(
        TypeError, match=r"missing a required argument: 'customer'. It is collect_by_key\(customer"
    ) as raised:
        collect_by_key.enqueue()
    assert "decorator" not in str(raised.value)


def test_without_a_signature_a_call_has_any_arguments(store: Store) -> None:
    result = collect.enqueue(1, "two", three=3)

    assert (result.args, result.kwargs) == ([1, "two"], {"three": 3})


def test_default_of_the_settings_for_fair_does_not_apply(store: Store, settings: Any) -> None:
    taskqueue_settings(settings, DEFAULTS={"fair": "one"})

    result = collect.enqueue(1)

    assert share_of(store, result) == f"1/batch:{collect.name}".encode()


def test_other_options_apply_to_each_call(store: Store) -> None:
    result = settle.using(priority=3, max_attempts=5).enqueue("succeed", 1)

    assert (result.task.priority, result.task.options.max_attempts) == (3, 5)


def test_key_is_part_of_the_group(store: Store) -> None:
    result = collect_by_key.enqueue("a b")

    assert share_of(store, result) == f"1/batch:{collect_by_key.name}:a b".encode()


def test_update_of_the_arguments_changes_the_group(store: Store) -> None:
    result = collect_by_key.enqueue("one")

    result.update(args=["two"])

    assert share_of(store, result) == f"1/batch:{collect_by_key.name}:two".encode()


def test_task_without_the_option_is_sent_as_before(store: Store) -> None:
    result = note.enqueue("x")

    assert sorted(store.raw.hkeys(base_key(store, "t", result.id))) == [b"b", b"e", b"n", b"q"]


def test_function_is_called_with_calls_of_the_test() -> None:
    calls = [BatchCall(("succeed", 1)), BatchCall(("fail", "x"))]

    assert settle(calls) is None
    assert [(call.value, repr(call.exception)) for call in calls] == [(1, "None"), (None, "LookupError('x')")]
    assert collect_ready.call([BatchCall((1,))]) == [1]


def test_two_tasks_of_one_name_are_refused() -> None:
    assert isinstance(collect, BatchTask)
    with pytest.raises(InvalidTask, match=f"Two functions have the name '{collect.name}'"):
        task(name=collect.name, batch=Batch(9))(serve_badly)


def test_outcome_of_a_call_is_decided_once() -> None:
    call = BatchCall(id="x")
    call.succeed(1)

    for again in (lambda: call.fail(ValueError()), lambda: call.succeed(2)):
        with pytest.raises(RuntimeError, match="The outcome of the call x is decided"):
            again()


@pytest.mark.parametrize("value", ["x", None, ValueError], ids=repr)
def test_call_fails_with_an_exception_only(value: Any) -> None:
    with pytest.raises(TypeError, match=r"fail\(.*\): expected an exception"):
        BatchCall().fail(value)


def share_of(store: Store, result: TaskResult) -> bytes | None:
    found: bytes | None = store.raw.hget(base_key(store, "t", result.id), "G")
    return found
