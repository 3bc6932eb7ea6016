"""The thread that adds collected data to Redis."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pytest

from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.observability import flushing
from django_redis_components.core.observability.flushing import Collector
from django_redis_components.core.protocol import Command
from tests.support import eventually
from tests.support.raising_logs import raising_logs


class Numbers(Collector):
    """Collects numbers, and keeps them in `added` instead of in Redis."""

    name = "numbers"
    logger = guarded_logger("django_redis_components.tests")
    warning = "Numbers are lost: %s"

    def __init__(self) -> None:
        self.added: list[int] = []
        self.errors: list[BaseException] = []
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self._numbers: list[int] = []

    def add(self, number: int) -> None:
        self._numbers.append(number)
        self.notify()

    def take(self) -> Mapping[str, Sequence[Command]]:
        taken, self._numbers = self._numbers, []
        if self.errors:
            raise self.errors.pop()
        self.added += taken
        return {}


@pytest.fixture(autouse=True)
def _flush_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing, "FLUSH_S", 0.01)


def test_thread_is_started_again_after_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = Numbers()

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        numbers.add(1)
    numbers.add(2)

    eventually(lambda: numbers.added == [1, 2])


def test_thread_continues_after_an_unexpected_error(caplog: pytest.LogCaptureFixture) -> None:
    numbers = Numbers()
    numbers.errors.append(ZeroDivisionError("division"))
    numbers.add(1)
    eventually(lambda: caplog.records)

    numbers.add(2)

    eventually(lambda: numbers.added == [2])
    assert caplog.records[0].getMessage() == "Cannot add the data of numbers to Redis."


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_thread_continues_while_the_logging_raises(error: type[BaseException]) -> None:
    numbers = Numbers()

    with raising_logs(error) as messages:
        for number in range(3):
            numbers.errors.append(error())
            numbers.add(number)
            eventually(lambda: len(messages) > number)  # noqa: B023 - called at once
        numbers.add(7)

        eventually(lambda: numbers.added == [7])
