"""What a task may be told, checked when it is told."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from django.conf import settings as django_settings
from django.utils import timezone

from django_redis_components.core import conf, keys
from django_redis_components.core.units import Seconds, to_ms, to_seconds
from django_redis_components.taskqueue import limits
from django_redis_components.taskqueue import retry as backoffs
from django_redis_components.taskqueue import time_limits as timeouts
from django_redis_components.taskqueue.exceptions import InvalidTask, UnknownQueue
from django_redis_components.taskqueue.record import check_metadata
from django_redis_components.taskqueue.unique import Unique, check_key, unique_of

#: Seconds for which a result is kept, unless the task says otherwise.
RESULT_TTL_S = 600
#: Largest absolute priority, as in Django's Tasks.
MAX_PRIORITY = 100
#: What an error says of it.
_BEFORE_LAST = "a date up to December 30, 9999"
#: Options that a worker needs to know when they differ from the decorator's.
_TRAVELLING = ("max_attempts", "backoff", "timeout", "result_ttl")
#: The last moment that is accepted: every time zone can show it as a `datetime`, with a day to spare.
LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
#: Deaths of workers after which a task is given up, unless the task says otherwise.
MAX_DELIVERIES = 3


class DeclaredOptions(TypedDict, total=False):
    """What `@task` takes, for type checkers and editors; what it means is told at `TaskOptions`."""

    queue_name: str
    priority: int
    max_attempts: int
    max_deliveries: int
    backoff: backoffs.Backoff | None
    timeout: timeouts.Timeout | None
    concurrency: int | limits.Concurrency | None
    rate: str | tuple[int, Seconds] | limits.Rate | None
    result_ttl: Seconds
    unique: bool | str | Seconds | Unique | None
    expires: datetime | Seconds | None
    database: str | None


class SendingOptions(DeclaredOptions, total=False):
    """What `using` takes: those, and what belongs to one sending."""

    run_after: datetime | Seconds | None
    metadata: dict[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of `@task` and of `using`.

    Attributes:
        queue_name: the queue it is sent to.
        priority: -100 to 100 within the queue; higher first.
        max_attempts: exceptions after which it has failed.
        max_deliveries: deaths of workers after which it has failed.
        backoff: see `backoff`.
        timeout: seconds that a run may take, or (soft, hard); see `timeouts`.
        concurrency: how many run at once over all workers; a number or a `limits.Concurrency`.
        rate: how many start in a time over all workers; "10/m", (10, 60), or a `limits.Rate`.
        result_ttl: seconds for which the result of a success is kept.
        unique: True (until it has finished), "finished", "started", a duration, or a `Unique`; None for none.
        expires: a datetime, or seconds or a timedelta from when it is accepted, or from when it falls due if that is
            later: a task that has not begun by then is not run.
        database: alias of the database whose commit is waited for; None: the default one if it is in a transaction,
            else the one that is.
        run_after: a datetime, or seconds or a timedelta from now; `using` only.
        metadata: a dict of JSON values, to be read at the result and in the task's context; `using` only.
    """

    queue_name: str = "default"
    priority: int = 0
    max_attempts: int = 1
    max_deliveries: int = MAX_DELIVERIES
    backoff: Any = None
    timeout: timeouts.Timeout | None = None
    concurrency: Any = None
    rate: Any = None
    result_ttl: Seconds = RESULT_TTL_S
    unique: Any = None
    expires: datetime | Seconds | None = None
    database: str | None = None
    run_after: datetime | Seconds | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        try:
            keys.validate_name(self.queue_name, "queue_name")
            check_whole("priority", self.priority, -MAX_PRIORITY, MAX_PRIORITY)
            check_whole("max_attempts", self.max_attempts, 1, 1_000_000)
            check_whole("max_deliveries", self.max_deliveries, 1, 1_000)
            backoffs.validate(self.backoff)
            timeouts.validate(self.timeout)
            object.__setattr__(self, "concurrency", limits.concurrency_of(self.concurrency))
            object.__setattr__(self, "rate", limits.rate_of(self.rate))
            to_ms(self.result_ttl, "result_ttl")
            check_moment(self.run_after, "run_after")
            check_moment(self.expires, "expires", zero=False)
            self._check_expiry()
            object.__setattr__(self, "unique", unique_of(self.unique))
            if self.database is not None and not isinstance(self.database, str):
                raise TypeError(f"database={self.database!r}: expected the alias of a database, or None.")
            if self.metadata is not None:
                object.__setattr__(self, "metadata", check_metadata(self.metadata))
        except (TypeError, ValueError) as exc:
            raise InvalidTask(str(exc)) from exc

    @property
    def are_plain(self) -> bool:
        """Whether a task is due at once, and has no priority, key, limit or other mark of its own."""
        return (
            self.priority == 0
            and self.run_after is None
            and self.expires is None
            and self.unique is None
            and self.concurrency is None
            and self.rate is None
            and self.metadata is None
            and self.max_deliveries == MAX_DELIVERIES
        )

    def _check_expiry(self) -> None:
        """An expiry counts from `run_after`: both together must be a date that can be shown."""
        if isinstance(self.run_after, datetime) and self.expires is not None and not isinstance(self.expires, datetime):
            expires_ms = to_ms(self.expires, "expires")
            if _ms_of(self.run_after) + expires_ms > _ms_of(LAST_MOMENT):
                raise ValueError(
                    f"expires={self.expires!r} after run_after={self.run_after!r}: expected {_BEFORE_LAST}."
                )

    def due(self) -> str:
        """When it may start, as the enqueue script takes it."""
        return when(self.run_after, "run_after")

    def expiry(self) -> str:
        """When it is not begun any more, and for how long its record is kept then, as the enqueue script takes it."""
        return f"{when(self.expires, 'expires')} {to_ms(self.result_ttl, 'result_ttl')}"

    def due_ms(self, accepted_us: int) -> int | None:
        """When a task accepted then falls due, in milliseconds since the epoch; None if it was due at once."""
        if self.run_after is None:
            return None
        due, accepted_ms = self.due(), accepted_us // 1_000
        due_ms = (
            -(-accepted_us // 1_000) + int(due) if due.startswith("+") else int(due)
        )  # rounded up, as the script does
        return due_ms if due_ms > accepted_ms and due != "+0" else None

    def expiry_ms(self, accepted_us: int) -> int | None:
        """When a task accepted then is not begun any more, in milliseconds since the epoch; None: it never expires."""
        if self.expires is None:
            return None
        at = when(self.expires, "expires")
        if not at.startswith("+"):
            return int(at)
        return max(accepted_us // 1_000, self.due_ms(accepted_us) or 0) + int(at)


def when(moment: datetime | Seconds | None, what: str) -> str:
    """A moment as the scripts take it: empty for None, "+ms" from the server's now, or ms since the epoch."""
    if moment is None:
        return ""
    if isinstance(moment, datetime):
        return str(max(0, _ms_of(moment)))  # before the epoch is as late as at it
    return f"+{to_ms(moment, what, zero=True)}"


def check_moment(value: Any, what: str, *, zero: bool = True) -> None:
    """Refuse what is no moment.

    Args:
        zero: whether a duration of 0 is accepted.

    Raises:
        TypeError: neither None, nor a datetime, a number of seconds or a timedelta.
        ValueError: a naive datetime while USE_TZ is on, a datetime that no page could show in each time zone, or a
            duration below 0 or above ten years.
    """
    if value is None:
        return
    if isinstance(value, datetime):
        if django_settings.USE_TZ and timezone.is_naive(value):
            raise ValueError(f"{what}={value!r}: expected an aware datetime, since USE_TZ is on.")
        if _ms_of(value) > _ms_of(LAST_MOMENT):
            raise ValueError(f"{what}={value!r}: expected {_BEFORE_LAST}.")
        return
    if not isinstance(value, int | float | timedelta) or isinstance(value, bool):
        raise TypeError(f"{what}={value!r}: expected a datetime, or a number of seconds or a timedelta from now.")
    to_seconds(value, what, zero=zero)


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise TypeError or ValueError when a value is no whole number within these bounds."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}={value!r}: expected a whole number from {low} to {high}.")
    if not low <= value <= high:
        raise ValueError(f"{name}={value!r}: expected a whole number from {low} to {high}.")


def check_queue(name: str) -> None:
    """Raise UnknownQueue when the site declares its queues and this is none of them."""
    declared = conf.settings().taskqueue.queues
    if declared is None or name in declared:
        return
    near = difflib.get_close_matches(name, declared, n=1)
    raise UnknownQueue(name, f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(declared)}.")


def _ms_of(moment: datetime) -> int:
    """Milliseconds since the epoch, rounded up: a task never starts before its time."""
    aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
    return -(-round(aware.timestamp() * 1_000_000) // 1_000)


def chosen_options(func: Callable[..., Any], base: TaskOptions, given: Mapping[str, Any]) -> TaskOptions:
    """Options with those that were given in their places.

    Args:
        func: as those call it who enqueue it.

    Raises:
        InvalidTask: an option is unknown or has a value that is not accepted.
    """
    known = {field.name for field in dataclasses.fields(TaskOptions)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise InvalidTask(f"Unknown option {', '.join(unknown)}. Known are {', '.join(sorted(known))}.")
    chosen = dataclasses.replace(base, **dict(given))
    check_keys(func, chosen)
    return chosen


def check_keys(func: Callable[..., Any], options: TaskOptions) -> None:
    """Refuse limits and a uniqueness whose keys the function's arguments cannot make.

    Args:
        func: as those call it who enqueue it.

    Raises:
        InvalidTask: a template names an argument that the function does not take.
    """
    try:
        if options.unique is not None:
            check_key(options.unique, func)
        limits.check_keys(func, options.concurrency, options.rate)
    except (TypeError, ValueError) as exc:
        raise InvalidTask(str(exc)) from exc


def travelling_options(options: TaskOptions, changed: frozenset[str]) -> dict[str, Any]:
    """What goes with the arguments, as JSON: those options that the worker would not know by itself.

    Args:
        changed: names of the options that differ from the decorator's.
    """
    return _plain({name: getattr(options, name) for name in _TRAVELLING if name in changed})


def _plain(travelling: dict[str, Any]) -> dict[str, Any]:
    plain = dict(travelling)
    if "result_ttl" in plain:
        plain["result_ttl"] = to_ms(plain["result_ttl"], "result_ttl") / 1_000
    if "timeout" in plain:
        plain["timeout"] = timeouts.plain(plain["timeout"])
    if plain.get("backoff") is not None:
        given = plain["backoff"]
        listed = given if isinstance(given, list | tuple) else [given]
        plain["backoff"] = [to_ms(item, "backoff", zero=True) / 1_000 for item in listed]
    return plain
