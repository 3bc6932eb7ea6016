"""A request repeated after a lost reply is applied once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.enqueue import prepare
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.messages import call_for
from django_redis_components.taskqueue.worker.execution import execute
from tests.conftest import components_settings
from tests.support import Proxy, Store, run_async
from tests.taskqueue.support import base_key, new_fetcher, queue_key, settle_now, work_off
from tests.taskqueue.tasks import add, fail, note, recorded
from tests.taskqueue.worker.support import fetch_call

#: The same tasks, sent through the proxy.
far_add = dataclasses.replace(add, connection="proxied")
far_note = dataclasses.replace(note, connection="proxied")


@pytest.fixture
def warm(proxy: Proxy, redis_server: Store) -> Proxy:
    """A proxy whose server knows the scripts already."""
    far_note.enqueue("warm")
    work_off()
    recorded.clear()
    return proxy


@pytest.fixture
def without_retries(warm: Proxy, redis_server: Store, settings: Any) -> Proxy:
    """The client gives up at the first lost reply, so that the caller has to ask again."""
    settings.REDIS_COMPONENTS = components_settings(redis_server, proxied=warm.url)
    settings.REDIS_COMPONENTS["CONNECTIONS"]["proxied"]["RETRIES"] = 0
    return warm


def test_repeated_enqueue_creates_one_task(warm: Proxy, redis_server: Store) -> None:
    warm.drop_next_reply(after=home().base.encode())

    result = far_add.enqueue(2, 3)

    assert warm.dropped == 1
    assert redis_server.raw.lrange(queue_key(redis_server, "ready"), 0, -1) == [result.id.encode()]
    assert add.get_result(result.id).enqueued_at == result.enqueued_at


def test_repeated_enqueue_with_priority_or_delay_creates_one_task(warm: Proxy, redis_server: Store) -> None:
    for options in ({"priority": 3}, {"run_after": 60}):
        warm.drop_next_reply(after=home().base.encode())
        far_add.using(**options).enqueue(2, 3)

    assert warm.dropped == 2
    depth = get_queue("default").info()
    assert (depth.ready, depth.scheduled) == (1, 1)


def test_repeated_enqueue_many_creates_each_task_once(warm: Proxy, redis_server: Store) -> None:
    warm.drop_next_reply(after=home().base.encode())

    results = far_note.enqueue_many([((number,), {}) for number in range(700)])

    assert warm.dropped == 1
    assert get_queue("default").info().ready == 700
    work_off()
    assert sorted(recorded) == list(range(700))
    assert len({result.id for result in results}) == 700


def test_repeated_aenqueue_creates_one_task(warm: Proxy, redis_server: Store) -> None:
    warm.drop_next_reply(after=home().base.encode())

    run_async(far_add.aenqueue, 2, 3)

    assert warm.dropped == 1
    assert get_queue("default").info().ready == 1


def test_repeated_enqueue_of_a_finished_task_does_not_run_it_again(redis_server: Store) -> None:
    result, message = prepare(add, (2, 3), {})
    call = call_for(home(), message)
    first = connections.client().execute(call)
    work_off()

    again = connections.client().execute(call)

    assert again == first
    assert work_off() == []
    assert add.get_result(result.id).return_value == 5


def test_repeated_fetch_returns_the_same_batch(warm: Proxy, redis_server: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(5)])
    fetcher = new_fetcher(using="proxied", worker="far:1")
    warm.drop_next_reply(after=b"far:1")

    jobs = fetcher.fetch("0", 3)

    assert warm.dropped == 1
    assert [job.message()[0] for job in jobs] == [[0], [1], [2]]
    depth = get_queue("default").info()
    assert (depth.ready, depth.running) == (2, 3)


def test_failed_fetch_is_repeated_with_the_same_request_number(without_retries: Proxy, redis_server: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(5)])
    fetcher = new_fetcher(using="proxied", worker="far:1")
    fetcher.fetch("other slot", 0)
    without_retries.drop_next_reply(after=b"far:1")
    with pytest.raises(ConnectionError):
        fetcher.fetch("0", 3)
    assert get_queue("default").info().running == 3

    jobs = fetcher.fetch("0", 1)

    assert [job.message()[0] for job in jobs] == [[0], [1], [2]], "the whole batch, whatever is wanted now"
    assert fetcher.leases == {job.id: job.token for job in jobs}
    assert get_queue("default").info().running == 3
    assert [job.message()[0] for job in fetcher.fetch("0", 3)] == [[3], [4]], "and then the next"


def test_repeated_fetch_omits_settled_jobs(redis_server: Store) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    first = new_fetcher(worker="w").fetch("0", 3)
    settle_now(new_fetcher(worker="w"), execute(first[1]))

    again = new_fetcher(worker="w").fetch("0", 3)

    assert [job.id for job in again] == [first[0].id, first[2].id]


def test_repeated_ack_is_applied_once(
    without_retries: Proxy, redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    result = fail.using(max_attempts=2, backoff=60).enqueue("once")
    fetcher = new_fetcher(using="proxied", worker="far:1")
    [job] = fetcher.fetch("0", 1)
    fetcher.settle(execute(job))
    without_retries.drop_next_reply(after=b"far:1")
    with pytest.raises(ConnectionError):
        fetcher.fetch("acks", 0)
    assert fetcher.pending_acks() == 1
    assert fetcher.leases == {job.id: job.token}, "held until the outcome is known to have arrived"

    fetcher.fetch("acks", 0)

    result.refresh()
    assert (fetcher.pending_acks(), fetcher.leases) == (0, {})
    assert (result.state, [error.message for error in result.errors]) == ("retrying", ["once"])
    assert "its lease had expired" not in caplog.text


def test_reply_states_whether_each_ack_was_applied(store: Store) -> None:
    add.enqueue(2, 3)
    [job] = new_fetcher(worker="w").fetch("0", 1)
    mine = Ack(job.id, job.token, "succeeded", b"5", ttl_ms=10_000)
    foreign = Ack(job.id, "w/0/99", "succeeded", b"6", ttl_ms=10_000)
    unknown = Ack("nobody", job.token, "succeeded", b"7", ttl_ms=10_000)

    answers = [connections.client().execute(fetch_call(ack))[0] for ack in (foreign, mine, mine, foreign, unknown)]

    assert answers == [[0], [1], [2], [0], [0]]
    assert connections.client().execute(fetch_call(mine, foreign, unknown))[0] == [2, 0, 0]
    result = add.get_result(job.id)
    assert (result.return_value, result.worker_ids) == (5, ["w"])


def test_acks_and_jobs_share_one_request(store: Store) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(3)])
    fetcher = new_fetcher(worker="w")
    [job] = fetcher.fetch("0", 1)
    fetcher.settle(execute(job))

    [following] = fetcher.fetch("0", 1)

    assert (job.id, following.id) == (results[0].id, results[1].id)
    assert note.get_result(job.id).state == "successful"
    assert store.raw.zcard(queue_key(store, "running")) == 1
    assert 0 < store.raw.pttl(base_key(store, "last_fetch", "w", "0")) <= 15_000
