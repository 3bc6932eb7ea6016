"""Flows that are sent in several parts, from the outbox: by the process, by the relay, and by both."""

from __future__ import annotations

import pytest
from django.db import transaction

from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.contrib.outbox.relay import Relay
from django_redis_components.core.client import connections
from django_redis_components.taskqueue import group, outbox
from tests.contrib.outbox.support import nothing_is_sent, ready, row_count, tokens
from tests.support import Store, eventually
from tests.taskqueue.flows.support import poll
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import echo, note, recorded

pytestmark = [pytest.mark.integration, pytest.mark.contract]

#: A flow of two parts (250 tasks), and more tasks than its acceptance starts (300).
SIZE = 310


@pytest.mark.parametrize("sender", ["process", "relay", "a dead process and the relay"])
def test_flow_of_several_parts_is_accepted_and_runs_once(store: Store, table: None, sender: str) -> None:
    flow = group(note.s(number) for number in range(SIZE)).then(echo.s())
    if sender == "process":
        with transaction.atomic():
            sent = flow.enqueue_on_commit()
    else:
        with nothing_is_sent(), transaction.atomic():
            sent = flow.enqueue_on_commit()
    if sender.endswith("and the relay"):
        send_first_part()
        assert ready() == 0, "no task starts before the last part"

    relay = Relay("default")
    eventually(lambda: (relay.step(), row_count() == 0)[1])  # on a busy machine a pass may lose its lease
    relay.release()
    poll(store)

    assert (row_count(), ready(), tokens(store)) == (0, SIZE, [sent.id])
    work_off()
    sent.refresh()
    assert recorded == list(range(SIZE))
    assert sent.results[-1].return_value == [[list(range(SIZE))], {}]


def send_first_part() -> None:
    """Send what a process sends that dies after its first request."""
    [row] = [outbox.OutboxRow(entry.token, bytes(entry.message)) for entry in OutboxEntry._base_manager.all()]
    [(_, _, calls)] = outbox.calls_of("default", [row])
    assert len(calls) == 2
    assert connections.client().execute(calls[0])
