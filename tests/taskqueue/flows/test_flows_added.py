"""Tasks that a running member adds to its group: order, repetition, and refusals."""

from __future__ import annotations

import dataclasses
import os
import signal
import threading
from functools import partial
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from django_redis_components.taskqueue import (
    FlowResult,
    GroupNotOpen,
    InvalidTask,
    LeaseLost,
    Middleware,
    NewTask,
    Signature,
    TaskContext,
    TaskResult,
    chain,
    get_flow,
    get_queue,
    group,
    task,
)
from django_redis_components.taskqueue.flows import member_flow
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.run_start import result_of_run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store import task_control
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Proxy, Store, run_async
from tests.support.processes import Children
from tests.taskqueue.flows.support import make_lucky, start_run, states
from tests.taskqueue.support import Held, base_key, end_lease, new_fetcher, queue_worker, recover, settle_now, work_off
from tests.taskqueue.tasks import add, add_and_hold, echo, fail, note, recorded


@task(takes_context=True)
def split(context: TaskContext, depth: int, width: int = 2) -> str:
    """Add tasks that add tasks, to a depth."""
    if depth:
        context.flow.add(*(split.s(depth - 1, width) for _ in range(width)))
    return f"depth {depth}"


@task(takes_context=True, max_attempts=2, backoff=0)
def add_pages(context: TaskContext, *runs: list[int]) -> str:
    """Add a note for each page of this run; fail all runs but the last."""
    context.flow.add(*(note.s(page) for page in runs[context.attempt - 1]))
    if context.attempt < len(runs):
        raise LookupError("again")
    return "added"


@task(takes_context=True)
async def add_pages_async(context: TaskContext, *pages: int) -> list[str]:
    """Add notes in a coroutine."""
    return [result.state for result in await context.flow.aadd(*(note.s(page) for page in pages))]


start = partial(start_run, split)


def fields(store: Store, flow: FlowResult) -> dict[str, str]:
    pairs = store.raw.hgetall(base_key(store, "flow", flow.id))
    return {name.decode(): value.decode() for name, value in pairs.items()}


@pytest.mark.contract
def test_next_step_waits_for_added_tasks_and_receives_their_results_last(store: Store) -> None:
    flow = group(add_pages.s([7, 8]), add.s(1, 2)).enqueue(callback=echo.s(), on_complete=note.s())

    work_off()

    assert flow.get(0) == [[["added", 3, 7, 8]], {}]
    assert recorded[:2] == [7, 8]
    assert recorded[2] == {"flow_id": flow.id, "state": "successful", "tasks": 5, "failed": 0}
    assert states(flow) == ["successful"] * 5
    assert [result.return_value for result in flow.results[3:]] == [7, 8]
    assert fields(store, flow)["unfinished"] == "0"
    assert all(store.raw.pttl(base_key(store, "t", result.id)) > 0 for result in flow.results)


def test_get_of_a_group_returns_the_results_of_added_tasks(store: Store) -> None:
    flow = group(add.s(1, 2), group(add_pages.s([7]), add.s(3, 4))).enqueue()

    work_off()

    expected = [3, ["added", 7, 7]]
    assert flow.get(0) == expected
    assert run_async(get_flow(flow.id).aget, 0) == expected
    found = get_flow(flow.id)
    assert [result.id for result in found.results] == [result.id for result in flow.results]
    assert (found.children(found.results[3].id), found.parents(found.results[3].id)) == ([], [])


def test_added_tasks_add_tasks(store: Store) -> None:
    flow = group(split.s(3)).then(echo.s()).enqueue()

    work_off()

    [[results], _] = flow.get(0)
    assert sorted(results) == ["depth 0"] * 8 + ["depth 1"] * 4 + ["depth 2"] * 2 + ["depth 3"]
    assert fields(store, flow)["unfinished"] == "0"
    flow.refresh()
    assert flow.parents(flow.results[1].id) == [flow.results[0], *flow.results[2:]]


def test_added_tasks_take_options(redis_server: Store) -> None:
    later = note.using(run_after=3_600, queue_name="far")
    flow = group(split.s(0), add.s(1, 2)).then(echo.s()).enqueue()
    job, context = start()
    [result, urgent] = context.flow.add(later.s("late"), note.using(priority=5, expires=60).s("urgent"))

    assert (result.state, result.queue_name, result.flow_id) == ("scheduled", "far", flow.id)
    result.refresh()
    assert (result.state, result.queue_name, result.flow_id) == ("scheduled", "far", flow.id)
    urgent.refresh()
    assert urgent.expires_at is not None
    settle_now(new_fetcher(), execute(job))
    work_off()
    result.run_now()
    work_off("far")
    work_off()
    assert flow.get(0) == [[["depth 0", 3, "late", "urgent"]], {}]


