"""The log of an outage: one message at its start, reminders, and one message at its end."""

from __future__ import annotations

import re
import threading

import pytest

from django_redis_components.taskqueue import outage_log
from django_redis_components.taskqueue.outage_log import OutageLog
from tests.support import run_together


def test_repeated_failures_are_logged_once() -> None:
    messages: list[str] = []
    outage = OutageLog(messages.append, messages.append, "Poller: ")

    run_together(8, lambda number: [outage.failed("away") for _ in range(100)])
    run_together(8, lambda number: outage.succeeded())

    assert messages[0] == "away"
    assert re.fullmatch(r"Poller: Redis is available again after \d+\.\d s\.", messages[1])
    assert len(messages) == 2


def test_end_of_an_outage_is_logged_after_its_start() -> None:
    messages: list[str] = []
    is_logging, may_log = threading.Event(), threading.Event()

    def warn(text: str) -> None:
        is_logging.set()
        assert may_log.wait(60)
        messages.append(text)

    outage = OutageLog(warn, messages.append)
    failing = threading.Thread(target=outage.failed, args=("away",))
    failing.start()
    assert is_logging.wait(60)
    succeeding = threading.Thread(target=outage.succeeded)
    succeeding.start()

    succeeding.join(0.1)
    may_log.set()

    failing.join(60)
    succeeding.join(60)
    assert messages[0] == "away"
    assert messages[1].startswith("Redis is available again after ")


def test_a_lasting_outage_is_logged_again_after_the_reminder_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage_log, "REMINDER_S", 0.0)
    messages: list[str] = []
    outage = OutageLog(messages.append, messages.append)

    for number in range(3):
        outage.failed(f"away {number}")

    assert messages == ["away 0", "away 1", "away 2"]


def test_the_next_outage_is_logged_at_once() -> None:
    messages: list[str] = []
    outage = OutageLog(messages.append, lambda text: None)

    outage.succeeded()
    outage.failed("first")
    outage.succeeded()
    outage.failed("second")

    assert messages == ["first", "second"]
    assert outage.is_active
