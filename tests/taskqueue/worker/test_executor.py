"""One run: its failpoints."""

from __future__ import annotations

import pytest

from django_redis_components.taskqueue import failpoints
from tests.support import Store
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.integration


def test_failpoints_of_a_run_are_reached_in_order(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    monkeypatch.setattr(failpoints, "hook", passed.append)
    note.enqueue(1)

    work_off()

    assert passed == ["after_fetch", "before_run", "after_run", "before_ack"]
