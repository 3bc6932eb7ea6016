"""The safeguard: which attempts it allows after a failure, and what it logs."""

from __future__ import annotations

import asyncio

import pytest
from redis.exceptions import ClusterDownError, ConnectionError, OutOfMemoryError, ReadOnlyError, ResponseError

from django_redis_components.analytics import safeguard
from django_redis_components.analytics.safeguard import Safeguard
from django_redis_components.core.circuit_breaker import breaker_for
from django_redis_components.core.client.exceptions import SlotMigrating
from django_redis_components.core.exceptions import UnsupportedServer


def fail(guard: Safeguard, error: BaseException) -> None:
    with guard.suppress_errors("page views"):
        raise error


def test_new_safeguard_allows_attempts() -> None:
    guard = Safeguard()

    assert guard.allows_attempt()
    assert guard.allows_attempt()


@pytest.mark.parametrize("error", [ConnectionError("gone"), UnsupportedServer("Redis 6.2.14", "here")])
def test_error_of_redis_pauses_attempts(error: Exception) -> None:
    guard = Safeguard()

    fail(guard, error)

    assert not guard.allows_attempt()


def test_one_attempt_is_allowed_after_the_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Safeguard()
    monkeypatch.setattr(safeguard, "OPEN_S", 0.0)
    fail(guard, ConnectionError("gone"))
    monkeypatch.setattr(safeguard, "OPEN_S", 60.0)

    assert [guard.allows_attempt() for _ in range(3)] == [True, False, False]


def test_success_ends_the_pause() -> None:
    guard = Safeguard()
    fail(guard, ConnectionError("gone"))

    with guard.suppress_errors("page views"):
        pass

    assert [guard.allows_attempt(), guard.allows_attempt()] == [True, True]


@pytest.mark.parametrize("error", [ReadOnlyError("READONLY"), OutOfMemoryError("OOM"), ResponseError("NOPERM")])
def test_error_reply_pauses_nothing_that_reads(error: Exception) -> None:
    """A server that refuses a write answers: suggestions and chats of the same connection go on."""
    guard = Safeguard()

    fail(guard, error)

    assert guard.allows_attempt()
    assert not breaker_for("default").is_open


@pytest.mark.parametrize("error", [SlotMigrating(7, 1.0, "here"), ClusterDownError("The nodes disagree.")])
def test_wait_for_a_slot_pauses_counting_and_nothing_else(error: Exception) -> None:
    guard = Safeguard()

    fail(guard, error)

    assert not guard.allows_attempt()
    assert not breaker_for("default").is_open


def test_success_ends_the_pause_after_a_wait_for_a_slot() -> None:
    guard = Safeguard()
    fail(guard, SlotMigrating(7, 1.0, "here"))

    with guard.suppress_errors("page views"):
        pass

    assert [guard.allows_attempt(), guard.allows_attempt()] == [True, True]


def test_other_errors_do_not_pause_attempts(caplog: pytest.LogCaptureFixture) -> None:
    guard = Safeguard()

    fail(guard, ValueError("user_id=-1"))
    fail(guard, ValueError("user_id=-2"))

    assert guard.allows_attempt()
    assert [record.getMessage() for record in caplog.records] == ["Cannot count page views."]


def test_one_line_per_minute_is_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Safeguard()
    fail(guard, ConnectionError("gone"))
    fail(guard, ConnectionError("still gone"))
    assert [record.getMessage() for record in caplog.records] == [
        "Redis is unavailable, page views are not counted: gone"
    ]

    monkeypatch.setattr(safeguard, "LOG_EVERY_S", 0.0)
    guard.reset()
    fail(guard, ConnectionError("a"))
    fail(guard, ConnectionError("b"))

    assert len(caplog.records) == 3


def test_error_reply_is_logged_as_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    fail(Safeguard(), OutOfMemoryError("OOM command not allowed"))

    assert [record.getMessage() for record in caplog.records] == [
        "Redis refused the request, page views are not counted: OOM command not allowed"
    ]


def test_cancellation_is_not_suppressed() -> None:
    with pytest.raises(asyncio.CancelledError):
        fail(Safeguard(), asyncio.CancelledError())


def test_changed_settings_end_the_pause(settings: object) -> None:
    fail(safeguard.SAFEGUARD, ConnectionError("gone"))

    settings.REDIS_COMPONENTS = {}  # type: ignore[attr-defined]

    assert safeguard.SAFEGUARD.allows_attempt()