def test_added_task_that_fails_fails_the_next_step_unless_it_may(store: Store) -> None:
    for action, expected in (("cancel", "failed"), ("continue", "successful"), ("ignore", "successful")):
        flow = group(split.s(0)).then(note.s()).enqueue()
        job, context = start()
        context.flow.add(fail.s("no").on_failure(action))  # type: ignore[arg-type]
        settle_now(new_fetcher(), execute(job))
        work_off()

        assert states(flow) == ["successful", expected, "failed"]
    [[_, failure], ignored] = recorded
    assert (failure["error"]["message"], ignored) == ("no", ["depth 0"])


def test_coroutine_adds_tasks(redis_server: Store) -> None:
    flow = group(add_pages_async.s(7, 8)).then(echo.s()).enqueue()

    work_off()

    assert flow.get(0) == [[[["ready", "ready"], 7, 8]], {}]


def test_group_before_an_immutable_step_takes_tasks(redis_server: Store) -> None:
    flow = group(add_pages.s([7])).then(note.si("next")).enqueue()

    work_off()

    assert recorded == [7, "next"]
    assert fields(redis_server, flow)["unfinished"] == "0"


def test_middleware_sees_the_ids_of_added_tasks(redis_server: Store) -> None:
    seen: list[tuple[str, str]] = []

    class Witness(Middleware):
        def before_enqueue(self, task: NewTask) -> None:
            seen.append(("before", task.id))

        def after_enqueue(self, result: TaskResult) -> None:
            seen.append(("after", result.id))

    group(split.s(0)).then(echo.s()).enqueue()
    _, context = start()
    with pipeline.installed(Witness()):
        [added] = context.flow.add(note.s(1))

    assert seen == [("before", added.id), ("after", added.id)]


# -- repetition


def test_repeated_run_adds_only_what_is_new(store: Store) -> None:
    flow = group(add_pages.s([1, 2, 2], [2, 2, 3, 2])).then(echo.s()).enqueue()
    work_off()
    recorded_before = list(recorded)

    get_queue("default").tasks("failed")
    for _ in range(3):
        recover()
        work_off()

    assert sorted(recorded_before) == [1, 2, 2, 2, 3]
    assert states(flow) == ["successful"] * 7
    assert [sorted(results[1:]) for [results] in [flow.get(0)[0]]] == [[1, 2, 2, 2, 3]]


@pytest.mark.contract
def test_order_of_keywords_does_not_matter_to_a_repeated_run(redis_server: Store) -> None:
    flow = group(split.s(0)).enqueue()
    job, first = start()
    _, second = result_of_run(split, job, "default")
    assert second is not None

    [added] = first.flow.add(echo.s({"x": 1, "y": 2}, a=1, b=2))
    [again] = second.flow.add(echo.s({"y": 2, "x": 1}, b=2, a=1))

    assert again.id == added.id
    flow.refresh()
    assert len(flow.results) == 2


def test_run_after_a_crash_adds_nothing_twice(store: Store) -> None:
    flow = group(split.s(1)).then(echo.s()).enqueue()
    job, context = start("dies:1")
    first = context.flow.add(split.s(0, 2), split.s(0, 2))
    end_lease(store, job.id)
    recover()

    work_off()

    assert flow.get(0) == [[["depth 1", "depth 0", "depth 0"]], {}]
    assert [result.id for result in flow.results[2:]] == []  # not read yet
    flow.refresh()
    assert [result.id for result in flow.results[2:]] == [result.id for result in first]
    with pytest.raises(LeaseLost, match=rf"^The run of task {job.id} has lost its lease"):
        context.flow.add(split.s(0))


def test_killed_worker_adds_nothing_twice(redis_server: Store, children: Children) -> None:
    held = Held(redis_server, "a")
    worker = queue_worker(children)
    flow = group(add_and_hold.s("a", 3), fail.s("no").on_failure("ignore")).enqueue(
        callback=echo.s(), on_complete=add.si(1, 2), on_success=add.si(3, 4)
    )
    first = held.started()

    os.kill(first, signal.SIGKILL)
    worker.wait_for(f"Worker process {first} exited (signal SIGKILL)")
    held.started(2)
    held.release()

    assert flow.get(60) == [[["a", 0, 2, 4]], {}]
    assert [each.get(60) for each in (flow.on_complete_result, flow.on_success_result) if each] == [3, 7]
    assert states(flow) == ["successful", "failed", *["successful"] * 4]
    assert flow.results[0].runs == 2


