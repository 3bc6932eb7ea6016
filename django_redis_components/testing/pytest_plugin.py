"""Fixtures for pytest. In the site's `conftest.py`:

    pytest_plugins = ["django_redis_components.testing.pytest_plugin"]

=======================  =========================================================================
``redis_tasks``          `captured()`: tasks are kept in memory; ``redis_tasks.run()`` runs them
``redis_tasks_inline``   `inline()`: tasks run when they are sent
=======================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from django_redis_components.core.exceptions import missing_extra
from django_redis_components.testing.modes import captured, inline

try:
    import pytest
except ModuleNotFoundError as exc:
    raise missing_extra("The plugin for pytest", "pytest", "pytest") from exc


@pytest.fixture
def redis_tasks() -> Iterator[captured]:
    """Tasks that are sent are kept in memory and do not run; `redis_tasks.run()` runs them."""
    with captured() as sent:
        yield sent


@pytest.fixture
def redis_tasks_inline() -> Iterator[inline]:
    """Tasks run in this thread when they are sent."""
    with inline() as sent:
        yield sent
