"""Arguments that a task's function does not accept raise at enqueue."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from django_redis_components.locks import lock
from django_redis_components.taskqueue import InvalidTask, TaskContext, chain, every, group, task
from django_redis_components.taskqueue.call_signature import CallSignature, signature_of
from tests.support import Store, run_async
from tests.taskqueue.support import work_off


def hands_on(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


def supplies_the_first(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(order_id: int) -> Any:
        return func("supplied", order_id)

    return wrapper


@task
def send_receipt(order_id: int, copies: int = 1, *, urgent: bool = False) -> list[Any]:
    return [order_id, copies, urgent]


@task(takes_context=True)
def report(context: TaskContext, order_id: int) -> int:
    return order_id


@task
async def send_later(order_id: int) -> int:
    return order_id


@task
@hands_on
def decorated(order_id: int) -> int:
    return order_id


@task
@lock("order:{order_id}")
def locked(order_id: int) -> int:
    return order_id


@task
@supplies_the_first
def supplied(source: str, order_id: int) -> list[Any]:
    return [source, order_id]


@task
def whatever(*args: Any, **kwargs: Any) -> int:
    return len(args) + len(kwargs)


SIGNATURE = "It is send_receipt(order_id: 'int', copies: 'int' = 1, *, urgent: 'bool' = False)."
NAME = f"{__name__}.send_receipt does not take these arguments: "

WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((), {}, "missing a required argument: 'order_id'."),
    (
        (),
        {"order": 7},
        (
            "got an unexpected keyword argument 'order' (did you mean 'order_id'?); "
            "missing a required argument: 'order_id'."
        ),
    ),
    ((7,), {"order_id": 7}, "multiple values for argument 'order_id'."),
    ((7, 1, True), {}, "too many positional arguments: 3, at most 2."),
    ((7,), {"color": "red"}, "got an unexpected keyword argument 'color'."),
]
wrong_calls = pytest.mark.parametrize(("args", "kwargs", "problem"), WRONG)


@wrong_calls
def test_wrong_arguments_are_refused_when_sent(
    redis_server: Store, args: tuple[Any, ...], kwargs: dict[str, Any], problem: str
) -> None:
    sendings: list[Callable[..., Any]] = [
        send_receipt.enqueue,
        lambda *args, **kwargs: run_async(functools.partial(send_receipt.aenqueue, *args, **kwargs)),
        send_receipt.using(queue_name="mail", run_after=60).enqueue,
        send_receipt.enqueue_on_commit,
        lambda *args, **kwargs: run_async(functools.partial(send_receipt.aenqueue_on_commit, *args, **kwargs)),
    ]
    for send in sendings:
        with pytest.raises(TypeError) as raised:
            send(*args, **kwargs)
        assert str(raised.value) == f"{NAME}{problem} {SIGNATURE}"

    assert redis_server.keys() == []


@pytest.mark.django_db(transaction=True)
def test_wrong_arguments_are_refused_before_the_commit(redis_server: Store) -> None:
    with transaction.atomic(), pytest.raises(TypeError, match="missing a required argument: 'order_id'"):
        send_receipt.enqueue_on_commit()  # type: ignore[call-arg]


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_wrong_call_among_many_is_named_and_none_is_sent(redis_server: Store, is_async: bool) -> None:
    calls: list[Any] = [((1,), {}), ((), {"order_id": 2}), ((), {"order": 3})]
    send = functools.partial(run_async, send_receipt.aenqueue_many) if is_async else send_receipt.enqueue_many

    with pytest.raises(TypeError, match=r"^calls\[2\]: .*got an unexpected keyword argument 'order'"):
        send(calls)

    assert redis_server.keys() == []


def test_accepted_arguments_arrive(redis_server: Store) -> None:
    sent = [
        send_receipt.enqueue(1),
        send_receipt.enqueue(order_id=2, urgent=True),
        send_receipt.enqueue(3, copies=4),
        decorated.enqueue(order_id=5),
        locked.enqueue(6),
        report.enqueue(7),
        send_later.enqueue(8),
        supplied.enqueue(9),
        whatever.enqueue(1, 2, any=3),
    ]

    work_off()

    for result in sent:
        result.refresh()
    values = [[1, 1, False], [2, 1, True], [3, 4, False], 5, 6, 7, 8, ["supplied", 9], 3]
    assert [result.return_value for result in sent] == values


@pytest.mark.parametrize("wrong", [decorated, locked, report, send_later, supplied], ids=lambda each: each.name)
def test_functions_of_every_kind_are_checked(redis_server: Store, wrong: Any) -> None:
    for args, kwargs in [((), {"order": 1}), ((1, 2), {}), ((), {})]:
        with pytest.raises(TypeError, match="does not take these arguments"):
            wrong.enqueue(*args, **kwargs)


def test_context_cannot_be_given_by_the_caller(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"multiple values for argument 'context'.*; the worker supplies 'context'\.$"):
        report.enqueue(1, context=2)


def test_error_of_a_decorated_function_says_how_a_decorator_declares_arguments(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r" A decorator that supplies arguments must set __signature__\.$"):
        decorated.enqueue()


def test_results_of_earlier_tasks_count_as_arguments_in_a_flow(redis_server: Store) -> None:
    chain(send_later.s(1), send_receipt.s(2)).enqueue()
    chain(send_later.s(1), send_receipt.si(2)).enqueue()
    group(send_later.s(1), send_later.s(2)).enqueue(callback=decorated.s())
    send_later.s(1).then(report.s()).enqueue(on_error=decorated.s())

    for flow in (
        chain(send_later.s(), send_receipt.s()),
        chain(send_later.s(1), send_receipt.si()),
        chain(send_later.s(1), send_later.s(2)),
        chain(send_later.s(1), send_later.s(order_id=2)),
    ):
        with pytest.raises(TypeError, match="does not take these arguments"):
            flow.enqueue()
    with pytest.raises(
        TypeError, match=r"too many positional arguments: 1, at most 0.*; the worker supplies 'order_id'"
    ):
        chain(send_later.s(1)).enqueue(on_error=decorated.s(1))


def test_schedule_with_wrong_arguments_is_refused_at_its_declaration() -> None:
    with pytest.raises(
        InvalidTask, match=r"^@every\(60\) on .*send_receipt: .*missing a required argument: 'order_id'"
    ):
        every(60)(send_receipt)
    with pytest.raises(InvalidTask, match="got an unexpected keyword argument 'order'"):
        every(60, kwargs={"order": 1})(send_receipt)


def test_function_without_known_parameters_is_not_checked() -> None:
    assert signature_of(type, 0) is None


def test_signature_declared_by_a_decorator_is_used() -> None:
    def func(a: int) -> None: ...

    wrapper = hands_on(func)
    wrapper.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
    declared = CallSignature(wrapper)

    declared.check("f", (), {})
    with pytest.raises(TypeError):
        declared.check("f", (1,), {})


def positional_only(a: Any, b: Any = 1, /, c: Any = 2, **rest: Any) -> None: ...
def keyword_only(*args: Any, key: Any, other: Any = 1) -> None: ...
def everything(a: Any, *args: Any, b: Any, **kwargs: Any) -> None: ...
def defaults(a: Any = 1, b: Any = 2) -> None: ...


@pytest.mark.parametrize("func", [positional_only, keyword_only, everything, defaults, hands_on(defaults)])
def test_calls_are_accepted_as_python_accepts_them(func: Callable[..., Any]) -> None:
    signature = CallSignature(func)
    names = ["a", "b", "c", "key", "other", "args"]
    for count in range(5):
        for chosen in range(2 ** len(names)):
            args = (0,) * count
            kwargs = {name: 0 for bit, name in enumerate(names) if chosen >> bit & 1}
            assert fits(signature, args, kwargs) == runs(func, args, kwargs), (args, kwargs)


def fits(signature: CallSignature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        signature.check("f", args, kwargs)
    except TypeError:
        return False
    return True


def runs(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        func(*args, **kwargs)
    except TypeError:
        return False
    return True
