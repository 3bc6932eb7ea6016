"""Arguments are JSON: accepted values are equal after the round trip, the others raise with their path."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.http import QueryDict
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy

from django_redis_components.analytics.dates import local_date
from django_redis_components.locks import Lock
from django_redis_components.messaging import Chat
from django_redis_components.ratelimits import RateLimit
from django_redis_components.search import SearchIndex
from django_redis_components.taskqueue import (
    InvalidTask,
    Rate,
    Schedules,
    TaskFailed,
    Unique,
    chain,
    cron,
    every,
    get_queue,
    task,
)
from django_redis_components.taskqueue.options import TaskOptions
from tests.support import Store, run_async
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add, echo, return_what_is_not_json

pytestmark = pytest.mark.integration

CARRIED = {
    "an integer beyond a double": 12345678901234567,
    "all digits of pi": 3.141592653589793,
    "the smallest float": 5e-324,
    "a float that is whole": 2.0,
    "an empty list": [],
    "an empty dict": {},
    "empty things in each other": [[], {}, [{}], {"a": [], "b": {}}],
    "constants": [None, True, False, 0, -1, ""],
    "nested unicode": {"卖家": ["张三", {"naïve": "Ελλάδα 🦑"}]},
    "a lone surrogate": ["before\ud800after", {"\udfff": "\ud83d"}],
    "control characters": "a\x00b\nc\u2028d",
    "what looks like Lua": "'); return redis.call('FLUSHALL') --",
    "half a megabyte": "é" * 250_000,
    "a deep nest": [[[[[[[[[["bottom"]]]]]]]]]],
}


TOO_LONG = r"an integer of 16610 bits, has too many digits: send it as a string\.$"


@pytest.mark.parametrize(
    ("call", "path"),
    [
        (lambda: echo.enqueue(1, [{"a": 10**5_000}]), r"args\[1\]\[0\]\['a'\]"),
        (lambda: echo.enqueue(1, b=10**5_000), r"kwargs\['b'\]"),
        (lambda: echo.using(metadata={"a": 10**5_000}), r"metadata\['a'\]"),
        (lambda: Schedules().add("s", echo, every=60, args=[10**5_000]), r"Schedule 's': args\[0\]"),
        (lambda: Chat("c").send("me", [10**5_000]), r"body\[0\]"),
    ],
    ids=["args", "kwargs", "metadata", "a schedule", "a message"],
)
def test_integer_that_python_does_not_convert_raises_with_its_path(
    redis_server: Store, call: Callable[[], Any], path: str
) -> None:
    with pytest.raises((ValueError, InvalidTask), match=f"^{path}, {TOO_LONG}"):
        call()


class Unspeakable:
    """Its `repr` raises."""

    def __repr__(self) -> str:
        raise LookupError("no repr")


@pytest.mark.parametrize(
    "call",
    [
        *[lambda value, name=name: echo.using(**{name: value}) for name in TaskOptions.__dataclass_fields__],
        echo.enqueue,
        lambda value: echo.enqueue({value: 1}),
        lambda value: echo.enqueue_many([value]),
        lambda value: Unique(until=value),
        lambda value: Unique(key=value),
        lambda value: echo.using(rate=Rate("1/s", key=lambda: value)).enqueue(),
        lambda value: echo.using(unique=Unique(key=lambda: value)).enqueue(),
        every,
        cron,
        lambda value: cron("* * * * *", tz=value),
        lambda value: every(60)(value),
        lambda value: every(60, kwargs=value)(echo),
        lambda value: Schedules().add("s", value, every=60),
        lambda value: chain(value),
        lambda value: chain(echo.s()).enqueue(on_error=value),
        lambda value: task(value),
        lambda value: get_queue("default").restore(value),
        lambda value: get_queue("default").pause(until=value),
        lambda value: Lock("a", max_lease=value, renew=True),
        lambda value: Lock("a", blocking=False, blocking_timeout=value),
        lambda value: RateLimit("a", value),
        lambda value: RateLimit("a", "1/s", penalty=value),
        lambda value: RateLimit("a", "1/s").block("x", value),
        local_date,
        lambda value: SearchIndex("a", language=value),
    ],
)
def test_wrong_value_without_a_repr_raises_the_error_about_it(redis_server: Store, call: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError, InvalidTask), match=r"Unspeakable"):
        call(Unspeakable())


@pytest.mark.parametrize("value", CARRIED.values(), ids=CARRIED)
def test_value_is_equal_after_the_round_trip(redis_server: Store, value: Any) -> None:
    result = echo.enqueue(value, named=value)

    work_off()

    result.refresh()
    assert (result.args, result.kwargs) == ([value], {"named": value})
    assert result.return_value == [[value], {"named": value}]
    assert repr(result.return_value) == repr([[value], {"named": value}]), "2.0 and 2 are equal, but not the same"


def test_arguments_are_equal_after_the_round_trip_on_every_store(store: Store) -> None:
    everything = [value for name, value in CARRIED.items() if name != "half a megabyte"]
    result = echo.enqueue(*everything)

    work_off()

    result.refresh()
    assert result.return_value == [everything, {}]


def test_tuples_become_lists(redis_server: Store) -> None:
    result = echo.enqueue((1, (2, 3)), pair=("a", ()))

    work_off()

    assert (result.args, result.kwargs) == ([[1, [2, 3]]], {"pair": ["a", []]})
    result.refresh()
    assert result.return_value == [[[1, [2, 3]]], {"pair": ["a", []]}]


class Color(enum.IntEnum):
    RED = 1


def test_subclass_of_int_becomes_an_int(redis_server: Store) -> None:
    result = echo.enqueue(Color.RED)

    work_off()

    result.refresh()
    assert repr(result.return_value) == "[[1], {}]"


class Address(NamedTuple):
    """Arguments as other queues take them."""

    name: str
    domain: str


HINT = ": expected JSON (str, int, float, bool, None, and lists and dicts of these). Send an id or a string instead."
LAZY, PROXY = "<locals>.__proxy__", "django.utils.functional.SimpleLazyObject"
FORM = " the last value of each name would be sent. Pass value.dict() for that, or dict(value.lists()) for all values."
REFUSED = {
    "datetime": (([datetime(2026, 1, 1, tzinfo=UTC)],), TypeError, "args[0][0] is a datetime.datetime" + HINT),
    "Decimal": ((1, {"price": Decimal("1.5")}), TypeError, "args[1]['price'] is a decimal.Decimal" + HINT),
    "UUID": (([UUID(int=1)],), TypeError, "args[0][0] is a uuid.UUID" + HINT),
    "date": (({"on": date(2026, 1, 1)},), TypeError, "args[0]['on'] is a datetime.date" + HINT),
    "text for a reader": ((gettext_lazy("no"),), TypeError, "args[0] is a django.utils.functional.lazy." + LAZY + HINT),
    "lazy text": (({"token": SimpleLazyObject(lambda: "x")},), TypeError, "args[0]['token'] is a " + PROXY + HINT),
    "a lazy number": ((SimpleLazyObject(lambda: 1.5),), TypeError, "args[0] is a " + PROXY + HINT),
    "a form": (
        ({"form": QueryDict("size=1&size=2")},),
        TypeError,
        "args[0]['form'] is a QueryDict, of which only" + FORM,
    ),
    "a named tuple": (
        ({"to": Address("a", "b")},),
        TypeError,
        (
            f"args[0]['to'] is a {__name__}.Address, a named tuple: it would arrive as a list. Send value._asdict() or"
            " list(value)."
        ),
    ),
    "set": (({"a": [{1}]},), TypeError, "args[0]['a'][0] is a builtins.set" + HINT),
    "bytes": ((b"raw",), TypeError, "args[0] is a builtins.bytes" + HINT),
    "NaN": (([math.nan],), ValueError, "args[0][0] is nan: JSON has no NaN and no infinities."),
    "infinity": ((-math.inf,), ValueError, "args[0] is -inf: JSON has no NaN and no infinities."),
    "a number as key": (({"a": {1: 2}},), TypeError, "args[0]['a'] has the key 1: JSON objects have strings as keys."),
}


@pytest.mark.parametrize(("args", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_non_json_value_raises_with_its_path(redis_server: Store, args: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as raised:
        echo.enqueue(*args)

    assert str(raised.value) == text
    assert redis_server.keys() == []


def test_form_data_is_accepted_as_a_dict(redis_server: Store) -> None:
    form = QueryDict("size=1&size=2")
    result = echo.enqueue(form.dict(), dict(form.lists()))

    work_off()

    result.refresh()
    assert result.return_value == [[{"size": "2"}, {"size": ["1", "2"]}], {}]


def test_error_for_a_keyword_argument_has_its_name(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^kwargs\['when'\] is a datetime\.datetime"):
        echo.enqueue(when=datetime(2026, 1, 1, tzinfo=UTC))


def test_aenqueue_refuses_non_json_values(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^args\[0\] is a builtins\.set"):
        run_async(echo.aenqueue, {1})


def test_circular_value_is_refused(redis_server: Store) -> None:
    circle: list[Any] = []
    circle.append(circle)

    with pytest.raises(ValueError, match=r"^args\[0\]\[0\].*… is nested deeper than 100 levels\.$"):
        echo.enqueue(circle)


def test_a_body_that_is_too_large_is_refused(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "TASKQUEUE": {"MAX_BODY_BYTES": 2_000}}

    with pytest.raises(InvalidTask) as raised:
        echo.enqueue("x" * 2_000)

    assert str(raised.value) == (
        "The arguments of tests.taskqueue.tasks.echo are 2,009 bytes of JSON: at most 2,000 are accepted"
        ' (TASKQUEUE["MAX_BODY_BYTES"]). Store the data and send its id.'
    )
    assert echo.enqueue("x" * 1_900).id


def test_a_return_value_that_is_not_json_fails_the_task(redis_server: Store) -> None:
    result = return_what_is_not_json.enqueue()

    work_off()

    result.refresh()
    assert result.state == "failed"
    assert result.errors[0].exception_class_path == "builtins.TypeError"
    assert result.errors[0].message == (
        "the return value['found'][1] is a builtins.object" + HINT.replace("Send an id", "Return an id")
    )
    with pytest.raises(TaskFailed, match=r"Last error: builtins\.TypeError: the return value\['found'\]\[1\]"):
        _ = result.return_value


def test_later_changes_of_an_argument_are_not_sent(redis_server: Store) -> None:
    basket = ["apple"]
    result = echo.enqueue(basket)

    basket.append("pear")

    assert result.args == [["apple"]]


def test_task_is_callable_as_its_function() -> None:
    assert add(2, 3) == 5
