"""Flows of more tasks than one script may work on: their start, their end, searches for lost tasks, limits."""

from __future__ import annotations

from typing import Any

import pytest
from redis.exceptions import ConnectionError

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import InvalidTask, TaskContext, TaskQueueError, chain, get_queue, group, task
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.flows import enqueue as flow_enqueue
from django_redis_components.taskqueue.flows import parents
from django_redis_components.taskqueue.flows.graph import FlowGraph
from django_redis_components.taskqueue.flows.overview import read_flow
from django_redis_components.taskqueue.json_codec import unpack
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.scripts import CONTINUE_FLOW
from django_redis_components.taskqueue.worker.execution import execute
from tests.support import Store
from tests.taskqueue.flows.support import has_work, make_lucky, poll, states
from tests.taskqueue.support import base_key, new_fetcher, recover, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, echo, fail, note, recorded

#: Tasks that one step works on, see lua/shared/flow_work.lua.
STEP = 300


@task(takes_context=True)
def add_note(context: TaskContext, what: str) -> str:
    """Add a task to the group, whose result comes behind this one's."""
    context.flow.add(note.s(what))
    return "has added"


def prepared(flow: Any) -> flow_enqueue.PreparedFlow:
    return flow_enqueue.prepare_flow(FlowGraph(flow), flow_enqueue.Callbacks())


def accept(sent: flow_enqueue.PreparedFlow) -> None:
    """Send a flow as a process does that dies then: only the first step of its tasks is started."""
    for call in sent.calls:
        assert connections.client().execute(call)


def ttls(store: Store, flow: Any) -> set[bool]:
    """Return whether the flow and its results have a TTL."""
    keys = [base_key(store, "flow", flow.id), *(base_key(store, "t", each.id) for each in flow.results)]
    return {store.raw.pttl(key) > 0 for key in keys}


@pytest.mark.contract
def test_all_tasks_are_started_when_enqueue_returns(store: Store) -> None:
    flow = group(note.s(number) for number in range(2 * STEP)).then(echo.s()).enqueue()

    assert not has_work(store)
    assert states(flow) == ["ready"] * 2 * STEP + ["waiting"]
    work_off()
    assert recorded == list(range(2 * STEP))
    assert flow.get(0) == [[list(range(2 * STEP))], {}]


@pytest.mark.contract
def test_the_poller_starts_what_a_dead_sender_has_left(store: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(2 * STEP)).then(echo.s()))
    accept(sent)
    assert states(sent.result) == ["ready"] * STEP + ["waiting"] * (STEP + 1)

    assert poll(store) == 4  # two start tasks, and two search for lost ones

    assert states(sent.result) == ["ready"] * 2 * STEP + ["waiting"]
    work_off()
    assert recorded == list(range(2 * STEP))
    assert states(sent.result)[-1] == "successful"


def test_lost_connection_after_the_acceptance_is_no_error_of_enqueue(redis_server: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(2 * STEP)))
    flow, reply = flow_enqueue.enqueue_flow(sent), None
    while getattr(request := flow.send(reply), "script", None) is not CONTINUE_FLOW:
        reply = connections.client().execute(request)

    with pytest.raises(StopIteration):
        flow.throw(ConnectionError("gone"))

    poll(redis_server)
    assert states(sent.result) == ["ready"] * 2 * STEP


def test_task_that_was_cancelled_before_its_start_is_not_started(store: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(2 * STEP)).then(echo.s()))
    accept(sent)

    assert sent.result.results[-2].cancel()
    poll(store)

    assert states(sent.result)[-3:] == ["ready", "cancelled", "failed"]
    assert work_off()
    assert recorded == list(range(2 * STEP - 1))


def test_follower_that_was_started_by_its_parent_is_not_listed_as_waiting(store: Store) -> None:
    fillers = [note.s(number) for number in range(STEP - 1)]
    sent = prepared(group(*fillers, chain(note.si("parent"), note.si("follower"))))
    accept(sent)
    assert work_off()

    poll(store)

    assert get_queue("default").info().waiting == 0
    assert recorded[-2:] == ["parent", "follower"]
    assert set(states(sent.result)) == {"successful"}


