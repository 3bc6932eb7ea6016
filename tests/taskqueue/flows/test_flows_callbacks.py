"""Callbacks of flows: on_complete and on_success, each started once by the script that ends the flow."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import transaction

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import (
    FlowResult,
    InvalidTask,
    TaskResultDoesNotExist,
    chain,
    get_flow,
    get_queue,
    group,
)
from django_redis_components.taskqueue.flows.enqueue import Callbacks, prepare_flow
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, run_async
from tests.taskqueue.flows.support import make_lucky, poll, states
from tests.taskqueue.support import (
    base_key,
    end_lease,
    new_fetcher,
    queue_key,
    recover,
    settle_now,
    taskqueue_settings,
    work_off,
)
from tests.taskqueue.tasks import add, echo, fail, note, recorded
from tests.taskqueue.worker.support import fetch_call

RESULT_MS, FAILED_MS = 600_000, 7 * 86_400 * 1_000
BOTH: Any = {"on_complete": note.s(), "on_success": note.s()}


def unfinished(store: Store, flow: FlowResult) -> int:
    return int(store.raw.hget(base_key(store, "flow", flow.id), "unfinished"))


def summary(flow: FlowResult, state: str, tasks: int, failed: int) -> dict[str, Any]:
    return {"flow_id": flow.id, "state": state, "tasks": tasks, "failed": failed}


@pytest.mark.contract
def test_callbacks_run_when_all_tasks_have_succeeded(store: Store) -> None:
    flow = chain(group(add.s(1, 2), add.s(3, 4)), echo.s()).enqueue(on_error=note.si("error"), **BOTH)
    assert flow.on_complete_result is not None
    assert flow.on_success_result is not None
    assert [flow.on_complete_result.state, flow.on_success_result.state] == ["waiting", "waiting"]
    assert get_queue("default").info().waiting == 4  # the echo and three callbacks

    ran = work_off()

    assert [job.id for job in ran[3:]] == [flow.on_complete_result.id, flow.on_success_result.id]
    assert recorded == [summary(flow, "successful", 3, 0)] * 2
    assert unfinished(store, flow) == 0
    flow.refresh()
    for result in [*flow.results, flow.on_complete_result, flow.on_success_result]:
        assert RESULT_MS - 60_000 < store.raw.pttl(base_key(store, "t", result.id)) <= RESULT_MS
    assert 0 < store.raw.pttl(base_key(store, "flow", flow.id)) <= RESULT_MS
    assert store.raw.exists(base_key(store, "unfinished_flows"), queue_key(store, "waiting")) == 0


def test_flow_is_kept_until_its_callbacks_have_finished(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=note.si("complete"))
    worker = new_fetcher()
    settle_now(worker, execute(worker.fetch("0", 1)[0]))

    assert unfinished(redis_server, flow) == 1
    recover()  # a poller's round takes it for no lost task
    assert unfinished(redis_server, flow) == 1
    assert redis_server.raw.pttl(base_key(redis_server, "flow", flow.id)) == -1
    work_off()
    assert redis_server.raw.pttl(base_key(redis_server, "flow", flow.id)) > 0


def test_only_on_complete_runs_when_a_task_failed(store: Store) -> None:
    flow = group(add.s(1, 2), fail.s(), chain(fail.s(), echo.s())).enqueue(on_error=note.si("error"), **BOTH)

    work_off()

    assert recorded == ["error", summary(flow, "failed", 4, 3)]
    assert unfinished(store, flow) == 0
    assert flow.on_success_result is not None
    for key in (base_key(store, "t", flow.on_success_result.id), base_key(store, "flow", flow.id)):
        assert FAILED_MS - 60_000 < store.raw.pttl(key) <= FAILED_MS
    assert get_queue("default").info().waiting == 0


@pytest.mark.contract
def test_on_success_runs_after_a_retry_of_what_failed(store: Store) -> None:
    flow = chain(add.s(1, 2), fail.si("no"), echo.s()).enqueue(**BOTH)
    work_off()
    make_lucky(store)
    recorded.clear()

    assert get_queue("default").retry_failed() == 1
    assert get_queue("default").info().waiting == 2
    assert flow.on_success_result is not None
    assert store.raw.pttl(base_key(store, "t", flow.on_success_result.id)) == -1
    work_off()

    assert recorded == [summary(flow, "successful", 3, 0)]
    assert states(flow) == ["successful"] * 3
    assert unfinished(store, flow) == 0


def test_retry_while_on_complete_runs_lets_on_success_wait_again(redis_server: Store) -> None:
    flow = group(fail.s("no"), add.s(1, 2)).enqueue(**BOTH)
    worker = new_fetcher()
    for job in worker.fetch("0", 2):
        settle_now(worker, execute(job))
    [callback] = worker.fetch("0", 1)
    make_lucky(redis_server)

    assert get_queue("default").retry_failed() == 1
    assert get_queue("default").info().waiting == 1
    settle_now(worker, execute(callback))
    work_off()

    assert [each["state"] for each in recorded] == ["failed", "successful"]
    assert unfinished(redis_server, flow) == 0


def test_ignored_failure_is_a_success(store: Store) -> None:
    flow = group(fail.s().on_failure("ignore"), add.s(1, 2)).enqueue(on_error=note.si("error"), **BOTH)

    work_off()

    assert recorded == [summary(flow, "successful", 2, 0)] * 2


def test_continued_failure_is_a_failure(store: Store) -> None:
    flow = group(fail.s().on_failure("continue"), add.s(1, 2)).then(echo.s()).enqueue(on_error=note.si("error"), **BOTH)

    work_off()

    assert recorded == ["error", summary(flow, "failed", 3, 1)]


def test_cancelled_flow_runs_on_complete(store: Store) -> None:
    flow = chain(add.s(1, 2), echo.s()).enqueue(on_error=note.si("error"), **BOTH)

    assert flow.cancel() == 2
    work_off()

    assert recorded == [summary(flow, "failed", 2, 2)]
    assert unfinished(store, flow) == 0


def test_cancelled_flow_of_ignored_members_is_no_success(store: Store) -> None:
    flow = group(add.s(1, 2).on_failure("ignore"), add.s(3, 4).on_failure("ignore")).enqueue(**BOTH)

    assert flow.cancel() == 2
    work_off()

    assert recorded == [summary(flow, "successful", 2, 0)], "of on_complete"
    assert flow.on_success_result is not None
    flow.on_success_result.refresh()
    assert flow.on_success_result.state == "cancelled"
    assert unfinished(store, flow) == 0


def test_on_complete_runs_after_the_on_error_task(redis_server: Store) -> None:
    flow = chain(fail.s()).enqueue(on_error=note.si("error"), on_complete=note.si("complete"))

    work_off()

    assert recorded == ["error", "complete"]
    assert unfinished(redis_server, flow) == 0


@pytest.mark.parametrize("name", ["on_complete", "on_success"])
def test_cancelled_callback_does_not_run(store: Store, name: str) -> None:
    flow = chain(add.s(1, 2)).enqueue(**{name: note.s()})
    result = getattr(flow, f"{name}_result")

    assert result.cancel()
    work_off()

    assert recorded == []
    assert unfinished(store, flow) == 0
    assert store.raw.pttl(base_key(store, "flow", flow.id)) > 0


def test_failed_callback_neither_fails_the_flow_nor_starts_on_error(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(
        on_error=note.si("error"), on_complete=fail.si("callback"), on_success=note.si("success")
    )

    work_off()

    assert recorded == ["success"]
    assert flow.get(0) == 3
    assert unfinished(store, flow) == 0
    assert 0 < store.raw.pttl(base_key(store, "flow", flow.id)) <= RESULT_MS


def test_retried_callback_runs_once_more(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=fail.si("callback"))
    work_off()
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    assert unfinished(store, flow) == 1
    work_off()

    assert unfinished(store, flow) == 0
    assert store.raw.pttl(base_key(store, "flow", flow.id)) > 0


def test_lost_callback_ends_the_flow(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=note.s())
    worker = new_fetcher()
    settle_now(worker, execute(worker.fetch("0", 1)[0]))
    assert flow.on_complete_result is not None
    redis_server.raw.delete(base_key(redis_server, "t", flow.on_complete_result.id))

    recover()

    assert unfinished(redis_server, flow) == 0
    assert redis_server.raw.pttl(base_key(redis_server, "flow", flow.id)) > 0


def test_callback_whose_flow_was_evicted_fails_with_parents_lost(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=note.s())
    worker = new_fetcher()
    settle_now(worker, execute(worker.fetch("0", 1)[0]))
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    work_off()

    assert flow.on_complete_result is not None
    flow.on_complete_result.refresh()
    [error] = flow.on_complete_result.errors
    assert error.message == f"Flow {flow.id} is no longer in Redis: it was evicted or deleted."


def test_callbacks_are_found_by_the_id_of_the_flow(store: Store) -> None:
    sent = group(add.s(1, 2)).enqueue(callback=echo.s(), on_complete=note.si(1), on_success=note.si(2))

    flow = get_flow(sent.id)

    assert (flow.on_error_result, flow.on_complete_result, flow.on_success_result) == (
        None,
        sent.on_complete_result,
        sent.on_success_result,
    )
    assert flow.results == sent.results


def test_async_group_takes_callbacks(redis_server: Store) -> None:
    plain = run_async(lambda: group(add.s(1, 2)).aenqueue(on_success=note.si("plain")))
    called = run_async(lambda: group(add.s(1, 2)).aenqueue(callback=echo.s(), on_complete=note.si("called")))

    work_off()

    assert sorted(recorded) == ["called", "plain"]
    assert (plain.get(0), called.get(0)) == ([3], [[[3]], {}])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_async", [False, True])
def test_group_with_a_callback_is_sent_on_commit(redis_server: Store, is_async: bool) -> None:
    members = group(add.s(1, 2), add.s(3, 4))
    if is_async:
        flow = run_async(lambda: members.aenqueue_on_commit(callback=echo.s(), on_complete=note.si("complete")))
    else:
        with transaction.atomic():
            flow = members.enqueue_on_commit(callback=echo.s(), on_complete=note.si("complete"))
            assert get_queue("default").info().ready == 0

    work_off()

    assert (flow.get(0), recorded) == ([[[3, 7]], {}], ["complete"])


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_async", [False, True])
def test_callbacks_are_sent_with_the_flow_on_commit(redis_server: Store, settings: Any, is_async: bool) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=True)
    if is_async:
        run_async(lambda: chain(add.s(1, 2)).aenqueue(on_complete=note.si("complete")))
        run_async(lambda: chain(add.s(1, 2)).aenqueue_on_commit(on_success=note.si("success")))
    else:
        with transaction.atomic():
            chain(add.s(1, 2)).enqueue(on_complete=note.si("complete"))
            chain(add.s(1, 2)).enqueue_on_commit(on_success=note.si("success"))
            assert work_off() == []

    work_off()

    assert recorded == ["complete", "success"]


def test_invalid_callback_raises(redis_server: Store) -> None:
    for name in ("on_complete", "on_success"):
        with pytest.raises(InvalidTask, match=rf"^{name}=3: expected a call of a task, such as task\.s\(\), a"):
            chain(add.s(1, 2)).enqueue(**{name: 3})  # type: ignore[arg-type]
        with pytest.raises(InvalidTask, match=r"note is unique, but a task of a flow cannot be"):
            chain(add.s(1, 2)).enqueue(**{name: note.using(unique=True).s()})
    with pytest.raises(TypeError, match=r"^tests\.taskqueue\.tasks\.add does not take these arguments: "):
        chain(add.s(1, 2)).enqueue(on_complete=add.s(1, 2, 3))
    assert work_off() == []


# -- crashes, lost replies, races


def test_repeated_enqueue_of_a_flow_with_callbacks_creates_one_flow(store: Store) -> None:
    sent = prepare_flow(FlowGraph(group(add.s(1, n) for n in range(490))), Callbacks(None, note.s(), note.s()))
    client = connections.client()
    assert len(sent.calls) == 2
    for call in [*sent.calls, sent.calls[-1]]:
        client.execute(call)
        client.execute(call)
    poll(store)

    work_off()
    client.execute(sent.calls[-1])

    assert work_off() == []
    assert [each["state"] for each in recorded] == ["successful"] * 2


def test_repeated_outcome_of_the_last_task_starts_the_callbacks_once(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=note.si("complete"), on_success=note.si("success"))
    [job] = new_fetcher(worker="w").fetch("0", 1)
    ack = Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000)

    assert connections.client().execute(fetch_call(ack, ack))[0] == [1, 2]
    assert connections.client().execute(fetch_call(ack))[0] == [2]

    assert unfinished(store, flow) == 2
    work_off()
    assert recorded == ["complete", "success"]


def test_callbacks_run_after_a_worker_crash(store: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_complete=note.si("complete"), on_success=note.si("success"))
    new_fetcher(worker="dies:1").fetch("0", 1)
    end_lease(store, flow.results[0].id)
    recover()
    work_off(worker="here:2")

    assert recorded == ["complete", "success"]


@pytest.mark.contract
def test_callbacks_run_once_when_many_workers_finish_concurrently(store: Store) -> None:
    group(*[add.s(n, 0) for n in range(39)], fail.s().on_failure("ignore")).enqueue(
        on_complete=note.si("complete"), on_success=note.si("success")
    )
    fetchers = [new_fetcher(worker=f"w:{number}") for number in range(8)]
    ready = threading.Barrier(len(fetchers))

    def finish(fetcher: Any) -> None:
        jobs = fetcher.fetch("0", 5)
        ready.wait(60)
        for job in jobs:
            settle_now(fetcher, execute(job))

    threads = [threading.Thread(target=finish, args=(each,)) for each in fetchers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work_off()

    assert recorded == ["complete", "success"]


def test_on_success_of_a_successful_flow_is_not_listed_twice(redis_server: Store) -> None:
    flow = chain(add.s(1, 2)).enqueue(on_error=note.s(), on_success=note.si(1))
    work_off()

    assert flow.on_error_result is not None
    with pytest.raises(TaskResultDoesNotExist):
        flow.on_error_result.refresh()
    assert get_flow(flow.id).on_success_result == flow.on_success_result
