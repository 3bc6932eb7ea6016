"""Chains and groups that a running member adds to its group: results, failures, repetition, crashes."""

from __future__ import annotations

import dataclasses
import threading
from functools import partial
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import (
    FlowResult,
    GroupNotOpen,
    TaskContext,
    chain,
    get_flow,
    get_queue,
    group,
    task,
)
from django_redis_components.taskqueue.flows.listing import list_flows
from django_redis_components.taskqueue.run_start import result_of_run
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.explain import explain
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.testing import inline
from tests.support import Proxy, Store, run_async
from tests.taskqueue.flows.support import make_lucky, poll, start_run, states
from tests.taskqueue.support import base_key, end_lease, new_fetcher, queue_key, recover, settle_now, work_off
from tests.taskqueue.tasks import add, echo, fail, note, recorded


@task(takes_context=True)
def extend(context: TaskContext, name: str, depth: int = 1) -> str:
    """Add a chain, a group and a task, to a depth."""
    if depth:
        context.flow.add(
            chain(note.si(f"{name} a"), note.si(f"{name} b")),
            group(extend.s(f"{name}+", depth - 1), note.si(f"{name} d")),
            note.si(f"{name} e"),
        )
    return name


start = partial(start_run, extend)


def settle(job: Job) -> None:
    settle_now(new_fetcher(), execute(job))


def unfinished(store: Store, flow: FlowResult) -> str:
    return store.raw.hget(base_key(store, "flow", flow.id), "unfinished").decode()  # type: ignore[no-any-return]


@pytest.mark.contract
def test_results_of_added_steps_come_last_in_their_shape(store: Store) -> None:
    flow = group(extend.s("x"), add.s(1, 2)).enqueue(callback=echo.s(), on_complete=note.s(), on_success=note.si("ok"))

    work_off()

    assert flow.get(0) == [[["x", 3, "x b", ["x+", "x d"], "x e"]], {}]
    assert set(states(flow)) == {"successful"}
    assert [recorded[-2]["tasks"], recorded[-2]["failed"], recorded[-1]] == [8, 0, "ok"]
    assert unfinished(store, flow) == "0"
    assert get_queue("default").info().waiting == 0
    assert store.raw.exists(queue_key(store, "waiting")) == 0
    assert all(store.raw.pttl(base_key(store, "t", result.id)) > 0 for result in flow.results)


@pytest.mark.parametrize("is_read_meanwhile", [False, True])
def test_get_of_a_group_returns_added_steps_in_their_shape(redis_server: Store, is_read_meanwhile: bool) -> None:
    flow = group(add.s(1, 2), group(extend.s("x", 2), add.s(3, 4))).enqueue()
    worker = new_fetcher()
    for _ in range(20 if is_read_meanwhile else 0):
        flow.refresh()
        for job in worker.fetch("0", 1):
            settle_now(worker, execute(job))

    work_off()

    inner = ["x+", "x d", "x+ b", ["x++", "x+ d"], "x+ e"]
    expected = [3, ["x", 7, "x b", inner, "x e"]]
    assert flow.get(0) == expected
    found = get_flow(flow.id)
    assert run_async(found.aget, 0) == expected
    first, second = found.results[3:5]
    assert (found.children(first.id), found.parents(second.id)) == ([second], [first])


def test_steps_within_an_added_chain_receive_results(store: Store) -> None:
    flow = group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, context = start()
    added = context.flow.add(chain(note.s("one"), group(echo.s(), extend.si("y")), echo.s()))
    assert [each.state for each in added] == ["ready", "waiting", "waiting", "waiting"]
    settle(job)

    work_off()

    y = ["y", "y b", ["y+", "y d"], "y e"]
    [[results], _] = flow.get(0)
    [[collected], _] = results[1]
    assert collected == [[["one"], {}], *y]
    assert set(states(flow)) == {"successful"}