def test_lost_reply_adds_nothing_twice(proxy: Proxy, redis_server: Store) -> None:
    flow = group(split.s(0)).then(echo.s()).enqueue()
    job, _ = start()
    far = dataclasses.replace(note, connection="proxied")
    _, context = result_of_run(split, job, "proxied")
    assert context is not None
    assert context.flow.id == flow.id
    context.flow.add(far.s("warm"))
    proxy.drop_next_reply(after=b"\r\n" + job.token.encode())

    [result] = context.flow.add(far.s("page"))

    assert proxy.dropped == 1
    settle_now(new_fetcher(), execute(job))
    work_off()
    assert recorded == ["warm", "page"]
    assert states(flow) == ["successful"] * 4
    assert flow.results[3].id == result.id


@pytest.mark.contract
def test_two_members_add_at_once(store: Store) -> None:
    flow = group(split.s(0), split.s(0)).then(echo.s()).enqueue()
    started = [start(f"w:{number}") for number in range(2)]
    ready = threading.Barrier(2)

    def extend(context: TaskContext) -> None:
        ready.wait(60)
        for page in range(20):
            context.flow.add(note.s(page))

    threads = [threading.Thread(target=extend, args=(context,)) for _, context in started]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, (job, _) in enumerate(started):
        settle_now(new_fetcher(worker=f"w:{number}"), execute(job))
    work_off()

    assert sorted(recorded) == sorted([*range(20)] * 2)
    assert states(flow) == ["successful"] * 43
    assert sorted(flow.get(0)[0][0][2:]) == sorted([*range(20)] * 2)


@pytest.mark.contract
def test_retry_adds_nothing_to_a_complete_group(store: Store) -> None:
    flow = (
        group(add_pages.using(max_attempts=1).s([1], [1], []).on_failure("continue"), add.s(1, 2))
        .then(note.si("next"))
        .enqueue()
    )
    work_off()
    assert sorted(map(str, recorded)) == ["1", "next"]

    get_queue("default").retry_failed()
    [job] = new_fetcher().fetch("0", 1)
    _, context = result_of_run(add_pages, job, "default")
    assert context is not None
    assert [result.id for result in context.flow.add(note.s(1))] == [flow.results[3].id for _ in states(flow)[:1]]
    expected = (
        f"^Task {flow.results[0].id} cannot add tasks to its group: a task after the group has started or was"
        r" cancelled, or the task itself was cancelled\.$"
    )
    with pytest.raises(GroupNotOpen, match=expected) as raised:
        context.flow.add(note.s("new"))
    assert raised.value.id == flow.results[0].id
    settle_now(new_fetcher(), execute(job))


def test_group_of_a_failed_flow_takes_tasks_and_resumes(store: Store) -> None:
    flow = group(fail.s("no"), split.s(0)).then(echo.s()).enqueue()
    worker = new_fetcher()
    settle_now(worker, execute(worker.fetch("0", 1)[0]))
    job, context = start()
    context.flow.add(note.s("added"))
    settle_now(worker, execute(job))
    assert work_off() != []
    assert states(flow) == ["failed", "successful", "failed", "successful"]
    make_lucky(store)

    get_queue("default").retry_failed()
    work_off()

    assert flow.get(0)[0][0][1:] == ["depth 0", "added"]


def test_cancelled_flow_takes_no_task_and_cancels_the_added_ones(store: Store) -> None:
    flow = group(split.s(0)).then(note.s()).enqueue()
    _, context = start()
    [added] = context.flow.add(note.s("added"))

    assert flow.cancel() == 3

    added.refresh()
    assert added.state == "cancelled"
    assert states(flow) == ["running", "cancelled", "cancelled"]
    with pytest.raises(GroupNotOpen, match="or the task itself was cancelled"):
        context.flow.add(note.s("late"))
    assert work_off() == []


