"""Tasks of a spread queue: which shard accepts them, also while one is away."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest
from django.db import transaction
from redis.exceptions import ConnectionError, RedisError, ResponseError

from django_redis_components.core.client import connections
from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import (
    Concurrency,
    InvalidTask,
    PartiallyEnqueued,
    TaskIdConflict,
    Unique,
    chain,
    get_flow,
    get_result,
    group,
    routing,
)
from django_redis_components.taskqueue.fields import Part
from django_redis_components.taskqueue.shards import place, route_of
from tests.support import Proxy, eventually
from tests.support.asynchronous import run_async
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.shards.support import TwoShards, count_in, count_in_a, set_options
from tests.taskqueue.tasks import add, note

events = note.using(queue_name="events")
sums = add.using(queue_name="events")
limited = sums.using(concurrency=Concurrency(1, key="{a}"))


@pytest.fixture(autouse=True)
def spread(shards: TwoShards, settings: Any) -> None:
    """Spread the queue "events" over both shards."""
    set_options(settings, QUEUES={"default": None, "events": ["default", "b"], "mail": "b"})


@pytest.fixture
def proxied(shards: TwoShards, settings: Any) -> Iterator[Proxy]:
    """A proxy before shard b."""
    with Proxy(shards.b.url) as proxy:
        change_connections(settings, redis_b={"URL": proxy.url})
        yield proxy
        connections.close_all()


def change_connections(settings: Any, **changes: Any) -> None:
    current = settings.REDIS_COMPONENTS
    settings.REDIS_COMPONENTS = {**current, "CONNECTIONS": {**current["CONNECTIONS"], **changes}}


def places(shards: TwoShards, results: Sequence[Any]) -> list[str]:
    """Return the names of the shards that have tasks; "?" for one that is nowhere."""
    names = {
        key.rpartition(b":")[2].decode(): name
        for store, name in ((shards.a, "default"), (shards.b, "b"))
        for key in shards.keys_of(store, name)
        if b":t:" in key
    }
    return [names.get(result.id, "?") for result in results]


def key_of_shard(name: str, start: int = 0) -> int:
    """Return a number whose placement key, as an argument of `limited`, is in this shard."""
    route = route_of("events")
    return next(number for number in range(start, start + 100) if place(route, f"key:{number}").name == name)


def test_tasks_without_a_key_go_to_all_shards_in_turn(shards: TwoShards) -> None:
    results = [events.enqueue(number) for number in range(10)]

    assert count_in(shards) == (5, 5)
    assert {get_result(result.id).state for result in results} == {"ready"}


def test_tasks_with_the_same_key_are_in_one_shard(shards: TwoShards) -> None:
    results = [limited.enqueue(key, number) for number in range(5) for key in range(8)]

    by_key = {key: set(places(shards, results[key::8])) for key in range(8)}
    assert {len(found) for found in by_key.values()} == {1}
    assert len(set.union(*by_key.values())) == 2
    for result in results:
        result.refresh()


def test_unique_key_is_exact_over_all_shards(shards: TwoShards) -> None:
    unique = events.using(unique=Unique())

    first, again = ([unique.enqueue(number) for number in range(20)] for _ in "ab")

    assert [result.id for result in first] == [result.id for result in again]
    assert all(result.is_duplicate for result in again)
    assert sum(count_in(shards)) == 20
    assert min(count_in(shards)) > 0


def test_many_tasks_are_sent_to_the_shards_of_their_keys(shards: TwoShards) -> None:
    results = limited.enqueue_many([((number % 10, 1), {}) for number in range(1_200)])

    assert places(shards, results) == [place(route_of("events"), f"key:{n % 10}").name for n in range(1_200)]
    assert sum(count_in(shards)) == 1_200
    assert all(result.enqueued_at is not None for result in results)


def test_parts_of_many_tasks_go_to_the_shards_in_turn(shards: TwoShards) -> None:
    results = events.enqueue_many([((number,), {}) for number in range(2_000)])

    assert count_in(shards) == (1_000, 1_000)
    assert len({result.id for result in results}) == 2_000
    assert run_async(events.aenqueue_many, [((1,), {})])[0].enqueued_at is not None


def test_task_without_a_key_goes_to_a_shard_that_answers(shards: TwoShards, caplog: pytest.LogCaptureFixture) -> None:
    shards.server_b.kill()

    results = [events.enqueue(number) for number in range(6)]
    results += events.enqueue_many([((number,), {}) for number in range(1_100)])
    results.append(run_async(events.aenqueue, 7))
    results += run_async(events.aenqueue_many, [((8,), {})] * 3)

    assert count_in_a(shards) == len(results)
    [text] = [record.message for record in caplog.records if record.message.startswith("Shard b: ")]
    assert text.endswith("; new tasks without a key go to the others.")
    shards.server_b.start()


@pytest.mark.parametrize("enqueue", [events.enqueue, partial(run_async, events.aenqueue)], ids=["sync", "async"])
def test_shard_that_answers_again_gets_tasks_again(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch, enqueue: Any
) -> None:
    monkeypatch.setattr(routing, "RETRY_S", 0.0)  # each call asks
    shards.server_b.kill()
    for number in range(6):
        enqueue(number)
    assert count_in_a(shards) == 6

    shards.server_b.start()
    for number in range(6):
        enqueue(number)

    assert count_in(shards) == (9, 3)


def test_no_shard_that_answers_is_an_error(shards: TwoShards) -> None:
    shards.server_a.kill()
    shards.server_b.kill()

    for _ in "ab":
        with pytest.raises(NotConnected):
            events.enqueue(1)
    with pytest.raises(NotConnected):
        chain(sums.s(1, 2), sums.s(3)).enqueue()
    with pytest.raises(NotConnected):
        events.enqueue_many([((1,), {})] * 3)
    with pytest.raises(NotConnected):
        run_async(limited.aenqueue_many, [((1, 1), {})] * 3)


def test_task_with_a_key_waits_for_its_shard(shards: TwoShards) -> None:
    away, here = key_of_shard("b"), key_of_shard("default")
    shards.server_b.kill()

    with pytest.raises(ConnectionError):
        limited.enqueue(away, 1)
    assert limited.enqueue(here, 1).state == "ready"
    with pytest.raises(ConnectionError):
        limited.enqueue_many([((away, 1), {})])
    shards.server_b.start()


def test_many_tasks_of_which_some_have_a_shard_that_is_away_are_partly_sent(shards: TwoShards) -> None:
    away, here = key_of_shard("b"), key_of_shard("default")
    shards.server_b.kill()

    with pytest.raises(PartiallyEnqueued) as raised:
        limited.enqueue_many([((away if number % 2 else here, 1), {}) for number in range(10)])
    error = raised.value
    shards.server_b.start()
    again = error.resend()

    assert len(error.accepted) == len(again) == 5
    assert [result.id for result in again] == [result.id for result in error.not_sent + error.unconfirmed]
    assert count_in(shards) == (5, 5)


def test_shard_that_hangs_is_left_out_after_one_error(shards: TwoShards, settings: Any) -> None:
    change_connections(settings, redis_b={"URL": shards.b.url, "SOCKET_TIMEOUT": 0.3})
    for _ in "ab":
        events.enqueue(0)
    os.kill(shards.server_b.pid, signal.SIGSTOP)
    errors = 0
    for number in range(10):
        try:
            events.enqueue(number)
        except RedisError:
            errors += 1
    os.kill(shards.server_b.pid, signal.SIGCONT)

    assert errors == 1  # its task may be in the shard that hangs, so it goes nowhere else
    assert count_in_a(shards) >= 9


def test_calls_go_elsewhere_while_a_shard_keeps_one_waiting(
    shards: TwoShards, proxied: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "SLOW_S", 0.0)
    for number in range(4):
        events.enqueue(number)
    proxied.hold()
    waiting = threading.Thread(target=lambda: [events.enqueue(number) for number in range(2)])
    waiting.start()
    eventually(lambda: count_in(shards)[1] == 3)  # and its reply is held

    places_of_others = places(shards, [events.enqueue(number) for number in range(6)])
    proxied.let_go()
    waiting.join(TIMEOUT_S)

    assert places_of_others == ["default"] * 6
    assert set(places(shards, [events.enqueue(number) for number in range(2)])) == {"default", "b"}


def test_shard_that_was_fast_keeps_calls_waiting_for_a_shorter_time(
    shards: TwoShards, proxied: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        events.enqueue(number)
    monkeypatch.setattr(routing, "SLOW_S", 1_000.0)
    proxied.hold()
    waiting = threading.Thread(target=lambda: [events.enqueue(number) for number in range(2)])
    waiting.start()
    eventually(lambda: count_in(shards)[1] == 3)  # and its reply is held

    eventually(lambda: next_shards(2) == ["default"] * 2)

    proxied.let_go()
    waiting.join(TIMEOUT_S)


def test_calls_go_to_the_shard_that_keeps_others_waiting_for_the_shortest_time(
    shards: TwoShards, proxied: Proxy, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "SLOW_S", 0.0)
    with Proxy(shards.a.url) as other:
        change_connections(settings, default={"URL": other.url})
        for number in range(4):
            events.enqueue(number)
        proxied.hold()
        waiting = [threading.Thread(target=lambda: [events.enqueue(number) for number in range(2)])]
        waiting[0].start()
        eventually(lambda: count_in(shards)[1] == 3)
        other.hold()
        before = count_in(shards)[0]
        waiting.append(threading.Thread(target=events.enqueue, args=(0,)))
        waiting[1].start()
        eventually(lambda: count_in(shards)[0] == before + 1)

        assert next_shards(4) == ["default"] * 4

        other.let_go()
        proxied.let_go()
        for thread in waiting:
            thread.join(TIMEOUT_S)
        connections.close_all()


def next_shards(number: int) -> list[str]:
    """Return the names of the shards that get the next tasks."""
    return [routing.next_answering(route_of("events")).name for _ in range(number)]


def test_task_whose_reply_was_lost_is_in_no_other_shard(shards: TwoShards, proxied: Proxy) -> None:
    for _ in range(2):
        events.enqueue(1)
    proxied.drop_next_reply(after=b"EVALSHA")
    proxied.stop_accepting()
    accepted = lost = 0
    for _ in range(4):
        try:
            events.enqueue(2)
            accepted += 1
        except ConnectionError:
            lost += 1

    assert (accepted, lost) == (3, 1)
    assert sum(count_in(shards)) == 2 + 3 + 1


def test_many_tasks_whose_reply_was_lost_are_sent_again_to_the_same_shard(shards: TwoShards, proxied: Proxy) -> None:
    events.enqueue_many([((1,), {})] * 1_000)
    proxied.drop_next_reply(after=b"EVALSHA")
    proxied.stop_accepting()
    with pytest.raises(PartiallyEnqueued) as raised:
        events.enqueue_many([((2,), {})] * 1_000)
    error = raised.value
    proxied.accept_again()

    again = error.resend()

    assert (len(error.accepted), len(error.unconfirmed), len(error.not_sent)) == (500, 500, 0)
    assert set(places(shards, again)) == {"b"}
    assert sum(count_in(shards)) == 2_000


@pytest.mark.parametrize(("option", "error"), [("min-replicas-to-write", "NOREPLICAS"), ("maxmemory", "command not")])
def test_task_goes_to_another_shard_if_one_accepts_no_writes(shards: TwoShards, option: str, error: str) -> None:
    shards.b.raw.config_set(option, 1)

    results = [events.enqueue(number) for number in range(4)]
    many = [events.enqueue_many([((number,), {})])[0] for number in range(4)]
    assert places(shards, [*results, *many]) == ["default"] * 8

    shards.a.raw.config_set(option, 1)
    with pytest.raises(ResponseError, match=error):
        events.enqueue(5)


def test_task_that_a_server_refuses_goes_nowhere_else(shards: TwoShards) -> None:
    for shard in route_of("events"):
        shard.client().execute(Command("SET", shard.queue("events", Part.ready), "of another program"))

    for _ in "ab":
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            events.enqueue(1)
    assert count_in(shards) == (1, 1)  # the script has failed after it had written the record


def test_tasks_with_a_key_whose_reply_was_lost_are_unconfirmed(shards: TwoShards, proxied: Proxy) -> None:
    keys = [key_of_shard(name) for name in ("default", "b")]
    limited.enqueue_many([((key, 1), {}) for key in keys])
    proxied.drop_next_reply(after=b"EVALSHA")
    proxied.stop_accepting()
    with pytest.raises(PartiallyEnqueued) as raised:
        limited.enqueue_many([((key, 1), {}) for key in keys for _ in range(600)])
    error = raised.value
    proxied.accept_again()

    again = run_async(error.aresend)

    assert (len(error.accepted), len(error.unconfirmed), len(error.not_sent)) == (600, 500, 100)
    assert len(again) == 600
    assert count_in(shards) == (601, 601)


def test_chosen_id_is_exact_over_all_shards(shards: TwoShards) -> None:
    first, again = ([events.using(id=f"n{number}").enqueue(number) for number in range(10)] for _ in "ab")

    assert all(result.is_duplicate for result in again)
    assert min(count_in(shards)) > 0
    assert sum(count_in(shards)) == 10
    with pytest.raises(TaskIdConflict):
        events.using(id="n1").enqueue(5)
    assert [result.id for result in first] == [result.id for result in again]


def test_chosen_id_is_found_after_a_shard_was_added(shards: TwoShards, settings: Any) -> None:
    set_options(settings, QUEUES={"events": ["default"]})
    first = [events.using(id=f"n{number}").enqueue(number) for number in range(10)]
    set_options(settings, QUEUES={"events": ["default", "b"]})

    again = [events.using(id=f"n{number}").enqueue(number) for number in range(10)]

    assert all(result.is_duplicate for result in again)
    assert count_in(shards) == (10, 0)
    assert len(first) == 10


@pytest.mark.django_db(transaction=True)
def test_tasks_of_a_transaction_are_sent_together(shards: TwoShards) -> None:
    with transaction.atomic():
        sent = [events.enqueue_on_commit(number) for number in range(6)]
        sent += [limited.enqueue_on_commit(number, 1) for number in range(10)]
        assert count_in(shards) == (0, 0)

    assert len(set(places(shards, sent[:6]))) == 1  # one round trip for those without a key
    assert sum(count_in(shards)) == 16
    for result in sent:
        result.refresh()
        assert result.state == "ready"


@pytest.mark.django_db(transaction=True)
def test_tasks_on_commit_go_to_shards_that_answer(shards: TwoShards) -> None:
    shards.server_b.kill()

    for number in range(4):
        with transaction.atomic():
            events.enqueue_on_commit(number)

    assert count_in_a(shards) == 4
    shards.server_b.start()


# Flows


def test_flow_is_in_one_shard_and_flows_are_in_all(shards: TwoShards) -> None:
    flows = [chain(sums.s(1, 2), group(sums.s(1), sums.s(2)), events.s()).enqueue() for _ in range(4)]

    assert count_in(shards) == (8, 8)
    for flow in flows:
        assert len(set(places(shards, flow.results))) == 1
        assert [each.id for each in get_flow(flow.id).results] == [each.id for each in flow.results]


def test_flow_is_in_the_shard_of_its_limit(shards: TwoShards) -> None:
    for name in ("default", "b"):
        flow = chain(note.s(1), limited.si(key_of_shard(name), 1)).enqueue()
        assert set(places(shards, flow.results)) == {name}


def test_flow_with_limits_in_different_shards_is_refused(shards: TwoShards) -> None:
    one, other = (limited.si(key_of_shard(name), 1) for name in ("default", "b"))

    with pytest.raises(InvalidTask, match=r"have limits whose keys are in different shards \(default, b\)"):
        chain(one, other).enqueue()
    assert count_in(shards) == (0, 0)


def test_flow_without_a_limit_goes_to_a_shard_that_answers(shards: TwoShards) -> None:
    shards.server_b.kill()

    flows = [group(sums.si(1, 2), sums.si(3, 4)).enqueue() for _ in range(3)]
    flows.append(run_async(chain(sums.si(1, 2), sums.s(3)).aenqueue))

    assert count_in_a(shards) == 8
    assert {result.state for flow in flows for result in flow.results if not result.refresh()} == {"ready", "waiting"}
    shards.server_b.start()


# What is refused


def test_task_that_cannot_be_placed_is_refused(shards: TwoShards) -> None:
    task = limited.using(unique=Unique(key="{b}"))

    with pytest.raises(InvalidTask, match="tasks that share one of these keys would be in different shards"):
        task.enqueue(1, 2)
    assert task.using(queue_name="mail").enqueue(1, 2).state == "ready"


def test_update_that_would_need_another_shard_is_refused(shards: TwoShards) -> None:
    here, elsewhere, near = key_of_shard("b"), key_of_shard("default"), key_of_shard("b", 50)
    result = limited.enqueue(here, 1)

    with pytest.raises(InvalidTask, match="are in the shard default, and the task is in b"):
        result.update(args=(elsewhere, 1))
    result.update(args=(here, 2))
    result.update(args=(near, 2))


def test_single_shard_of_a_queue_asks_for_nothing_more(shards: TwoShards) -> None:
    result = note.using(queue_name="mail", concurrency=Concurrency(2)).enqueue(1)

    assert places(shards, [result]) == ["b"]
