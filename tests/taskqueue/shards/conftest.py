"""Fixtures of the tests of shards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.processes import Children
from tests.support.stores import Stores
from tests.taskqueue.shards.support import TwoShards, two_servers


@pytest.fixture
def shards(stores: Stores, settings: Any, children: Children) -> Iterator[TwoShards]:
    """Two servers of this test, as two shards."""
    with two_servers(stores, settings) as made:
        yield made
        children.close()
