"""Many tasks that a member adds, and many tasks after a member that adds: no script works on all of them at once."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    FlowResult,
    GroupNotOpen,
    LeaseLost,
    TaskContext,
    TaskQueueError,
    chain,
    get_flow,
    get_queue,
    group,
    task,
)
from django_redis_components.taskqueue.flows import enqueue as flow_enqueue
from django_redis_components.taskqueue.flows import member_flow
from django_redis_components.taskqueue.run_start import result_of_run
from django_redis_components.taskqueue.store.job import Job
from django_redis_components.taskqueue.store.messages import CHUNK_BYTES
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.testing import inline
from tests.support import Proxy, Store, run_together
from tests.taskqueue.flows.support import has_work, make_lucky, poll, start_run, states
from tests.taskqueue.support import base_key, end_lease, new_fetcher, recover, settle_now, work_off
from tests.taskqueue.tasks import echo, fail, note, recorded

#: More followers than are in the node of a task, and more tasks than one call adds.
MANY_AFTER, MANY = flow_enqueue.FOLLOWERS + 1, member_flow.MAX_ADDED + 1


@task(takes_context=True)
def adder(context: TaskContext, count: int = 0) -> str:
    """Add some notes."""
    context.flow.add(*(note.s(number) for number in range(count)))
    return "adder"


start = partial(start_run, adder)


def before_many(*members: Any) -> FlowResult:
    """Enqueue a flow of a group, many tasks after it, and one after these."""
    return chain(group(members), group(echo.s() for _ in range(MANY_AFTER)), note.si("end")).enqueue()


def settle(job: Job) -> None:
    settle_now(new_fetcher(), execute(job))


def finish(store: Store) -> None:
    """Run all tasks, and the steps of the poller that they leave."""
    while work_off() or has_work(store):
        poll(store)


def after_group(flow: FlowResult) -> set[str]:
    """Return the states of the tasks after the members, of which there is one."""
    return set(states(flow)[1 : 1 + MANY_AFTER])


def unfinished(store: Store, flow: FlowResult) -> bytes:
    return store.raw.hget(base_key(store, "flow", flow.id), "unfinished")  # type: ignore[no-any-return]


# -- many tasks after the member


@pytest.mark.contract
def test_many_tasks_after_a_member_wait_for_what_it_adds(store: Store) -> None:
    flow = before_many(adder.s())
    job, context = start()
    context.flow.add(note.s("x"), chain(note.si("a"), note.s()))
    settle(job)
    poll(store)
    assert after_group(flow) == {"waiting"}

    finish(store)

    assert set(states(flow)) == {"successful"}
    assert flow.results[1].get(0) == [[["adder", "x", "a"]], {}]
    assert unfinished(store, flow) == b"0"
    assert recorded[-1] == "end"


def test_added_tasks_that_end_before_the_member_start_nothing_after_it(store: Store) -> None:
    flow = before_many(adder.s())
    job, context = start()
    context.flow.add(note.s("x"))
    work_off()
    poll(store)
    assert after_group(flow) == {"waiting"}

    settle(job)
    finish(store)

    assert set(states(flow)) == {"successful"}


def test_tasks_after_a_member_wait_for_what_added_tasks_add(store: Store) -> None:
    flow = before_many(adder.s())
    job, context = start()
    context.flow.add(adder.s(2), note.s("x"))
    settle(job)

    finish(store)

    assert flow.results[1].get(0) == [[["adder", "adder", "x", 0, 1]], {}]
    assert set(states(flow)) == {"successful"}


@pytest.mark.parametrize("action", ["cancel", "continue", "ignore"])
def test_failure_of_an_added_task_reaches_many_tasks(store: Store, action: Any) -> None:
    flow = before_many(adder.s())
    job, context = start()
    context.flow.add(fail.s("no").on_failure(action), note.s("x"))
    settle(job)

    finish(store)

    assert after_group(flow) == {"failed" if action == "cancel" else "successful"}
    assert unfinished(store, flow) == b"0"


def test_retry_of_an_added_task_lets_many_tasks_wait_and_run(store: Store) -> None:
    flow = before_many(adder.s())
    job, context = start()
    context.flow.add(fail.s("no"), note.s("x"))
    settle(job)
    finish(store)
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    finish(store)

    assert set(states(flow)) == {"successful"}
    assert unfinished(store, flow) == b"0"


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_retry_between_the_steps_of_a_failure_counts_what_was_added_once(store: Store, rounds: int) -> None:
    flow = before_many(adder.s())
    job, context = start()
    context.flow.add(fail.s("no"), note.s("x"))
    settle(job)
    work_off()
    for _ in range(rounds):
        recover(prune=False)
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    finish(store)

    assert set(states(flow)) == {"successful"}
    assert unfinished(store, flow) == b"0"


def test_two_members_before_many_tasks_add_at_once(store: Store) -> None:
    flow = before_many(adder.s(), adder.s())
    started = [start(f"w:{number}") for number in range(2)]

    def add_some(number: int) -> None:
        for page in range(10):
            started[number][1].flow.add(note.s(page))

    run_together(2, add_some)
    for job, _ in started:
        settle(job)
    finish(store)

    assert set(states(flow)) == {"successful"}
    [[results], _] = flow.results[2].get(0)
    assert sorted(results[2:]) == sorted([*range(10)] * 2)


def test_member_that_failed_and_may_adds_nothing_when_many_tasks_do_not_wait_for_it(store: Store) -> None:
    flow = before_many(fail.s("no").on_failure("continue"), note.using(run_after=600).s("later"))
    work_off()
    poll(store)
    store.raw.hset(base_key(store, "t", flow.results[0].id), "n", adder.name)
    get_queue("default").retry_failed()

    _, context = start()

    with pytest.raises(GroupNotOpen, match=r"it had failed before, and the tasks after it, more than 100, do not wait"):
        context.flow.add(note.s("x"))
    assert states(flow)[1:3] == ["scheduled", "waiting"]


def test_cancelled_task_of_many_closes_the_group(store: Store) -> None:
    flow = before_many(adder.s())
    _, context = start()
    assert flow.results[1].cancel()

    with pytest.raises(GroupNotOpen, match="a task after the group has started or was cancelled"):
        context.flow.add(note.s("x"))


def test_lost_added_task_fails_many_tasks(redis_server: Store) -> None:
    flow = before_many(adder.s())
    job, context = start()
    [added] = context.flow.add(note.using(run_after=60).s(1))
    settle(job)
    poll(redis_server)
    redis_server.raw.delete(base_key(redis_server, "t", added.id))

    recover()
    finish(redis_server)

    assert after_group(flow) == {"failed"}


def test_flow_that_is_loaded_has_the_followers_of_added_tasks(redis_server: Store) -> None:
    flow = before_many(adder.s())
    _, context = start()
    [added] = context.flow.add(note.s("x"))

    found = get_flow(flow.id)

    assert [each.id for each in found.children(added.id)] == [each.id for each in flow.results[1 : 1 + MANY_AFTER]]
    assert [each.id for each in found.parents(flow.results[1].id)] == [flow.results[0].id, added.id]


def test_adding_before_many_tasks_takes_few_commands(redis_server: Store) -> None:
    """With each task after the member it kept the server busy for 25 ms: 5,000 tasks after one."""
    flow = chain(group(adder.s()), group(note.si("after") for _ in range(2_000))).enqueue()
    _, context = start()
    before = commands(redis_server)

    context.flow.add(*(note.si(number) for number in range(20)))

    assert commands(redis_server) - before < 1_000
    assert set(states(flow)[1:2_001]) == {"waiting"}


def commands(store: Store) -> int:
    return int(sum(each["calls"] for each in store.raw.info("commandstats").values()))


# -- many tasks are added


@pytest.mark.contract
@pytest.mark.parametrize("make", [lambda steps: steps, lambda steps: [chain(*steps)], lambda steps: [group(steps)]])
def test_many_tasks_are_added_together(store: Store, make: Any) -> None:
    flow = group(adder.s()).enqueue(callback=echo.s(), on_complete=note.s())
    job, context = start()

    added = context.flow.add(*make([note.si(number) for number in range(MANY)]))

    assert len({each.id for each in added}) == MANY
    assert all(store.raw.pttl(base_key(store, "t", each.id)) == -1 for each in added)
    settle(job)
    finish(store)
    assert [each for each in recorded if isinstance(each, int)] == [*range(MANY)]
    assert recorded[-1]["tasks"] == MANY + 2
    assert unfinished(store, flow) == b"0"


def test_large_tasks_are_added_in_calls_of_about_a_megabyte(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = chain(group([adder.s()]), note.si("end")).enqueue()
    job, context = start()
    sizes = []

    def count_bytes(script: Any, **arguments: Any) -> Any:
        parts = arguments.get("tasks") or arguments["nodes"]
        sizes.append(sum(len(part) for part in parts if isinstance(part, bytes)))
        return script(**arguments)

    for name in ("ADD_TO_FLOW", "STAGE_ADDED"):
        monkeypatch.setattr(member_flow, name, partial(count_bytes, getattr(member_flow, name)))
    context.flow.add(group(note.s("x" * 100_000) for _ in range(30)))
    settle(job)
    finish(redis_server)

    assert set(states(flow)) == {"successful"}
    assert [len(each) for each in recorded] == [100_000] * 30 + [3]
    assert max(sizes) < 1.3 * CHUNK_BYTES
    assert len(sizes) >= 4


def test_run_that_dies_before_many_tasks_are_added_adds_none(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = group(adder.s()).then(echo.s()).enqueue()
    job, first = start("dies:1")
    steps = [note.si(number) for number in range(MANY)]
    with monkeypatch.context() as patched:
        patched.setattr(member_flow, "ADD_TO_FLOW", None)
        with pytest.raises(TypeError):
            first.flow.add(chain(*steps))
    staged = store.raw.keys(base_key(store, "t", "*"))
    assert len(staged) == MANY + 2
    assert sum(store.raw.pttl(key) > 0 for key in staged) == MANY
    assert len(states(flow)) == 2
    end_lease(store, job.id)
    recover()

    job, again = start("lives:1")
    again.flow.add(chain(*steps))
    again_too = result_of_run(adder, job, "default")[1]
    assert again_too is not None
    again_too.flow.add(chain(*steps))

    assert len(states(flow)) == MANY + 2
    with pytest.raises(LeaseLost):
        first.flow.add(group(steps))
    settle(job)
    finish(store)
    assert recorded == [*range(MANY)]
    assert unfinished(store, flow) == b"0"


def test_poller_starts_what_a_dead_run_has_added(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = group(adder.s()).then(note.si("end")).enqueue()
    job, context = start()
    monkeypatch.setattr(member_flow, "start_tasks", lambda *args: ())
    context.flow.add(*(note.s(number) for number in range(MANY)))
    assert set(states(flow)[2:]) == {"waiting"}
    monkeypatch.undo()
    context.flow.add(note.s("another"))

    poll(store)

    assert set(states(flow)[2:]) == {"ready"}
    settle(job)
    finish(store)
    assert sorted(map(str, recorded)) == sorted([*map(str, range(MANY)), "another", "end"])


def test_lost_reply_adds_many_tasks_once(proxy: Proxy, redis_server: Store) -> None:
    far: Any = dataclasses.replace(note, connection="proxied")
    flow = group(adder.s()).then(note.si("end")).enqueue()
    job, context = start(using="proxied")
    context.flow.add(far.si("warm"), *(far.si(f"warm {number}") for number in range(MANY)))
    proxy.drop_next_reply(after=b"\r\n" + job.token.encode())

    context.flow.add(chain(*(far.si(number) for number in range(MANY))))

    assert proxy.dropped == 1
    settle(job)
    finish(redis_server)
    assert len(recorded) == 2 * MANY + 2
    assert set(states(flow)) == {"successful"}


def test_many_tasks_whose_records_are_gone_are_not_added(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = group(adder.s()).then(echo.s()).enqueue()
    _, context = start()
    add_to_flow = member_flow.ADD_TO_FLOW

    def expire_before(**arguments: Any) -> Any:
        redis_server.raw.delete(base_key(redis_server, "t", arguments["nodes"][4]))
        return add_to_flow(**arguments)

    monkeypatch.setattr(member_flow, "ADD_TO_FLOW", expire_before)

    expected = (
        r"has added nothing to its group: Redis no longer has the records of the new tasks\. They are deleted if "
        r"sending takes more than an hour, and a server whose memory is full may evict them\.$"
    )
    with pytest.raises(TaskQueueError, match=expected):
        context.flow.add(*(note.s(number) for number in range(MANY)))
    assert len(states(flow)) == 2


def test_many_tasks_are_added_at_once_by_two_members(store: Store) -> None:
    flow = group(adder.s(1), adder.s(2)).then(echo.s()).enqueue()
    started = [start(f"w:{number}") for number in range(2)]
    steps = [note.si(number) for number in range(MANY)]

    def add_many(number: int) -> None:
        started[number][1].flow.add(chain(*steps))

    run_together(2, add_many)
    for job, _ in started:
        settle(job)
    finish(store)

    assert set(states(flow)) == {"successful"}
    assert len([each for each in recorded if each == MANY - 1]) == 2


def test_cancelled_flow_starts_none_of_many_added_tasks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = group(adder.s()).then(echo.s()).enqueue()
    _, context = start()
    monkeypatch.setattr(member_flow, "start_tasks", lambda *args: ())
    context.flow.add(*(note.s(number) for number in range(MANY)))

    assert flow.cancel() == MANY + 2
    poll(store)

    assert work_off() == []
    assert set(states(flow)[2:]) == {"cancelled"}


def test_many_tasks_are_added_inline() -> None:
    with inline():
        flow = group(adder.s(MANY)).then(echo.s()).enqueue()

        assert flow.get(0) == [[["adder", *range(MANY)]], {}]
