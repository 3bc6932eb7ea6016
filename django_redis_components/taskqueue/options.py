"""Options of tasks: queue, priority, attempts, time limits, …; validated when they are set."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypedDict

from django.conf import settings
from django.utils import timezone

from django_redis_components.core import keys
from django_redis_components.core.arguments import check_flag, check_int, check_string, short_repr
from django_redis_components.core.replicas import MAX_REPLICAS
from django_redis_components.core.settings import conf
from django_redis_components.core.units import Seconds, to_ms, to_seconds
from django_redis_components.taskqueue import fair_share, limits, retry
from django_redis_components.taskqueue.exceptions import InvalidTask, UnknownQueue
from django_redis_components.taskqueue.fair_share import FairShare
from django_redis_components.taskqueue.limits import Key
from django_redis_components.taskqueue.option_names import meant
from django_redis_components.taskqueue.record import check_metadata
from django_redis_components.taskqueue.unique import Unique, check_delay, check_key, unique_of

#: Default of `result_ttl`, in seconds.
RESULT_TTL_S = 600
#: Largest absolute priority, as in Django's Tasks framework.
MAX_PRIORITY = 100
#: Options that are sent with the task when they differ from the decorator's.
_SENT_OPTIONS = ("max_attempts", "backoff", "timeout", "result_ttl")
#: The latest time that is accepted: a valid `datetime` in every time zone.
LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)
_BEFORE_LAST = "a date up to December 30, 9999"
#: Default of `max_deliveries`: lost workers after which a task fails.
MAX_DELIVERIES = 3
#: The `timeout` option: the soft limit; or the soft and the hard limit, one of which may be None.
Timeout = Seconds | tuple[Seconds | None, Seconds | None]


#: What a task's id may be: it is part of keys, URLs and command lines.
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+=~-]{0,127}")


class TimeLimits(NamedTuple):
    """Time limits of a run, in seconds from its start.

    Attributes:
        soft_s: after this time an exception is raised in the task.
        hard_s: after this time the process of the task is killed.
        retry_ms: delay before the retry of a killed task; None if it fails.
    """

    soft_s: float | None
    hard_s: float | None
    retry_ms: int | None = None


class DeclaredOptions(TypedDict, total=False):
    """Options of `@task`, for type checkers; see `TaskOptions`."""

    queue_name: str
    priority: int
    max_attempts: int
    max_deliveries: int
    backoff: retry.Backoff | None
    timeout: Timeout | None
    concurrency: int | limits.Concurrency | None
    rate: str | tuple[int, Seconds] | limits.Rate | None
    result_ttl: Seconds
    fair: Key | FairShare | None
    unique: bool | str | Seconds | Unique | None
    expires: datetime | Seconds | None
    database: str | None
    outbox: bool | None
    sealed: bool
    min_replicas: int


class SendingOptions(DeclaredOptions, total=False):
    """Options of `using`: those of `@task`, and those of one call."""

    run_after: datetime | Seconds | None
    metadata: dict[str, Any] | None
    id: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Options of `@task` and of `using`.

    Attributes:
        queue_name: the queue that the task is enqueued on.
        priority: -100 to 100 within the queue; higher first.
        max_attempts: the task fails after this many exceptions.
        max_deliveries: the task fails after this many lost workers.
        backoff: delay between attempts; see `retry`.
        timeout: seconds that a run may take, or (soft, hard).
        concurrency: maximum number of tasks that run at once on all workers: a number or a `Concurrency`.
        rate: maximum number of tasks that start in a period on all workers: "10/m", (10, 60), or a `Rate`.
        fair: a template such as "{customer_id}", a function of the arguments, or a `FairShare`: the queue serves the
            groups of tasks that have the same text in turn.
        result_ttl: seconds for which the result of a successful task is kept.
        unique: True (until it has finished), "finished", "started", a duration, or a `Unique`; None: not unique.
        expires: the task does not run unless it has started by then: a datetime, or seconds or a timedelta from when
            it is accepted or, if later, from when it is due.
        database: alias of the database whose commit is awaited; None: the default database if it is in a
            transaction, else the one that is.
        outbox: whether calls that are enqueued on commit are stored in the database until they are sent
            (`contrib.outbox`); None: as the setting ``OUTBOX``.
        sealed: whether the arguments are encrypted by the setting ``SEAL_KEYS`` before they leave the process.
        min_replicas: replicas that it is waited for after the task was accepted; see `TaskResult.replicas`.
        run_after: a datetime, or seconds or a timedelta from now; `using` only.
        metadata: a dict of JSON values, readable from the result and the task's context; `using` only.
        id: the id of the task, for idempotent calls; None for a random one; `using` only.
    """

    queue_name: str = "default"
    priority: int = 0
    max_attempts: int = 1
    max_deliveries: int = MAX_DELIVERIES
    backoff: Any = None
    timeout: Timeout | None = None
    concurrency: Any = None
    rate: Any = None
    fair: Any = None
    result_ttl: Seconds = RESULT_TTL_S
    unique: Any = None
    expires: datetime | Seconds | None = None
    database: str | None = None
    outbox: bool | None = None
    sealed: bool = False
    min_replicas: int = 0
    run_after: datetime | Seconds | None = None
    metadata: dict[str, Any] | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "queue_name", keys.validate_name(self.queue_name, "queue_name"))
            check_int(self.priority, "priority", -MAX_PRIORITY, MAX_PRIORITY)
            check_int(self.max_attempts, "max_attempts", 1, 1_000_000)
            check_int(self.max_deliveries, "max_deliveries", 1, 1_000)
            retry.validate(self.backoff)
            check_timeout(self.timeout)
            object.__setattr__(self, "concurrency", limits.concurrency_of(self.concurrency))
            object.__setattr__(self, "rate", limits.rate_of(self.rate))
            object.__setattr__(self, "fair", fair_share.fair_of(self.fair))
            to_ms(self.result_ttl, "result_ttl")
            check_moment(self.run_after, "run_after")
            check_moment(self.expires, "expires", zero=False)
            self._check_expiry()
            object.__setattr__(self, "unique", unique_of(self.unique))
            if self.unique is not None:
                check_delay(self.unique, self.run_after, self.due())
            if self.database is not None and not isinstance(self.database, str):
                raise TypeError(f"database={short_repr(self.database)}: expected the alias of a database, or None.")
            if self.outbox is not None:
                check_flag(self.outbox, "outbox")
            check_flag(self.sealed, "sealed")
            check_int(self.min_replicas, "min_replicas", 0, MAX_REPLICAS)
            if self.metadata is not None:
                object.__setattr__(self, "metadata", check_metadata(self.metadata))
            object.__setattr__(self, "id", check_id(self.id))
        except (TypeError, ValueError) as exc:
            raise InvalidTask(str(exc)) from exc

    @property
    def are_plain(self) -> bool:
        """Whether the task is due at once and has no other option that the message states."""
        return (
            self.priority == 0
            and self.run_after is None
            and self.expires is None
            and self.unique is None
            and self.concurrency is None
            and self.rate is None
            and self.fair is None
            and self.metadata is None
            and self.id is None
            and self.min_replicas == 0
            and self.max_deliveries == MAX_DELIVERIES
        )

    def _check_expiry(self) -> None:
        """An expiry counts from `run_after`: the sum must not pass LAST_MOMENT."""
        if isinstance(self.run_after, datetime) and self.expires is not None and not isinstance(self.expires, datetime):
            expires_ms = to_ms(self.expires, "expires")
            if _ms_of(self.run_after) + expires_ms > _ms_of(LAST_MOMENT):
                times = f"expires={short_repr(self.expires)} after run_after={short_repr(self.run_after)}"
                raise ValueError(f"{times}: expected {_BEFORE_LAST}.")

    def due(self) -> str:
        """The argument `due` of the enqueue script."""
        return when(self.run_after, "run_after")

    def expiry(self) -> str:
        """The argument `expires` of the enqueue script: the time, and how long an expired task's record is kept."""
        return f"{when(self.expires, 'expires')} {to_ms(self.result_ttl, 'result_ttl')}"

    def due_ms(self, accepted_us: int) -> int | None:
        """When a task that was accepted at this time is due, in milliseconds since the epoch; None: at once."""
        if self.run_after is None:
            return None
        due, accepted_ms = self.due(), accepted_us // 1_000
        due_ms = (
            -(-accepted_us // 1_000) + int(due) if due.startswith("+") else int(due)
        )  # rounded up, as the script does
        return due_ms if due_ms > accepted_ms and due != "+0" else None

    def expiry_ms(self, accepted_us: int) -> int | None:
        """When a task that was accepted at this time expires, in milliseconds since the epoch; None: never."""
        if self.expires is None:
            return None
        at = when(self.expires, "expires")
        if not at.startswith("+"):
            return int(at)
        return max(accepted_us // 1_000, self.due_ms(accepted_us) or 0) + int(at)


def when(moment: datetime | Seconds | None, what: str) -> str:
    """A time as scripts take it: empty for None, "+ms" from the server's clock, or ms since the epoch."""
    if moment is None:
        return ""
    if isinstance(moment, datetime):
        return str(max(0, _ms_of(moment)))  # before the epoch is as late as at it
    return f"+{to_ms(moment, what, zero=True)}"


def check_moment(value: Any, what: str, *, zero: bool = True) -> None:
    """Validate a time.

    Args:
        zero: whether a duration of 0 is accepted.

    Raises:
        TypeError: it is not None, a datetime, a number of seconds or a timedelta.
        ValueError: it is a naive datetime while USE_TZ is on, a datetime after LAST_MOMENT, or a duration below 0
            or above ten years.
    """
    if value is None:
        return
    if isinstance(value, datetime):
        if settings.USE_TZ and timezone.is_naive(value):
            raise ValueError(f"{what}={short_repr(value)}: expected an aware datetime, since USE_TZ is on.")
        if _ms_of(value) > _ms_of(LAST_MOMENT):
            raise ValueError(f"{what}={short_repr(value)}: expected {_BEFORE_LAST}.")
        return
    if not isinstance(value, int | float | timedelta) or isinstance(value, bool):
        raise TypeError(
            f"{what}={short_repr(value)}: expected a datetime, or a number of seconds or a timedelta from now."
        )
    to_seconds(value, what, zero=zero)


def is_id(text: str) -> bool:
    """Return whether a text can be the id of a task."""
    return _ID.fullmatch(text) is not None


def check_id(task_id: Any) -> str | None:
    """Return the id of a task, or None; raise TypeError or ValueError for all else."""
    if task_id is None:
        return None
    text = check_string(task_id, "id")
    if not is_id(text):
        raise ValueError(
            f"id={text!r}: expected 1 to 128 of the characters A-Z a-z 0-9 _ . @ + = ~ -, the first one a letter,"
            " a digit or an underscore."
        )
    return text


def check_queue(name: str) -> None:
    """Raise UnknownQueue if the site declares its queues and this is not one of them."""
    declared = conf.settings().taskqueue.queues
    if declared is None or name in declared:
        return
    near = difflib.get_close_matches(name, declared, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownQueue(name, f"Declared queues: {', '.join(declared)}.{hint}")


def _ms_of(moment: datetime) -> int:
    """Milliseconds since the epoch, rounded up: a task never starts early. A naive datetime is in TIME_ZONE."""
    if timezone.is_naive(moment):
        moment = timezone.make_aware(moment, timezone.get_default_timezone())
    return -(-round(moment.timestamp() * 1_000_000) // 1_000)


def options_with(func: Callable[..., Any], base: TaskOptions, changes: Mapping[str, Any]) -> TaskOptions:
    """Return `base` with the given options replaced.

    Args:
        func: the task's function with the parameters of `enqueue`.

    Raises:
        InvalidTask: an option is unknown or has a value that is not accepted.
    """
    option_names = {field.name for field in dataclasses.fields(TaskOptions)}
    unknown = sorted(set(changes) - option_names)
    if unknown:
        hint = meant(unknown[0], option_names)
        raise InvalidTask(f"Unknown option: {', '.join(unknown)}.{hint} Options: {', '.join(sorted(option_names))}.")
    options = dataclasses.replace(base, **dict(changes))
    check_keys(func, options)
    return options


def check_keys(func: Callable[..., Any], options: TaskOptions) -> None:
    """Validate the key templates of limits, groups and uniqueness against the function's parameters.

    Args:
        func: the task's function with the parameters of `enqueue`.

    Raises:
        InvalidTask: a template names an argument that the function does not have.
    """
    try:
        if options.unique is not None:
            check_key(options.unique, func)
        limits.check_keys(func, options.concurrency, options.rate)
        fair_share.check_key(func, options.fair)
    except (TypeError, ValueError) as exc:
        raise InvalidTask(str(exc)) from exc


def changed_names(options: TaskOptions) -> frozenset[str]:
    """Return the names of the options that differ from the defaults of the package."""
    default = TaskOptions()
    return frozenset(
        name for name in DeclaredOptions.__annotations__ if getattr(options, name) != getattr(default, name)
    )


def options_to_send(options: TaskOptions, overrides: frozenset[str]) -> dict[str, Any]:
    """The options that are sent with the arguments, as JSON: those that the worker cannot take from the decorator.

    Args:
        overrides: names of the options that differ from the decorator's.
    """
    return _plain({name: getattr(options, name) for name in _SENT_OPTIONS if name in overrides})


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    plain = dict(options)
    if "result_ttl" in plain:
        plain["result_ttl"] = to_ms(plain["result_ttl"], "result_ttl") / 1_000
    if "timeout" in plain:
        plain["timeout"] = _plain_timeout(plain["timeout"])
    if plain.get("backoff") is not None:
        given = plain["backoff"]
        listed = given if isinstance(given, list | tuple) else [given]
        plain["backoff"] = [to_ms(item, "backoff", zero=True) / 1_000 for item in listed]
    return plain


def check_timeout(timeout: Any) -> None:
    """Raise TypeError or ValueError unless the option `timeout` can be used."""
    if timeout is not None:
        _timeout_seconds(timeout)


def time_limits_of(timeout: Any) -> TimeLimits | None:
    """The time limits of a run in this worker; None without any."""
    if timeout is None:
        return None
    soft_s, hard_s = _timeout_seconds(timeout)
    if not isinstance(timeout, list | tuple) and soft_s is not None:
        hard_s = soft_s + conf.settings().taskqueue.timeout_grace_s
    return TimeLimits(soft_s, hard_s)


def _plain_timeout(timeout: Any) -> Any:
    """The option `timeout` as JSON."""
    if timeout is None:
        return None
    soft_s, hard_s = _timeout_seconds(timeout)
    return [soft_s, hard_s] if isinstance(timeout, list | tuple) else soft_s


def _timeout_seconds(timeout: Any) -> tuple[float | None, float | None]:
    if not isinstance(timeout, list | tuple):
        return to_seconds(timeout, "timeout"), None
    if len(timeout) != 2 or timeout[0] is timeout[1] is None:
        raise ValueError(f"timeout={short_repr(timeout)}: expected seconds, or (soft, hard), one of which may be None.")
    soft_s, hard_s = (
        None if value is None else to_seconds(value, f"timeout[{index}]") for index, value in enumerate(timeout)
    )
    if soft_s is not None and hard_s is not None and hard_s <= soft_s:
        raise ValueError(f"timeout={short_repr(timeout)}: the hard limit must be longer than the soft one.")
    return soft_s, hard_s
