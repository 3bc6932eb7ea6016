"""A spread queue of which one shard answers, and accepts no writes: it is out of memory."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
from redis.exceptions import OutOfMemoryError

from django_redis_components.taskqueue import group, routing
from tests.support.asynchronous import run_async
from tests.taskqueue.shards.support import TwoShards, count_in, set_options
from tests.taskqueue.tasks import note

events = note.using(queue_name="events")


@pytest.fixture(autouse=True)
def spread(shards: TwoShards, settings: Any) -> None:
    """Spread the queue "events" over both shards."""
    set_options(settings, QUEUES={"default": None, "events": ["default", "b"], "mail": "b"})


@pytest.mark.parametrize("enqueue", [events.enqueue, partial(run_async, events.aenqueue)], ids=["sync", "async"])
def test_shard_is_available_again_when_it_accepts_writes(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, enqueue: Any
) -> None:
    caplog.set_level(logging.INFO, "django_redis_components")
    monkeypatch.setattr(routing, "RETRY_S", 0.0)  # each call asks
    shards.b.raw.config_set("maxmemory", 1)

    for number in range(6):
        enqueue(number)
    assert len([record for record in caplog.records if record.message.startswith("Shard b: ")]) == 1

    shards.b.raw.config_set("maxmemory", 0)
    for number in range(6):
        enqueue(number)
    assert count_in(shards) == (9, 3)
    assert caplog.messages[-1].startswith("Shard b: Redis is available again after ")


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_flow_of_which_a_part_was_accepted_goes_to_no_other_shard(shards: TwoShards, is_async: bool) -> None:
    def enqueue_in_each() -> None:
        for _ in "ab":
            run_async(large.aenqueue) if is_async else large.enqueue()

    used = shards.b.raw.info("memory")["used_memory"]
    shards.b.raw.config_set("maxmemory", used + (8 << 20))
    large = group(events.si("x" * (1 << 20)) for _ in range(12))  # in parts of about 1 MB

    with pytest.raises(OutOfMemoryError):
        enqueue_in_each()

    ids = [
        {key.rpartition(b":")[2] for key in shards.keys_of(store, name) if b":t:" in key}
        for store, name in ((shards.a, "default"), (shards.b, "b"))
    ]
    assert ids[1]
    assert ids[0].isdisjoint(ids[1])
