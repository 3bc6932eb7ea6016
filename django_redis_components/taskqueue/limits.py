"""Limits of a task on all workers: how many run at once (`Concurrency`), and how many start in a period (`Rate`).

A limit belongs to a key: the task's name or group, and the result of `key` for the call's arguments. All tasks with
the same key share the limit. The scripts enforce it; this module validates it and builds their arguments.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_int, is_text, plain_text, short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.core.rates import MAX_COUNT, RateLike, parse_rate
from django_redis_components.taskqueue.exceptions import InvalidTask
from django_redis_components.taskqueue.fields import Field

Key = str | Callable[..., Any]

#: Longest text in a key, in characters; longer text is hashed.
MAX_KEY = 100
#: How far a fast rate without a burst may run ahead of its even pace, in microseconds: the resolution of a worker's
#: timer.
SLACK_US = 5_000
#: Control characters, and lone surrogates, which cannot be sent.
UNSENDABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclasses.dataclass(frozen=True, slots=True)
class Concurrency:
    """Limit how many tasks with the same key run at once.

    Attributes:
        limit: the maximum number of running tasks.
        key: a template over the task's arguments (``"{customer_id}"``), or a function of them: one limit per value.
        group: replaces the task's name in the key, so that several tasks share the limit.
    """

    limit: int
    key: Key | None = dataclasses.field(default=None, kw_only=True)
    group: str | None = dataclasses.field(default=None, kw_only=True)

    #: Name of the option, and field of the task's record.
    _what: ClassVar[str] = "concurrency"
    _field: ClassVar[str] = Field.concurrency

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", check_int(self.limit, "concurrency", 1, MAX_COUNT))
        object.__setattr__(self, "group", _group(self.group))

    def _numbers(self) -> str:
        """The limit as a script argument."""
        return str(self.limit)


@dataclasses.dataclass(frozen=True, slots=True)
class Rate:
    """Limit how many tasks with the same key start in a period, evenly paced: "10/m" is one every six seconds.

    At most `count` tasks start in any such period; with a burst, count + burst - 1.

    Attributes:
        rate: "10/s", "10/m", "100/h", "3/2h", "1000/d", or (count, seconds or timedelta).
        burst: how many tasks may start at once after a pause.
        key, group: see `Concurrency`.
    """

    rate: RateLike
    burst: int = dataclasses.field(default=1, kw_only=True)
    key: Key | None = dataclasses.field(default=None, kw_only=True)
    group: str | None = dataclasses.field(default=None, kw_only=True)

    _what: ClassVar[str] = "rate"
    _field: ClassVar[str] = Field.rate

    def __post_init__(self) -> None:
        count = parse_rate(self.rate).limit
        object.__setattr__(self, "burst", check_int(self.burst, "burst", 1, MAX_COUNT))
        if self.burst > count:
            raise ValueError(f"burst={self.burst!r}: expected at most the count of rate={self.rate!r}.")
        object.__setattr__(self, "group", _group(self.group))

    def _numbers(self) -> str:
        """Interval and tolerance of the pace in microseconds, as a script argument."""
        pace = parse_rate(self.rate)
        interval_us = -(-pace.period_us // pace.limit)  # rounded up: never more than the count
        ahead = max(self.burst - 1, SLACK_US // interval_us - 1)
        return f"{interval_us}/{ahead * interval_us}"


def concurrency_of(value: Any) -> Concurrency | None:
    """Return the option `concurrency` as a `Concurrency`.

    Raises:
        TypeError, ValueError: it is not a limit.
    """
    return value if value is None or isinstance(value, Concurrency) else Concurrency(value)


def rate_of(value: Any) -> Rate | None:
    """See `concurrency_of`."""
    return value if value is None or isinstance(value, Rate) else Rate(value)


def check_keys(func: Callable[..., Any], *limits: Concurrency | Rate | None) -> None:
    """Validate the keys against the function's parameters.

    Raises:
        TypeError, ValueError: see `core.name_templates`.
    """
    for limit in limits:
        if limit is not None and limit.key is not None:
            template_of(limit.key, func, f"{limit._what} key")


def fields(
    name: str,
    func: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *limits: Concurrency | Rate | None,
) -> tuple[str, ...]:
    """Return the limits as pairs of field and value for the task's record.

    Args:
        args, kwargs: the arguments of the call.
    """
    made: tuple[str, ...] = ()
    for limit in limits:
        if limit is not None:
            key = escaped(limit.group or name)
            if limit.key is not None:
                key += f":{key_of_call(limit.key, f'{limit._what} key', name, func, args, kwargs)}"
            made += (limit._field, f"{limit._numbers()}/{key}")
    return made


def escaped(name: str) -> str:
    """Return a name without colons: group "a" with the key "b:c" is another limit than group "a:b" with the key "c"."""
    return name.replace("%", "%25").replace(":", "%3A") if ":" in name or "%" in name else name


def key_of_call(
    key: Key, what: str, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Return the text that a key has for a call, without control characters and not longer than `MAX_KEY`.

    Args:
        what: the key is for, in errors ("rate key").
        name: of the task, for errors.
    """
    made: Any = template_of(key, func, what).format(tuple(args), kwargs)
    if isinstance(made, UnknownResult):
        str(made)  # raises
    if not isinstance(made, str | int):
        raise TypeError(f"The {what} of {name} is {short_repr(made)}: expected text or an integer.")
    text = plain_text(made) if is_text(made) else str(made)
    return keys.digest(text) if len(text) > MAX_KEY or UNSENDABLE.search(text) else text


class UnknownResult:
    """Stands for the result of an earlier task among the arguments that keys are made of.

    The key of a limit or a group is made when a flow is sent. A key that uses the result must not be made of another
    argument, so its text, attributes, comparisons and numbers raise. `is` and `isinstance` cannot.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def _raise(self, *_: object) -> Any:
        raise InvalidTask(
            f"{self._name} gets the result of an earlier task as its first argument. Its keys (of concurrency, rate,"
            " fair or batch) are made when the flow is sent, before there is a result: use other arguments."
        )

    __str__ = __repr__ = __format__ = __bool__ = __hash__ = __eq__ = __ne__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __len__ = __iter__ = __contains__ = __getitem__ = __getattr__ = _raise
    __int__ = __float__ = __index__ = __add__ = __radd__ = __mod__ = __and__ = __floordiv__ = _raise


def arguments_of_keys(name: str, args: Sequence[Any], gets_result: bool) -> Sequence[Any]:
    """Return the positional arguments that keys are made of.

    Args:
        name: of the task, for errors.
        args: those that the caller gives.
        gets_result: whether the worker inserts the result of an earlier task before them.
    """
    return [UnknownResult(name), *args] if gets_result else args


def _group(group: Any) -> str | None:
    return None if group is None else keys.validate_name(group, "group")
