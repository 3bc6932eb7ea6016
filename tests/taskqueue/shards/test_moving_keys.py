"""`redis shards move` of tasks with unique keys and limits: both stay exact in each shard."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from redis.exceptions import ResponseError

from django_redis_components.core.protocol import Command, Wait, run
from django_redis_components.taskqueue import Concurrency, Rate, Unique, failpoints, get_result
from django_redis_components.taskqueue.fields import Field, Key
from django_redis_components.taskqueue.shards import home, named
from django_redis_components.taskqueue.store import moves, task_records
from django_redis_components.testing import drain
from tests.support.processes import Children
from tests.support.waiting import TIMEOUT_S, eventually
from tests.taskqueue.schedulers import announced, at, next_round, poller_of, scheduler_of
from tests.taskqueue.shards.moves import POINTS, alone, later, move, set_route
from tests.taskqueue.shards.support import TwoShards
from tests.taskqueue.support import Held, running_worker, server_ms
from tests.taskqueue.tasks import fail, hold, note, recorded

for_an_hour = Unique(until=3_600)


@pytest.fixture(autouse=True)
def forget_recorded(shards: TwoShards) -> None:
    recorded.clear()


def count_keys(shards: TwoShards) -> tuple[int, int]:
    """Return how many unique keys each shard has."""
    here, there = (
        sum(f":{Key.unique}:".encode() in key for key in shards.keys_of(store, tag))
        for store, tag in ((shards.a, "default"), (shards.b, "b"))
    )
    return here, there


def do_at(point: str, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something when a move first reaches a failpoint."""

    def reach(name: str) -> None:
        if name == point:
            monkeypatch.setattr(failpoints, "hook", None)
            action()

    monkeypatch.setattr(failpoints, "hook", reach)


def refused_move() -> str:
    """Move the tasks; return why some have stayed."""
    with pytest.raises(CommandError) as raised:
        call_command("redis", "shards", "move", "default", "b", "--yes")
    return str(raised.value)


# Unique keys


def test_unique_key_moves_with_its_task(shards: TwoShards) -> None:
    timed = later.using(unique=for_an_hour)
    first, second = later.enqueue(1), timed.enqueue(2)
    set_route("b")

    assert move().moved == 2

    assert count_keys(shards) == (0, 2)
    assert [later.enqueue(1).id, timed.enqueue(2).id] == [first.id, second.id]
    lifetimes = sorted(
        shards.b.raw.pttl(key) for key in shards.keys_of(shards.b, "b") if f":{Key.unique}:".encode() in key
    )
    assert lifetimes[0] == -1
    assert 3_500_000 < lifetimes[1] <= 3_600_000
    drain("high", advance=True)
    assert sorted(recorded) == [1, 2]
    assert not later.enqueue(1).is_duplicate


@pytest.mark.parametrize("route", [None, ["default", "b"]])
def test_tasks_stay_if_new_ones_do_not_go_to_the_other_shard(shards: TwoShards, route: Any) -> None:
    later.enqueue(1)
    alone.using(run_after=3_600).enqueue(2)
    set_route(route)

    assert refused_move() == (
        "Not all tasks of the shard were moved. Queue 'high': 1 with a unique key, 1 with a limit. Tasks with a unique"
        " key or a limit may be moved to shard 'b' when all new tasks of their queue go there. Change the route, or let"
        " them run."
    )
    assert count_keys(shards) == (1, 0)


