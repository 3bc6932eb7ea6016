"""The guard: who is let through after a failure, and what reaches the log."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.analytics import safeguard as guard
from django_redis_components.analytics.safeguard import Guard
from django_redis_components.core.exceptions import UnsupportedServer


def fail(door: Guard, error: BaseException) -> None:
    with door.attempt("page views"):
        raise error


def test_a_new_guard_is_open() -> None:
    door = Guard()

    assert door.open()
    assert door.open()


@pytest.mark.parametrize("error", [ConnectionError("gone"), UnsupportedServer("Redis 6.2.14", "here")])
def test_after_an_error_of_redis_it_is_shut_for_a_while(error: Exception) -> None:
    door = Guard()

    fail(door, error)

    assert not door.open()


def test_after_the_pause_one_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Guard()
    monkeypatch.setattr(guard, "PAUSE_S", 0.0)
    fail(door, ConnectionError("gone"))
    monkeypatch.setattr(guard, "PAUSE_S", 60.0)

    assert [door.open() for _ in range(3)] == [True, False, False]


def test_success_opens_it_for_all() -> None:
    door = Guard()
    fail(door, ConnectionError("gone"))

    with door.attempt("page views"):
        pass

    assert [door.open(), door.open()] == [True, True]


def test_other_errors_do_not_shut_it(caplog: pytest.LogCaptureFixture) -> None:
    door = Guard()

    fail(door, ValueError("user_id=-1"))
    fail(door, ValueError("user_id=-2"))

    assert door.open()
    assert [record.getMessage() for record in caplog.records] == ["An error kept page views from being counted."]


def test_the_log_gets_a_line_a_minute(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    door = Guard()
    fail(door, ConnectionError("gone"))
    fail(door, ConnectionError("still gone"))
    assert [record.getMessage() for record in caplog.records] == ["Redis is away, page views are not counted: gone"]

    monkeypatch.setattr(guard, "LOG_EVERY_S", 0.0)
    door.reset()
    fail(door, ConnectionError("a"))
    fail(door, ConnectionError("b"))

    assert len(caplog.records) == 3


def test_a_cancelled_task_stays_cancelled() -> None:
    with pytest.raises(asyncio.CancelledError):
        fail(Guard(), asyncio.CancelledError())


def test_new_settings_open_it(settings: object) -> None:
    fail(guard.GUARD, ConnectionError("gone"))

    settings.REDIS_COMPONENTS = {}  # type: ignore[attr-defined]

    assert guard.GUARD.open()