def test_failure_in_an_added_chain_fails_the_next_step_unless_it_may(store: Store) -> None:
    for action, expected in (("cancel", "failed"), ("continue", "successful"), ("ignore", "successful")):
        flow = group(extend.s("x", 0)).then(note.s()).enqueue()
        job, context = start()
        context.flow.add(chain(fail.si("no"), note.si("after")).on_failure(action))  # type: ignore[arg-type]
        settle(job)
        work_off()

        assert states(flow) == ["successful", expected, "failed", "failed"]
        assert unfinished(store, flow) == "0"
    [[_, failure], ignored] = recorded
    assert (failure["reason"], ignored) == ("was not run", ["x"])


def test_retry_of_an_added_task_continues_within_its_chain(store: Store) -> None:
    flow = group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, context = start()
    context.flow.add(chain(fail.si("no"), note.si("after")))
    settle(job)
    work_off()
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    work_off()

    assert flow.get(0) == [[["x", "after"]], {}]
    assert unfinished(store, flow) == "0"


# -- repetition, crashes, races


@pytest.mark.contract
def test_run_after_a_crash_adds_steps_once(store: Store) -> None:
    flow = group(extend.s("x")).then(echo.s()).enqueue()
    job, _ = start("dies:1")
    execute(job)  # its outcome is lost
    end_lease(store, job.id)
    recover()

    work_off()

    assert flow.get(0) == [[["x", "x b", ["x+", "x d"], "x e"]], {}]
    assert sorted(recorded) == ["x a", "x b", "x d", "x e"]


def test_repeated_run_adds_only_new_steps(redis_server: Store) -> None:
    group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, first = start()
    _, second = result_of_run(extend, job, "default")
    assert second is not None
    one, two = chain(note.si(1), note.si(2)), group(note.si(1), note.si(2))

    added = first.flow.add(one, two)
    again = second.flow.add(two, one, one, chain(note.si(2), note.si(1)))

    assert [each.id for each in again[:4]] == [each.id for each in [*added[2:], *added[:2]]]
    assert len({each.id for each in [*added, *again]}) == 8


def test_lost_reply_adds_a_chain_once(proxy: Proxy, redis_server: Store) -> None:
    far: Any = dataclasses.replace(note, connection="proxied")
    flow = group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, context = start(using="proxied")
    context.flow.add(far.si("warm"))
    proxy.drop_next_reply(after=b"\r\n" + job.token.encode())

    context.flow.add(chain(far.si("a"), far.s()), group(far.si("b")))

    assert proxy.dropped == 1
    settle(job)
    work_off()
    assert flow.get(0) == [[["x", "warm", "a", ["b"]]], {}]
    assert recorded == ["warm", "a", "b", "a"]


@pytest.mark.contract
def test_two_members_add_chains_at_once(store: Store) -> None:
    flow = group(extend.s("x", 0), extend.s("y", 0)).then(echo.s()).enqueue()
    started = [start(f"w:{number}") for number in range(2)]
    ready = threading.Barrier(2)

    def add_chains(context: TaskContext) -> None:
        ready.wait(60)
        for page in range(10):
            context.flow.add(chain(note.si(page), group(note.s(), note.s())))

    threads = [threading.Thread(target=add_chains, args=(context,)) for _, context in started]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for job, _ in started:
        settle(job)
    work_off()

    assert set(states(flow)) == {"successful"}
    pairs = flow.get(0)[0][0][2:]
    assert sorted(pairs) == sorted([[page, page] for page in range(10)] * 2)
    assert len(recorded) == 60


def test_cancel_cancels_added_chains(store: Store) -> None:
    flow = group(extend.s("x", 0)).then(note.s()).enqueue()
    _, context = start()
    context.flow.add(chain(note.si(1), note.si(2)), group(note.si(3)))

    assert flow.cancel() == 5

    assert states(flow) == ["running", *["cancelled"] * 4]
    with pytest.raises(GroupNotOpen, match="or the task itself was cancelled"):
        context.flow.add(chain(note.si(1), note.si(4)))
    assert work_off() == []


