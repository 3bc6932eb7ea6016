"""Callbacks that are chains and groups: each starts a separate flow, once."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Call
from django_redis_components.taskqueue import (
    FlowResult,
    InvalidTask,
    TaskResult,
    chain,
    get_flow,
    get_queue,
    get_result,
    group,
)
from django_redis_components.taskqueue.flows import callback
from django_redis_components.taskqueue.signals import task_enqueued
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.store.scripts import ENQUEUE_FLOW
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.testing import inline
from tests.support import Proxy, Store
from tests.taskqueue.flows.support import make_lucky, states
from tests.taskqueue.support import base_key, end_lease, new_fetcher, recover, settle_now, work_off
from tests.taskqueue.tasks import add, echo, fail, note, recorded
from tests.taskqueue.worker.support import fetch_call

NAMES = ("on_error", "on_complete", "on_success")


def callback_of(flow: FlowResult, name: str) -> TaskResult[Any]:
    found = getattr(flow, f"{name}_result")
    assert found is not None
    found.refresh()
    return found  # type: ignore[no-any-return]


def inner(flow: FlowResult, name: str = "on_complete") -> FlowResult:
    """Return the flow that a callback has started."""
    return get_flow(callback_of(flow, name).get(0))


def run_first(count: int = 1, worker: str = "w:1") -> None:
    """Run tasks one after the other, and no others."""
    fetcher = new_fetcher(worker=worker)
    for _ in range(count):
        settle_now(fetcher, execute(fetcher.fetch("0", 1)[0]))


@pytest.mark.contract
def test_first_tasks_of_a_callback_receive_the_summary(store: Store) -> None:
    flow = group(add.s(1, 2), add.s(3, 4)).enqueue(
        on_complete=group(note.s(), chain(echo.s(), note.s()), note.si("plain")),
        on_success=chain(note.s(), note.si("last")),
    )
    summary = {"flow_id": flow.id, "state": "successful", "tasks": 2, "failed": 0}

    work_off()

    assert sorted(map(str, recorded)) == sorted(map(str, [summary, summary, [[summary], {}], "plain", "last"]))
    started = inner(flow)
    assert (started.get(0), states(started)) == ([summary, [[summary], {}], "plain"], ["successful"] * 4)
    assert inner(flow, "on_success").get(0) == "last"
    for each in (flow, started, inner(flow, "on_success")):
        assert store.raw.pttl(base_key(store, "flow", each.id)) > 0
        assert store.raw.hget(base_key(store, "flow", each.id), "unfinished") == b"0"
    assert store.raw.exists(base_key(store, "unfinished_flows")) == 0


def test_on_error_flow_receives_the_failed_task(store: Store) -> None:
    flow = group(fail.s("no"), fail.s("no")).enqueue(on_error=chain(echo.s(), note.s()))

    work_off()

    [[[error], _]] = recorded
    assert (error["task_name"], error["reason"], error["error"]["message"]) == (fail.name, "failed", "no")
    assert states(inner(flow, "on_error")) == ["successful"] * 2


def test_on_error_flow_that_is_not_needed_does_not_start(store: Store) -> None:
    flow = group(add.s(1, 2)).enqueue(on_error=chain(note.si(1), note.si(2)))

    work_off()

    assert recorded == []
    assert not store.raw.exists(base_key(store, "t", flow.on_error_result.id if flow.on_error_result else ""))


def test_failure_within_a_callback_leaves_the_flow_alone(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(
        on_error=note.si("error"), on_complete=chain(fail.si("no"), note.si("after")), on_success=note.si("success")
    )
    work_off()
    started = inner(flow)
    assert (states(flow), states(started), recorded) == (["successful"], ["failed", "failed"], ["success"])
    assert started.is_finished
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    work_off()

    assert states(started) == ["successful"] * 2
    assert recorded == ["success", "after"]


def test_retried_first_task_receives_the_summary_after_the_flow_has_expired(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=group(fail.s()))
    work_off()
    make_lucky(redis_server)
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    assert get_queue("default").retry_failed() == 1
    work_off()

    [[[summary], _]] = inner(flow).get(0)
    assert summary["flow_id"] == flow.id


def test_members_of_a_callback_may_fail(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_success=group(fail.si("x").on_failure("ignore"), note.si(1)).then(echo.s()))

    work_off()

    assert inner(flow, "on_success").get(0) == [[[1]], {}]


def test_cancel_cancels_callbacks_that_have_not_started(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(
        on_error=chain(note.si("error")), on_complete=chain(note.s()), on_success=group(note.si("success"))
    )

    assert flow.cancel() == 1
    work_off()

    assert [each["state"] for each in recorded] == ["failed"]
    assert callback_of(flow, "on_success").state == "cancelled"


def test_cancel_leaves_a_callback_alone_that_has_started(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_success=chain(note.si("success")))
    run_first(2)

    assert flow.cancel() == 0
    work_off()

    assert recorded == ["success"]


def test_cancelled_callback_is_a_flow(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_success=chain(note.si(1), note.si(2)))
    run_first(2)

    assert inner(flow, "on_success").cancel() == 2

    assert work_off() == []


# -- crashes, lost replies, races


def test_repeated_outcome_of_the_last_task_starts_a_callback_once(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.si("complete")))
    [job] = new_fetcher(worker="w").fetch("0", 1)
    ack = Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000)

    for _ in range(2):
        connections.client().execute(fetch_call(ack))
    work_off()

    assert recorded == ["complete"]
    assert states(flow) == ["successful"]


@pytest.mark.contract
@pytest.mark.parametrize("has_expired", [False, True])
def test_worker_that_dies_after_it_has_started_a_callback_starts_it_once(store: Store, has_expired: bool) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.s(), note.si(2)))
    run_first()
    [job] = new_fetcher(worker="dies:1").fetch("0", 1)
    execute(job)  # the callback's flow is accepted, and the outcome is lost
    work_off()
    assert len(recorded) == 2
    flow_id = get_result(job.id).args[0][0]
    if has_expired:
        records = [base_key(store, "t", each.id) for each in get_flow(flow_id).results]
        store.raw.delete(base_key(store, "flow", flow_id), *records)

    end_lease(store, job.id)
    recover()
    work_off()

    assert len(recorded) == 2
    assert callback_of(flow, "on_complete").get(0) == flow_id
    assert store.raw.exists(base_key(store, "flow", flow_id)) == (not has_expired)


def test_worker_that_dies_before_it_starts_a_callback_starts_it(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.si("complete")))
    run_first()
    [job] = new_fetcher(worker="dies:1").fetch("0", 1)

    end_lease(redis_server, job.id)
    recover()
    work_off()

    assert recorded == ["complete"]
    assert callback_of(flow, "on_complete").runs == 2


@pytest.mark.contract
def test_two_workers_start_a_callback_once(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=group(note.si(number) for number in range(20)))
    run_first()
    [job] = new_fetcher(worker="slow:1").fetch("0", 1)
    end_lease(store, job.id)
    recover()
    [again] = new_fetcher(worker="other:1").fetch("1", 1)
    ready = threading.Barrier(2)

    def start(each: Any) -> None:
        ready.wait(60)
        execute(each)

    threads = [threading.Thread(target=start, args=(each,)) for each in (job, again)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settle_now(new_fetcher(worker="other:1"), execute(again))
    work_off()

    assert sorted(recorded) == [*range(20)]
    assert states(inner(flow)) == ["successful"] * 20


def test_lost_reply_starts_a_callback_once(proxy: Proxy, redis_server: Store) -> None:
    far: Any = dataclasses.replace(note, connection="proxied")
    flow = chain(far.si("first")).enqueue(on_complete=chain(far.s(), far.si("last")))
    run_first()
    [job] = new_fetcher().fetch("0", 1)
    proxy.drop_next_reply(after=get_result(job.id).args[0][0].encode())

    settle_now(new_fetcher(), execute(job))
    work_off()

    assert proxy.dropped == 1, "the task uses the connection of the flow"
    assert [recorded[0], recorded[1]["state"], *recorded[2:]] == ["first", "successful", "last"]
    assert callback_of(flow, "on_complete").runs == 1


def test_evicted_flow_starts_no_callback(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.si("complete")))
    run_first()
    [job] = new_fetcher().fetch("0", 1)
    arguments = get_result(job.id).args[0]
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))
    call = Call(ENQUEUE_FLOW, (base_key(redis_server),), callback.with_values(arguments, "{}", flow.id))

    assert connections.client().execute(call) == 0

    settle_now(new_fetcher(), execute(job))
    work_off()
    assert recorded == []
    assert "is no longer in Redis" in callback_of(flow, "on_complete").errors[-1].message
    assert not redis_server.raw.exists(*(base_key(redis_server, "flow", each) for each in (arguments[0], flow.id)))


def test_large_callback_starts_completely(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=group(note.si(number) for number in range(398)).then(note.si("last")))

    work_off()

    assert (len(recorded), recorded[-1]) == (399, "last")
    assert inner(flow).get(0) == "last"


# -- options, refusals, tests of a site


def test_callback_waits_in_the_queue_of_its_first_task(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.using(queue_name="mail").si(1), note.si(2)))

    assert callback_of(flow, "on_complete").queue_name == "mail"
    work_off()
    work_off("mail")
    assert recorded == [1]
    work_off()
    assert recorded == [1, 2]


def test_run_after_counts_from_the_start_of_the_callback(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.using(run_after=3_600).s()))
    work_off()

    [later] = inner(flow).results

    assert later.state == "scheduled"
    later.run_now()
    work_off()
    assert recorded[0]["state"] == "successful"


def test_signals_are_sent_when_the_callback_starts(redis_server: Store) -> None:
    seen: list[tuple[str, str, str]] = []

    def receive(sender: Any, task_result: TaskResult[Any], **_: Any) -> None:
        seen.append((task_result.id, task_result.name, task_result.state))

    flow = chain(add.s(1, 2)).enqueue(on_complete=chain(note.s(), echo.s()))
    task_enqueued.connect(receive)
    try:
        work_off()
    finally:
        task_enqueued.disconnect(receive)

    first, second = inner(flow).results
    assert seen == [(first.id, note.name, "ready"), (second.id, echo.name, "waiting")]


def test_result_of_the_signal_is_that_of_the_record(redis_server: Store) -> None:
    seen: list[TaskResult[Any]] = []

    def receive(sender: Any, task_result: TaskResult[Any], **_: Any) -> None:
        seen.append(task_result)

    def shown(result: TaskResult[Any]) -> list[Any]:
        return [result.state, result.enqueued_at, result.run_after, result.expires_at, result.queue_name, result.args]

    later = {"run_after": 3_600, "expires": 7_200}
    chain(add.s(1, 2)).enqueue(on_complete=chain(note.using(**later).si("ä"), note.using(**later).si(2)))
    task_enqueued.connect(receive)
    try:
        work_off()
    finally:
        task_enqueued.disconnect(receive)

    assert [each.state for each in seen] == ["scheduled", "waiting"]
    for result in seen:
        before = shown(result)
        result.refresh()
        assert before == shown(result)


def test_callback_with_too_many_tasks_is_refused(redis_server: Store) -> None:
    expected = (
        r"^A callback has 401 tasks of [\d,]+ bytes: a callback may have 400 tasks of about 1,048,576 bytes\."
        r" Let a task be the callback that enqueues it\.$"
    )
    with pytest.raises(InvalidTask, match=expected):
        chain(add.s(1, 2)).enqueue(on_complete=group(note.si(1) for _ in range(401)))
    for name in NAMES:
        with pytest.raises(InvalidTask, match=r"note is unique, but a task of a flow cannot be"):
            chain(add.s(1, 2)).enqueue(**{name: chain(note.using(unique=True).s())})
        with pytest.raises(TypeError, match=r"^tests\.taskqueue\.tasks\.add does not take these arguments: "):
            chain(add.s(1, 2)).enqueue(**{name: chain(add.s(1, 2, 3))})
    assert work_off() == []


def test_callback_is_not_listed_among_the_tasks_of_the_site() -> None:
    from django_redis_components.taskqueue import registry

    assert callback.START_FLOW not in registry.names()
    assert registry.find(callback.START_FLOW) is not None
    assert callback.START_FLOW in registry.names_and_aliases()


def test_callback_runs_inline() -> None:
    with inline():
        flow = group(add.s(1, 2), fail.s().on_failure("ignore")).enqueue(on_success=group(note.s(), note.si(2)))

        assert recorded == [{"flow_id": flow.id, "state": "successful", "tasks": 2, "failed": 0}, 2]
