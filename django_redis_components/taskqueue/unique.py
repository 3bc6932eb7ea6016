"""Unique tasks: the option `unique`, and the key that such a task claims."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.name_templates import template_of
from django_redis_components.core.units import Seconds, to_ms

#: Bytes of a digest: a collision is expected after 2^64 tasks.
DIGEST_BYTES = 16
#: Prefixes of claims by the value of `until`; the prefix of a duration is "t".
_LETTERS = {"finished": "f", "started": "s"}
_ON_CONFLICT = ("return", "replace", "extend")
#: For the words of other queues.
_HINTS = {
    "throttle": " To throttle calls, set until to a duration.",
    "debounce": ' To debounce calls, use "replace" or "extend", and using(run_after=…).',
}
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_ACCEPTED = '"finished", "started", or a duration in seconds or as a timedelta'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """While a task has a key, `enqueue` accepts no other task with it and returns the result of the first.

    Without more, calls with a key are deduplicated; with a duration they are throttled: one is accepted per period,
    whatever its outcome. With `on_conflict` and `using(run_after=…)` they are debounced: the task runs when no call
    has come for this time.

    Attributes:
        until: when the key is released. "finished": when the task has finished, retries included. "started": when a
            worker leases it. A duration (seconds or a timedelta): that long after the task was accepted.
        key: a template over the call's arguments (``"order:{order_id}"``), a callable that receives them, or None:
            all arguments. Different tasks never share a key.
        on_conflict: what a call does to the task that has the key, while that is pending. "return": nothing.
            "replace": the task gets the arguments and the options of the call, `run_after` among them: the last call
            wins. Requires until="started", so that a call made during the run becomes the next task. "extend": the
            task keeps its arguments, and is due when the call would be, if that is later; a key with a duration is
            held for that time again.
        max_wait: seconds after which the task is due at the latest, counted from when its first call was accepted,
            however often it is replaced or extended; None: without a limit. Requires an `on_conflict` that moves the
            task.
    """

    until: Literal["finished", "started"] | Seconds = "finished"
    key: str | Callable[..., str] | None = None
    on_conflict: Literal["return", "replace", "extend"] = "return"
    max_wait: Seconds | None = None

    def __post_init__(self) -> None:
        if isinstance(self.until, str):
            if self.until not in _LETTERS:
                raise ValueError(f"until={short_repr(self.until)}: expected {_ACCEPTED}.")
        elif isinstance(self.until, bool) or not isinstance(self.until, int | float | timedelta):
            raise TypeError(f"until={short_repr(self.until)}: expected {_ACCEPTED}.")
        else:
            to_ms(self.until, "until")
        if self.key is not None and not isinstance(self.key, str) and not callable(self.key):
            raise TypeError(f"key={short_repr(self.key)}: expected a template, a callable, or None.")
        _check_on_conflict(self.on_conflict, self.until)
        if self.max_wait is not None:
            _check_max_wait(self.max_wait, self.on_conflict)


def check_delay(unique: Unique, run_after: Any, due: str) -> None:
    """Raise ValueError for a due time after `max_wait`, or one at which a key has expired that calls are to extend.

    Args:
        run_after: the option.
        due: the same as the scripts take it.
    """
    if unique.max_wait is not None and run_after is not None:
        _check_delay_of_first(unique.max_wait, run_after, due)
    if unique.on_conflict == "return" or isinstance(unique.until, str) or run_after is None:
        return
    if not isinstance(run_after, datetime) and to_ms(run_after, "run_after", zero=True) >= to_ms(unique.until, "until"):
        times = f"run_after={short_repr(run_after)} with until={short_repr(unique.until)}"
        raise ValueError(
            f"{times} and on_conflict={unique.on_conflict!r}: the key would expire before the task is due, so that a"
            ' call could not extend it. Set until to a longer time, or to "started".'
        )


def unique_of(option: Any) -> Unique | None:
    """Return the option `unique` as a `Unique`.

    Raises:
        TypeError, ValueError: the value is not accepted.
    """
    if option is None or option is False:
        return None
    if isinstance(option, Unique):
        return option
    if option is True:
        return Unique()
    if not isinstance(option, str | int | float | timedelta):
        raise TypeError(f"unique={short_repr(option)}: expected True, {_ACCEPTED}, or a Unique.")
    until: Any = option
    try:
        return Unique(until=until)
    except ValueError as exc:
        raise ValueError(str(exc).replace("until=", "unique=", 1)) from exc


def claim_of(
    unique: Unique, name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """Return the claim of a call as a script argument: see enqueue.lua.

    Args:
        name: of the task.
        args, kwargs: the arguments as JSON values.

    Raises:
        TypeError, ValueError: the key cannot be built from these arguments.
    """
    if unique.key is None:
        value = _all_arguments(func, args, kwargs)
    else:
        value = template_of(unique.key, func, "unique key").format(tuple(args), kwargs)
        if not isinstance(value, str):
            raise TypeError(f"The unique key of {name} is {short_repr(value)}: expected text.")
    # A key of all arguments differs from a key whose text equals their JSON.
    kind = "arguments" if unique.key is None else "key"
    text = f"{name}\0{kind}\0{value}".encode("utf-8", "surrogatepass")
    digest = base64.urlsafe_b64encode(hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()).decode().rstrip("=")
    on_conflict = "" if unique.on_conflict == "return" else f" {unique.on_conflict}"
    if unique.max_wait is not None:
        on_conflict += f" {to_ms(unique.max_wait, 'max_wait')}"
    if isinstance(unique.until, str):
        return _LETTERS[unique.until] + digest + on_conflict
    return f"t{digest} {to_ms(unique.until, 'until')}{on_conflict}"


def check_key(unique: Unique, func: Callable[..., Any]) -> None:
    """Validate the key template against the function's parameters.

    Raises:
        ValueError: the template names an argument that the function does not have.
    """
    if unique.key is not None:
        template_of(unique.key, func, "unique key")


def _check_on_conflict(on_conflict: Any, until: Any) -> None:
    if not isinstance(on_conflict, str) or on_conflict not in _ON_CONFLICT:
        hint = _HINTS.get(on_conflict, "") if isinstance(on_conflict, str) else ""
        raise ValueError(f"on_conflict={short_repr(on_conflict)}: expected {', '.join(map(repr, _ON_CONFLICT))}.{hint}")
    if on_conflict == "replace" and until != "started":
        raise ValueError(
            f'on_conflict="replace" with until={short_repr(until)}: the arguments of a call made after the start would'
            ' be lost. Use until="started", and concurrency=Concurrency(1, key=…) if two must not run at once.'
        )


def _check_max_wait(max_wait: Any, on_conflict: str) -> None:
    to_ms(max_wait, "max_wait")
    if on_conflict == "return":
        raise ValueError(
            f'max_wait={short_repr(max_wait)} with on_conflict="return": such a call does not move the task. Use'
            ' "replace" or "extend", or leave out max_wait.'
        )


def _check_delay_of_first(max_wait: Any, run_after: Any, due: str) -> None:
    """Raise ValueError if the first call would be due after `max_wait`."""
    delay_ms = int(due) if due.startswith("+") else int(due) - time.time_ns() // 1_000_000
    if delay_ms > to_ms(max_wait, "max_wait"):
        raise ValueError(
            f"run_after={short_repr(run_after)} with max_wait={short_repr(max_wait)}: the first call would be due after"
            " max_wait. Use a longer max_wait."
        )


def _all_arguments(func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """The arguments by name, with defaults, as canonical JSON: f(1) and f(a=1) are the same call."""
    with contextlib.suppress(TypeError):  # in a flow a result comes before them; or a default is not JSON
        bound = _signature(func).bind(*args, **kwargs)
        bound.apply_defaults()
        return _canonical(bound.arguments)
    return _canonical([args, kwargs])


@lru_cache(maxsize=1_024)
def _signature(func: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(func)
