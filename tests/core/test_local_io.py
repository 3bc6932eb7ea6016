"""Operations on local files in flows."""

from __future__ import annotations

import threading

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow, LocalIO, arun, run
from tests.support import Store, run_async


def read(operation: object) -> Flow[object]:
    return (yield LocalIO(operation))  # type: ignore[arg-type]


def test_sync_driver_performs_it_in_this_thread(redis_server: Store) -> None:
    assert run(connections.client(), read(threading.get_ident)) == threading.get_ident()


def test_async_driver_performs_it_in_another_thread(redis_server: Store) -> None:
    async def scene() -> object:
        return await arun(connections.aclient(), read(threading.get_ident))

    assert run_async(scene) != threading.get_ident()


def test_error_of_the_operation_is_raised_in_the_flow(redis_server: Store) -> None:
    with pytest.raises(ZeroDivisionError):
        run(connections.client(), read(lambda: 1 / 0))