@pytest.mark.contract
def test_results_get_their_ttl_in_steps(store: Store) -> None:
    flow = group(note.s(number) for number in range(2 * STEP)).enqueue()
    work_off()
    assert ttls(store, flow) == {False}
    assert not store.raw.exists(base_key(store, "unfinished_flows"))

    assert poll(store) == 3

    assert ttls(store, flow) == {True}


def test_retry_ends_the_change_of_ttl(store: Store) -> None:
    flow = group(*(note.s(number) for number in range(2 * STEP)), fail.s("no")).enqueue()
    work_off()
    recover()
    assert ttls(store, flow) == {False, True}
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    poll(store)

    assert ttls(store, flow) == {False}
    work_off()
    poll(store)
    assert ttls(store, flow) == {True}
    assert set(states(flow)) == {"successful"}


@pytest.mark.contract
def test_flow_that_was_not_sent_completely_is_deleted_after_an_hour(store: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(3 * STEP)))
    connections.client().execute(sent.calls[0])
    recover()
    assert not has_work(store)

    store.raw.zincrby(base_key(store, "partial_flows"), -3_600_001, sent.result.id)
    recover()
    connections.client().execute(CONTINUE_FLOW(base=home().base, flow_id=sent.result.id))

    expected = (
        f"Flow {sent.result.id} was not accepted: Redis no longer has its first parts. They are deleted if sending "
        "takes more than an hour, and a server whose memory is full may evict them."
    )
    late = flow_enqueue.PreparedFlow(sent.result, sent.calls[1:], None, uses_outbox=False)
    with pytest.raises(TaskQueueError, match=expected):
        run(connections.client(), flow_enqueue.enqueue_flow(late))
    poll(store)
    records = [base_key(store, "t", each.id) for each in sent.result.results]
    assert sum(store.raw.exists(key) for key in [*records, base_key(store, "flow", sent.result.id)]) == 0


def test_flow_that_is_sent_again_from_its_first_part_is_not_deleted(store: Store) -> None:
    sent = prepared(group(note.s(number) for number in range(3 * STEP)))
    connections.client().execute(sent.calls[0])
    store.raw.zincrby(base_key(store, "partial_flows"), -3_600_001, sent.result.id)
    recover()

    run(connections.client(), flow_enqueue.enqueue_flow(sent))
    poll(store)

    work_off()
    assert recorded == list(range(3 * STEP))


@pytest.mark.parametrize("lost", [0, 700])
def test_lost_task_fails_the_next_step(redis_server: Store, lost: int) -> None:
    flow = group(note.s(number) for number in range(1_200)).then(echo.s()).enqueue(on_complete=note.s())
    redis_server.raw.delete(base_key(redis_server, "t", flow.results[lost].id))
    work_off()
    assert states(flow)[-1] == "waiting"

    poll(redis_server)

    assert states(flow)[-1] == "failed"
    [error] = flow.results[-1].errors
    assert error.message.endswith("on which it depends, was evicted or deleted.")
    work_off()
    assert recorded[-1]["failed"] == 2
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "unfinished") == b"0"


def test_search_beside_a_working_flow_finds_nothing(redis_server: Store) -> None:
    flow = group(*(note.s(number) for number in range(1_200)), fail.s("no")).then(echo.s()).enqueue()
    fetcher = new_fetcher()
    for number in range(1_201):
        [job] = fetcher.fetch("0", 1)
        fetcher.settle_run(job, execute(job))
        if number % 100 == 0:
            recover()
    fetcher.fetch("acks", 0)
    make_lucky(redis_server)
    recover()
    assert get_queue("default").retry_failed() == 1
    recover()
    work_off()
    poll(redis_server)

    assert set(states(flow)) == {"successful"}


def test_states_of_a_large_flow_are_read_in_parts(redis_server: Store) -> None:
    flow = group(note.s(number) for number in range(5_200)).then(echo.s()).enqueue()

    found = run(connections.client(), read_flow(home(), flow.id, 10))

    assert (found.tasks, found.unfinished, found.counted) == (5_201, 5_201, 5_000)
    assert found.states == {"ready": 5_000}
    assert [member.number for member in found.members] == list(range(10))