@pytest.mark.parametrize("point", POINTS[:3])
def test_key_is_held_while_its_task_is_on_its_way(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    found: list[Any] = []

    def call() -> None:
        for route in [None, "b"] if point == "after_import" else [None]:
            set_route(route)
            found.append(later.enqueue(1))
        set_route("b")

    first = later.enqueue(1)
    set_route("b")
    do_at(point, call, monkeypatch)

    assert move().moved == 1

    assert {result.id for result in found} == {first.id}
    assert all(result.is_duplicate and result.queue_name == "high" for result in found)
    drain("high", advance=True)
    assert recorded == [1]


def test_task_is_returned_if_another_one_has_its_key_there(shards: TwoShards) -> None:
    failing = fail.using(queue_name="high", unique=for_an_hour)
    first, failed = later.enqueue(1), failing.enqueue("x")
    drain("high", raise_errors=False)
    set_route("b")
    results = [first, failed, later.enqueue(1), failing.enqueue("x")]

    assert refused_move() == (
        "Not all tasks of the shard were moved. Queue 'high': 2 whose unique key another task has in the other shard."
        " Repeat the command when those have finished."
    )

    assert [get_result(each.id).state for each in results] == ["scheduled", "failed", "scheduled", "ready"]
    assert not [key for key in shards.keys_of(shards.a, "default") if b"moving" in key]
    assert count_keys(shards) == (2, 2)
    get_result(results[2].id).cancel()
    assert move().moved == 1
    assert count_keys(shards) == (1, 2)
    assert later.enqueue(1).id == first.id


def test_task_that_is_returned_is_waited_for(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    def continue_until_wait(reply: Any = None) -> None:
        request = waiting.send(reply)
        while not isinstance(request, Wait):
            request = waiting.send(request.perform(home().client()))

    first = later.enqueue(1)
    set_route("b")
    later.enqueue(1)
    waiting = task_records.wait(home(), first.id, TIMEOUT_S)
    do_at("after_read", continue_until_wait, monkeypatch)
    refused_move()

    continue_until_wait()

    drain("high", advance=True)
    with pytest.raises(StopIteration) as stopped:
        continue_until_wait()
    record, _ = stopped.value.value
    assert record[Field.state] == b"successful"


def test_refusal_that_is_read_late_returns_nothing_twice(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process stops after it. The other task is cancelled, and a second process moves the first one."""

    def cancel_and_move() -> None:
        get_result(other.id).cancel()
        assert move().moved == 0  # refused for this operation, whatever has happened since
        assert move().moved == 1

    later.enqueue(1)
    set_route("b")
    other = later.enqueue(1)
    do_at("after_import", cancel_and_move, monkeypatch)

    assert move().moved == 0

    drain("high", advance=True)
    assert recorded == [1]
    assert count_keys(shards) == (0, 0)


def test_call_that_would_change_a_task_on_its_way_is_refused(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = later.using(unique=Unique(key="k", until="started", on_conflict="replace"))

    def replace() -> None:
        set_route(None)
        with pytest.raises(ResponseError, match="is being moved to another shard: it was not changed"):
            last.enqueue("second")
        set_route("b")

    last.enqueue("first")
    set_route("b")
    do_at("after_read", replace, monkeypatch)
    assert move().moved == 1

    drain("high", advance=True)
    assert recorded == ["first"]


def test_call_of_many_that_would_change_a_task_on_its_way_accepts_none(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it would have a record and their key, and be in no list."""

    def replace() -> None:
        set_route(None)
        with pytest.raises(ResponseError, match="is being moved to another shard: it was not changed"):
            last.enqueue_many([(("new",), {}), (("moving",), {})])
        set_route("b")

    last = note.using(queue_name="high", unique=Unique(until="started", on_conflict="replace"))
    last.enqueue("moving")
    set_route("b")
    do_at("after_read", replace, monkeypatch)
    assert move().moved == 1
    assert count_keys(shards) == (0, 1)

    set_route(None)
    assert [each.is_duplicate for each in last.enqueue_many([(("new",), {}), (("moving",), {})])] == [False, False]
    drain("high")
    assert sorted(recorded) == ["moving", "moving", "new"]


def test_schedule_sends_later_what_would_change_a_task_on_its_way(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fire() -> None:
        set_route(None)
        next_round(poller)
        set_route("b")

    last = note.using(queue_name="high", unique=Unique(key="k", until="started", on_conflict="replace"))
    now_ms = int(server_ms(shards.a))
    poller = poller_of(at(now_ms - 20, task=last))
    announced(poller, shards.a, last_ms=now_ms - 1_000)
    last.enqueue("moving")
    set_route("b")
    do_at("after_read", fire, monkeypatch)
    assert move().moved == 1
    assert "Cannot enqueue schedule s: Redis rejected it (TASKMOVING" in caplog.text

    set_route(None)
    scheduler_of(poller).invalidate()
    next_round(poller)
    drain("high")
    assert sorted(recorded) == ["moving", "s"]


def test_task_moves_if_its_key_expires_while_it_is_read(shards: TwoShards) -> None:
    class Expiring:
        """Keys expire between the commands that read them."""

        def execute_many(self, requests: Sequence[Command]) -> list[Any]:
            return [self.execute(each) for each in requests]

        def execute(self, request: Command) -> Any:
            reply = source.client().execute(request)
            if request.args[0] == "GET":
                shards.a.raw.delete(request.args[1])
            return reply

    source, target = home(), named("b", "default")
    timed = later.using(unique=for_an_hour).enqueue(1)
    until_us = int(server_ms(shards.a) + 1_000) * 1_000
    assert source.run(moves.export_tasks(source, "high", "scheduled", until_us, target, [timed.id], is_target=True))
    client: Any = Expiring()

    tasks = run(client, moves.read_moving(source))
    _, arrived, refused = target.run(moves.import_tasks(target, tasks, target.run(moves.read_ms(target))))

    assert ([task.id for task in arrived], refused) == ([timed.id], [])
    assert count_keys(shards) == (0, 0)


def test_keys_and_limits_stay_exact_when_moves_are_killed(shards: TwoShards, children: Children) -> None:
    """SIGKILL between each two steps; after each, a producer with the old route and one with the new one call."""
    points = [*POINTS, *POINTS[:3]]
    codes, counts = children.call("tests.taskqueue.shards.moves:die_with_keys_at_each", points).result()
    assert codes == [-9] * len(points)
    set_route("b")

    for _ in "ab":  # first those that have no twin, then the twins
        move()
        drain("high", advance=True)

    assert shards.a.raw.zcard(home().key(Key.moving)) == 0
    assert count_keys(shards) == (0, 0)
    runs = Counter(recorded)
    assert {name: count for name, count in runs.items() if count != counts.get(name, 0)} == {}
    assert runs.keys() == counts.keys()


# Limits


def test_tasks_with_limits_move_and_stay_limited(shards: TwoShards) -> None:
    results = [alone.enqueue(number) for number in range(4)]
    due = alone.using(run_after=3_600).enqueue("due")
    set_route("b")

    assert move().moved == 5

    with running_worker("high", threads=3):
        assert [result.get(TIMEOUT_S) for result in results] == [0, 1, 2, 3]
    assert recorded == [0, 1, 2, 3]
    for before, after in itertools.pairwise(get_result(each.id) for each in results):
        assert before.finished_at <= after.started_at
    assert get_result(due.id).state == "scheduled"


def test_tasks_that_wait_for_a_limit_stay_while_a_task_holds_it(shards: TwoShards) -> None:
    limited = hold.using(queue_name="high", concurrency=Concurrency(1))
    running = limited.enqueue("held")
    held = Held(shards.a, "held")
    with running_worker("high"):
        held.started()
        waiting = limited.using(run_after=3_600).enqueue("later")
        set_route("b")
        assert refused_move() == (
            "Not all tasks of the shard were moved. Queue 'high': 1 with a limit that a running task holds, 1 running."
            " Repeat the command when those have finished."
        )
        held.release()
        running.get(TIMEOUT_S)

    assert move().moved == 1
    assert get_result(waiting.id).state == "scheduled"


def test_rate_starts_no_task_earlier_there(shards: TwoShards) -> None:
    paced = note.using(queue_name="high", rate=Rate("1/h"))
    first, second = paced.enqueue(1), paced.enqueue(2)
    with running_worker("high"):
        first.get(TIMEOUT_S)
        eventually(lambda: get_result(second.id).state == "scheduled")
    set_route("b")

    assert move().moved == 1

    third = paced.enqueue(3)
    with running_worker("high"):
        eventually(lambda: get_result(third.id).state == "scheduled")
    first.refresh()
    earliest = min(get_result(each.id).run_after for each in (second, third))
    assert (earliest - first.started_at).total_seconds() > 3_595
    assert recorded == [1]


def test_dry_run_counts_tasks_with_keys_and_limits(shards: TwoShards, capsys: pytest.CaptureFixture[str]) -> None:
    later.enqueue(1)
    alone.enqueue(2)
    set_route("b")

    call_command("redis", "shards", "move", "default", "b", "--dry-run")

    assert capsys.readouterr().out.splitlines() == [
        "Nothing was moved (dry run). Would move 2 tasks from shard 'default' to 'b'."
    ]
