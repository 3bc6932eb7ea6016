"""Validation of public arguments: a wrong type is a TypeError, a wrong value a ValueError, and the text names both."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy

from django_redis_components.core.arguments import (
    check_callable,
    check_choice,
    check_flag,
    check_int,
    check_iterable,
    check_number,
    check_sequence,
    check_string,
    check_text,
    id_text,
    short_repr,
)
from django_redis_components.core.client import connections
from django_redis_components.core.names import validate_name
from django_redis_components.core.rates import parse_rate
from django_redis_components.core.units import to_seconds
from django_redis_components.semaphores import Semaphore


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: validate_name(SimpleLazyObject(lambda: "a")),
            TypeError,
            "name <SimpleLazyObject: 'a'>: expected a string, got SimpleLazyObject.",
        ),
        (
            lambda: check_string(SimpleLazyObject(lambda: "a"), "note"),
            TypeError,
            "note=<SimpleLazyObject: 'a'>: expected a string.",
        ),
        (lambda: check_int(0, "limit", 1, 9), ValueError, "limit=0: expected an integer from 1 to 9."),
        (lambda: check_int(10, "limit", 1, 9), ValueError, "limit=10: expected an integer from 1 to 9."),
        (lambda: check_int("1", "limit", 1, 9), TypeError, "limit='1': expected an integer from 1 to 9."),
        (lambda: check_int(True, "limit", 1, 9), TypeError, "limit=True: expected an integer from 1 to 9."),
        (lambda: check_int(1.0, "limit"), TypeError, "limit=1.0: expected an integer."),
        (lambda: check_int(-1, "limit", 0), ValueError, "limit=-1: expected an integer of at least 0."),
        (lambda: check_int(2, "limit", high=1), ValueError, "limit=2: expected an integer of at most 1."),
        (lambda: check_int(2, "n", 0, 1, hint=" (bit)"), ValueError, "n=2: expected an integer from 0 to 1 (bit)."),
        (lambda: check_number("1", "share", 0, 1), TypeError, "share='1': expected a number from 0 to 1."),
        (lambda: check_number(False, "share", 0, 1), TypeError, "share=False: expected a number from 0 to 1."),
        (lambda: check_number(1.5, "share", 0, 1), ValueError, "share=1.5: expected a number from 0 to 1."),
        (lambda: check_number(0, "km", above=0, high=9), ValueError, "km=0: expected a number above 0, at most 9."),
        (lambda: check_number(0, "km", above=0), ValueError, "km=0: expected a number above 0."),
        (lambda: check_number(1, "spread", 0, below=1), ValueError, "spread=1: expected a number from 0 to below 1."),
        (lambda: check_number("a", "value", hint=", or b"), TypeError, "value='a': expected a number, or b."),
        (lambda: check_number(float("nan"), "score"), ValueError, "score=nan: expected a finite number."),
        (lambda: check_number(float("inf"), "km", 0), ValueError, "km=inf: expected a number of at least 0."),
        (lambda: check_text(1, "item", max_bytes=3), TypeError, "item=1: expected a string of 1 to 3 bytes of text."),
        (lambda: check_text("", "item", max_bytes=3), ValueError, "item='': expected 1 to 3 bytes of text, got 0."),
        (lambda: check_text("éé", "item", max_bytes=3), ValueError, "item='éé': expected 1 to 3 bytes of text, got 4."),
        (
            lambda: check_text("\ud800", "item", max_bytes=3),
            ValueError,
            "item='\\ud800': expected text that UTF-8 can encode.",
        ),
        (lambda: check_string(7, "query"), TypeError, "query=7: expected a string."),
        (lambda: id_text(True, "member"), TypeError, "member=True: expected a string, an integer or a UUID."),
        (lambda: check_choice("c", "unit", ("a", "b")), ValueError, "unit='c': expected one of 'a', 'b'."),
        (lambda: check_choice(["a"], "unit", ("a", "b")), TypeError, "unit=['a']: expected one of 'a', 'b'."),
        (lambda: check_flag(1, "exact"), TypeError, "exact=1: expected True or False."),
        (lambda: check_callable(3, "key"), TypeError, "key=3: expected a function."),
        (lambda: check_sequence("ab", "names"), TypeError, "names='ab': expected a list of names."),
        (lambda: check_iterable("ab", "items"), TypeError, "items='ab': expected an iterable of items."),
        (lambda: check_iterable(3, "users", "user ids"), TypeError, "users=3: expected an iterable of user ids."),
    ],
)
def test_argument_is_refused(call: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=f"^{re.escape(text)}$"):
        call()


def test_accepted_argument_is_returned() -> None:
    assert check_int(9, "limit", 1, 9) == 9
    assert check_number(1, "share", 0, 1) == 1.0
    assert check_text("abc", "item", max_bytes=3) == "abc"
    assert check_string("", "query") == ""
    assert (id_text(7, "id"), id_text(UUID(int=7), "id")[-2:]) == ("7", "07")
    assert check_choice("a", "unit", ("a", "b")) == "a"
    assert check_flag(False, "exact") is False
    assert check_callable(print, "key") is print
    assert check_sequence((1, 2), "names") == (1, 2)
    assert check_iterable({1}, "items") == {1}


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Unclassed(Unprintable):
    """Neither `repr` nor `isinstance` can be used with it."""

    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")


class Big(int):
    """A subclass whose methods raise."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def bit_length(self) -> int:
        raise RuntimeError("no bits")


