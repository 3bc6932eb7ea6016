"""The scripts that accept rows of the outbox, on each store: each row once, whatever became of its task's record."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ResponseError

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import chain, outbox
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.flows.enqueue import Callbacks, prepare_flow
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.shards import home
from tests.contrib.outbox.support import ready, tokens, use_outbox
from tests.support import Store
from tests.taskqueue.support import base_key
from tests.taskqueue.tasks import add

pytestmark = [pytest.mark.integration, pytest.mark.contract]


def accept(*messages: Any, sender: int = outbox.COMMITTER) -> list[Any]:
    tasks = [(outbox.token_of(message), message.arguments) for message in messages]
    replies: list[Any] = connections.client().execute(outbox.send_once(home(), tasks, sender))
    return replies


def message_of(*args: int, **options: Any) -> Any:
    return prepare(add.using(**options), args, {}, accepts_id=True)[1]


def test_task_is_accepted_once_for_its_row(store: Store) -> None:
    first, second = message_of(1, 1), message_of(2, 2)

    accepted = accept(first, second)
    store.raw.delete(base_key(store, "t", first.id))

    assert accept(first, second) == accepted
    assert accepted[1] == accepted[0] + 1
    assert tokens(store) == [first.id, second.id]
    assert ready() == 2


@pytest.mark.parametrize("sender", range(4))
def test_reply_says_whether_another_sender_has_sent_the_row(store: Store, sender: int) -> None:
    message = message_of(1, 1)

    accepted = accept(message, sender=sender)

    replies = [accept(message, sender=number) for number in range(4)]
    assert replies == [accepted if number == sender else [-accepted[0]] for number in range(4)]
    [(_, score)] = store.raw.zrange(base_key(store, "outbox"), 0, -1, withscores=True)
    assert (int(score), outbox.sender_in(score)) == (accepted[0], sender)


def test_task_with_the_unique_key_of_another_is_not_accepted(store: Store) -> None:
    first, second = message_of(1, 1, unique=True), message_of(1, 1, unique=True)

    accepted, [other, _record] = accept(first, second)

    assert accepted > 0
    assert other == first.id.encode()
    assert ready() == 1
    store.raw.delete(base_key(store, "t", first.id))
    assert all(reply > 0 for reply in accept(first, second))
    assert ready() == 1


def test_task_is_scheduled_or_has_a_priority(store: Store) -> None:
    accept(message_of(1, 1, run_after=60), message_of(2, 2, priority=1))

    assert store.raw.zcard(base_key(store, "q", "default", "scheduled")) == 1
    assert store.raw.zcard(base_key(store, "q", "default", "priority")) == 1


@pytest.mark.parametrize(("part", "options"), [("priority", {"priority": 1}), ("ready", {"queue_name": "other"})])
def test_task_that_cannot_be_accepted_is_accepted_when_the_cause_is_gone(
    store: Store, part: str, options: dict[str, Any]
) -> None:
    first, second = message_of(1, 1), message_of(2, 2, **options)
    key = base_key(store, "q", options.get("queue_name", "default"), part)
    store.raw.set(key, "of another type")

    with pytest.raises(ResponseError, match="WRONGTYPE"):
        accept(first, second)
    assert tokens(store) == [first.id]
    store.raw.delete(key)
    accept(first, second)

    assert tokens(store) == [first.id, second.id]
    assert ready() == 1 + (part == "priority")
    assert store.raw.exists(key)


def test_row_of_another_call_with_the_same_id_is_accepted_after_its_record_was_deleted(store: Store) -> None:
    first, second = message_of(1, 1, id="pay"), message_of(1, 1, id="pay")
    accept(first)
    assert ready() == 1

    store.raw.delete(base_key(store, "t", "pay"))
    accept(second)

    assert ready() == 2


def test_flow_is_accepted_once_for_its_row(store: Store, settings: Any) -> None:
    use_outbox(settings)
    prepared = prepare_flow(FlowGraph(chain(add.s(1, 1), add.s(2))), Callbacks(), on_commit=True)
    flow, client = prepared.result, connections.client()
    [accepted] = [client.execute(call) for call in prepared.calls]

    store.raw.delete(base_key(store, "flow", flow.id), *(base_key(store, "t", each.id) for each in flow.results))

    assert [client.execute(call) for call in prepared.calls] == [accepted]
    row = outbox.row_of_flow(home(), flow.id, prepared.calls)
    [(_, _, calls)] = outbox.calls_of("default", [row], sender=3)
    assert [client.execute(call) for call in calls] == [-accepted]
    assert tokens(store) == [flow.id]
    assert not store.raw.exists(base_key(store, "flow", flow.id))
