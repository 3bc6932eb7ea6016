"""What the tests of autocomplete share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_redis_components.autocomplete import registry, widgets


@pytest.fixture(autouse=True)
def _own_registry() -> Iterator[None]:
    """Run each test without registered indexes, and restore them afterwards."""
    sources, used = registry.registered(), set(widgets.used_indexes)
    unregister_all()
    yield
    unregister_all()
    for source in sources:
        registry.register(source)
    widgets.used_indexes.update(used)


def unregister_all() -> None:
    for source in registry.registered():
        registry.unregister(source.name)
    widgets.used_indexes.clear()