def test_cancel_of_a_flow_cancels_a_task_that_is_added_meanwhile(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = group(split.s(0)).then(note.s()).enqueue()
    _, context = start()
    added: list[TaskResult] = []
    cancel_call = task_control.cancel_call

    def add_before(*args: Any) -> Any:
        if not added:
            added.extend(context.flow.add(note.s("added")))
        return cancel_call(*args)

    monkeypatch.setattr(task_control, "cancel_call", add_before)

    assert flow.cancel() == 3

    added[0].refresh()
    assert added[0].state == "cancelled"
    assert work_off() == []


# -- refusals


def refused(context: TaskContext, *calls: Signature) -> str:
    with pytest.raises(GroupNotOpen) as raised:
        context.flow.add(*calls)
    return str(raised.value).partition(" cannot add tasks to its group: ")[2]


def test_task_outside_of_a_flow_cannot_add(redis_server: Store) -> None:
    split.enqueue(0)
    _, context = start()

    assert context.flow.id is None
    assert refused(context, note.s(1)) == "it is not part of a flow. Use enqueue()."


def test_step_of_a_chain_cannot_add(redis_server: Store) -> None:
    chain(split.s(0), note.s()).enqueue()
    _, context = start()
    assert refused(context, note.s(1)) == "it is a step of a chain, and not a member of a group."

    chain(split.s(0)).enqueue()
    assert refused(start()[1], note.s(1)) == "it is a step of a chain, and not a member of a group."


def test_callback_cannot_add(redis_server: Store) -> None:
    group(add.s(1, 2)).enqueue(on_complete=split.si(0))
    work_off_one()
    _, context = start("other:1")

    assert refused(context, note.s(1)) == "its flow was evicted or deleted, or the task is a callback."


def work_off_one() -> None:
    worker = new_fetcher()
    settle_now(worker, execute(worker.fetch("0", 1)[0]))


def test_member_of_an_evicted_flow_cannot_add(redis_server: Store) -> None:
    flow = group(split.s(0)).enqueue()
    _, context = start()
    redis_server.raw.delete(base_key(redis_server, "flow", flow.id))

    assert refused(context, note.s(1)) == "its flow was evicted or deleted, or the task is a callback."


def test_flow_does_not_grow_without_end(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_flow, "MAX_TASKS", 3)
    group(split.s(0)).then(note.s()).enqueue()
    _, context = start()
    context.flow.add(note.s(1))

    assert refused(context, note.s(2)) == "the flow would have more than 200,000 tasks."
    assert len(context.flow.add()) == 0


def test_invalid_calls_raise(redis_server: Store) -> None:
    flow = group(split.s(0)).enqueue()
    _, context = start()
    elsewhere: Any = dataclasses.replace(note, connection="jobs")

    with pytest.raises(InvalidTask, match=r"^flow\.add: step 1 is 3; expected task\.s\(…\), .* or group\(…\)\.$"):
        context.flow.add(note.s(1), 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match=r"^flow\.add: step 1 has 501 tasks; .* may have 500\. Add several\.$"):
        context.flow.add(note.s(1), group(note.s(1) for _ in range(501)))
    with pytest.raises(InvalidTask, match=r"note is unique, but a task of a flow cannot be"):
        context.flow.add(note.using(unique=True).s(1))
    with pytest.raises(InvalidTask, match=r"^id='mine': only enqueue\(\) and enqueue_on_commit\(\) accept an id"):
        context.flow.add(note.using(id="mine").s(1))
    with pytest.raises(InvalidTask, match=r"^flow\.add: .*note uses connection 'jobs', and the flow uses 'default'"):
        context.flow.add(elsewhere.s(1))
    with pytest.raises(TypeError, match=r"^tests\.taskqueue\.tasks\.add does not take these arguments"):
        context.flow.add(add.s(1, 2, 3))
    assert states(flow) == ["running"]


def test_lost_added_task_fails_the_next_step(redis_server: Store) -> None:
    flow = group(split.s(0)).then(echo.s()).enqueue()
    job, context = start()
    [added] = context.flow.add(note.using(run_after=60).s(1))
    settle_now(new_fetcher(), execute(job))
    redis_server.raw.delete(base_key(redis_server, "t", added.id))

    recover()

    assert states(flow)[1] == "failed"
    assert fields(redis_server, flow)["unfinished"] == "0"


def test_context_whose_record_could_not_be_read_finds_its_flow(redis_server: Store) -> None:
    flow = group(split.s(0)).enqueue()
    job, _ = start()
    result: TaskResult = TaskResult(split, job.name, job.id, home(), {"b": job.body})
    context = TaskContext(result, job, None)

    assert context.flow.id == flow.id
    assert connections.client().execute(Command("EXISTS", home().record(job.id))) == 1
