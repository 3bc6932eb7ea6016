"""Fixtures for pytest. In the site's `conftest.py`:

    pytest_plugins = ["django_redis_components.testing.pytest_plugin"]

=======================  =========================================================================
``redis_tasks``          `captured()`: tasks are collected; ``redis_tasks.run()`` runs them
``redis_tasks_inline``   `inline()`: tasks run when they are enqueued
=======================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from django_redis_components.core.exceptions import missing_extra
from django_redis_components.testing.capture import captured, inline

try:
    import pytest
except ModuleNotFoundError as exc:
    raise missing_extra("The plugin for pytest", "pytest", "pytest") from exc


@pytest.fixture
def redis_tasks() -> Iterator[captured]:
    """Collect enqueued tasks in memory; `redis_tasks.run()` runs them."""
    with captured() as sent:
        yield sent


@pytest.fixture
def redis_tasks_inline() -> Iterator[inline]:
    """Run tasks in this thread when they are enqueued."""
    with inline() as sent:
        yield sent
