"""Flows under lost replies, crashes and races: followers run once or not at all, and no key is left."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import TaskResult, chain, get_queue, group
from django_redis_components.taskqueue.flows import enqueue as flow_enqueue
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.flows.result import FlowResult
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Proxy, Store
from tests.taskqueue.flows.support import poll
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import add, echo, fail, note, recorded
from tests.taskqueue.worker.support import fetch_call

#: The same tasks, sent through the proxy.
far_note = dataclasses.replace(note, connection="proxied")


def states(flow: FlowResult) -> list[str]:
    flow.refresh()
    return [result.state for result in flow.results]


def prepared(flow: Any) -> flow_enqueue.PreparedFlow:
    return flow_enqueue.prepare_flow(FlowGraph(flow), flow_enqueue.Callbacks())


def test_repeated_enqueue_of_a_flow_creates_one_flow(proxy: Proxy, redis_server: Store) -> None:
    chain(far_note.s("warm")).enqueue()
    work_off()
    recorded.clear()
    proxy.drop_next_reply(after=home().base.encode())

    flow = chain(far_note.s("a"), far_note.si("b")).enqueue()

    assert proxy.dropped == 1
    work_off()
    assert recorded == ["a", "b"]
    assert states(flow) == ["successful", "successful"]


def test_repeated_enqueue_of_any_part_of_a_large_flow_creates_one_flow(redis_server: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(1_100)).then(echo.s()))
    client = connections.client()
    assert len(sent.calls) == 5
    for call in sent.calls:
        client.execute(call)
        client.execute(call)
    poll(redis_server)

    work_off()
    client.execute(sent.calls[-1])

    assert work_off() == []
    assert recorded == list(range(1_100))
    assert sent.result.get(0) == [[list(range(1_100))], {}]


def test_repeated_enqueue_after_the_flow_ran_does_not_run_it_again(store: Store) -> None:
    sent = prepared(chain(note.s("a"), note.si("b")))
    run(connections.client(), flow_enqueue.enqueue_flow(sent))
    work_off()

    run(connections.client(), flow_enqueue.enqueue_flow(sent))

    assert work_off() == []
    assert recorded == ["a", "b"]


def test_incomplete_flow_starts_no_task(store: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(500)))
    connections.client().execute(sent.calls[0])

    assert work_off() == []
    assert len(sent.calls) == 2


def test_repeated_outcome_counts_once(store: Store) -> None:
    flow = group(note.s("a"), note.s("b")).then(note.si("all")).enqueue()
    first, second = new_fetcher(worker="w").fetch("0", 2)
    ack = Ack(first.id, first.token, "succeeded", b"1", ttl_ms=60_000)

    assert connections.client().execute(fetch_call(ack, ack))[0] == [1, 2]
    assert connections.client().execute(fetch_call(ack))[0] == [2]

    assert states(flow) == ["successful", "running", "waiting"]
    settle_now(new_fetcher(worker="w"), execute(second))
    assert states(flow)[2] == "ready"


def test_outcome_of_an_expired_lease_starts_no_follower(store: Store) -> None:
    flow = chain(note.s("a"), note.s()).enqueue()
    [late] = new_fetcher(worker="late:1").fetch("0", 1)
    end_lease(store, late.id)
    recover()

    settle_now(new_fetcher(worker="late:1"), Ack(late.id, late.token, "succeeded", b'"too late"', ttl_ms=60_000))

    assert states(flow) == ["ready", "waiting"]
    work_off()
    assert recorded == ["a", "a"]


def test_flow_finishes_after_a_worker_crash(store: Store) -> None:
    flow = group(note.s("a"), note.s("b")).then(note.s()).enqueue()
    new_fetcher(worker="dies:1").fetch("0", 2)
    end_lease(store, *[result.id for result in flow.results[:2]])

    recover()
    work_off()

    assert recorded == ["a", "b", ["a", "b"]]
    assert states(flow) == ["successful"] * 3


def test_callback_runs_once_when_many_workers_finish_concurrently(store: Store) -> None:
    flow = group(add.s(number, 0) for number in range(40)).then(note.s()).enqueue()
    jobs = [(new_fetcher(worker=f"w:{number}"), number) for number in range(8)]
    ready = threading.Barrier(len(jobs))

    def finish(fetcher: Any, number: int) -> None:
        taken = fetcher.fetch("0", 5)
        ready.wait(60)
        for job in taken:
            settle_now(fetcher, execute(job))

    threads = [threading.Thread(target=finish, args=each) for each in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [job.id for job in work_off()] == [flow.last.id]
    assert recorded == [list(range(40))]


def test_either_cancel_or_start_wins_when_a_parent_finishes_concurrently(store: Store) -> None:
    for number in range(10):
        flow = chain(add.s(1, 2), note.s()).enqueue()
        worker = new_fetcher(worker=f"w:{number}")
        [job] = worker.fetch("0", 1)
        canceller = threading.Thread(target=flow.last.cancel)
        canceller.start()
        settle_now(worker, execute(job))
        canceller.join()
        assert work_off() == []
        assert states(flow) == ["successful", "cancelled"]
        assert get_queue("default").info().ready == 0
    assert recorded == []


def test_task_is_requeued_without_using_an_attempt_when_its_parents_cannot_be_read(
    proxy: Proxy, redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flow = chain(add.s(1, 2), note.s()).enqueue()
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    worker.settle(execute(job))
    [job] = worker.fetch("0", 1)

    with monkeypatch.context() as outage:
        gone = connections.client("proxied")
        proxy.close()
        outage.setattr(connections, "client", lambda alias="default": gone)
        ack = execute(job)
    settle_now(worker, ack)

    assert ack.outcome == "requeued"
    assert "returns to its queue: the results of its parents could not be read" in caplog.text
    assert states(flow) == ["successful", "ready"]
    assert flow.last.attempts == 0
    work_off()
    assert recorded == [3]


def test_follower_fails_with_parents_lost_when_a_result_was_evicted(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), note.s()).enqueue()
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    settle_now(worker, execute(job))
    redis_server.raw.delete(base_key(redis_server, "t", flow.results[0].id))

    work_off()

    flow.last.refresh()
    [error] = flow.last.errors
    assert error.exception_class_path == "django_redis_components.taskqueue.exceptions.ParentsLost"
    assert error.message == (
        f"The result of parent task {flow.results[0].id} is no longer in Redis."
        " It is kept until the flow has finished: it was evicted or deleted."
    )


def test_flow_fails_when_a_waiting_task_was_evicted(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), note.s(), note.s()).enqueue(on_error=note.s())
    lost = flow.results[1]
    redis_server.raw.delete(base_key(redis_server, "t", lost.id))

    work_off()

    flow.last.refresh()
    [error] = flow.last.errors
    assert error.message == (f"Not run: task {lost.id} (?), on which it depends, was deleted.")
    assert [(error["task_id"], error["reason"]) for error in recorded] == [(lost.id, "was deleted")]
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"
    assert redis_server.raw.ttl(base_key(redis_server, "flow", flow.id)) > 0


def lose(store: Store, result: TaskResult) -> None:
    assert store.raw.delete(base_key(store, "t", result.id)) == 1


def unfinished(store: Store, flow: FlowResult) -> int:
    return int(store.raw.hget(base_key(store, "flow", flow.id), "unfinished"))


@pytest.mark.parametrize("is_running", [False, True])
def test_callback_fails_when_a_member_of_its_group_was_evicted(store: Store, is_running: bool) -> None:
    flow = chain(group(add.s(1, 2), add.s(3, 4), add.s(5, 6)), note.s(), note.s()).enqueue(on_error=note.s())
    if is_running:
        new_fetcher(worker="dead:1").fetch("0", 2)
    lost = flow.results[1]
    lose(store, lost)
    work_off()

    recover()  # a poller's round
    work_off()

    callback, after = flow.results[3:]
    for result in (callback, after):
        result.refresh()
        assert (result.state, [error.message for error in result.errors]) == (
            "failed",
            [f"Not run: task {lost.id} (?), on which it depends, was evicted or deleted."],
        )
    assert [(error["task_id"], error["reason"]) for error in recorded] == [(lost.id, "was evicted or deleted")]
    assert unfinished(store, flow) == int(is_running)
    assert store.raw.exists(queue_key(store, "waiting")) == 0
    assert is_running or store.raw.ttl(base_key(store, "flow", flow.id)) > 0


def test_on_error_task_of_a_group_runs_when_a_member_was_evicted(redis_server: Store) -> None:
    flow = group(add.s(1, 2), add.s(3, 4)).enqueue(on_error=note.s())
    lose(redis_server, flow.results[0])

    recover()
    work_off()

    assert [error["task_id"] for error in recorded] == [flow.results[0].id]
    assert unfinished(redis_server, flow) == 0
    assert redis_server.raw.ttl(base_key(redis_server, "t", flow.results[1].id)) > 0


@pytest.mark.parametrize("finishes_first", [False, True])
def test_group_whose_last_member_was_evicted_expires(store: Store, finishes_first: bool) -> None:
    flow = group(add.s(1, 2), add.s(3, 4)).enqueue()
    assert store.raw.zrange(base_key(store, "unfinished_flows"), 0, -1) == [flow.id.encode()]
    if finishes_first:
        worker = new_fetcher()
        settle_now(worker, *[execute(job) for job in worker.fetch("0", 1)])
    lose(store, flow.results[1])
    work_off()

    recover()

    assert unfinished(store, flow) == 0
    assert store.raw.ttl(base_key(store, "flow", flow.id)) > 0
    assert store.raw.ttl(base_key(store, "t", flow.results[0].id)) > 0
    assert store.raw.exists(base_key(store, "unfinished_flows")) == 0


def test_finished_and_evicted_flows_leave_the_index_of_unfinished_ones(store: Store) -> None:
    gone = group(add.using(run_after=60).s(1, 2)).enqueue()
    store.raw.delete(base_key(store, "flow", gone.id))
    failing = group(fail.s(), add.s(1, 2)).enqueue()
    work_off()

    recover()
    assert store.raw.zcard(base_key(store, "unfinished_flows")) == 0
    assert get_queue("default").retry_failed() == 1

    assert store.raw.zrange(base_key(store, "unfinished_flows"), 0, -1) == [failing.id.encode()]


def test_task_fails_when_its_flow_was_evicted(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), note.s()).enqueue()
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    recover()

    flow.last.refresh()
    assert flow.last.state == "failed"
    assert [error.message for error in flow.last.errors] == ["Not run: its flow was evicted or deleted."]
    assert redis_server.raw.ttl(base_key(redis_server, "t", flow.last.id)) > 0


def test_task_that_was_evicted_after_a_retry_fails_its_followers(redis_server: Store) -> None:
    flow = chain(fail.s(), note.s()).enqueue()
    work_off()
    assert get_queue("default").retry_failed() == 1
    lose(redis_server, flow.results[0])

    recover()

    flow.last.refresh()
    assert flow.last.state == "failed"
    assert unfinished(redis_server, flow) == 0


def test_poller_leaves_flows_that_can_go_on(redis_server: Store) -> None:
    """Neither a result that was evicted nor a failed task that was deleted is a task that others wait for."""
    flow = chain(group(add.s(1, 2), add.s(3, 4)), note.si("evicted"), note.si("never")).enqueue()
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    settle_now(worker, execute(job))
    lose(redis_server, flow.results[0])
    failing = group(fail.s(), chain(add.s(1, 2), note.si("other"))).enqueue(on_error=note.si("failed"))
    work_off()
    lose(redis_server, failing.results[0])
    later = chain(add.using(run_after=3_600).s(1, 2), note.s()).enqueue()

    for _ in range(2):
        recover()
        work_off()

    assert sorted(recorded) == ["evicted", "failed", "never", "other"]
    assert [unfinished(redis_server, each) for each in (flow, failing, later)] == [0, 0, 2]
    later.refresh()
    assert [result.state for result in later.results] == ["scheduled", "waiting"]


def test_oldest_of_many_waiting_tasks_is_looked_at(redis_server: Store) -> None:
    flow = chain(add.using(queue_name="other").s(1, 2), note.s()).enqueue()
    for _ in range(200):
        chain(add.using(run_after=3_600).s(1, 2), note.s()).enqueue()
    lose(redis_server, flow.results[0])

    recover()

    flow.last.refresh()
    assert flow.last.state == "failed"


def test_flow_ignores_a_cancelled_task_whose_record_expired(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), note.s()).enqueue()
    flow.last.cancel()
    redis_server.raw.delete(base_key(redis_server, "t", flow.last.id))
    key = base_key(redis_server, "flow", flow.id)
    assert redis_server.raw.hget(key, "unfinished") == b"1"

    work_off()

    assert redis_server.raw.hget(key, "unfinished") == b"0"


def test_on_error_task_fails_with_parents_lost_when_its_flow_was_evicted(redis_server: Store) -> None:
    flow = chain(fail.s(), note.s()).enqueue(on_error=note.s())
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    settle_now(worker, execute(job))
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    work_off()

    assert flow.on_error_result is not None
    flow.on_error_result.refresh()
    assert flow.on_error_result.errors[0].message == (
        f"The first error of flow {flow.id} is no longer in Redis: it was evicted or deleted."
    )


def test_result_ttl_counts_from_the_end_of_the_flow(store: Store) -> None:
    flow = chain(add.using(result_ttl=1).s(1, 2), group(note.s(), note.using(result_ttl=900).si("b"))).enqueue()
    keys = [base_key(store, "t", result.id) for result in flow.results]
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    settle_now(worker, execute(job))
    assert store.raw.pttl(keys[0]) == -1

    work_off()

    for key in [*keys, base_key(store, "flow", flow.id)]:
        assert 890_000 < store.raw.pttl(key) <= 900_000


def test_failed_flow_has_the_ttl_of_failed_tasks(redis_server: Store) -> None:
    flow = group(note.s("fine"), fail.s()).then(note.s()).enqueue()

    work_off()

    for key in [base_key(redis_server, "t", result.id) for result in flow.results]:
        assert redis_server.raw.pttl(key) > 6 * 86_400_000


def test_queue_is_listed_again_when_a_follower_is_queued_in_it(redis_server: Store) -> None:
    chain(add.s(1, 2), note.using(queue_name="second").s()).enqueue()
    redis_server.raw.zrem(base_key(redis_server, "queues"), "second")

    work_off()

    assert redis_server.raw.zscore(base_key(redis_server, "queues"), "second") is not None
    assert get_queue("second").info().ready == 1


def test_plain_task_stores_nothing_for_flows(redis_server: Store) -> None:
    add.enqueue(1, 2)
    worker = new_fetcher()
    [job] = worker.fetch("0", 1)
    ack = execute(job)
    before = redis_server.raw.info("commandstats")

    settle_now(worker, ack)

    after = redis_server.raw.info("commandstats")
    calls = {
        name.removeprefix("cmdstat_"): stats["calls"] - before.get(name, {"calls": 0})["calls"]
        for name, stats in after.items()
    }
    used = {name: count for name, count in calls.items() if count and name not in ("info", "evalsha", "eval", "time")}
    assert set(used) <= {"hmget", "zrem", "hset", "pexpire"} | {"hget", "hlen", "bitfield", "rpush"}, (
        "the last ones count and list it"
    )
    assert used["hmget"] == 1
