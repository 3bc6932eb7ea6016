"""What the runs of one test got does not reach the next."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.taskqueue.batching.tasks import latest, runs


@pytest.fixture(autouse=True)
def _nothing_noted() -> Iterator[None]:
    yield
    runs.clear()
    latest.clear()
