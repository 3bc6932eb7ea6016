"""`@lock`: run a function under a lock."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

from django_redis_components.core.decorators import OnConflict, check_conflict, run_in_context
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.observability.catalog import RECORDER
from django_redis_components.core.observability.declared_names import declare
from django_redis_components.core.units import Seconds
from django_redis_components.locks.exceptions import LockNotAcquired
from django_redis_components.locks.lock import Lock

P = ParamSpec("P")
R = TypeVar("R")


class LockDecoratorOptions(TypedDict, total=False):
    """The options of `Lock` that `@lock` accepts. See `Lock`."""

    renew: bool
    max_lease: Seconds | None
    blocking_timeout: Seconds | None
    fair: bool
    reentrant: bool
    min_replicas: int
    on_lost: Callable[[Lock], object] | None
    using: str


def lock(
    name: str | Callable[..., str],
    *,
    timeout: Seconds = 30.0,
    on_conflict: OnConflict = "wait",
    **options: Unpack[LockDecoratorOptions],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Run a function, or a coroutine function, under a lock.

    Args:
        name: the lock's name; a template over the call's arguments (``"order:{order.pk}"``); or a function
            of them.
        timeout: seconds of a lease.
        on_conflict: what to do while another owner holds the lock: "wait"; "raise" `LockNotAcquired`; "skip" the call
            and return None; "delay" the running task (`TaskDelayed`).
        options: those of `Lock` except `blocking`. `blocking_timeout` is the longest wait in seconds before
            `on_conflict` applies: without it "wait" waits without a limit, and the others do not wait.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value, or the template names an argument that the
            function does not take. Raised when the function is decorated.
    """
    check_conflict(on_conflict)
    if "blocking" in options:
        raise TypeError('@lock has no option blocking: use on_conflict="wait".')
    blocking = on_conflict == "wait" or options.get("blocking_timeout") is not None
    make = partial(Lock, timeout=timeout, blocking=blocking, **options)
    make("validates-the-options")

    def decorate(func: Callable[P, R]) -> Callable[P, R]:
        named = NameTemplate(name, func, "lock name")
        use, entry = declare("locks", name, func, options.get("using", "default"))

        def guard(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lock:
            if use.due_at <= monotonic():
                RECORDER.record(use, entry)
            return make(named.format(args, kwargs))

        return run_in_context(func, guard, LockNotAcquired, on_conflict)

    return decorate
