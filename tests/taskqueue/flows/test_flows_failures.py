"""Members of a flow that may fail: what follows, what it receives, and what the flow's result is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    FlowResult,
    InvalidTask,
    MemberFailure,
    Signature,
    TaskFailed,
    TaskResult,
    chain,
    get_flow,
    get_queue,
    group,
)
from tests.support import Store, run_async
from tests.taskqueue.flows.support import WAYS, make_lucky, states
from tests.taskqueue.support import base_key, recover, work_off
from tests.taskqueue.tasks import add, echo, fail, note, recorded

RESULT_MS, FAILED_MS = 600_000, 7 * 86_400 * 1_000
ACTIONS: Any = pytest.mark.parametrize("action", ["continue", "ignore"])


def may_fail(action: Any, text: str = "no") -> Signature:
    return fail.s(text).on_failure(action)


def hash_of(store: Store, flow: FlowResult) -> dict[str, str]:
    pairs = store.raw.hgetall(base_key(store, "flow", flow.id))
    return {name.decode(): value.decode() for name, value in pairs.items()}


@pytest.mark.contract
def test_step_after_a_group_receives_the_failure_of_a_member_that_continues(store: Store) -> None:
    flow = group(add.s(1, 2), may_fail("continue"), add.s(3, 4)).then(note.s(), echo.si("last")).enqueue()

    work_off()

    assert states(flow) == ["successful", "failed", "successful", "successful", "successful"]
    [[first, failure, third]] = recorded
    assert (first, third) == (3, 7)
    error = failure.pop("error")
    assert type(failure) is MemberFailure
    assert failure == {"task_id": flow.results[1].id, "task_name": fail.name, "reason": "failed"}
    assert (error["exception_class_path"], error["message"]) == ("builtins.LookupError", "no")
    assert "LookupError" in error["traceback"]
    assert flow.get(0) == [["last"], {}]


def test_result_of_an_ignored_member_is_left_out(store: Store) -> None:
    flow = group(add.s(1, 2), may_fail("ignore"), add.s(3, 4)).then(note.s()).enqueue(on_error=note.si("error"))

    work_off()

    assert recorded == [[3, 7]]
    assert states(flow) == ["successful", "failed", "successful", "successful"]


def test_step_after_an_ignored_one_receives_none(redis_server: Store) -> None:
    flow = chain(may_fail("ignore"), note.s()).enqueue()

    work_off()

    assert recorded == [None]
    assert flow.get(0) is None


@ACTIONS
@pytest.mark.parametrize("goes_wrong", WAYS)
def test_next_step_runs_whatever_has_ended_a_member_that_may_fail(
    store: Store, goes_wrong: Callable[[Store, TaskResult], str], action: str
) -> None:
    flow = chain(group(may_fail(action)), note.s(), echo.s()).enqueue(on_error=note.si("error"))

    how = goes_wrong(store, flow.results[0])
    work_off()

    failure, *received = sorted(recorded, key=lambda each: each == "error", reverse=True)
    if action == "continue":
        assert failure == "error"
        [[only]] = received
        assert (only["task_id"], only["task_name"], only["reason"]) == (flow.results[0].id, fail.name, how)
    else:
        assert (failure, received) == ([], [])
    assert hash_of(store, flow)["unfinished"] == "0"
    assert states(flow)[1:] == ["successful", "successful"]


@ACTIONS
def test_flow_lives_as_long_as_its_outcome_says(store: Store, action: str) -> None:
    flow = group(may_fail(action), add.s(1, 2)).enqueue()

    work_off()

    left_ms = store.raw.pttl(base_key(store, "flow", flow.id))
    expected_ms = {"continue": FAILED_MS, "ignore": RESULT_MS}[action]
    assert expected_ms - 60_000 < left_ms <= expected_ms
    assert FAILED_MS - 60_000 < store.raw.pttl(base_key(store, "t", flow.results[0].id)) <= FAILED_MS


def test_get_of_a_group_returns_what_its_members_stand_for(redis_server: Store) -> None:
    flow = group(may_fail("ignore"), add.s(1, 2), may_fail("continue"), group(may_fail("ignore"))).enqueue()

    work_off()

    three, failure, nothing = flow.get(0)
    assert (three, nothing) == (3, [])
    assert (failure["task_id"], failure["reason"], failure["error"]["message"]) == (
        flow.results[2].id,
        "failed",
        "no",
    )
    assert run_async(get_flow(flow.id).aget, 0) == [3, failure, []]


def test_get_raises_for_a_member_that_may_not_fail(redis_server: Store) -> None:
    flow = group(may_fail("ignore"), may_fail("cancel")).enqueue()

    work_off()

    with pytest.raises(TaskFailed, match="LookupError: no"):
        flow.get(0)


def test_failure_of_a_whole_branch_is_that_of_its_last_task(store: Store) -> None:
    branch = chain(fail.s("no"), echo.s(), echo.s().on_failure("continue"))
    flow = group(branch, add.s(1, 2)).then(note.s()).enqueue()

    work_off()

    assert states(flow) == ["failed", "failed", "failed", "successful", "successful"]
    [[failure, three]] = recorded
    assert three == 3
    assert (failure["task_id"], failure["reason"]) == (flow.results[2].id, "was not run")
    assert failure["error"]["message"].startswith(f"Not run: task {flow.results[0].id} (")
    with pytest.raises(TaskFailed):
        flow.results[1].get(0)


@ACTIONS
def test_next_step_waits_for_the_other_members(store: Store, action: str) -> None:
    flow = group(may_fail(action), add.s(1, 2), fail.s("really")).then(note.s()).enqueue()

    work_off()

    assert states(flow) == ["failed", "successful", "failed", "failed"]
    assert recorded == []


@ACTIONS
def test_retry_of_a_member_after_the_next_step_ran_runs_only_the_member(store: Store, action: str) -> None:
    flow = group(may_fail(action), add.s(1, 2)).then(note.si("next")).enqueue()
    work_off()
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    work_off()

    assert states(flow) == ["successful"] * 3
    assert recorded == ["next"]
    assert hash_of(store, flow)["unfinished"] == "0"
    assert hash_of(store, flow).get("failed", "0") == "0"


@pytest.mark.contract
def test_retry_of_a_member_before_the_next_step_starts_passes_its_result(store: Store) -> None:
    slow = add.using(run_after=3_600)
    flow = group(may_fail("continue"), may_fail("continue", "again"), slow.s(1, 2)).then(note.s()).enqueue()
    work_off()
    first, second = flow.results[:2]
    make_lucky(store)
    assert get_queue("default").retry_failed([first.id]) == 1

    work_off()
    assert states(flow) == ["successful", "failed", "scheduled", "waiting"]
    flow.results[2].run_now()
    work_off()

    [[value, failure, three]] = recorded
    assert (value, failure["task_id"], three) == ([["no"], {}], second.id, 3)


def test_retried_member_that_fails_again_counts_once(store: Store) -> None:
    flow = group(may_fail("continue"), add.using(run_after=3_600).s(1, 2)).then(note.si("next")).enqueue()
    work_off()
    for _ in range(2):
        get_queue("default").retry_failed()
        work_off()

    assert hash_of(store, flow)["failed"] == "1"
    assert states(flow) == ["failed", "scheduled", "waiting"]
    flow.results[1].run_now()
    work_off()
    assert recorded == ["next"]


def test_branch_resumed_by_a_retry_does_not_start_the_next_step_again(store: Store) -> None:
    branch = chain(fail.s("no"), echo.s().on_failure("ignore"))
    flow = group(branch, add.s(1, 2)).then(note.s()).enqueue()
    work_off()
    make_lucky(store)

    get_queue("default").retry_failed()
    work_off()

    assert states(flow) == ["successful"] * 4
    assert recorded == [[3]]
    assert hash_of(store, flow)["unfinished"] == "0"


def test_deleting_a_failed_member_keeps_the_failed_steps_after_it(store: Store) -> None:
    flow = chain(may_fail("ignore"), fail.si("on its own")).enqueue()
    work_off()

    assert get_queue("default").delete_failed([flow.results[0].id]) == 1
    get_queue("default").retry_failed()

    assert states(flow)[1] == "ready"


def test_cancelled_flow_starts_no_step_after_a_member_that_may_fail(store: Store) -> None:
    flow = chain(group(may_fail("continue"), may_fail("ignore")), note.s()).enqueue()

    assert flow.cancel() == 3

    assert work_off() == []
    assert states(flow) == ["cancelled"] * 3
    assert hash_of(store, flow)["unfinished"] == "0"


def test_evicted_member_fails_the_next_step_since_its_action_is_lost(redis_server: Store) -> None:
    flow = chain(group(may_fail("ignore"), add.s(1, 2)), note.s()).enqueue()
    redis_server.raw.delete(base_key(redis_server, "t", flow.results[0].id))

    work_off()
    recover()

    flow.last.refresh()
    assert flow.last.state == "failed"


def test_unknown_action_raises() -> None:
    expected = r"""^on_failure\('skip'\): expected "cancel", "continue" or "ignore"\.$"""
    with pytest.raises(InvalidTask, match=expected):
        fail.s().on_failure("skip")  # type: ignore[arg-type]
