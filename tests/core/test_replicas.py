"""How long a write waits for replicas."""

from __future__ import annotations

from django_redis_components.core.client.budget import page_budget
from django_redis_components.core.replicas import wait_limit_ms
from tests.support import Store


def test_wait_ends_before_the_budget_of_a_page(redis_server: Store) -> None:
    with page_budget(0.5):
        assert wait_limit_ms("default") == 150
        assert wait_limit_ms("default", lease_ms=200) == 60

    assert wait_limit_ms("default") == 1_000


def test_wait_in_a_page_without_budget_is_the_shortest(redis_server: Store) -> None:
    with page_budget(0.5) as budget:
        budget.spend(1.0)
        assert wait_limit_ms("default") == 1
