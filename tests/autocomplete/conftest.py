"""What the tests of autocomplete share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_redis_components.autocomplete import registry, widgets


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    """Run each test without registered indexes, and restore them afterwards."""
    sources, used = dict(registry._sources), set(widgets.used_indexes)
    registry._sources.clear()
    widgets.used_indexes.clear()
    yield
    registry._sources.clear()
    registry._sources.update(sources)
    widgets.used_indexes.clear()
    widgets.used_indexes.update(used)
