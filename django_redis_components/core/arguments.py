"""Validation of public arguments, by one rule.

TypeError means a wrong type, ValueError a wrong value. The text names the parameter, the value and what is accepted:
``limit=0: expected an integer from 1 to 1000.`` Names are validated by `names.validate_name`, durations by
`units.to_seconds`, rates by `rates.parse_rate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, TypeGuard, TypeVar
from uuid import UUID

from django.utils.functional import Promise

from django_redis_components.core.exception_text import class_name

#: Most characters of a value in an error.
MAX_SHOWN = 100

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is a string. `isinstance` takes a lazy object for what it stands for; few functions do."""
    return type(value) is str or (isinstance(value, str) and issubclass(type(value), str))


def is_int(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer, and not a bool. See `is_text`."""
    return type(value) is int or (
        isinstance(value, int) and issubclass(type(value), int) and value is not True and value is not False
    )


def plain_text(value: str) -> str:
    """Return a string as one whose class is `str`.

    `str()` of RED of ``class Color(str, Enum)`` is "Color.RED": its key would not be that of the equal string "red".
    """
    return value if type(value) is str else str.__str__(value)


def plain_int(value: int) -> int:
    """Return an integer as one whose class is `int`. See `plain_text`."""
    return value if type(value) is int else int.__int__(value)


def check_int(value: object, what: str, low: int | None = None, high: int | None = None, *, hint: str = "") -> int:
    """Return an integer within bounds. A bool is not an integer.

    Args:
        value: the argument.
        what: its name, for errors.
        low: the least accepted; None for no bound.
        high: the most accepted; None for no bound.
        hint: is added to the text, such as " (64 MiB)".

    Raises:
        TypeError: not an integer.
        ValueError: out of bounds.
    """
    if type(value) is int or is_int(value):
        if (low is None or value >= low) and (high is None or value <= high):
            return value if type(value) is int else plain_int(value)  # without a call for the usual class
        raise ValueError(f"{what}={short_repr(value)}: expected an integer{_bounds(low, high)}{hint}.")
    raise TypeError(f"{what}={short_repr(value)}: expected an integer{_bounds(low, high)}{hint}.")


def check_number(
    value: object,
    what: str,
    low: float | None = None,
    high: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
    hint: str = "",
) -> float:
    """Return a finite number within bounds, as a float.

    Args:
        value: the argument.
        what: its name, for errors.
        low: the least accepted; None for no bound.
        high: the most accepted; None for no bound.
        above: a bound below all that is accepted; None for no bound.
        below: a bound above all that is accepted; None for no bound.
        hint: is added to the text, such as ", or a string".

    Raises:
        TypeError: not a number.
        ValueError: not finite, or out of bounds.
    """
    if not (is_int(value) or issubclass(type(value), float)):
        raise TypeError(f"{what}={short_repr(value)}: expected a number{_range(low, high, above, below)}{hint}.")
    try:
        number = float(value)  # type: ignore[arg-type]
    except OverflowError:  # an int beyond 1.8e308
        number = math.inf
    is_within = (low is None or number >= low) and (high is None or number <= high)
    is_between = (above is None or number > above) and (below is None or number < below)
    if math.isfinite(number) and is_within and is_between:
        return number
    bounds = _range(low, high, above, below)
    raise ValueError(f"{what}={short_repr(value)}: expected a{'' if bounds else ' finite'} number{bounds}{hint}.")


def check_text(value: object, what: str, *, max_bytes: int) -> str:
    """Return a text that fits, in UTF-8.

    Raises:
        TypeError: not a string.
        ValueError: too short or too long, or UTF-8 cannot encode it.
    """
    expected = f"1 to {max_bytes} bytes of text"
    if not is_text(value):
        raise TypeError(f"{what}={short_repr(value)}: expected a string of {expected}.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what}={short_repr(value)}: expected text that UTF-8 can encode.") from None
    if not 1 <= size <= max_bytes:
        raise ValueError(f"{what}={short_repr(value)}: expected {expected}, got {size}.")
    return plain_text(value)


def check_string(value: object, what: str) -> str:
    """Return a string of any length.

    Raises:
        TypeError: not a string.
    """
    if type(value) is str or is_text(value):
        return value if type(value) is str else plain_text(value)
    raise TypeError(f"{what}={short_repr(value)}: expected a string.")


def id_text(value: object, what: str) -> str:
    """Return an id as text: 7 and "7" are one id.

    Raises:
        TypeError: neither a string, an integer nor a UUID.
        ValueError: an integer of too many digits.
    """
    if isinstance(value, str | int | UUID) and not isinstance(value, bool):
        try:
            if is_text(value):
                return plain_text(value)
            return int.__repr__(value) if is_int(value) else str(value)
        except ValueError:  # Python converts integers of 4,300 digits at most
            raise ValueError(f"{what}={short_repr(value)}: expected an integer of fewer digits.") from None
    raise TypeError(f"{what}={short_repr(value)}: expected a string, an integer or a UUID.")


def check_choice(value: object, what: str, choices: Iterable[str]) -> str:
    """Return one of the accepted strings.

    Raises:
        TypeError: not a string.
        ValueError: another string.
    """
    accepted = tuple(choices)
    if is_text(value) and value in accepted:
        return plain_text(value)
    kind = ValueError if is_text(value) else TypeError
    raise kind(f"{what}={short_repr(value)}: expected one of {', '.join(map(repr, accepted))}.")


def check_flag(value: object, what: str) -> bool:
    """Return a boolean option.

    Raises:
        TypeError: neither True nor False. The string "no" would be true.
    """
    if isinstance(value, bool):
        return value
    raise TypeError(f"{what}={short_repr(value)}: expected True or False.")


def check_callable(value: F, what: str, expected: str = "a function") -> F:
    """Return a callable.

    Args:
        value: the argument.
        what: its name, for errors.
        expected: what it is, for errors: "a function that takes the lock".

    Raises:
        TypeError: it cannot be called.
    """
    if callable(value):
        return value
    raise TypeError(f"{what}={short_repr(value)}: expected {expected}.")


def check_progress(value: Callable[[int], object] | None) -> Callable[[int], object] | None:
    """Return what a long call tells how far it is, before it starts; see `check_callable`."""
    return None if value is None else check_callable(value, "progress", "a function that takes a number, or None")


def check_instance(value: object, what: str, kind: type[T], expected: str) -> T:
    """Return an object of a class.

    Args:
        value: the argument.
        what: its name, for errors.
        kind: the class.
        expected: what it is, for errors: "a RecentList or None".

    Raises:
        TypeError: it is of another class.
    """
    if isinstance(value, kind):
        return value
    raise TypeError(f"{what}={short_repr(value)}: expected {expected}.")


def check_sequence(value: object, what: str, items: str = "names") -> Sequence[Any]:
    """Return a list or a tuple. One string is most likely meant to be one item.

    Args:
        value: the argument.
        what: its name, for errors.
        items: what the list is of, for errors.

    Raises:
        TypeError: neither a list nor a tuple.
    """
    if isinstance(value, list | tuple):
        return value
    raise TypeError(f"{what}={short_repr(value)}: expected a list of {items}.")


def check_iterable(value: object, what: str, items: str = "items") -> Iterable[Any]:
    """Return an iterable that is not one string. See `check_sequence`."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return value
    raise TypeError(f"{what}={short_repr(value)}: expected an iterable of {items}.")


def check_mapping(value: object, what: str, items: str = "values by name") -> Mapping[Any, Any]:
    """Return a mapping. See `check_sequence`."""
    if isinstance(value, Mapping):
        return value
    raise TypeError(f"{what}={short_repr(value)}: expected a mapping of {items}.")


def short_repr(value: object) -> str:
    """Return the repr of a value for an error, shortened; of a date or datetime its text."""
    try:
        representation = str(value) if type(value) in (date, datetime) else repr(value)
    except Exception:  # noqa: BLE001 - an integer of more digits than Python converts, or the site's own __repr__
        kind = type(value)  # `isinstance` would use the site's own __class__
        return f"an integer of {int.bit_length(value)} bits" if issubclass(kind, int) else f"<{class_name(kind)}>"  # type: ignore[arg-type]
    if issubclass(type(value), Promise):  # the repr of a lazy text is that of a string
        representation = f"lazy {representation}"
    return representation if len(representation) <= MAX_SHOWN else f"{representation[:MAX_SHOWN]}…"


def _range(low: float | None, high: float | None, above: float | None, below: float | None) -> str:
    if above is None and below is None:
        return _bounds(low, high)
    start = f" above {above}" if above is not None else f" from {low}"
    return start + (f" to below {below}" if below is not None else "" if high is None else f", at most {high}")


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    return "" if high is None else f" of at most {high}"
