"""Two task backends; nothing that one test records reaches the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.taskqueue import registry
from tests.contrib.django_tasks.framework import IMMEDIATE, REDIS, signals
from tests.contrib.django_tasks.shop import tasks


@pytest.fixture(autouse=True)
def _clear_recorded() -> Iterator[None]:
    tasks.recorded.clear()
    yield
    tasks.recorded.clear()


@pytest.fixture(autouse=True)
def _names() -> Iterator[None]:
    """Tasks that a test registers are forgotten after it."""
    before = dict(registry.tasks)
    yield
    registry.tasks.clear()
    registry.tasks.update(before)


@pytest.fixture
def configure(settings: Any) -> Any:
    """Set TASKS: ``default`` is our backend, with these OPTIONS and QUEUES, and there may be further aliases."""

    def set_tasks(options: dict[str, Any] | None = None, queues: list[str] | None = None, **more: Any) -> None:
        default = {"BACKEND": REDIS, "QUEUES": queues or [], "OPTIONS": options or {}}
        settings.TASKS = {"default": default, "immediate": {"BACKEND": IMMEDIATE}, **more}

    return set_tasks


class ReceivedSignals(list[tuple[str, Any, Any]]):
    """What was sent: name of the signal, sender, and a copy of the result's status."""

    def names(self) -> list[str]:
        return [name for name, _, _ in self]


@pytest.fixture
def received() -> Iterator[ReceivedSignals]:
    """The framework's signals of this test."""
    found = ReceivedSignals()

    def receiver(name: str) -> Any:
        def receive(sender: Any, task_result: Any, **_: Any) -> None:
            found.append((name, sender, task_result.status))

        return receive

    receivers = {name: receiver(name) for name in ("task_enqueued", "task_started", "task_finished")}
    for name, each in receivers.items():
        getattr(signals, name).connect(each)
    yield found
    for name, each in receivers.items():
        getattr(signals, name).disconnect(each)
