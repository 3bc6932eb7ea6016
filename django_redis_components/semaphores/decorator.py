"""`@semaphore`: run a function with a permit."""

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
from django_redis_components.semaphores.exceptions import SemaphoreFull
from django_redis_components.semaphores.semaphore import Semaphore

P = ParamSpec("P")
R = TypeVar("R")


class SemaphoreDecoratorOptions(TypedDict, total=False):
    """The options of `Semaphore` that `@semaphore` accepts. See `Semaphore`."""

    renew: bool
    max_lease: Seconds | None
    blocking_timeout: Seconds | None
    on_lost: Callable[[Semaphore], object] | None
    using: str


def semaphore(
    name: str | Callable[..., str],
    *,
    limit: int,
    timeout: Seconds = 10.0,
    on_conflict: OnConflict = "wait",
    **options: Unpack[SemaphoreDecoratorOptions],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Run a function, or a coroutine function, at most `limit` times at once.

    Args:
        name: the semaphore's name; a template over the call's arguments (``"api:{customer.pk}"``); or a
            function of them.
        limit: number of permits.
        timeout: seconds of a lease.
        on_conflict: what to do while no permit is free: "wait"; "raise" `SemaphoreFull`; "skip" the call and return
            None; "delay" the running task (`TaskDelayed`).
        options: those of `Semaphore` except `blocking`. `blocking_timeout` is the longest wait in seconds before
            `on_conflict` applies: without it "wait" waits without a limit, and the others do not wait.

    Raises:
        TypeError, ValueError: an argument has a wrong type or value, or the template names an argument that the
            function does not take. Raised when the function is decorated.
    """
    check_conflict(on_conflict)
    if "blocking" in options:
        raise TypeError('@semaphore has no option blocking: use on_conflict="wait".')
    blocking = on_conflict == "wait" or options.get("blocking_timeout") is not None
    make = partial(Semaphore, limit=limit, timeout=timeout, blocking=blocking, **options)
    make("validates-the-options")

    def decorate(func: Callable[P, R]) -> Callable[P, R]:
        named = NameTemplate(name, func, "semaphore name")
        use, entry = declare("semaphores", name, func, options.get("using", "default"), limit=limit)

        def guard(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Semaphore:
            if use.due_at <= monotonic():
                RECORDER.record(use, entry)
            return make(named.format(args, kwargs))

        return run_in_context(func, guard, SemaphoreFull, on_conflict)

    return decorate
