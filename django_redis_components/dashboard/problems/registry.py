"""The checks of the site. Nothing that a check needs is imported here: sites register theirs when Django starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from django_redis_components.dashboard.problems.problem import Problem

if TYPE_CHECKING:
    from django_redis_components.dashboard.problems.facts import ProblemFacts

Check = Callable[["ProblemFacts"], Iterable[Problem]]
C = TypeVar("C", bound=Check)

#: The registered checks, in order.
SITE_CHECKS: list[Check] = []


def register_check(check: C) -> C:
    """Add a check of the site, and return it, so that it can be a decorator. Call it in `AppConfig.ready()`.

    The check is called with `ProblemFacts` and returns or yields `Problem`s. It runs with each refresh of the overview,
    so it must be fast. If it raises, that is a problem itself.

    Raises:
        TypeError: it cannot be called.
    """
    if not callable(check):
        raise TypeError(f"register_check({check!r}): expected a function that gets ProblemFacts and yields Problems.")
    if check not in SITE_CHECKS:
        SITE_CHECKS.append(check)
    return check


def unregister_check(check: Check) -> None:
    """Remove a check of the site. An unknown one is ignored."""
    if check in SITE_CHECKS:
        SITE_CHECKS.remove(check)
