"""Rows of a spread queue: each names its shard, and is sent there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.taskqueue import Concurrency, chain, get_queue, get_result, routing
from django_redis_components.taskqueue.outbox import calls_of
from tests.contrib.outbox.support import relay_once, row_count
from tests.support.stores import Stores
from tests.taskqueue.shards.support import TwoShards, count_in, two_servers
from tests.taskqueue.tasks import add, note

events = note.using(queue_name="events")
sums = add.using(queue_name="events")
limited = sums.using(concurrency=Concurrency(1, key="{a}"))


@pytest.fixture
def shards(stores: Stores, settings: Any, table: None) -> Iterator[TwoShards]:
    """Two servers as shards of the queue "events", whose tasks use the outbox."""
    with two_servers(stores, settings, OUTBOX=True, QUEUES={"events": ["default", "b"], "default": None}) as made:
        yield made


def enqueue_some(count: int) -> list[Any]:
    with transaction.atomic():
        return [task.enqueue_on_commit(number, 1) for number in range(count) for task in (sums, limited)]


def test_tasks_of_a_transaction_are_sent_to_their_shards(shards: TwoShards) -> None:
    results = enqueue_some(6)

    assert get_queue("events").info().ready == 12
    for result in results:
        result.refresh()


def test_rows_of_a_shard_that_is_away_are_sent_when_it_answers(shards: TwoShards) -> None:
    shards.server_b.kill()
    results = enqueue_some(6)
    rows = list(OutboxEntry._base_manager.order_by("id"))
    parts = [shard.name for shard, *_ in calls_of("default", rows)]
    relay_once()
    left = row_count()
    shards.server_b.start()

    relay_once()
    relay_once()

    assert parts == ["default", "b"]  # one call for each
    assert 0 < left < 12
    assert row_count() == 0
    assert get_queue("events").info().ready == 12
    assert len({get_result(result.id).id for result in results}) == 12


def test_flow_has_the_shard_that_its_row_names(shards: TwoShards) -> None:
    with transaction.atomic():
        flows = [chain(sums.s(1, 2), sums.s(number)).enqueue_on_commit() for number in range(4)]

    for flow in flows:
        flow.refresh()
        assert [result.state for result in flow.results] == ["ready", "waiting"]


def test_tasks_without_a_key_are_stored_for_a_shard_that_answers(shards: TwoShards) -> None:
    shards.server_b.kill()
    for number in range(2):  # the process notices that the shard is away
        events.using(outbox=False).enqueue(number)

    with transaction.atomic():
        results = [events.enqueue_on_commit(number) for number in range(4)]

    for result in results:
        assert get_result(result.id).state == "ready"
    shards.server_b.start()


def test_tasks_are_stored_again_for_a_shard_that_was_left_out_for_a_while(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "RETRY_S", 0.0)
    shards.server_b.kill()
    for number in range(2):  # the process notices that the shard is away
        events.using(outbox=False).enqueue(number)
    shards.server_b.start()

    for number in range(2):
        with transaction.atomic():
            events.enqueue_on_commit(number)

    assert count_in(shards) == (3, 1)
