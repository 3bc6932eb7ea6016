"""More tasks after one task than one script may start or fail: the poller does it in steps."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import chain, get_flow, get_queue, group, task
from django_redis_components.taskqueue.flows import enqueue as flow_enqueue
from django_redis_components.taskqueue.flows.overview import read_flow
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.store.scripts import CONTINUE_FLOW
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.testing import inline
from tests.support import Store
from tests.taskqueue.flows.support import has_work, make_lucky, poll, states
from tests.taskqueue.support import base_key, new_fetcher, recover, work_off
from tests.taskqueue.tasks import add, echo, fail, note, recorded

#: Followers that one script works on, and twice as many and some.
STEP, MANY = flow_enqueue.FOLLOWERS, 2 * flow_enqueue.FOLLOWERS + 20


def fan_out(first: Any, count: int = MANY) -> Any:
    """Return a flow of one task, many after it, and one after these."""
    return chain(first, group(note.si(number) for number in range(count)), echo.s())


def steps_left(store: Store) -> int:
    return sum(store.raw.llen(key) for key in store.raw.keys(base_key(store, "flow_steps", "*")))


@pytest.mark.contract
def test_tasks_after_one_task_are_started_in_steps(store: Store) -> None:
    flow = fan_out(note.s("first")).enqueue()

    work_off()
    assert states(flow)[1:] == ["waiting"] * (MANY + 1)
    assert poll(store) == 4  # three chunks, and one that finds nothing left

    assert states(flow) == ["successful"] + ["ready"] * MANY + ["waiting"]
    work_off()
    assert recorded == ["first", *range(MANY)]
    assert states(flow)[-1] == "successful"
    poll(store)
    assert steps_left(store) == 0
    assert store.raw.pttl(base_key(store, "flow", flow.id)) > 0


def test_as_many_as_one_step_has_are_started_at_once(store: Store) -> None:
    flow = fan_out(note.s("first"), STEP).enqueue()

    work_off()

    assert not steps_left(store)
    assert states(flow)[-1] == "successful"


@pytest.mark.contract
def test_tasks_after_a_failed_task_fail_in_steps(store: Store) -> None:
    flow = fan_out(fail.s("no")).enqueue(on_error=echo.s(), on_complete=echo.s())

    work_off()
    assert flow.on_error_result is not None
    poll(store)

    assert states(flow) == ["failed"] * (MANY + 2)
    work_off()
    assert flow.on_complete_result is not None
    assert flow.on_error_result.get(0)[0][0]["task_id"] == flow.results[0].id
    assert flow.on_complete_result.get(0)[0][0]["failed"] == MANY + 2


@pytest.mark.contract
def test_retry_lets_many_tasks_wait_again_in_steps(store: Store) -> None:
    flow = fan_out(fail.s("no")).enqueue(on_success=echo.s())
    work_off()
    poll(store)
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    work_off()
    poll(store)
    work_off()
    poll(store)

    assert set(states(flow)) == {"successful"}
    assert sorted(recorded) == list(range(MANY))
    assert flow.on_success_result is not None
    assert flow.on_success_result.state == "successful" or work_off()


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_retry_and_end_between_two_steps_are_done_after_these(store: Store, rounds: int) -> None:
    """What fails, is retried and succeeds before the steps of its failure are done has the same end."""
    flow = fan_out(fail.s("no")).enqueue(on_complete=note.s())
    work_off()
    for _ in range(rounds):
        recover(prune=False)
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    work_off()
    assert "flow_id" not in str(recorded)  # it has not ended
    poll(store)
    work_off()
    poll(store)
    work_off()

    assert set(states(flow)) == {"successful"}
    assert sorted(each for each in recorded if isinstance(each, int)) == list(range(MANY))
    [summary] = [each for each in recorded if isinstance(each, dict)]
    assert (summary["failed"], summary["tasks"]) == (0, MANY + 2)
    assert store.raw.hget(base_key(store, "flow", flow.id), "unfinished") == b"0"


def test_second_failure_of_a_retried_task_fails_all_after_it(store: Store) -> None:
    flow = fan_out(fail.s("no")).enqueue()
    work_off()
    recover(prune=False)

    assert get_queue("default").retry_failed() == 1
    recover(prune=False)
    work_off()
    poll(store)

    assert states(flow) == ["failed"] * (MANY + 2)
    assert store.raw.hget(base_key(store, "flow", flow.id), "unfinished") == b"0"
    assert store.raw.hget(base_key(store, "flow", flow.id), "failed") == str(MANY + 2).encode()


def test_failure_that_continues_starts_many_tasks(store: Store) -> None:
    flow = fan_out(fail.s("no").on_failure("continue")).enqueue()

    work_off()
    poll(store)
    work_off()

    assert states(flow) == ["failed", *["successful"] * (MANY + 1)]


def test_long_way_of_a_failure_is_done_in_steps(store: Store) -> None:
    """Each task has few after it, and all together are many."""
    branches = group(chain(note.si(number), note.si(number), note.si(number)) for number in range(STEP))
    flow = chain(fail.s("no"), branches, echo.s()).enqueue()

    work_off()
    assert steps_left(store)
    poll(store)

    assert set(states(flow)) == {"failed"}
    assert store.raw.hget(base_key(store, "flow", flow.id), "unfinished") == b"0"
    make_lucky(store)
    get_queue("default").retry_failed()
    poll(store)
    work_off()
    poll(store)
    assert set(states(flow)) == {"successful"}
    assert store.raw.hget(base_key(store, "flow", flow.id), "failed") == b"0"


def test_cancelled_followers_are_not_started(store: Store) -> None:
    flow = fan_out(note.s("first")).enqueue()
    work_off()
    recover(prune=False)

    flow.cancel()
    poll(store)

    assert work_off() == []
    assert set(states(flow)) == {"successful", "cancelled"}
    assert not has_work(store)


def test_two_pollers_at_once_start_each_task_once(store: Store) -> None:
    flow = fan_out(note.s("first")).enqueue()
    work_off()

    def step() -> None:
        while connections.client().execute(CONTINUE_FLOW(base=home().base, flow_id=flow.id)):
            pass

    threads = [threading.Thread(target=step) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    work_off()
    assert recorded == ["first", *range(MANY)]


def test_search_for_lost_tasks_waits_for_the_steps(store: Store) -> None:
    flow = fan_out(fail.s("no")).enqueue()
    work_off()
    make_lucky(store)
    get_queue("default").retry_failed()
    work_off()

    recover()  # prunes

    poll(store)
    work_off()
    assert set(states(flow)) == {"successful"}


def test_steps_of_a_flow_that_is_not_listed_any_more_are_done(store: Store) -> None:
    """A poller of an earlier version finds no work that it knows, and takes the flow out of the list."""
    flow = fan_out(note.s("first")).enqueue()
    work_off()
    store.raw.delete(base_key(store, "flow_work"))

    poll(store)

    assert states(flow) == ["successful"] + ["ready"] * MANY + ["waiting"]
    assert steps_left(store) == 0


def test_evicted_flow_leaves_no_steps(store: Store) -> None:
    flow = fan_out(note.s("first")).enqueue()
    work_off()

    store.raw.delete(base_key(store, "flow", flow.id))
    poll(store)

    assert steps_left(store) == 0


def test_flow_and_explanation_have_all_followers(store: Store) -> None:
    flow = fan_out(note.s("first")).enqueue()

    loaded = get_flow(flow.id)

    assert loaded.links == flow.links
    assert len(loaded.children(flow.results[0].id)) == MANY
    overview = run(connections.client(), read_flow(home(), flow.id, 10))
    assert list(overview.members[0].followers) == list(range(1, MANY + 1))
    assert run(connections.client(), explain(home(), flow.results[0].id)).fact("followers") == MANY
    [parent] = run(connections.client(), explain(home(), flow.results[2].id)).parents
    assert parent.id == flow.results[0].id


@task(takes_context=True)
def add_two(context: Any) -> str:
    context.flow.add(note.s("x"), note.s("y"))
    return "added"


def test_added_tasks_have_the_same_followers(store: Store) -> None:
    many = group(echo.s(number) for number in range(STEP + 1))
    flow = group(add_two.s(), note.s("b")).then(many).enqueue()

    work_off()
    poll(store)
    work_off()

    assert set(states(flow)) == {"successful"}
    assert flow.results[2].get(0)[0][0] == ["added", "b", "x", "y"]


def test_many_tasks_after_one_run_inline() -> None:
    with inline():
        flow = chain(add.s(1, 2), group(add.s(number) for number in range(STEP + 5)), echo.s()).enqueue()

        assert len(flow.get(0)[0][0]) == STEP + 5


def test_dead_worker_leaves_its_steps_to_the_poller(store: Store) -> None:
    """The end of a task and its steps are written by one script: there is nothing in between."""
    flow = fan_out(note.s("first")).enqueue()
    fetcher = new_fetcher(worker="dies:1")
    [job] = fetcher.fetch("0", 1)
    fetcher.settle_run(job, execute(job))
    fetcher.fetch("acks", 0)

    assert steps_left(store) == 1
    poll(store)
    assert states(flow)[1:-1] == ["ready"] * MANY
