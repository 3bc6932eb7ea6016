"""Flows with a failed task: followers, the on-error task, and retries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import (
    ParentFailed,
    TaskFailed,
    TaskResult,
    TaskResultDoesNotExist,
    chain,
    get_flow,
    get_queue,
    group,
)
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.control import delete_trash
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, run_async
from tests.taskqueue.flows.support import WAYS, fails, is_deleted_in_a_bin, loses_its_workers, make_lucky, states
from tests.taskqueue.support import base_key, fall_due, new_fetcher, settle_now, work_off
from tests.taskqueue.tasks import add, echo, fail, fail_thrice, note, recorded

FAILED_MS = 7 * 86_400 * 1_000


def reason(result: TaskResult) -> str:
    """Why it was not run."""
    [error] = result.errors
    assert error.exception_class_path == f"{ParentFailed.__module__}.{ParentFailed.__qualname__}"
    return error.message


@pytest.mark.parametrize("goes_wrong", WAYS)
def test_follower_fails_and_names_its_failed_parent(
    store: Store, goes_wrong: Callable[[Store, TaskResult], str]
) -> None:
    flow = chain(fail.s("no"), echo.s(), note.si("never")).enqueue()
    first, second, third = flow.results

    how = goes_wrong(store, first)

    flow.refresh()
    message = f"Not run: task {first.id} (tests.taskqueue.tasks.fail), on which it depends, {how}."
    assert [(second.state, reason(second)), (third.state, reason(third))] == [("failed", message)] * 2
    assert work_off() == []
    assert recorded == []
    with pytest.raises(TaskFailed, match="ParentFailed: Not run: task "):
        flow.get(0)
    for task in (second, third):
        assert FAILED_MS - 60_000 < store.raw.pttl(base_key(store, "t", task.id)) <= FAILED_MS
        assert store.raw.pttl(base_key(store, "t", task.id, "errors")) > 0
    assert FAILED_MS - 60_000 < store.raw.pttl(base_key(store, "flow", flow.id)) <= FAILED_MS


def test_flow_with_a_deleted_task_can_be_read(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), echo.s()).enqueue()
    is_deleted_in_a_bin(redis_server, flow.results[0])

    found = get_flow(flow.id)

    assert [(result.name, result.state) for result in found.results] == [
        ("", "cancelled"),
        ("tests.taskqueue.tasks.echo", "failed"),
    ]


def test_deleting_a_failed_or_cancelled_task_does_not_fail_the_flow_again(redis_server: Store) -> None:
    flow = chain(fail.s(), echo.s()).enqueue()
    gone = chain(add.s(1, 2), echo.s()).enqueue()
    work_off()
    purged = chain(add.s(1, 2), echo.s()).enqueue()
    get_queue("default").purge()
    purged.results[0].cancel()

    assert get_queue("default").delete_failed() == 1
    run(connections.client(), delete_trash(home(), -1))

    for each in (flow, purged):
        hash_key = base_key(redis_server, "flow", each.id)
        assert redis_server.raw.hmget(hash_key, "unfinished", "f1") == [b"0", b"1"]
    assert gone.get(0) == [[3], {}]


def test_other_tasks_of_a_group_run_after_a_failure(redis_server: Store) -> None:
    flow = group(note.s(1), fail.s(), note.s(2)).then(echo.s()).enqueue()

    work_off()

    assert states(flow) == ["successful", "failed", "successful", "failed"]
    assert recorded == [1, 2]


def test_failed_attempt_with_retries_left_does_not_fail_the_flow(redis_server: Store) -> None:
    flow = chain(fail_thrice.using(backoff=60).s(), echo.s()).enqueue()
    work_off()
    assert states(flow) == ["retrying", "waiting"]

    for _ in range(2):
        fall_due(redis_server, flow.results[0])
        work_off()

    assert states(flow) == ["failed", "failed"]


def test_get_raises_when_a_parent_has_failed(redis_server: Store) -> None:
    flow = chain(fail.s(), echo.s()).enqueue()
    redis_server.raw.hset(base_key(redis_server, "t", flow.last.id), "W", 1)

    work_off()

    assert redis_server.raw.llen(base_key(redis_server, "t", flow.last.id, "done")) == 1


def test_task_failed_by_its_parent_is_not_listed_as_failed(redis_server: Store) -> None:
    flow = chain(fail.s(), echo.s(), echo.s()).enqueue()

    work_off()

    assert [job.id for job in get_queue("default").tasks("failed")] == [flow.results[0].id]


# -- trying again


def test_retrying_a_failed_parent_resumes_the_flow(store: Store) -> None:
    flow = chain(add.s(1, 2), fail.s(), note.s()).enqueue()
    work_off()
    assert states(flow) == ["successful", "failed", "failed"]

    make_lucky(store)
    assert get_queue("default").retry_failed() == 1
    assert states(flow) == ["successful", "ready", "waiting"]
    for result in flow.results:
        assert store.raw.pttl(base_key(store, "t", result.id)) == -1
    assert store.raw.pttl(base_key(store, "flow", flow.id)) == -1
    work_off()

    assert states(flow) == ["successful"] * 3
    assert recorded == [[[3], {}]]
    assert FAILED_MS - 60_000 < store.raw.pttl(base_key(store, "flow", flow.id)) <= FAILED_MS


def test_follower_runs_only_after_both_failed_parents_are_retried(store: Store) -> None:
    flow = group(fail.s("a"), fail.s("b"), add.s(1, 2)).then(note.s(), note.si("last")).enqueue()
    work_off()
    first, second = flow.results[:2]

    make_lucky(store)
    queue = get_queue("default")
    assert queue.retry_failed([first.id]) == 1
    assert states(flow) == ["ready", "failed", "successful", "failed", "failed"]
    assert queue.retry_failed([second.id]) == 1
    assert states(flow) == ["ready", "ready", "successful", "waiting", "waiting"]
    work_off()

    assert recorded == [[[["a"], {}], [["b"], {}], 3], "last"]


def test_retried_parent_that_fails_again_fails_the_flow_again(redis_server: Store) -> None:
    flow = chain(fail.s(), echo.s()).enqueue()
    work_off()
    get_queue("default").retry_failed()

    work_off()

    assert states(flow) == ["failed", "failed"]
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"
    assert len(flow.last.errors) == 2


def test_follower_of_a_failed_parent_cannot_be_retried(redis_server: Store) -> None:
    flow = chain(fail.s(), echo.s()).enqueue()
    work_off()

    assert get_queue("default").retry_failed([flow.last.id]) == 0
    assert states(flow) == ["failed", "failed"]


def test_cancelled_follower_stays_cancelled_when_its_parent_is_retried(redis_server: Store) -> None:
    flow = chain(fail.s(), note.si("cancelled"), note.si("after it")).enqueue()
    flow.results[1].cancel()
    assert states(flow) == ["ready", "cancelled", "failed"]
    work_off()

    get_queue("default").retry_failed()

    assert states(flow) == ["ready", "cancelled", "failed"]
    redis_server.raw.hset(base_key(redis_server, "t", flow.results[0].id), "n", echo.name)
    work_off()
    assert states(flow) == ["successful", "cancelled", "failed"]
    assert recorded == []
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"


def test_retry_after_the_flow_expired_runs_only_the_failed_task(redis_server: Store) -> None:
    flow = chain(fail.s(), note.si("never")).enqueue()
    work_off()
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    assert get_queue("default").retry_failed() == 1
    work_off()

    assert states(flow) == ["failed", "failed"]


def test_task_succeeds_when_its_flow_was_deleted(redis_server: Store) -> None:
    flow = chain(note.s(1), note.si("never")).enqueue()
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    work_off()

    assert states(flow) == ["successful", "waiting"]
    assert recorded == [1]


# -- cancelling a flow


def test_cancelling_a_flow_cancels_all_its_tasks(store: Store) -> None:
    flow = chain(note.s(1), group(note.s(), note.s()), note.s()).enqueue(on_error=note.s())

    assert flow.cancel() == 4

    assert states(flow) == ["cancelled"] * 4
    assert work_off() == []
    assert recorded == []
    assert get_queue("default").info().ready == 0
    assert flow.cancel() == 4, "and still are"
    assert store.raw.hget(base_key(store, "flow", flow.id), "unfinished") == b"0"


def test_cancelling_a_flow_stops_running_tasks_and_keeps_finished_ones(redis_server: Store) -> None:
    flow = chain(note.s(1), group(note.s(), note.s()), note.s()).enqueue(on_error=note.si("oops"))
    worker = new_fetcher()
    worker.settle(execute(worker.fetch("0", 1)[0]))
    ends, goes_on = worker.fetch("0", 2)

    assert run_async(lambda: flow.acancel(force_after=60)) == 3

    assert states(flow) == ["successful", "running", "running", "cancelled"]
    assert redis_server.raw.hexists(base_key(redis_server, "t", ends.id), "o")
    settle_now(worker, Ack(ends.id, ends.token, "cancelled", ttl_ms=600_000), execute(goes_on))
    assert states(flow) == ["successful", "cancelled", "successful", "cancelled"]
    assert worker.fetch("0", 1) == []
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"
    assert recorded == [1, 1]


def test_cancelled_waiting_task_is_in_no_list(redis_server: Store) -> None:
    flow = chain(note.s(1), note.s()).enqueue()

    assert flow.last.cancel()

    assert get_queue("default").info().ready == 1
    assert states(flow) == ["ready", "cancelled"]


# -- on_error


@pytest.mark.parametrize("goes_wrong", WAYS)
def test_on_error_task_receives_the_first_error(store: Store, goes_wrong: Callable[[Store, TaskResult], str]) -> None:
    flow = chain(fail.s("no"), echo.s()).enqueue(on_error=note.s())
    rescue = flow.on_error_result
    assert rescue is not None
    assert rescue.state == "waiting"

    how = goes_wrong(store, flow.results[0])

    work_off()
    rescue.refresh()
    assert rescue.state == "successful"
    [message] = recorded
    error = message.pop("error")
    assert message == {"task_id": flow.results[0].id, "task_name": fail.name, "reason": how}
    assert (error and error["exception_class_path"].rpartition(".")[2]) == {
        fails: "LookupError", loses_its_workers: "WorkerLost",
    }.get(goes_wrong)  # fmt: skip
    assert 0 < store.raw.pttl(base_key(store, "flow", flow.id)) <= FAILED_MS


def test_on_error_result_has_the_ttl_of_the_other_results(store: Store) -> None:
    flow = group(note.s(1), fail.s("no")).enqueue(on_error=note.si("rescued"))

    work_off()

    assert flow.on_error_result is not None
    flow.on_error_result.refresh()
    assert flow.on_error_result.state == "successful"
    for result in [*flow.results, flow.on_error_result]:
        assert 0 < store.raw.pttl(base_key(store, "t", result.id)) <= FAILED_MS


def test_on_error_task_runs_once_after_several_failures(redis_server: Store) -> None:
    flow = group(fail.s("a"), fail.s("b"), fail.s("c")).then(echo.s()).enqueue(on_error=note.si("rescue"))

    work_off()
    get_queue("default").retry_failed()
    work_off()

    assert recorded == ["rescue"]
    assert states(flow) == ["failed"] * 4


def test_successful_flow_deletes_its_on_error_task(store: Store) -> None:
    flow = chain(note.s(1), note.s()).enqueue(on_error=echo.s())
    assert flow.on_error_result is not None

    work_off()

    with pytest.raises(TaskResultDoesNotExist):
        flow.on_error_result.refresh()
    assert get_flow(flow.id).on_error_result is None
    assert store.raw.exists(base_key(store, "t", flow.on_error_result.id)) == 0


def test_cancelled_on_error_task_does_not_run(redis_server: Store) -> None:
    flow = chain(fail.s(), echo.s()).enqueue(on_error=note.s())
    assert flow.on_error_result is not None
    flow.on_error_result.cancel()

    work_off()

    assert recorded == []
    assert states(flow) == ["failed", "failed"]
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"


def test_failed_on_error_task_does_not_affect_its_flow(redis_server: Store) -> None:
    flow = chain(fail.s("first"), echo.s()).enqueue(on_error=fail.si("second"))
    assert flow.on_error_result is not None

    work_off()

    flow.refresh()
    assert [error.message for error in flow.on_error_result.errors] == ["second"]
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"
