"""Fixtures for pytest, which loads this module by its entry point. It imports nothing until a test asks for a fixture.

==========================  =========================================================================
``redis_components_server`` `embedded_server()`: an empty Valkey server for all components
``redis_tasks``             `captured()`: tasks are collected; ``redis_tasks.run()`` runs them
``redis_tasks_inline``      `inline()`: tasks run when they are enqueued
==========================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django_redis_components.testing import EmbeddedServer, captured, inline


@pytest.fixture
def redis_components_server() -> Iterator[EmbeddedServer]:
    """Use an empty embedded Valkey server for all connections of `REDIS_COMPONENTS`."""
    from django_redis_components.testing import embedded_server

    with embedded_server() as server:
        yield server


@pytest.fixture
def redis_tasks() -> Iterator[captured]:
    """Collect enqueued tasks in memory; `redis_tasks.run()` runs them."""
    from django_redis_components.testing import captured

    with captured() as sent:
        yield sent


@pytest.fixture
def redis_tasks_inline() -> Iterator[inline]:
    """Run tasks in this thread when they are enqueued."""
    from django_redis_components.testing import inline

    with inline() as sent:
        yield sent
