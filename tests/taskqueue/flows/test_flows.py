"""Chains and groups: order, and the results that each task receives."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import transaction

from django_redis_components.taskqueue import (
    Concurrency,
    FlowDoesNotExist,
    FlowResult,
    InvalidTask,
    Rate,
    TaskContext,
    TaskResult,
    TaskResultDoesNotExist,
    WaitTimeout,
    aget_flow,
    chain,
    get_flow,
    get_queue,
    group,
    task,
)
from django_redis_components.taskqueue.flows.enqueue import Callbacks, prepare_flow
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.task import Task
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store, run_async
from tests.taskqueue.support import (
    base_key,
    fall_due,
    new_fetcher,
    running_worker,
    server_ms,
    settle_now,
    taskqueue_settings,
    work_off,
    work_until_finished,
)
from tests.taskqueue.tasks import add, add_async, come_back, echo, note, recorded

database = pytest.mark.django_db(transaction=True)


def states(flow: FlowResult) -> list[str]:
    flow.refresh()
    return [result.state for result in flow.results]


def test_chain_passes_each_result_to_the_next_task(store: Store) -> None:
    flow = chain(add.s(1, 2), add.s(10), echo.s("last", key=1)).enqueue()

    assert [job.id for job in work_off()] == [result.id for result in flow.results]
    assert flow.get(0) == [[13, "last"], {"key": 1}]


def test_immutable_task_receives_only_its_own_arguments(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), echo.si("mine"), echo.s()).enqueue()

    work_off()

    assert [result.return_value for result in refreshed(flow)] == [3, [["mine"], {}], [[[["mine"], {}]], {}]]


def refreshed(flow: FlowResult) -> list[Any]:
    flow.refresh()
    return flow.results


def test_task_after_a_group_receives_its_results_in_order(store: Store) -> None:
    flow = group(add.s(number, number) for number in range(5)).enqueue(callback=echo.s())
    for result in flow.results[:5:2]:  # finished in another order
        note.enqueue(result.id)

    work_off()

    assert flow.get(0) == [[[0, 2, 4, 6, 8]], {}]


@pytest.mark.parametrize("count", [1, 2])
def test_task_after_a_group_of_one_receives_a_list(redis_server: Store, count: int) -> None:
    flow = group([add.s(1, 1)] * count).then(echo.s()).enqueue()

    work_off()

    assert flow.get(0) == [[[2] * count], {}]


def test_group_of_a_thousand_is_sent_in_parts_and_runs_its_callback_once(redis_server: Store) -> None:
    flow = group(note.s(number) for number in range(1_000)).enqueue(callback=echo.s())

    assert states(flow) == ["ready"] * 1_000 + ["waiting"]
    work_off()

    assert recorded == list(range(1_000))
    assert flow.get(0) == [[list(range(1_000))], {}]
    assert get_flow(flow.id).is_finished


def test_get_waits_for_all_tasks_of_a_group(redis_server: Store) -> None:
    flow = group(add.s(1, 2), chain(add.s(1, 1), add.s(5)), group(add.s(2, 2))).enqueue()

    work_off()

    assert flow.get(0) == [3, 7, [4]]
    assert flow.last.return_value == 4
    assert run_async(flow.aget, 0) == [3, 7, [4]]


def test_chains_and_groups_can_be_nested(store: Store) -> None:
    flow = chain(
        add.s(1, 1),
        group(add.s(10), chain(add.s(20), add.s(1)), echo.si("alone")),
        group(echo.s("left"), echo.s("right")),
        echo.s(),
    ).enqueue()

    work_off()

    both = [12, 23, [["alone"], {}]]
    assert flow.get(0) == [[[[[both, "left"], {}], [[both, "right"], {}]]], {}]


def test_task_of_a_flow_runs_with_its_using_options(store: Store) -> None:
    far = note.using(queue_name="far", priority=7)
    flow = chain(note.s("first"), far.si("urgent")).enqueue()
    note.using(queue_name="far").enqueue("before")

    work_off("default")
    assert get_queue("far").info().ready == 2
    work_off("far")

    assert recorded == ["first", "urgent", "before"]
    assert flow.last.queue_name == "far"


def test_delay_counts_from_the_end_of_the_parents(store: Store) -> None:
    later = note.using(run_after=timedelta(minutes=5))
    flow = chain(later.s("a"), later.si("b"), note.si("c")).enqueue()
    assert states(flow) == ["scheduled", "waiting", "waiting"]
    assert flow.results[1].run_after is None
    fall_due(store, flow.results[0])

    work_off()

    assert states(flow) == ["successful", "scheduled", "waiting"]
    begun, due = flow.results[0].finished_at, flow.results[1].run_after
    assert begun is not None
    assert due is not None
    assert timedelta(minutes=4, seconds=59) < due - begun <= timedelta(minutes=5, milliseconds=1)
    fall_due(store, flow.results[1])
    work_off()
    assert recorded == ["a", "b", "c"]


def test_expiry_counts_from_the_end_of_the_parents(store: Store) -> None:
    flow = chain(add.s(1, 2), note.using(expires=30).s()).enqueue()
    key = base_key(store, "t", flow.last.id)
    assert store.raw.hget(key, "X") is None

    worker = new_fetcher()
    worker.settle(execute(worker.fetch("0", 1)[0]))
    worker.fetch("acks", 0)

    expires_ms = int(store.raw.hget(key, "X").split()[0])
    assert 25_000 < expires_ms - server_ms(store) <= 30_000


def test_task_limits_apply_in_a_flow(store: Store) -> None:
    limited = note.using(concurrency=1)
    flow = group(limited.s(number) for number in range(3)).enqueue(callback=echo.s())
    worker = new_fetcher()

    [job] = worker.fetch("0", 3)
    assert work_off() == []
    worker.settle(execute(job))
    worker.fetch("acks", 0)
    work_off()

    assert sorted(recorded) == [0, 1, 2]
    assert flow.get(0) == [[[0, 1, 2]], {}]


KEYS: dict[str, Any] = {"template": "{b}", "function": lambda a, b: b}


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_a_limit_and_a_group_are_made_behind_the_result(redis_server: Store, key: str) -> None:
    limited = add.using(concurrency=Concurrency(1, key=KEYS[key]), rate=Rate("9/s", key=KEYS[key]), fair=KEYS[key])
    flow = chain(add.s(1, 2), limited.s(7), limited.s(b=8)).enqueue()

    def keys_of(result: TaskResult) -> list[bytes]:
        fields = redis_server.raw.hmget(base_key(redis_server, "t", result.id), "C", "R", "G")
        return [field.replace(b":", b"/").rpartition(b"/")[2] for field in fields]

    assert [keys_of(each) for each in flow.results[1:]] == [[b"7"] * 3, [b"8"] * 3]


USES: dict[str, Any] = {
    "template": "{a}",
    "attribute": "{a.real}",
    "representation": "{a!r}",
    "function": lambda a, b: f"{a}",
    "itself": lambda a, b: a,
    "largest": lambda a, b: str(max(a, b)),
    "sum": lambda a, b: str(a + b),
    "comparison": lambda a, b: "big" if a > b else "small",
    "hash": lambda a, b: {a: "x"}[a],
}


@pytest.mark.parametrize("key", USES)
def test_key_that_uses_the_result_of_an_earlier_task_raises(redis_server: Store, key: str) -> None:
    limited = add.using(concurrency=Concurrency(1, key=USES[key]))

    with pytest.raises(InvalidTask, match=r"add gets the result of an earlier task as its first argument\. Its keys"):
        chain(add.s(1, 2), limited.s(7)).enqueue()
    assert chain(limited.s(1, 2)).enqueue().results[0].state == "ready"


@pytest.mark.parametrize("limit", [{"concurrency": 1}, {"rate": "50/s"}], ids=["concurrency", "rate"])
def test_group_members_delayed_by_a_limit_start_in_order(store: Store, limit: Any) -> None:
    limited = note.using(**limit)
    flow = group(limited.s(number) for number in range(12)).enqueue()
    [job] = new_fetcher(worker="first").fetch("0", 12)
    new_fetcher(worker="another").fetch("0", 12)
    settle_now(new_fetcher(worker="first"), execute(job))

    work_until_finished(*flow.results)

    assert recorded == list(range(12))


def test_eta_in_the_past_does_not_delay(redis_server: Store) -> None:
    past = flow_moment(redis_server)
    flow = chain(note.using(run_after=past).s("a"), note.using(run_after=past).si("b")).enqueue()

    work_off()

    assert states(flow) == ["successful", "successful"]


def flow_moment(store: Store) -> Any:
    enqueued = note.enqueue("now")
    work_off()
    return enqueued.enqueued_at


def test_retried_attempts_do_not_start_followers(redis_server: Store) -> None:
    flow = chain(come_back.s(60), note.s()).enqueue()

    work_off()

    assert states(flow) == ["scheduled", "waiting"]
    fall_due(redis_server, flow.results[0])
    work_off()
    assert recorded == ["come_back", "came back"]


@task(takes_context=True)
def with_context(context: TaskContext, *args: Any) -> list[Any]:
    """Record the arguments after the context."""
    return [context.attempt, *args]


def test_context_precedes_the_results_of_the_parents(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), with_context.s("own")).enqueue()

    work_off()

    assert flow.get(0) == [1, 3, "own"]


def test_coroutine_tasks_run_in_a_flow(redis_server: Store) -> None:
    flow = chain(add_async.s(1, 2), add_async.s(3)).enqueue()

    work_off()

    assert flow.get(0) == 6


def test_threaded_worker_completes_a_flow(redis_server: Store) -> None:
    with running_worker(threads=4):
        flow = chain(group(add.s(number, 1) for number in range(30)), echo.s(), note.si("done")).enqueue()

        assert flow.get(60) == "done"

    assert flow.results[30].id == flow.parents(flow.last.id)[0].id


def test_flow_reports_its_dependencies(store: Store) -> None:
    flow = chain(add.s(1, 2), group(add.s(1), add.s(2)), echo.s()).enqueue()
    first, left, right, last = flow.results

    assert flow.parents(first.id) == []
    assert flow.children(first.id) == [left, right]
    assert flow.parents(last.id) == [left, right]
    assert flow.children(last.id) == []
    with pytest.raises(TaskResultDoesNotExist, match="There is no task 'unknown'"):
        flow.parents("unknown")
    assert [result.flow_id for result in flow.results] == [flow.id] * 4
    assert add.enqueue(1, 2).flow_id is None
    assert repr(flow) == f"<FlowResult {flow.id} of 4 tasks>"


def test_flow_is_found_by_id(store: Store) -> None:
    sent = group(add.s(1, 2), add.s(3, 4)).then(echo.s()).enqueue(on_error=note.s())
    task = add.get_result(sent.results[0].id)
    assert task.flow_id is not None

    flow = get_flow(task.flow_id)

    assert (flow.results, flow.on_error_result, flow.last) == (sent.results, sent.on_error_result, sent.last)
    assert [result.name for result in flow.results] == [result.name for result in sent.results]
    assert flow.children(task.id) == [sent.last]
    assert not flow.is_finished
    work_off()
    assert flow.get(0) == [[[3, 7]], {}]
    assert run_async(aget_flow, sent.id).on_error_result is None
    run_async(flow.arefresh)
    assert flow.is_finished


def test_unknown_flow_id_raises(redis_server: Store) -> None:
    with pytest.raises(
        FlowDoesNotExist, match=r"There is no flow 'x': it was never accepted, or has expired\."
    ) as raised:
        get_flow("x")

    assert raised.value.id == "x"


def test_get_raises_after_its_timeout(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), add.s(3)).enqueue()

    with pytest.raises(WaitTimeout, match=f"Task {flow.last.id} had not finished after 0.0"):
        flow.get(0.01)


def test_waiting_task_reports_its_state(redis_server: Store) -> None:
    flow = chain(add.s(1, 2), add.s(3)).enqueue()

    waits = add.get_result(flow.last.id)

    assert (waits.state, waits.status, waits.args) == ("waiting", "READY", [3])
    assert get_queue("default").info().ready == 1


@database
def test_flow_has_its_ids_before_the_commit_sends_it(store: Store) -> None:
    with transaction.atomic():
        flow = chain(add.s(1, 2), add.s(3)).enqueue_on_commit()
        assert get_queue("default").info().ready == 0
        assert flow.results[0].enqueued_at is None
        assert len(flow.last.id) == 20

    work_off()
    assert flow.get(0) == 6
    assert flow.results[0].enqueued_at is not None


@database
def test_rolled_back_transaction_sends_no_flow(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=True)
    with transaction.atomic():
        flow = group(add.s(1, 2)).enqueue(callback=echo.s())
        transaction.set_rollback(True)

    assert work_off() == []
    with pytest.raises(FlowDoesNotExist):
        get_flow(flow.id)


def test_on_commit_without_a_transaction_sends_immediately(redis_server: Store, settings: Any) -> None:
    flow = chain(note.s(1)).enqueue_on_commit()

    assert [job.id for job in work_off()] == [flow.last.id]


def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    async def send() -> list[FlowResult]:
        return [
            await chain(add.s(1, 2), add.s(3)).aenqueue(),
            await group(add.s(1, 2)).aenqueue(),
            await group(add.s(1, 2)).aenqueue(callback=echo.s()),
            await chain(add.s(1, 2), add.s(4)).aenqueue_on_commit(),
        ]

    flows = run_async(send)
    work_off()

    assert [flow.get(0) for flow in flows] == [6, [3], [[[3]], {}], 7]


@database
def test_aenqueue_waits_for_the_commit_when_the_setting_is_on(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, ENQUEUE_ON_COMMIT=True)

    flow = run_async(chain(add.s(1, 2), add.s(3)).aenqueue)  # no transaction is open there

    work_off()
    assert flow.get(0) == 6


@database
def test_aenqueue_sees_the_transaction_of_the_database_thread(redis_server: Store) -> None:
    async def send() -> FlowResult:
        atomic = transaction.atomic()
        await sync_to_async(atomic.__enter__)()
        flow = await chain(add.s(1, 2), add.s(3)).aenqueue_on_commit()
        assert await sync_to_async(work_off)() == []
        await sync_to_async(atomic.__exit__)(None, None, None)
        return flow

    flow = run_async(send)

    work_off()
    assert flow.get(0) == 6


def test_empty_flow_raises() -> None:
    expected = r"\(\) has no tasks: expected at least one\."
    with pytest.raises(InvalidTask, match="^group" + expected):
        group([])
    with pytest.raises(InvalidTask, match="^group" + expected):
        group()
    with pytest.raises(InvalidTask, match="^chain" + expected):
        chain()


def test_error_of_a_step_names_its_task_once() -> None:
    with pytest.raises(TypeError, match=r"^tests\.taskqueue\.tasks\.add does not take these arguments: too many"):
        chain(add.s(1, 2), add.s(1, 2)).enqueue()
    with pytest.raises(TypeError, match=r"^tests\.taskqueue\.tasks\.add: args\[0\]"):
        chain(add.s(object(), 2), add.s(1)).enqueue()


def test_invalid_step_raises() -> None:
    with pytest.raises(
        InvalidTask, match=r"^chain: step 1 is <function .*; expected task\.s\(…\), task\.si\(…\), chain"
    ):
        chain(add.s(1, 2), add.func)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match=r"^group: step 0 is 3; expected"):
        group(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidTask, match=r"^on_error=3: expected a call of a task, such as task\.s\(\), a"):
        chain(add.s(1, 2)).enqueue(on_error=3)  # type: ignore[arg-type]


def test_non_json_argument_raises_with_its_task_and_position(redis_server: Store) -> None:
    with pytest.raises(
        TypeError, match=r"^tests\.taskqueue\.tasks\.echo: args\[0\] is a builtins\.object: expected JSON"
    ):
        chain(add.s(1, 2), echo.s(object())).enqueue()

    assert work_off() == []


@pytest.mark.parametrize("text", ["ascii", "json"])
def test_error_of_a_key_function_is_raised_as_it_is(text: str) -> None:
    makers: dict[str, Any] = {"ascii": lambda what: what.encode("ascii"), "json": json.loads}
    limited = note.using(concurrency=Concurrency(1, key=makers[text]))

    with pytest.raises(ValueError, match=r"'ascii' codec can't encode|Expecting value"):
        chain(limited.s("\N{SNOWMAN}")).enqueue()


def test_flow_over_two_connections_raises() -> None:
    elsewhere: Task[Any, Any, Any] = Task(
        func=add.func, name="elsewhere", declared_options=add.options, connection="jobs"
    )
    with pytest.raises(InvalidTask, match=r"add uses connection 'default' and elsewhere uses 'jobs': the tasks"):
        chain(add.s(1, 2), elsewhere.s(3)).enqueue()
    with pytest.raises(InvalidTask, match="the tasks of a flow must share one"):
        chain(add.s(1, 2)).enqueue(on_error=elsewhere.s())


def test_unique_task_in_a_flow_raises() -> None:
    expected = r"note is unique, but a task of a flow cannot be: .*\. Use task\.using\(unique=None\)\."
    with pytest.raises(InvalidTask, match=expected):
        chain(add.s(1, 2), note.using(unique=True).s()).enqueue()
    with pytest.raises(InvalidTask, match=expected):
        chain(add.s(1, 2)).enqueue(on_error=note.using(unique=True).s())


def test_chain_of_many_steps_may_be_made_one_by_one(redis_server: Store) -> None:
    flow = end = note.si(0).then(note.si(1))
    for number in range(2, 1_500):
        flow, end = flow.then(note.si(number)), chain(note.si(number), end)

    for result, last in ((flow.enqueue(), 1_499), (end.enqueue(), 1)):
        assert [len(followers) for followers in result.links] == [1] * 1_499 + [0]
        assert result.last.args == [last]


def test_steps_that_are_nested_too_deeply_raise() -> None:
    flow = group(note.s(0))
    for _ in range(2_000):
        flow = group(flow)

    with pytest.raises(
        InvalidTask, match=r"^The steps of the flow are nested too deeply: expected 100 levels at most\.$"
    ):
        flow.enqueue()


def test_repr_of_steps() -> None:
    assert repr(chain(add.s(1, 2), group(add.s(1)))) == "<chain of 2>"


def test_signatures_are_reusable(redis_server: Store) -> None:
    step = chain(add.s(1, 2), add.s(3))

    flows = [step.enqueue(), step.enqueue(), step.then(add.s(100)).enqueue()]
    work_off()

    assert [flow.get(0) for flow in flows] == [6, 6, 106]


def test_flow_with_large_arguments_is_sent_in_calls_of_bounded_size(redis_server: Store) -> None:
    prepared = prepare_flow(FlowGraph(group(*[echo.s("x" * 300_000) for _ in range(10)])), Callbacks())

    assert len(prepared.calls) == 3
    assert [call.args[2] for call in prepared.calls] == [0, 0, 1]
    assert len(group(*[echo.s("x" * 300_000) for _ in range(10)]).enqueue().results) == 10
