"""Throttled tasks of several clients: at each end of a period all of them call at once, and one call is accepted."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from django_redis_components.taskqueue import Unique
from tests.support import Store, run_together
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.tasks import note

#: Clients, seconds of a period, and periods in which each client calls.
CLIENTS, PERIOD_S, PERIODS = 4, 0.05, 5


@pytest.mark.contract
def test_clients_that_call_at_once_are_accepted_once_per_period(store: Store) -> None:
    calls = [call for some in run_together(CLIENTS, call_in_periods) for call in some]

    accepted = sorted((at_us, task_id) for task_id, is_duplicate, at_us in calls if not is_duplicate)
    ids = [task_id for _, task_id in accepted]
    assert len(ids) == len(set(ids)) >= PERIODS
    assert {task_id for task_id, *_ in calls} == set(ids), "the other calls return the task of the period"
    assert min(after - before for (before, _), (after, _) in pairwise(accepted)) >= PERIOD_S * 1_000_000


def call_in_periods() -> list[tuple[str, bool, int]]:
    """Call until tasks of `PERIODS` periods were returned; return id, whether it is a duplicate, and when accepted."""
    throttled = note.using(unique=Unique(until=PERIOD_S, key=lambda what: "one"))
    calls: list[tuple[str, bool, int]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len({task_id for task_id, *_ in calls}) < PERIODS and time.monotonic() < deadline:
        result = throttled.enqueue("x")
        assert result.enqueued_at is not None
        calls.append((result.id, result.is_duplicate, round(result.enqueued_at.timestamp() * 1_000_000)))
    return calls
