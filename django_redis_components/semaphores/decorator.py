"""`@semaphore`: a function that runs with a permit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypedDict, TypeVar, Unpack

from django_redis_components.core.decorators import check_conflict, run_in_context
from django_redis_components.core.name_templates import NameTemplate
from django_redis_components.core.registry import register_name
from django_redis_components.core.units import Seconds
from django_redis_components.semaphores.exceptions import SemaphoreFull
from django_redis_components.semaphores.semaphore import Semaphore

P = ParamSpec("P")
R = TypeVar("R")


class SemaphoreOptions(TypedDict, total=False):
    """The options of `Semaphore` that `@semaphore` hands on; see there."""

    renew: bool
    max_lease: Seconds | None
    blocking_timeout: Seconds | None
    on_lost: Callable[[Semaphore], object] | None
    using: str


def semaphore(
    name: str | Callable[..., str],
    limit: int = 5,
    timeout: Seconds = 10.0,
    on_conflict: str = "raise",
    **options: Unpack[SemaphoreOptions],
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Run a function, or a coroutine function, at most `limit` times at once.

    Args:
        name: the semaphore's name; a template over the call's arguments (``"api:{customer.pk}"``); or a
            function of them.
        limit: how many permits there are.
        timeout: seconds of a lease.
        on_conflict: when there is no permit: "wait"; "raise" SemaphoreFull; "skip" the call and return
            None; "delay" the running task (`TryLater`).
        options: those of `Semaphore`, but for `blocking`. `blocking_timeout` is how many seconds to wait
            before `on_conflict`: without it "wait" waits for ever, and the others not at all.

    Raises:
        TypeError, ValueError: an argument is not of this kind, or the template names an argument that the
            function does not take. All this is told when the function is decorated.
    """
    check_conflict(on_conflict)
    if "blocking" in options:
        raise TypeError('blocking belongs to Semaphore: @semaphore has on_conflict, whose "wait" waits.')
    blocking = on_conflict == "wait" or options.get("blocking_timeout") is not None
    make = partial(Semaphore, limit=limit, timeout=timeout, blocking=blocking, **options)
    make("checks-the-options")

    def decorate(func: Callable[P, R]) -> Callable[P, R]:
        named = NameTemplate(name, func, "semaphore name")
        register_name("semaphores", name, func, options.get("using", "default"))

        def guard(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Semaphore:
            return make(named.format(args, kwargs))

        return run_in_context(func, guard, SemaphoreFull, on_conflict)

    return decorate
