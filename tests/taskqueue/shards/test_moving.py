"""`manage.py redis shards move`: tasks get another shard, and each runs once."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Flow
from django_redis_components.taskqueue import (
    Concurrency,
    TaskFailed,
    TaskIdConflict,
    TaskResultDoesNotExist,
    Unique,
    WaitTimeout,
    aget_result,
    failpoints,
    get_queue,
    get_result,
    group,
    task,
)
from django_redis_components.taskqueue.fields import Field, Key
from django_redis_components.taskqueue.shards import Shard, home, named
from django_redis_components.taskqueue.stats.queue_stats import read_depths
from django_redis_components.taskqueue.store import control, moves, task_records
from django_redis_components.taskqueue.store.messages import TaskMessage, call_for
from django_redis_components.testing import drain
from tests.support.processes import Children
from tests.support.proxy import Proxy
from tests.support.waiting import TIMEOUT_S, eventually
from tests.taskqueue.shards.moves import POINTS, move
from tests.taskqueue.shards.support import TwoShards, set_options
from tests.taskqueue.support import Held, running_worker
from tests.taskqueue.tasks import add, fail, hold, note, recorded

high = note.using(queue_name="high")


@task(fair="{tenant}", queue_name="high")
def for_tenant(tenant: str, what: Any) -> None:
    recorded.append(what)


@pytest.fixture(autouse=True)
def forget_recorded() -> None:
    recorded.clear()


def run_move(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("redis", "shards", "move", "default", "b", "--yes", "--json", *arguments)
    return json.loads(capsys.readouterr().out)


def moving(shards: TwoShards) -> int:
    return int(shards.a.raw.zcard(home().key(Key.moving)))


def depths(shard: Shard) -> Flow[tuple[int, int]]:
    """Return how many tasks of queue "high" are ready and scheduled."""
    [depth] = yield from read_depths(shard, "high")
    return depth.ready, depth.scheduled


def get_depth(shards: TwoShards) -> int:
    """Return how many tasks of queue "high" the home shard has, those that are being moved among them."""
    return moving(shards) + int(shards.a.raw.llen(home().queue("high", "ready")))


def pause_at(point: str, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something when a move first reaches a failpoint."""

    def reach(name: str) -> None:
        if name == point:
            monkeypatch.setattr(failpoints, "hook", None)
            action()

    monkeypatch.setattr(failpoints, "hook", reach)


# What is moved


