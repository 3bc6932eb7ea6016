"""Which limits are accepted, how they are stored, and the errors for the others."""

from __future__ import annotations

import dataclasses
import re
from datetime import timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import Concurrency, InvalidTask, Rate, Unique, task
from tests.support import Store
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import add, note


@dataclasses.dataclass
class Joined:
    """A key function that cannot be hashed."""

    separator: str

    def __call__(self, a: int, b: int) -> str:
        return f"{a}{self.separator}{b}"


COUNTS = "expected an integer from 1 to 1000000."
RATES = "expected a count and a unit, as '10/s', '10/m', '100/h', '3/2h' or '1000/d', or (count, seconds)."

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rate": "10/x"}, f"rate='10/x': {RATES}"),
    ({"rate": "fast"}, f"rate='fast': {RATES}"),
    ({"rate": "10/0s"}, f"rate='10/0s': {RATES}"),
    ({"rate": 10}, f"rate=10: {RATES}"),
    ({"rate": (10,)}, f"rate=(10,): {RATES}"),
    ({"rate": (10, "m")}, f"rate=(10, 'm'): {RATES}"),
    ({"rate": "0/s"}, f"the count of rate=0: {COUNTS}"),
    ({"rate": (1.5, 60)}, f"the count of rate=1.5: {COUNTS}"),
    ({"rate": (10, 0)}, "rate[1]=0: expected a number of seconds above 0, or a timedelta."),
    ({"rate": (10, True)}, "rate[1]=True: expected a number of seconds above 0, or a timedelta."),
    ({"concurrency": 0}, f"concurrency=0: {COUNTS}"),
    ({"concurrency": True}, f"concurrency=True: {COUNTS}"),
    ({"concurrency": "3"}, f"concurrency='3': {COUNTS}"),
    (
        {"concurrency": Concurrency(3, key="{order}")},
        "concurrency key '{order}' of add(): the function takes no argument 'order'; it has a, b.",
    ),
    ({"rate": Rate("1/s", key="{}")}, "rate key '{}' of add(): name the argument, as in {a}."),
    ({"rate": Rate("1/s", key=7)}, "rate key 7: expected a string, a template or a callable."),  # type: ignore[arg-type]
]
UNMADE: list[tuple[Any, str]] = [
    (lambda: Rate("10/x"), f"rate='10/x': {RATES}"),
    (lambda: Rate("10/m", burst=0), f"burst=0: {COUNTS}"),
    (lambda: Rate("10/m", burst=11), "burst=11: expected at most the count of rate='10/m'."),
    (lambda: Concurrency(-1), f"concurrency=-1: {COUNTS}"),
    (lambda: Concurrency(1, group=""), "group is empty: expected 1 to 200 bytes of text."),
    (lambda: Rate("1/s", group="a\tb"), r"group 'a\tb': control character '\t' is not accepted."),
]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=lambda value: str(value)[:40])
def test_invalid_limit_raises_in_using_and_in_the_decorator(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask, match=f"^{re.escape(text)}$"):
        add.using(**options)
    with pytest.raises(InvalidTask, match=f"^{re.escape(text)}$"):
        task(**options)(add.func)


@pytest.mark.parametrize(("make", "text"), UNMADE, ids=[text[:40] for _, text in UNMADE])
def test_invalid_limit_object_raises(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        make()


@pytest.mark.parametrize(
    ("rate", "numbers"),
    [
        ("10/s", "100000/0"),
        ("10/m", "6000000/0"),
        (" 100 / h", "36000000/0"),
        ("7/minute", "8571429/0"),
        ("1/d", "86400000000/0"),
        ((10, 60), "6000000/0"),
        ((3, timedelta(seconds=1)), "333334/0"),
        (Rate("10/s", burst=4), "100000/300000"),
        ("1000/s", "1000/4000"),
        ("1000000/s", "1/4999"),
    ],
)
def test_rate_is_stored_as_interval_and_tolerance_in_microseconds(redis_server: Store, rate: Any, numbers: str) -> None:
    result = add.using(rate=rate).enqueue(1, 2)

    assert redis_server.raw.hget(base_key(redis_server, "t", result.id), "R") == f"{numbers}/{add.name}".encode()


def test_using_replaces_the_limits_of_the_task(redis_server: Store) -> None:
    limited = add.using(concurrency=3, rate="10/m")

    assert (limited.options.concurrency, limited.options.rate) == (Concurrency(3), Rate("10/m"))
    assert limited.using(priority=1).options.rate == Rate("10/m")
    result = limited.using(concurrency=None, rate=None).enqueue(1, 2)
    assert not {b"C", b"R"} & set(redis_server.raw.hkeys(base_key(redis_server, "t", result.id)))


def test_unique_key_is_made_by_a_function_that_cannot_be_hashed(redis_server: Store) -> None:
    joined = add.using(unique=Unique(key=Joined("+")))

    one, same, other = joined.enqueue(1, 2), joined.enqueue(1, b=2), joined.enqueue(1, 3)

    assert (same.id == one.id, other.id == one.id) == (True, False)


@pytest.mark.parametrize("limits", [{"concurrency": Concurrency(3, key="{what}")}, {"rate": Rate("1/s", key="{what}")}])
def test_key_may_have_a_lone_surrogate(redis_server: Store, limits: dict[str, Any]) -> None:
    one, same, other = (note.using(**limits).enqueue(what) for what in ("a\ud800", "a\ud800", "a\udfff"))

    field = b"C" if "concurrency" in limits else b"R"
    keys = [redis_server.raw.hget(base_key(redis_server, "t", result.id), field) for result in (one, same, other)]
    assert (keys[0] == keys[1], keys[0] == keys[2]) == (True, False)
    assert {job.id for job in work_off()} >= {one.id}


@pytest.mark.parametrize(
    ("key", "made"),
    [
        ("{a}", "1"),
        ("of {a} and {b}", "of 1 and 2"),
        (lambda a, b: a + b, "3"),
        (Joined("+"), "1+2"),
        (lambda *numbers, **named: f"{numbers}{named}", "(1,){'b': 2}"),
        ("the same", "the same"),
    ],
)
def test_key_is_built_from_the_arguments(redis_server: Store, key: Any, made: str) -> None:
    result = add.using(concurrency=Concurrency(3, key=key)).enqueue(1, b=2)

    field = redis_server.raw.hget(base_key(redis_server, "t", result.id), "C")
    assert field.decode() == f"3/{add.name}:{made}"


def test_key_that_is_not_text_raises_before_sending(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^The rate key of .*\.note is None: expected text or an integer\.$"):
        note.using(rate=Rate("1/s", key=lambda what: None)).enqueue("x")

    assert redis_server.keys() == []


def test_call_with_wrong_arguments_raises_before_sending(redis_server: Store) -> None:
    with pytest.raises(TypeError, match="missing a required argument: 'what'"):
        note.using(rate=Rate("1/s", key="{what}")).enqueue()

    assert redis_server.keys() == []


def test_groups_and_keys_with_colons_are_different_limits(redis_server: Store) -> None:
    limits = [
        Concurrency(1, group="a", key="b:c:{what}"),
        Concurrency(1, group="a:b", key="c:{what}"),
        Concurrency(1, group="a:b:c", key="{what}"),
        Concurrency(1, group="a:b:c:x"),
        Concurrency(1, group="a%3Ab", key="c:{what}"),
    ]
    for limit in limits:
        note.using(concurrency=limit).enqueue("x")

    assert len(redis_server.raw.keys(f"{base_key(redis_server)}:limit:*")) == len(limits)
