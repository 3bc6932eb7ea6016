"""The names of decorators whose functions were called are in the catalogue."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.observability.catalog import RECORDER, catalog_key
from django_redis_components.core.observability.declared_names import KIND, DeclaredName, declare, declared_flow
from django_redis_components.core.protocol import run
from django_redis_components.locks import lock
from django_redis_components.semaphores import semaphore
from tests.support.stores import Store


@pytest.fixture(autouse=True)
def _recorded(redis_server: Store, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": True}


def declared() -> list[DeclaredName]:
    RECORDER.flush()
    return run(client(), declared_flow("default"))


def where(func: Callable[..., Any]) -> str:
    return f"{func.__module__}.{func.__qualname__}"


def test_names_templates_and_functions_are_distinguished() -> None:
    @lock("nightly")
    def exact() -> None: ...

    @semaphore("order:{order_id}", limit=2)
    def template(order_id: int) -> None: ...

    @lock(lambda: "made")
    def made() -> None: ...

    assert declared() == [], "nothing was called yet"
    exact()
    template(7)
    made()

    assert declared() == [
        DeclaredName("locks", "", where(made), "default", False),
        DeclaredName("locks", "nightly", where(exact), "default", True),
        DeclaredName("semaphores", "order:{order_id}", where(template), "default", False),
    ]


def test_a_call_is_recorded_once_an_hour() -> None:
    @lock("nightly")
    def work() -> None: ...

    work()
    assert RECORDER.take()
    work()

    assert RECORDER.take() == {}


def test_a_decorator_that_is_applied_at_each_call_is_recorded_once() -> None:
    def call() -> None:
        @lock("nightly")
        def work() -> None: ...

        work()

    call()
    assert RECORDER.take()
    call()

    assert RECORDER.take() == {}


def test_callable_without_a_name_is_recorded_by_its_class() -> None:
    class Work:
        def __call__(self) -> None: ...

    _, entry = declare("locks", "nightly", Work(), "default")

    assert (entry.name, entry.options) == (where(Work), {"component": "locks", "name": "nightly"})


@pytest.mark.parametrize("options", [{}, {"component": "drawers", "name": "a"}, {"component": "locks", "name": 7}])
def test_entries_of_other_programs_are_not_shown(redis_server: Store, options: dict[str, Any]) -> None:
    redis_server.raw.zadd(catalog_key(KIND), {json.dumps(["shop.pay", "default", options]): time.time()})

    assert declared() == []