@pytest.fixture
def few_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a task with more than three parents get their numbers."""
    monkeypatch.setattr(parents, "MAX_IDS", 3)


@pytest.mark.usefixtures("few_ids")
def test_task_after_many_gets_their_results_in_order_and_shape(store: Store) -> None:
    numbers = group(note.s(number) for number in range(1_100))
    nested = group(group(note.s("a"), note.s("b")), note.s("c"), group(chain(note.s("d"), echo.s()), note.s("e")))
    first, second = numbers.then(echo.s()).enqueue(), nested.then(echo.s()).enqueue()
    chains = group(chain(note.s(number), note.si(-number)) for number in range(700)).then(echo.s())
    third = chains.enqueue()
    for flow in (numbers.then(echo.s()), chains):
        last = prepared(flow).calls[-1]
        [body] = [each for each in last.args if isinstance(each, bytes) and b"parents" in each]
        assert len(body) < 200, "it has none of the ids"

    work_off()

    assert first.get(0) == [[list(range(1_100))], {}]
    assert second.get(0) == [[[["a", "b"], "c", [[["d"], {}], "e"]]], {}]
    assert third.get(0) == [[[-number for number in range(700)]], {}]


@pytest.mark.usefixtures("few_ids")
def test_ids_of_many_are_read_in_large_parts(redis_server: Store) -> None:
    def hmgets() -> int:
        return int(redis_server.raw.info("commandstats")["cmdstat_hmget"]["calls"])

    flow = group(chain(note.s(number), note.s()) for number in range(600)).then(echo.s()).enqueue()
    work_off()
    metadata = unpack(redis_server.raw.hget(base_key(redis_server, "t", flow.results[-1].id), Field.body))[2]
    before = hmgets()

    assert parents.read_inputs(home(), metadata) == list(range(600))
    assert hmgets() - before <= 3


@pytest.mark.usefixtures("few_ids")
def test_task_after_many_gets_placeholders_and_what_a_member_has_added(store: Store) -> None:
    members = [note.s(0), fail.s("no").on_failure("continue"), fail.s("no").on_failure("ignore"), note.s(3)]
    flow = group(*members, add_note.s("added")).then(echo.s()).enqueue()

    work_off()

    [[results], _] = flow.get(0)
    assert [results[0], results[1]["reason"], *results[2:]] == [0, "failed", 3, "has added", "added"]


@pytest.mark.usefixtures("few_ids")
def test_task_after_many_fails_if_its_flow_was_evicted(redis_server: Store) -> None:
    flow = group(note.s(number) for number in range(4)).then(echo.s()).enqueue()
    fetcher = new_fetcher()
    for job in fetcher.fetch("first", 4):
        fetcher.settle(execute(job))
    fetcher.fetch("acks", 0)
    redis_server.raw.hdel(base_key(redis_server, "flow", flow.id), 2)

    work_off()

    flow.refresh()
    assert flow.results[-1].errors[-1].message.startswith(f"Flow {flow.id} is no longer in Redis: it was evicted")


def test_limits_name_what_is_accepted() -> None:
    many = group(add.s(1, 2) for _ in range(200_001))
    with pytest.raises(InvalidTask, match=r"^The flow has more than 200,000 tasks: split it, or let a task"):
        FlowGraph(many)
    twice = group(echo.s() for _ in range(101)).then(group(echo.s() for _ in range(101)))
    with pytest.raises(InvalidTask, match=r"^The flow has more than 10,000 dependencies: put a task that collects"):
        FlowGraph(twice)
    FlowGraph(group(note.s(number) for number in range(20_000)).then(echo.s()).then(echo.s()))
    FlowGraph(note.s(1).then(group(note.si(number) for number in range(20_000))).then(echo.s()))


@pytest.mark.django_db
def test_large_flow_is_not_stored_in_the_outbox(settings: Any) -> None:
    taskqueue_settings(settings, OUTBOX=True)
    graph = FlowGraph(group(note.s(number) for number in range(5_001)))

    with pytest.raises(InvalidTask, match=r"^The flow has 5,001 tasks: in the outbox it may have 5,000\. Enqueue a"):
        flow_enqueue.prepare_flow(graph, flow_enqueue.Callbacks(), on_commit=True)
