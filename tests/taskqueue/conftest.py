"""Nothing that one test's tasks record reaches the next, and child processes stop as they do in a deployment."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from django_redis_components.taskqueue import signals
from tests.support.processes import Child, Children

#: Seconds that a process gets to end by itself at the end of its test.
EXIT_S = 5.0


class TerminatedChildren(Children):
    """Children that are asked to end, and asked again, before they are killed: their coverage is kept."""

    def close(self) -> None:
        deadline = time.monotonic() + EXIT_S
        for child in self._all:
            while child.returncode is None and time.monotonic() < deadline:
                _ask(child)
        super().close()


def _ask(child: Child) -> None:
    child.signal(signal.SIGCONT)
    child.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.process.wait(0.1)


@pytest.fixture
def children() -> Iterator[Children]:
    """Starts processes and ends them with the test."""
    with TerminatedChildren() as started:
        yield started


@pytest.fixture(autouse=True)
def _no_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers that other tests, or the examples of the documents, have left."""
    for each in (signals.task_enqueued, signals.task_started, signals.task_retrying, signals.task_finished):
        monkeypatch.setattr(each, "receivers", [])
