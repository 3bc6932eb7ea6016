"""Limits of a task over all workers: how many run at once (`Concurrency`), and how many start in a time (`Rate`).

A limit belongs to a key: the task's name, or its group, and what `key` makes of the call's arguments. All
tasks with the same key share the limit. The scripts keep it; here it is checked and put into words for them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from django_redis_components.core import keys
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.rates import MAX_COUNT, RateLike, parse_rate

Key = str | Callable[..., Any]

#: Longest text that stands in a key as it is, in characters.
MAX_KEY = 100
#: What a fast rate may run ahead of its even pace without a burst, in microseconds: a worker's timer is no better.
SLACK_US = 5_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclasses.dataclass(frozen=True, slots=True)
class Concurrency:
    """How many tasks of a key run at once.

    Attributes:
        limit: at most so many.
        key: a template over the task's arguments (``"{customer_id}"``), or a function of them: a limit for each.
        group: what stands for the task's name in the key, so that several tasks share the limit.
    """

    limit: int
    key: Key | None = dataclasses.field(default=None, kw_only=True)
    group: str | None = dataclasses.field(default=None, kw_only=True)

    #: The option, and the field of a task's record.
    what: ClassVar[str] = "concurrency"
    field: ClassVar[str] = "C"

    def __post_init__(self) -> None:
        _check_count("concurrency", self.limit)
        _check_group(self.group)

    def numbers(self) -> str:
        """The limit as the scripts take it."""
        return str(self.limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """How many tasks of a key start in a time, evenly paced: "10/m" is one every six seconds.

    In any window of that time at most the count starts; with a burst, count + burst - 1.

    Attributes:
        rate: "10/s", "10/m", "100/h", "3/2h", "1000/d", or (count, seconds or timedelta).
        burst: so many may start at once after a pause.
        key, group: see `Concurrency`.
    """

    rate: RateLike
    burst: int = dataclasses.field(default=1, kw_only=True)
    key: Key | None = dataclasses.field(default=None, kw_only=True)
    group: str | None = dataclasses.field(default=None, kw_only=True)

    what: ClassVar[str] = "rate"
    field: ClassVar[str] = "R"

    def __post_init__(self) -> None:
        count = parse_rate(self.rate).limit
        _check_count("burst", self.burst)
        if self.burst > count:
            raise ValueError(f"burst={self.burst!r}: expected at most the count of rate={self.rate!r}.")
        _check_group(self.group)

    def numbers(self) -> str:
        """Interval and tolerance of the pace in microseconds, as the scripts take them."""
        pace = parse_rate(self.rate)
        interval_us = -(-pace.period_us // pace.limit)  # rounded up: never more than the count
        ahead = max(self.burst - 1, SLACK_US // interval_us - 1)
        return f"{interval_us}/{ahead * interval_us}"


def concurrency_of(value: Any) -> Concurrency | None:
    """What the option says.

    Raises:
        TypeError, ValueError: it is no limit.
    """
    return value if value is None or isinstance(value, Concurrency) else Concurrency(value)


def rate_of(value: Any) -> Rate | None:
    """See `concurrency_of`."""
    return value if value is None or isinstance(value, Rate) else Rate(value)


def check_keys(func: Callable[..., Any], *limits: Concurrency | Rate | None) -> None:
    """Refuse keys that the function's arguments cannot make.

    Raises:
        TypeError, ValueError: see `core.name_templates`.
    """
    for limit in limits:
        if limit is not None and limit.key is not None:
            _named(limit.key, func, limit.what)


def fields(
    name: str,
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *limits: Concurrency | Rate | None,
) -> tuple[str, ...]:
    """What the record of a task says of its limits, in pairs of field and value.

    Args:
        args, kwargs: what the task is sent with.
    """
    made: tuple[str, ...] = ()
    for limit in limits:
        if limit is not None:
            key = limit.group or name
            if limit.key is not None:
                key += f":{_of_call(limit, name, func, args, kwargs)}"
            made += (limit.field, f"{limit.numbers()}/{key}")
    return made


def _of_call(
    limit: Concurrency | Rate, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    made = _named(limit.key, func, limit.what).format(tuple(args), kwargs)
    if not isinstance(made, str | int):
        raise TypeError(f"The {limit.what} key of {name} is {made!r}: expected text or a whole number.")
    text = str(made)
    # Text of visitors is hashed where it is long, or would not stay in its line.
    return keys.digest(text) if len(text) > MAX_KEY or _CONTROL.search(text) else text


@lru_cache(maxsize=1_024)
def _named(key: Any, func: Callable[..., Any], what: str) -> NameTemplate:
    return NameTemplate(key, func, f"{what} key")


def _check_count(what: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what}={value!r}: expected a whole number from 1 to {MAX_COUNT}.")
    if not 1 <= value <= MAX_COUNT:
        raise ValueError(f"{what}={value!r}: expected a whole number from 1 to {MAX_COUNT}.")


def _check_group(group: Any) -> None:
    if group is not None:
        keys.validate_name(group, "group")
