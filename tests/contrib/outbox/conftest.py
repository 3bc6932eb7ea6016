"""The app of the outbox and its table in the database of the tests, for a test that asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contrib.outbox.support import installed_outbox, outbox_table


@pytest.fixture
def installed() -> Iterator[None]:
    with installed_outbox():
        yield


@pytest.fixture
def table(transactional_db: None, installed: None, settings: Any) -> Iterator[None]:
    with outbox_table(settings):
        yield
