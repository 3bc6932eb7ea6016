"""A Cluster of which no node answers: the error is that of the connection, and the next call looks again."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.exceptions import NotConnected
from django_redis_components.transactions import aatomic_update, atomic_update
from tests.support import run_async
from tests.transactions.accounts import double

NOWHERE = {"PREFIX": "nowhere", "CONNECTIONS": {"default": {"URL": "redis+cluster://127.0.0.1:1"}}}


def test_no_node_of_the_cluster_answers(settings: Any) -> None:
    settings.REDIS_COMPONENTS = NOWHERE

    with pytest.raises(NotConnected, match="No node of the cluster"):
        atomic_update(double("account"), "account", attempts=2)


def test_no_node_of_the_cluster_answers_the_twin(settings: Any) -> None:
    settings.REDIS_COMPONENTS = NOWHERE

    with pytest.raises(NotConnected, match="No node of the cluster"):
        run_async(lambda: aatomic_update(double("account"), "account", attempts=2))