def test_ready_and_scheduled_tasks_run_in_the_other_shard_in_order(
    shards: TwoShards, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = [high.enqueue(number) for number in range(5)]
    first = high.using(priority=5).enqueue("first")
    due = [high.using(run_after=3_600 + number).enqueue(f"due {number}") for number in range(3)]

    reply = run_move(capsys)

    assert reply == {"from": "default", "to": "b", "dry_run": False, "moved": 9, "left": {}, "routed": ["high"]}
    assert named("b").run(depths(named("b"))) == (6, 3)
    assert shards.a.raw.exists(home().queue("high", "ready"), home().queue("high", "scheduled")) == 0
    with running_worker("high"):
        eventually(lambda: len(recorded) == 6)
    assert recorded == ["first", *range(5)]
    for result in (*ready, first, *due):
        result.refresh()
    assert {result.state for result in ready} == {"successful"}
    assert [result.state for result in due] == ["scheduled"] * 3
    drain("high", advance=True)
    assert recorded[6:] == ["due 0", "due 1", "due 2"]


def test_record_keeps_what_it_has(shards: TwoShards) -> None:
    retrying = fail.using(queue_name="high", max_attempts=3, metadata={"order": 7}, run_after=0).enqueue("x")
    expiring = high.using(expires=7_200, run_after=3_600).enqueue(1)
    drain("high", raise_errors=False)
    retrying.refresh()
    before = {name: getattr(retrying, name) for name in ("state", "run_after", "attempts", "errors", "metadata")}
    assert before["state"] == "retrying"
    stored = shards.a.raw.hgetall(home().record(expiring.id))

    move()

    found = get_result(retrying.id)
    assert {name: getattr(found, name) for name in before} == before
    kept = shards.b.raw.hgetall(named("b").record(expiring.id))
    assert kept.pop(Field.placed_at_us.encode()) != b""
    assert kept == stored
    assert shards.b.raw.ttl(named("b").record(expiring.id)) == -1
    assert shards.b.raw.zcard(named("b").queue("high", "retrying")) == 1


def test_failed_tasks_keep_their_time_and_can_be_retried(shards: TwoShards) -> None:
    failed = fail.using(queue_name="high", max_attempts=1).enqueue("x")
    drain("high", raise_errors=False)
    failed.refresh()
    finished_at = failed.finished_at
    [score] = [score for _, score in shards.a.raw.zrange(home().queue("high", "failed"), 0, -1, withscores=True)]

    move()

    failed.refresh()
    assert (failed.state, failed.finished_at) == ("failed", finished_at)
    assert failed.errors[0].exception_class_path.endswith("LookupError")
    assert shards.b.raw.zrange(named("b").queue("high", "failed"), 0, -1, withscores=True) == [
        (failed.id.encode(), score)
    ]
    assert 0 < shards.b.raw.ttl(named("b").record(failed.id)) <= 604_800
    assert 0 < shards.b.raw.ttl(named("b").queue("high", "failed")) <= 604_800
    assert get_queue("high").retry_failed() == 1
    assert get_queue("high").info().ready == 1


def test_failed_tasks_stay_if_the_other_shard_would_drop_them(shards: TwoShards, settings: Any) -> None:
    set_options(settings, FAILED_LIMIT=2)
    for route in ("b", None):
        set_options(settings, QUEUES={"high": route})
        for _ in range(2):
            fail.using(queue_name="high", max_attempts=1).enqueue("x")
        drain("high", raise_errors=False)

    with pytest.raises(CommandError, match="keeps as many failed tasks as it may"):
        call_command("redis", "shards", "move", "default", "b", "--yes")

    assert get_queue("high").info().failed == 4


def test_tasks_of_groups_are_served_in_turn_there(shards: TwoShards) -> None:
    for number in range(3):
        for tenant in "xy":
            for_tenant.enqueue(tenant, f"{tenant}{number}")

    move()

    drain("high")
    assert recorded == ["x0", "y0", "x1", "y1", "x2", "y2"]


def test_unregistered_tasks_stay_unregistered(shards: TwoShards) -> None:
    unknown = high.enqueue(1)
    shards.a.raw.hset(home().record(unknown.id), Field.task_name, "nowhere.task")
    drain("high", raise_errors=False)
    assert get_queue("high").info().unregistered == 1

    move()

    assert [each.id for each in get_queue("high").tasks("unregistered")] == [unknown.id]
    assert shards.a.raw.exists(home().queue("high", "unregistered")) == 0


# What stays


def test_what_must_stay_is_named(shards: TwoShards, capsys: pytest.CaptureFixture[str]) -> None:
    group(high.s(number) for number in range(2)).enqueue()
    high.using(unique=True).enqueue("unique")
    high.using(concurrency=Concurrency(1)).enqueue("limit")
    add.using(queue_name="low", unique=Unique(key="{a}"), run_after=3_600).enqueue(1, 2)
    moved = high.enqueue("moved")

    with pytest.raises(CommandError) as raised:
        call_command("redis", "shards", "move", "default", "b", "--yes")

    assert raised.value.returncode == 1
    assert str(raised.value) == (
        "Not all tasks of the shard were moved. Queue 'high': 2 of flows, 1 with a unique key, 1 with a limit."
        " Queue 'low': 1 with a unique key. Tasks with a unique key or a limit may be moved to shard 'b' when all new"
        " tasks of their queue go there. Change the route, or let them run."
    )
    printed = capsys.readouterr()
    assert "Moved 1 task from shard 'default' to 'b'." in printed.out
    assert "New tasks of these queues go to the shard: high, low." in printed.err
    assert shards.b.raw.exists(named("b").record(moved.id))
    drain("high", "low")
    assert sorted(map(str, recorded)) == ["0", "1", "limit", "moved", "unique"]


def test_running_task_stays(shards: TwoShards) -> None:
    result = hold.using(queue_name="high").enqueue("held")
    held = Held(shards.a, "held")
    with running_worker("high"):
        held.started()
        with pytest.raises(CommandError, match="Queue 'high': 1 running"):
            call_command("redis", "shards", "move", "default", "b", "--yes")
        held.release()
        result.get(TIMEOUT_S)


def test_queue_that_is_paused_here_only_stays(shards: TwoShards, settings: Any) -> None:
    high.enqueue(1)
    home().run(control.pause(home(), "high", "", "", None))
    with pytest.raises(CommandError, match="paused in shard 'default' only: pause or resume it in all shards"):
        call_command("redis", "shards", "move", "default", "b", "--yes")

    get_queue("high").pause()

    assert move().moved == 1


def test_tasks_of_a_paused_group_stay(shards: TwoShards) -> None:
    for_tenant.enqueue("x", 1)
    for_tenant.enqueue("y", 2)
    get_queue("high").pause_group("x")

    with pytest.raises(CommandError, match="Queue 'high': 1 of paused groups"):
        call_command("redis", "shards", "move", "default", "b", "--yes")

    assert shards.b.raw.zcard(named("b").queue("high", "grouped")) == 1


def test_only_the_queue_that_is_named_is_moved(shards: TwoShards) -> None:
    high.enqueue(1)
    note.using(queue_name="low").enqueue(2)

    assert move(queue="high").moved == 1

    assert shards.a.raw.llen(home().queue("low", "ready")) == 1


def test_dry_run_moves_nothing(shards: TwoShards, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        high.enqueue(number)
    high.using(unique=True).enqueue("unique")

    call_command("redis", "shards", "move", "default", "b", "--dry-run")

    assert capsys.readouterr().out.splitlines() == [
        "Nothing was moved (dry run). Would move 3 tasks from shard 'default' to 'b'.",
        "Would stay: queue 'high': 1 with a unique key.",
    ]
    assert run_move(capsys, "--dry-run")["moved"] == 3
    assert shards.keys_of(shards.b, "b") == []
    assert get_queue("high").info().ready == 4


def test_dry_run_names_queues_whose_new_tasks_go_to_the_shard(
    shards: TwoShards, capsys: pytest.CaptureFixture[str]
) -> None:
    high.enqueue(1)

    call_command("redis", "shards", "move", "default", "b", "--dry-run")

    assert "New tasks of these queues go to the shard: high." in capsys.readouterr().err


def test_queue_that_is_neither_declared_nor_in_the_shard_is_refused(shards: TwoShards, settings: Any) -> None:
    high.enqueue(1)
    with pytest.raises(CommandError, match=r"Queue 'hihg' is not in .* Did you mean 'high'\?"):
        call_command("redis", "shards", "move", "default", "b", "--queue", "hihg", "--dry-run")

    set_options(settings, QUEUES={"default": None})
    assert move(queue="high").moved == 1, "tasks of a queue that is no longer declared can be moved"


def test_command_asks_for_confirmation(shards: TwoShards) -> None:
    high.enqueue(1)

    with pytest.raises(CommandError, match=r"Nothing was moved\. No terminal to ask for confirmation; pass --yes\."):
        call_command("redis", "shards", "move", "default", "b")


def test_shards_that_cannot_be_are_refused(shards: TwoShards) -> None:
    with pytest.raises(CommandError, match=r"Shard 'c' does not exist\. Shards: default, b\."):
        call_command("redis", "shards", "move", "default", "c", "--yes")
    with pytest.raises(CommandError, match=r"Shard 'b': expected another shard to move the tasks to\."):
        call_command("redis", "shards", "move", "b", "b", "--yes")
    shards.server_b.kill()
    with pytest.raises(CommandError) as raised:
        call_command("redis", "shards", "move", "default", "b", "--yes")
    assert raised.value.returncode == 3


# Interruptions


def test_each_task_of_moves_that_are_killed_runs_once(
    shards: TwoShards, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SCALE §10.8: the process dies by SIGKILL between each two steps, in the first and in a later chunk."""
    points = [*POINTS, *POINTS[1:], POINTS[0]]
    codes = children.call("tests.taskqueue.shards.moves:die_at_each", points, 3, 2).result()
    assert codes == [-9] * len(points)
    left = moving(shards)
    assert left > 0
    with pytest.raises(CommandError, match="of a move that was interrupted, or runs"):
        call_command("redis", "shards", "empty", "default")

    move()

    assert moving(shards) == 0
    drain("high", "low", advance=True)
    wanted = Counter(f"{point}{kind} {each}" for point in points for kind in ("", " later") for each in range(3))
    assert Counter(recorded) == wanted
    assert shards.keys_of(shards.a, "default") != []
    assert not [key for key in shards.keys_of(shards.a, "default") if b":moving" in key]


def test_move_that_is_repeated_after_the_tasks_have_run_runs_none_again(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the other shard has accepted the tasks. They run, and their records expire."""

    def die() -> None:
        raise SystemExit

    results = [high.enqueue(number) for number in range(3)]
    pause_at("after_import", die, monkeypatch)
    with pytest.raises(SystemExit):
        move()
    drain("high")
    shards.b.raw.delete(*[named("b").record(result.id) for result in results])

    move()

    assert moving(shards) == 0
    assert get_queue("high").info().ready == 0
    assert recorded == [0, 1, 2]


def test_two_moves_at_once_move_each_task_once(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "CHUNK", 5)
    for number in range(60):
        high.enqueue(number)
        high.using(run_after=3_600).enqueue(1_000 + number)

    with ThreadPoolExecutor(3) as pool:
        done = [each.result() for each in [pool.submit(move) for _ in range(3)]]

    assert sum(each.moved for each in done) == 120
    assert moving(shards) == 0
    drain("high", advance=True)
    assert Counter(recorded) == Counter([*range(60), *range(1_000, 1_060)])


def test_lost_replies_neither_lose_nor_double_a_task(
    shards: TwoShards, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moves, "CHUNK", 5)
    for number in range(40):
        high.enqueue(number)
    before = settings.REDIS_COMPONENTS
    with Proxy(shards.a.url) as one, Proxy(shards.b.url) as two:
        connections_of = {"default": {"URL": one.url}, "redis_b": {"URL": two.url}}
        settings.REDIS_COMPONENTS = {**before, "CONNECTIONS": {**before["CONNECTIONS"], **connections_of}}
        for seed, proxy in enumerate((one, two)):
            proxy.drop_random(0.3, seed)
        while get_depth(shards) > 0:
            with suppress(RedisError):
                move()
        connections.close_all()
        assert one.dropped > 0 < two.dropped
    settings.REDIS_COMPONENTS = before

    drain("high")

    assert Counter(recorded) == Counter(range(40))


def test_stalled_process_does_not_move_tasks_again_that_have_run(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process moves the tasks that this one has read, and they run before it continues."""

    def overtake() -> None:
        move()
        drain("high")
        shards.b.raw.delete(*[key for key in shards.keys_of(shards.b, "b") if b":t:" in key])

    for number in range(3):
        high.enqueue(number)
    pause_at("after_read", overtake, monkeypatch)

    move()

    assert get_queue("high").info().ready == 0
    assert recorded == [0, 1, 2]


def test_copies_that_are_too_old_are_read_again(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0])
    real = moves.read_ms

    def read_ms(shard: Any) -> Any:
        now_ms = yield from real(shard)
        return next(times, now_ms)

    monkeypatch.setattr(moves, "read_ms", read_ms)
    high.enqueue(1)

    assert move().moved == 1

    drain("high")
    assert recorded == [1]


def test_workers_run_each_task_once_while_it_is_moved(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "CHUNK", 3)
    results = high.enqueue_many([((number,), {}) for number in range(150)])

    with running_worker("high", threads=3):
        move()
        for result in results:
            result.get(TIMEOUT_S)

    assert Counter(recorded) == Counter(range(150))


def test_interrupted_move_must_be_completed_first(shards: TwoShards, settings: Any, monkeypatch: Any) -> None:
    def die() -> None:
        raise SystemExit

    settings_of = settings.REDIS_COMPONENTS
    set_options(settings, SHARDS={**settings_of["TASKQUEUE"]["SHARDS"], "c": "redis_b"})
    high.enqueue(1)
    pause_at("after_import", die, monkeypatch)
    with pytest.raises(SystemExit):
        move()

    wanted = "A move of tasks from shard 'default' to 'b' was interrupted, or runs. Complete it first:"
    with pytest.raises(CommandError, match=re.escape(f"{wanted} redis shards move default b")):
        call_command("redis", "shards", "move", "default", "c", "--yes")
    with pytest.raises(CommandError, match="A move of 1 task from shard 'default' to 'b' was interrupted, or runs"):
        call_command("redis", "shards", "move", "b", "default", "--yes")

    assert move().moved == 1
    assert move("b", "default").moved == 1
    assert move("default", "b").moved == 1
    drain("high")
    assert recorded == [1]


@pytest.mark.parametrize("fault", ["memory", "replica"])
def test_nothing_is_taken_for_a_shard_that_accepts_no_writes(shards: TwoShards, fault: str) -> None:
    high.enqueue(1)
    if fault == "memory":
        shards.b.raw.config_set("maxmemory", 1)
    else:
        shards.b.raw.execute_command("REPLICAOF", "127.0.0.1", "1")

    with pytest.raises(CommandError):
        call_command("redis", "shards", "move", "default", "b", "--yes")

    assert (moving(shards), get_depth(shards)) == (0, 1)


def test_error_says_how_many_tasks_do_not_run(shards: TwoShards) -> None:
    for number in range(3):
        high.enqueue(number)
    shards.b.raw.execute_command("ACL", "SETUSER", "default", "-hset")

    with pytest.raises(CommandError) as raised:
        call_command("redis", "shards", "move", "default", "b", "--yes")

    assert "no permissions to run the 'hset' command" in str(raised.value)
    assert str(raised.value).endswith(
        "The move was interrupted: 3 tasks of shard 'default' are on their way, and do not run. Repeat the command."
    )
    shards.b.raw.execute_command("ACL", "SETUSER", "default", "+hset")
    assert move().moved == 3


def test_move_without_a_reply_says_that_tasks_may_not_run(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    high.enqueue(1)
    pause_at("after_read", shards.server_b.kill, monkeypatch)
    with pytest.raises(
        CommandError, match="The move was interrupted: 1 task of shard 'default' is on its way"
    ) as raised:
        call_command("redis", "shards", "move", "default", "b", "--yes")
    assert raised.value.returncode == 3

    shards.server_b.start()
    high.enqueue(2)
    pause_at("after_export", shards.server_a.kill, monkeypatch)
    with pytest.raises(CommandError, match="was interrupted: up to 100 tasks of shard 'default' may be on their way"):
        call_command("redis", "shards", "move", "default", "b", "--yes")


# What other processes see


def test_result_follows_its_task(shards: TwoShards) -> None:
    result = add.using(queue_name="high", run_after=3_600).enqueue(1, 2)
    waiting = get_result(result.id)
    with ThreadPoolExecutor(1) as pool:
        got = pool.submit(waiting.get, TIMEOUT_S)
        eventually(lambda: shards.a.raw.hexists(home().record(result.id), Field.waiters))
        move()
        result.run_now()
        with running_worker("high"):
            assert got.result(TIMEOUT_S) == 3

    result.refresh()
    assert result.state == "successful"
    assert result.cancel() is False


def test_result_follows_its_task_in_coroutines(shards: TwoShards) -> None:
    result = add.using(queue_name="high", run_after=3_600).enqueue(1, 2)
    move()

    async def cancel() -> bool:
        other = await aget_result(result.id)
        await result.arefresh()
        return await result.acancel() and await other.acancel()

    assert asyncio.run(cancel())


def test_task_in_transit_can_be_read_but_not_changed(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    result = fail.using(queue_name="high", max_attempts=3, id="own").enqueue("x")
    drain("high", raise_errors=False)
    seen: list[Any] = []

    def look() -> None:
        result.refresh()
        seen.extend([result.state, len(result.errors), get_result("own").state])
        again = fail.using(queue_name="high", max_attempts=3, id="own").enqueue("x")
        seen.extend([again.id, again.queue_name, again.is_duplicate])
        with pytest.raises(TaskIdConflict):
            fail.using(queue_name="high", id="own").enqueue("y")
        with pytest.raises(TaskResultDoesNotExist):
            result.cancel()

    pause_at("after_export", look, monkeypatch)

    move()

    assert seen == ["retrying", 1, "retrying", "own", "high", True]
    assert result.cancel()


def test_call_that_is_repeated_after_the_move_is_not_accepted_again(shards: TwoShards) -> None:
    message = TaskMessage("own", note.name, "high", b'[["x"],{}]', nonce="n")
    plain = TaskMessage("plain", note.name, "high", b'[["y"],{}]')
    calls = [call_for(home(), each) for each in (message, plain)]
    for call in calls:
        home().client().execute(call)
    move()
    drain("high")

    for call in calls:  # the client has lost the reply
        home().client().execute(call)
    drain("high")

    assert Counter(recorded) == Counter("xy")
    assert 0 < shards.a.raw.pttl(home().record("plain")) <= 60_000


def test_chosen_id_of_a_task_in_transit_without_one_is_refused(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = high.enqueue(1)
    seen: list[str] = []

    def enqueue() -> None:
        with pytest.raises(TaskIdConflict) as raised:
            high.using(id=result.id).enqueue(1)
        seen.append(str(raised.value))

    pause_at("after_export", enqueue, monkeypatch)
    move()
    enqueue_after_the_move = high.using(id=result.id).enqueue(1)

    assert len(seen) == 1
    assert note.name in seen[0]
    assert enqueue_after_the_move.is_duplicate


def test_task_that_is_moved_between_two_steps_of_a_repeated_call_is_found(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call has seen that no other shard has the task, and this one has it no more when it is sent."""
    first = high.using(id="own").enqueue(1)
    real = task_records.send_with_id

    def send_with_id(*args: Any) -> Any:
        monkeypatch.undo()
        move()
        return real(*args)

    monkeypatch.setattr(task_records, "send_with_id", send_with_id)

    again = high.using(id="own").enqueue(1)

    assert (again, again.is_duplicate, again.state) == (first, True, "ready")
    drain("high")
    assert recorded == [1]


def test_wait_for_a_task_in_transit_ends_with_its_timeout(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    result = high.enqueue(1)
    errors: list[str] = []

    def wait() -> None:
        with pytest.raises(WaitTimeout) as raised:
            result.get(0.15)
        errors.append(str(raised.value))

    pause_at("after_export", wait, monkeypatch)

    move()

    assert errors == [f"Task {result.id} had not finished after 0.15 s: it is being moved to another shard."]


def test_record_that_expires_in_transit_is_not_moved(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = fail.using(queue_name="high", max_attempts=1).enqueue("x")
    drain("high", raise_errors=False)
    pause_at("after_export", lambda: shards.a.raw.delete(home().key(Key.moving_task, failed.id)), monkeypatch)

    assert move().moved == 0

    assert moving(shards) == 0
    with pytest.raises(TaskResultDoesNotExist):
        failed.refresh()


def test_record_that_expires_in_transit_is_not_found(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = fail.using(queue_name="high", max_attempts=1).enqueue("x")
    drain("high", raise_errors=False)
    seen: list[str] = []

    def look() -> None:
        shards.a.raw.delete(home().key(Key.moving_task, failed.id))
        for read in (lambda: get_result(failed.id), failed.refresh, lambda: failed.get(0.1)):
            with pytest.raises(TaskResultDoesNotExist):
                read()
            seen.append("gone")

    pause_at("after_export", look, monkeypatch)

    move()

    assert seen == ["gone"] * 3


def test_outcome_of_a_failed_task_in_transit_is_not_waited_for(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = fail.using(queue_name="high", max_attempts=1).enqueue("x")
    drain("high", raise_errors=False)
    seen: list[str] = []

    def wait() -> None:
        with pytest.raises(TaskFailed):
            get_result(failed.id).get(0.15)
        seen.append("failed")

    pause_at("after_export", wait, monkeypatch)

    move()

    assert seen == ["failed"]


def test_copies_are_as_old_as_their_reading_in_each_part(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that the other shard accepts late must not take the time of the part before it for that of its reading."""
    monkeypatch.setattr(moves, "CHUNK_BYTES", 1)
    ages: list[tuple[int, int]] = []
    real = moves.import_tasks

    def import_tasks(shard: Any, part: Any, read_at_ms: int) -> Any:
        now_ms, *outcomes = yield from real(shard, part, read_at_ms)
        ages.append((read_at_ms, now_ms))
        eventually(lambda: shards.b.raw.time() > (now_ms // 1_000, now_ms % 1_000 * 1_000 + 1_999))
        return now_ms, *outcomes

    monkeypatch.setattr(moves, "import_tasks", import_tasks)
    for number in range(3):
        high.enqueue(number)

    assert move().moved == 3

    assert len({read_at_ms for read_at_ms, _ in ages}) == 1
    assert len({now_ms for _, now_ms in ages}) == 3


def test_large_tasks_are_accepted_in_parts(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "CHUNK_BYTES", 2_000)
    for number in range(5):
        high.enqueue([number, "x" * 900])

    assert move().moved == 5

    drain("high")
    assert [number for number, _text in recorded] == list(range(5))


def test_chosen_id_of_a_task_that_was_moved_and_is_gone_is_refused_for_a_minute(shards: TwoShards) -> None:
    high.using(id="own").enqueue(1)
    move()
    shards.b.raw.delete(named("b").record("own"))

    with pytest.raises(TaskIdConflict):
        high.using(id="own").enqueue(1)

    assert 0 < shards.a.raw.pttl(home().record("own")) <= 60_000


def test_task_that_is_evicted_in_transit_does_not_exist(shards: TwoShards, monkeypatch: pytest.MonkeyPatch) -> None:
    result = note.enqueue(1)
    looked = []

    def look() -> None:
        shards.a.raw.delete(home().key(Key.moving_task, result.id))
        for read in (partial(get_result, result.id), result.refresh):
            with pytest.raises(TaskResultDoesNotExist):
                read()
            looked.append(read)

    pause_at("after_export", look, monkeypatch)
    move()

    assert len(looked) == 2
