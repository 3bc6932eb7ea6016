"""What the tasks of one test go through and have seen does not reach the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.taskqueue.iterating.tasks import seen, sources


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    yield
    sources.clear()
    seen.clear()