def test_lost_task_of_an_added_chain_fails_the_next_step(redis_server: Store) -> None:
    flow = group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, context = start()
    [first, second] = context.flow.add(chain(note.using(run_after=60).si(1), note.si(2)))
    settle(job)
    redis_server.raw.delete(base_key(redis_server, "t", first.id))

    recover()

    assert states(flow)[1] == "failed"
    second.refresh()
    assert second.state == "failed"
    assert unfinished(redis_server, flow) == "0"


def test_step_of_an_added_chain_cannot_add(redis_server: Store) -> None:
    group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, context = start()
    context.flow.add(chain(extend.si("y", 0), note.s()))
    settle(job)
    _, inner = start()

    with pytest.raises(GroupNotOpen, match="it is a step of a chain, and not a member of a group"):
        inner.flow.add(note.si(1))


def test_added_task_that_waits_says_for_what(redis_server: Store) -> None:
    group(extend.s("x", 0)).enqueue(on_complete=note.s())
    _, context = start()
    [first, second] = context.flow.add(chain(note.si(1), note.si(2)))

    reason = run(connections.client(), explain(home(), second.id)).reasons[0]

    assert (reason.code, [each.id for each in reason.tasks]) == ("waiting", [first.id])


def test_many_steps_are_added_in_parts(redis_server: Store) -> None:
    flow = group(extend.s("x", 0)).then(echo.s()).enqueue()
    job, context = start()

    added = context.flow.add(*(chain(note.si(number), note.s(), note.s()) for number in range(250)))
    wide = context.flow.add(chain(note.si("w"), group(note.s() for _ in range(300))))
    settle(job)
    poll(redis_server)
    work_off()
    poll(redis_server)
    work_off()

    assert (len(added), len(wide)) == (750, 301)
    assert flow.get(0)[0][0] == ["x", *range(250), ["w"] * 300]
    assert unfinished(redis_server, flow) == "0"


def test_pages_of_a_task_and_of_flows_count_added_tasks(redis_server: Store) -> None:
    group(extend.s("x", 0), add.s(1, 2)).enqueue(on_success=note.si("ok"))
    job, context = start()
    added = context.flow.add(note.si("y"), note.si("z"))
    settle(job)

    found = run(connections.client(), explain(home(), added[0].id))
    [listed] = run(connections.client(), list_flows(home(), 10)).flows

    assert (found.fact("flow_tasks"), found.fact("flow_unfinished"), found.fact("callback")) == (4, 3, 0)
    assert (listed.tasks, listed.unfinished) == (4, 3)


def test_followers_are_counted_once_for_all_added_tasks(redis_server: Store) -> None:
    """With each added task they kept the server busy for seconds: 500 tasks before 5,000."""
    flow = chain(group(extend.s("x", 0)), group(note.si("after") for _ in range(100))).enqueue()
    _, context = start()
    before = commands(redis_server)

    context.flow.add(*(note.si(number) for number in range(50)))

    assert commands(redis_server) - before < 300
    open_parents = redis_server.raw.hmget(base_key(redis_server, "flow", flow.id), "o1", "o100")
    assert open_parents == [b"51", b"51"]


def commands(store: Store) -> int:
    """Return how many commands to increase a field of a hash the server has executed."""
    return int(store.raw.info("commandstats").get("cmdstat_hincrby", {"calls": 0})["calls"])


def test_added_steps_run_inline() -> None:
    with inline():
        flow = group(extend.s("x"), add.s(1, 2)).then(echo.s()).enqueue()

        assert flow.get(0) == [[["x", 3, "x b", ["x+", "x d"], "x e"]], {}]
        assert group(extend.s("y")).enqueue().get(0) == ["y", "y b", ["y+", "y d"], "y e"]
