"""Tasks go to the shard of their queue, and are found in any."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from redis.exceptions import ConnectionError

from django_redis_components.taskqueue import (
    TaskResultDoesNotExist,
    Unique,
    aget_result,
    chain,
    get_flow,
    get_result,
    group,
)
from tests.support.asynchronous import run_async
from tests.taskqueue.shards.support import TwoShards, set_options
from tests.taskqueue.tasks import add, note

mail = note.using(queue_name="mail")


def ids_in(shards: TwoShards, tag: str) -> set[str]:
    store = shards.a if tag == "default" else shards.b
    return {key.decode().rpartition(":")[2] for key in shards.keys_of(store, tag) if b":t:" in key}


def test_task_goes_to_the_shard_of_its_queue_and_nothing_else_to_that_server(shards: TwoShards) -> None:
    here, there = note.enqueue(1), mail.enqueue(2)

    assert (ids_in(shards, "default"), ids_in(shards, "b")) == ({here.id}, {there.id})
    assert shards.keys_of(shards.b, "default") == []
    assert shards.keys_of(shards.a, "b") == []
    assert here.using == there.using == "default"


def test_result_is_found_in_any_shard(shards: TwoShards) -> None:
    here, there = note.enqueue(1), mail.enqueue(2)

    assert [get_result(each.id).queue_name for each in (here, there)] == ["default", "mail"]
    assert note.get_result(there.id) == there
    assert run_async(aget_result, there.id).state == "ready"
    there.refresh()
    there.cancel()
    assert get_result(there.id).state == "cancelled"
    with pytest.raises(TaskResultDoesNotExist):
        get_result("unknown")


def test_shard_that_is_away_hides_no_result_of_another_and_is_not_taken_for_missing(shards: TwoShards) -> None:
    here = note.enqueue(1)
    shards.server_b.kill()

    assert get_result(here.id).state == "ready"
    with pytest.raises(ConnectionError):
        get_result("unknown")
    with pytest.raises(ConnectionError):
        mail.enqueue(2)
    assert note.enqueue(3).state == "ready"


def test_many_tasks_are_sent_to_their_shard(shards: TwoShards) -> None:
    results = mail.enqueue_many([((number,), {}) for number in range(1_200)])

    assert ids_in(shards, "b") == {result.id for result in results}
    assert mail.enqueue_many([]) == []


@pytest.mark.django_db(transaction=True)
def test_tasks_of_a_transaction_go_to_their_shards_in_order(shards: TwoShards) -> None:
    with transaction.atomic():
        sent = [task.enqueue_on_commit(number) for number, task in enumerate([note, mail, mail, note])]
        assert ids_in(shards, "b") == set()

    assert ids_in(shards, "b") == {sent[1].id, sent[2].id}
    assert ids_in(shards, "default") == {sent[0].id, sent[3].id}


def test_unique_key_holds_in_its_shard(shards: TwoShards) -> None:
    unique = mail.using(unique=Unique())

    first, again = unique.enqueue(1), unique.enqueue(1)

    assert (again.id, again.is_duplicate) == (first.id, True)


def test_chosen_id_is_found_in_the_shard_of_an_earlier_route(shards: TwoShards, settings: Any) -> None:
    first = mail.using(id="invoice-1").enqueue(1)
    set_options(settings, QUEUES={"mail": None, "default": None})

    again = mail.using(id="invoice-1").enqueue(1)

    assert (again.is_duplicate, again.id) == (True, first.id)
    assert ids_in(shards, "default") == set()
    again.refresh()
    assert again.cancel()


def test_flow_is_in_the_shard_of_its_first_task(shards: TwoShards) -> None:
    step = add.using(queue_name="mail").s(1)
    flow = chain(add.using(queue_name="mail").s(1, 2), group(step, add.s(2)), note.s()).enqueue()

    assert ids_in(shards, "b") == {result.id for result in flow.results}
    assert ids_in(shards, "default") == set()
    found = get_flow(flow.id)
    assert [result.id for result in found.results] == [result.id for result in flow.results]


def test_route_that_changes_moves_only_new_tasks(shards: TwoShards, settings: Any) -> None:
    before = mail.enqueue(1)
    set_options(settings, QUEUES={"mail": None, "default": "b"})
    after, other = mail.enqueue(2), note.enqueue(3)

    assert ids_in(shards, "b") == {before.id, other.id}
    assert ids_in(shards, "default") == {after.id}
    assert get_result(before.id).state == "ready"
