"""`RepeatedErrorLog`: what a loop that fails for ever writes to the log."""

from __future__ import annotations

import logging

import pytest

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.repeated_errors import MAX_TRACEBACKS, RepeatedErrorLog

LOGGER = "django_redis_components.core"


class Clock:
    """Monotonic seconds that a test sets."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(clock: Clock, caplog: pytest.LogCaptureFixture) -> RepeatedErrorLog:
    caplog.set_level(logging.INFO, LOGGER)
    return RepeatedErrorLog(guarded_logger(LOGGER), "The loop", clock=clock)


def fail(log: RepeatedErrorLog, clock: Clock, seconds: float, *, times: int = 1) -> None:
    """Fail this number of times, each at this interval in seconds."""
    for _ in range(times):
        clock.now += seconds
        log.failed(ValueError("odd"))


def test_loop_that_fails_every_two_seconds_for_a_day_logs_one_traceback_and_few_lines(
    log: RepeatedErrorLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fail(log, clock, 2, times=43_200)

    records = caplog.records
    assert [bool(record.exc_info) for record in records].count(True) == 1
    assert records[0].getMessage() == "The loop failed; retrying."
    assert records[1].getMessage() == (
        "The loop failed 15 times more in the last 30 s; the latest error: ValueError('odd')"
    )
    assert len(records) < 35
    told = [int(record.getMessage().split()[3]) for record in records[1:]]
    assert told[:4] == [15, 30, 60, 120]
    assert told[-1] == 1_800, "at least once in an hour"
    assert sum(told) + 1 <= log.count <= sum(told) + 1 + 1_800, "each failure is counted in one line"


def test_end_is_logged_once(log: RepeatedErrorLog, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    fail(log, clock, 2, times=5)
    clock.now += 2
    log.succeeded()
    log.succeeded()

    assert [record.getMessage() for record in caplog.records][1:] == [
        "The loop works again: it has failed for 10.0 s (5×)."
    ]
    assert log.count == 0


def test_loop_that_fails_every_other_time_logs_no_more_than_one_that_always_fails(
    log: RepeatedErrorLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(300):
        fail(log, clock, 2)
        log.succeeded()

    texts = [record.getMessage() for record in caplog.records]
    assert sum(bool(record.exc_info) for record in caplog.records) == 1
    assert len(texts) <= 12
    assert all("works again" in text for text in texts[1::2]), "each message that it fails has an end"


def test_another_error_is_logged_with_its_traceback(
    log: RepeatedErrorLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fail(log, clock, 2)
    log.failed(KeyError("other"))
    log.failed(KeyError("other"))

    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["odd", "'other'"]
    assert len(caplog.records) == 2


def test_errors_of_ever_new_classes_do_not_fill_the_log(
    log: RepeatedErrorLog, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(100):
        log.failed(type(f"Odd{number}", (Exception,), {})())

    assert len(caplog.records) == MAX_TRACEBACKS


def test_error_after_a_quiet_time_is_logged_like_the_first(
    log: RepeatedErrorLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    fail(log, clock, 2)
    log.succeeded()
    fail(log, clock, 1_000)

    assert [bool(record.exc_info) for record in caplog.records] == [True, False, True]
