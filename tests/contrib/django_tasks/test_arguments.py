"""Arguments are equal after the round trip, or are refused with their path."""

from __future__ import annotations

import re
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict

from django_redis_components.taskqueue.worker.execution import execute
from tests.contrib.django_tasks.framework import task_backends
from tests.contrib.django_tasks.shop.tasks import add, echo, look
from tests.support import Store, run_async
from tests.taskqueue.support import new_fetcher, settle_now, work_off

FAITHFUL = [
    12345678901234567,
    -(2**80),
    3.141592653589793,
    5e-324,
    1.7976931348623157e308,
    -0.0,
    True,
    None,
    [],
    {},
    "",
    [[], {}, [[]], {"": {}}],
    "ä€😀\u0000\u2028\x7f",
    {"größe": ["年", {"naïve": "🇨🇭"}]},
    "lone \udc80 surrogate",
    "x" * 500_000,
]
#: Changed by the framework itself before it is sent, as by every backend: given, and what arrives.
NORMALISED = [((1, (2,)), [1, [2]]), (b"bytes", "bytes"), (OrderedDict(a=1), {"a": 1}), (range(3), [0, 1, 2])]

REFUSED = [
    (datetime(2030, 1, 1, tzinfo=UTC), "Unsupported type: <class 'datetime.datetime'>"),
    (Decimal("0.1"), "Unsupported type: <class 'decimal.Decimal'>"),
    (UUID(int=1), "Unsupported type: <class 'uuid.UUID'>"),
    ({1, 2}, "Unsupported type: <class 'set'>"),
    (object, "Unsupported type: <class 'type'>"),
]


@pytest.fixture(autouse=True)
def _backends(configure: Any) -> None:
    configure()


@pytest.mark.parametrize("value", FAITHFUL, ids=lambda value: repr(value)[:20])
def test_argument_is_equal_after_the_round_trip(redis_server: Store, value: Any) -> None:
    result = echo.enqueue(value, named=value)
    work_off()

    read = echo.get_result(result.id)
    args, kwargs = read.return_value

    assert [args[0], kwargs["named"], read.args[0], read.kwargs["named"]] == [value] * 4
    assert repr(args[0]) == repr(value)


@pytest.mark.parametrize("value", FAITHFUL, ids=lambda value: repr(value)[:20])
def test_argument_of_aenqueue_is_equal_after_the_round_trip(redis_server: Store, value: Any) -> None:
    result = run_async(lambda: echo.aenqueue(value, named=value))
    work_off()

    read = run_async(lambda: echo.aget_result(result.id))

    assert repr(read.return_value) == repr([[value], {"named": value}])


@pytest.mark.parametrize(("given", "arrives"), NORMALISED, ids=str)
def test_arguments_are_normalized_as_the_framework_does(redis_server: Store, given: Any, arrives: Any) -> None:
    result = echo.enqueue(given)
    work_off()

    assert result.args == [arrives]
    assert echo.get_result(result.id).return_value == [[arrives], {}]


@pytest.mark.parametrize(("value", "text"), REFUSED, ids=lambda value: str(value)[:20])
def test_error_names_the_place_of_a_value_that_json_cannot_represent(
    redis_server: Store, value: Any, text: str
) -> None:
    with pytest.raises(TypeError) as raised:
        echo.enqueue(b"fine", {"when": [0, value]})
    assert str(raised.value) == f"{text} at args[1]['when'][1]. Send an id or a string instead."

    with pytest.raises(TypeError, match=f"^{re.escape(text)} at kwargs\\['when'\\]\\. Send"):
        run_async(lambda: echo.aenqueue(1, when=value))

    assert work_off() == []


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (float("nan"), ValueError, "args[0]['x'] is nan: JSON has no NaN and no infinities."),
        (float("-inf"), ValueError, "args[0]['x'] is -inf: JSON has no NaN and no infinities."),
        ({1: 2}, TypeError, "args[0]['x'] has the key 1: JSON objects have strings as keys."),
        (b"\xff", ValueError, "Unsupported value: <class 'bytes'>"),
        (
            [QueryDict("size=1&size=2")],
            TypeError,
            (
                "args[0]['x'][0] is a QueryDict, of which only the last value of each name would be sent."
                " Pass value.dict() for that, or dict(value.lists()) for all values."
            ),
        ),
    ],
    ids=str,
)
def test_value_that_json_would_change_is_refused(
    redis_server: Store, value: Any, error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        echo.enqueue({"x": value})

    assert str(raised.value) == text


def test_direct_call_of_the_backend_rejects_the_same_values(redis_server: Store) -> None:
    result = task_backends["default"].enqueue(add, (1,), {"b": 2})
    fetcher = new_fetcher()
    (job,) = fetcher.fetch("0", 1)

    settle_now(fetcher, execute(job))

    assert add.get_result(result.id).return_value == 3


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_arguments_that_the_function_does_not_take_are_refused(redis_server: Store, is_async: bool) -> None:
    for args, kwargs, text in [
        ((1,), {}, "missing a required argument: 'b'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"bee": 2}, "got an unexpected keyword argument 'bee'"),
    ]:
        with pytest.raises(TypeError, match=text):
            run_async(partial(add.aenqueue, *args, **kwargs)) if is_async else add.enqueue(*args, **kwargs)

    assert redis_server.keys() == []


def test_context_is_not_an_argument_of_the_caller(redis_server: Store) -> None:
    look.enqueue()
    look.enqueue(1)

    with pytest.raises(TypeError, match="too many positional arguments: 2, at most 1"):
        look.enqueue(1, 2)
    with pytest.raises(TypeError, match="multiple values for argument 'context'"):
        look.enqueue(1, context=2)
