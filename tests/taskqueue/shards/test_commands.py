"""`manage.py redis shards`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from django_redis_components.management.redis.shards.planning import QueueLoad, balanced
from django_redis_components.taskqueue import Schedules, get_queue, group
from django_redis_components.testing import drain
from tests.support import Store
from tests.taskqueue.shards.support import TwoShards, in_both, set_options
from tests.taskqueue.tasks import add, fail, note

mail = note.using(queue_name="mail")


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    call_command("redis", "shards", *arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_list_shows_what_each_shard_has(shards: TwoShards, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    in_both(settings)
    add.using(run_after=3_600).enqueue(1, 2)

    found = {each["name"]: each for each in run_json(capsys, "list")["shards"]}

    assert [(found[name]["ready"], found[name]["scheduled"]) for name in ("default", "b")] == [(3, 1), (3, 0)]
    assert found["b"]["queues"] == {"mail": 3}
    assert found["b"]["error"] is None
    assert found["b"]["used_memory"] > 0
    call_command("redis", "shards", "list")
    shown = capsys.readouterr().out
    assert "SHARD" in shown
    assert "2 of 2 shards read." in shown


@pytest.mark.django_db
def test_list_says_since_when_a_shard_is_away(shards: TwoShards, capsys: pytest.CaptureFixture[str]) -> None:
    add.enqueue(1, 2)
    shards.server_b.kill()

    found = run_json(capsys, "list")["shards"]
    assert [each["ready"] for each in found] == [1, None]
    assert found[1]["away_since"] is None
    ProblemWatcher("default").round()
    assert run_json(capsys, "list")["shards"][1]["away_since"] is not None
    call_command("redis", "shards", "list")
    printed = capsys.readouterr()
    assert "away since" in printed.out
    assert "1 of 2 shards read." in printed.out
    assert "Cannot connect to Redis." in printed.err


def test_list_fails_if_no_shard_answers(shards: TwoShards) -> None:
    shards.server_a.kill()
    shards.server_b.kill()

    with pytest.raises(CommandError, match="Redis is unavailable") as raised:
        call_command("redis", "shards", "list")
    assert raised.value.returncode == 3


def test_list_shows_the_only_shard_of_a_site_without_shards(
    redis_server: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    add.enqueue(1, 2)

    [shard] = run_json(capsys, "list")["shards"]

    assert (shard["name"], shard["ready"]) == ("default", 1)


def test_shard_is_empty_once_its_pending_tasks_are_gone(
    shards: TwoShards, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    mail.enqueue(1)
    mail.using(run_after=3_600).enqueue(2)
    with pytest.raises(CommandError, match=r"Shard 'b' is not empty: queue 'mail' has 1 ready, 1 scheduled") as raised:
        call_command("redis", "shards", "empty", "b")
    assert raised.value.returncode == 1
    assert "New tasks of these queues go to it: mail." in capsys.readouterr().err

    set_options(settings, QUEUES={"mail": None, "default": None})
    get_queue("mail").purge()

    assert run_json(capsys, "empty", "b") == {
        "shard": "b", "pending": {}, "flows": 0, "moving": 0, "schedules": [], "failed": 0, "routed": []
    }  # fmt: skip


def test_empty_names_flows_schedules_failed_tasks_and_routes(
    shards: TwoShards, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    failing = fail.using(queue_name="mail", max_attempts=1)
    failing.enqueue()
    drain("mail", raise_errors=False)
    call_command("redis", "shards", "empty", "b")
    printed = capsys.readouterr()
    assert "Shard 'b' has no pending tasks." in printed.out
    assert "1 failed task of it cannot be retried any more" in printed.err
    assert "New tasks of these queues go to it: mail." in printed.err

    group(mail.s(number) for number in range(2)).enqueue()
    Schedules().add("mails", note, every=3_600, args=[3], options={"queue_name": "mail"})
    with pytest.raises(CommandError) as raised:
        call_command("redis", "shards", "empty", "b")
    assert "queue 'mail' has 2 ready; 1 unfinished flow; schedules that were added at run time: mails." in str(
        raised.value
    )


def test_empty_refuses_an_unknown_shard_and_one_that_is_away(shards: TwoShards) -> None:
    with pytest.raises(CommandError, match=r"Shard 'c' does not exist\. Shards: default, b\."):
        call_command("redis", "shards", "empty", "c")
    shards.server_b.kill()
    with pytest.raises(CommandError) as raised:
        call_command("redis", "shards", "empty", "b")
    assert raised.value.returncode == 3


def test_plan_proposes_a_shard_for_a_queue_of_the_busiest(
    shards: TwoShards, capsys: pytest.CaptureFixture[str]
) -> None:
    for queue, count in (("high", 40), ("low", 30)):
        for number in range(count):
            note.using(queue_name=queue).enqueue(number)
        drain(queue)

    plan = run_json(capsys, "plan", "--sample=0.01")

    assert {each["queue"]: each["better"] for each in plan["queues"] if each["per_minute"]} in (
        {"high": "b", "low": "default"},
        {"high": "default", "low": "b"},
    )
    assert [each["name"] for each in plan["shards"]] == ["default", "b"]
    assert all(each["core_share"] >= 0 for each in plan["shards"])
    call_command("redis", "shards", "plan", "--sample=0.01")
    shown = capsys.readouterr().out
    assert "Read: the runs of the last 60 minutes of " in shown
    assert 'To change in TASKQUEUE["QUEUES"]: {' in shown


def loads(**per_minute: tuple[float, str]) -> list[QueueLoad]:
    return [QueueLoad(queue, rate, shard, shard) for queue, (rate, shard) in per_minute.items()]


def moves(found: list[QueueLoad]) -> dict[str, str]:
    return {load.queue: load.better for load in found if load.better != load.route}


def test_plan_moves_few_queues_until_the_loads_are_equal() -> None:
    found = balanced(loads(a=(50, "x"), b=(30, "x"), c=(20, "x"), d=(0, "x")), ["x", "y"])

    assert moves(found) == {"a": "y"}


def test_plan_leaves_what_no_single_queue_can_better() -> None:
    assert moves(balanced(loads(a=(100, "x"), b=(4, "y")), ["x", "y"])) == {}
    assert moves(balanced(loads(a=(50, "x"), b=(48, "y"), c=(1, "x")), ["x", "y"])) == {}
    assert moves(balanced([], ["x", "y"])) == {}
    assert moves(balanced(loads(a=(50, "x")), ["x"])) == {}


def test_plan_counts_the_parts_of_a_spread_queue_and_does_not_move_them() -> None:
    spread = [QueueLoad("s", 50, shard, shard, is_spread=True) for shard in "xy"]

    assert moves(balanced([*spread, *loads(a=(20, "x"), b=(20, "x"))], ["x", "y"])) in ({"a": "y"}, {"b": "y"})
    assert moves(balanced([spread[0]], ["x", "y"])) == {}


def test_plan_proposes_no_shard_that_was_not_read() -> None:
    assert moves(balanced(loads(a=(50, "x"), b=(40, "x"), c=(1, "away")), ["x"])) == {}
    assert moves(balanced(loads(a=(50, "away"), b=(40, "away"), c=(1, "x")), ["x"])) == {}


def test_names_need_a_cluster(redis_server: Store) -> None:
    with pytest.raises(CommandError, match=r"is no Cluster\. A shard on another server has another connection"):
        call_command("redis", "shards", "names", "3")
