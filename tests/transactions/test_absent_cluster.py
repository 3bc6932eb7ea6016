"""A Cluster without a reachable node: a connection error is raised, and the next call tries again."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.transactions import aatomic_update, atomic_update
from tests.support import run_async
from tests.transactions.accounts import double

NOWHERE = {"PREFIX": "nowhere", "CONNECTIONS": {"default": {"URL": "redis+cluster://127.0.0.1:1"}}}


def test_connection_error_is_raised_when_no_cluster_node_answers(settings: Any) -> None:
    settings.REDIS_COMPONENTS = NOWHERE

    with pytest.raises(NotConnected, match="No node of the cluster"):
        atomic_update(double("account"), "account", max_attempts=2)


def test_async_connection_error_is_raised_when_no_cluster_node_answers(settings: Any) -> None:
    settings.REDIS_COMPONENTS = NOWHERE

    with pytest.raises(NotConnected, match="No node of the cluster"):
        run_async(lambda: aatomic_update(double("account"), "account", max_attempts=2))
