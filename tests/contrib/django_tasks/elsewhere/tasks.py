"""Tasks of a site whose default backend is another; some are sent to Redis."""

from __future__ import annotations

from tests.contrib.django_tasks.framework import task


@task
def double(value: int) -> int:
    """Runs at once, unless `using(backend="redis")` sends it."""
    return value * 2