def test_values_are_cut_in_errors_and_may_have_no_repr() -> None:
    assert short_repr("x" * 1_000) == f"'{'x' * 99}…"
    assert short_repr(10**5_000) == "an integer of 16610 bits"
    assert short_repr(Unprintable()) == "<Unprintable>"
    assert short_repr(Unclassed()) == "<Unclassed>"
    assert short_repr(Big(8)) == "an integer of 4 bits"


def test_moments_and_days_are_readable_in_errors() -> None:
    assert short_repr(datetime(2030, 1, 2, 3, 4, tzinfo=UTC)) == "2030-01-02 03:04:00+00:00"
    assert short_repr(datetime(2030, 1, 2, 3, 4, 5, 6)) == "2030-01-02 03:04:05.000006"  # noqa: DTZ001
    assert short_repr(date(2030, 1, 2)) == "2030-01-02"
    assert short_repr("2030-01-02") == "'2030-01-02'"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: validate_name(Unprintable(), "lock name"), "lock name <Unprintable>: expected a string"),
        (lambda: to_seconds(Unprintable(), "timeout"), "timeout=<Unprintable>: expected a number of seconds"),  # type: ignore[arg-type]
        (lambda: to_seconds(SimpleLazyObject(lambda: 1), "t"), "t=<SimpleLazyObject: 1>: expected a number of"),  # type: ignore[arg-type]
        (lambda: check_int(SimpleLazyObject(lambda: 1), "n"), "n=<SimpleLazyObject: 1>: expected an integer."),
        (lambda: check_number(SimpleLazyObject(lambda: 1), "n"), "n=<SimpleLazyObject: 1>: expected a number."),
        (lambda: check_string(gettext_lazy("red"), "text"), "text=lazy 'red': expected a string."),
        (lambda: Semaphore("s", 5).acquire(1.0), "permits=1.0: expected an integer from 1 to 5."),  # type: ignore[arg-type]
        (lambda: to_seconds(10**5_000, "timeout"), "timeout=an integer of 16610 bits: expected a number of seconds"),
        (lambda: to_seconds(Big(-1), "timeout"), "timeout=an integer of 1 bits: expected a number of seconds"),
        (lambda: to_seconds(Big(10**10), "timeout"), "timeout=an integer of 34 bits: expected at most ten years"),
        (lambda: parse_rate(Unprintable()), "rate=<Unprintable>: expected a count and a unit"),
        (lambda: connections.endpoint(Unprintable()), "using=<Unprintable>: expected the name"),  # type: ignore[arg-type]
    ],
)
def test_errors_of_names_durations_and_rates_need_no_repr_of_the_value(call: Callable[[], object], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(text)}"):
        call()


def test_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^km=an integer of 16610 bits: expected a finite number\.$"):
        check_number(10**5_000, "km")
