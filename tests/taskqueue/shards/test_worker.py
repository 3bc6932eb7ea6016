"""Workers serve their queues in all shards, in strict order, and go on when one is away."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from django_redis_components.taskqueue import get_result
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker import sharded_fetcher
from django_redis_components.taskqueue.worker.sharded_fetcher import ShardedFetcher
from tests.support import eventually
from tests.support.processes import Children
from tests.support.waiting import TIMEOUT_S
from tests.taskqueue.shards.support import TwoShards, set_options
from tests.taskqueue.support import SITE, Held, running_worker
from tests.taskqueue.tasks import add, fail, hold, nap, note, use_context

mail = note.using(queue_name="mail")
QUEUES = ("high", "low", "default", "mail")


def new_fetcher(*queues: str, weights: tuple[int, ...] = ()) -> ShardedFetcher:
    return ShardedFetcher(shards_of(), "here:1", queues or QUEUES, weights=weights)


def take(fetcher: ShardedFetcher, want: int = 1) -> list[Any]:
    """Fetch, and settle as successful."""
    jobs = fetcher.fetch("0", want)
    for job in jobs:
        fetcher.settle(Ack(job.id, job.token, "succeeded", b"1", ttl_ms=60_000))
    return jobs


def test_worker_runs_the_tasks_of_all_shards(shards: TwoShards) -> None:
    results = [task.enqueue(number) for number in range(40) for task in (note, mail)]
    with running_worker("default", "mail", threads=3):
        assert [result.get(TIMEOUT_S) for result in results] == [number for number in range(40) for _ in "ab"]


def test_idle_worker_starts_a_task_of_each_shard_at_once(shards: TwoShards) -> None:
    with running_worker("default", "mail") as worker:
        for task in (note, mail, mail, note):
            eventually(lambda: worker.job_source.leader_lock.locked())
            result = task.enqueue(1)
            result.get(TIMEOUT_S)
            assert (result.finished_at - result.enqueued_at).total_seconds() < 3.0  # a wait without a wakeup takes 4 s


def test_delayed_and_repeated_tasks_run_in_their_shard(shards: TwoShards) -> None:
    delayed = mail.using(run_after=0.3).enqueue(1)
    failing = fail.using(queue_name="mail", max_attempts=2, backoff=0.1).enqueue("x")
    with running_worker("default", "mail", threads=2):
        assert delayed.get(TIMEOUT_S) == 1
        eventually(lambda: (failing.refresh(), failing.is_finished)[1])
    assert (failing.state, failing.attempts) == ("failed", 2)


def test_context_of_a_task_is_that_of_its_shard(shards: TwoShards) -> None:
    result = use_context.using(queue_name="mail").enqueue(["set", "a", 1], ["save_metadata"], ["look"])
    with running_worker("default", "mail"):
        eventually(lambda: (result.refresh(), result.is_finished)[1])
    assert result.state == "successful", result.errors
    assert result.metadata == {"a": 1}


def test_earlier_queues_of_all_shards_come_first(shards: TwoShards, settings: Any) -> None:
    set_options(settings, QUEUES={"high": "b", "low": None})
    low = [note.using(queue_name="low").enqueue(number).id for number in range(3)]
    fetcher = new_fetcher("high", "low")
    assert [job.id for job in take(fetcher)] == [low[0]]

    high = [note.using(queue_name="high").enqueue(number).id for number in range(2)]
    time.sleep(sharded_fetcher.TRUST_S * 1.5)  # until the bound is not trusted any more

    assert [job.id for _ in range(4) for job in take(fetcher)] == [*high, low[1], low[2]]
    assert take(fetcher) == []


def test_queue_with_tasks_in_two_shards_is_served_in_turn(shards: TwoShards, settings: Any) -> None:
    old = [note.using(queue_name="low").enqueue(number).id for number in range(4)]
    set_options(settings, QUEUES={"high": None, "low": "b"})
    new = [note.using(queue_name="low").enqueue(number).id for number in range(4)]
    fetcher = new_fetcher("high", "low")

    taken = [job.id for _ in range(8) for job in take(fetcher)]

    assert sorted(taken) == sorted([*old, *new])
    assert [each for each in taken if each in old] == old
    assert [each for each in taken if each in new] == new
    assert len({each in old for each in taken[:4]}) == 2


def test_fetch_ends_however_slow_the_replies_are(
    shards: TwoShards, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_options(settings, QUEUES={"high": None, "default": None, "low": "b", "mail": "b"})
    last = mail.enqueue(1)
    monkeypatch.setattr(sharded_fetcher, "TRUST_S", -1.0)  # each bound is too old at once
    fetcher = new_fetcher()

    assert [job.id for job in take(fetcher)] == [last.id]
    assert take(fetcher) == []


def test_due_task_of_a_limited_queue_does_not_repeat_a_request_for_ever(shards: TwoShards, settings: Any) -> None:
    limited = note.using(queue_name="high", rate="1/h")
    limited.enqueue(1)
    limited.using(run_after=0.01).enqueue(2)
    later = mail.enqueue(3)
    fetcher = new_fetcher("high", "low", "mail")
    time.sleep(0.02)  # until it is due

    assert len(take(fetcher)) == 1
    assert [job.id for job in take(fetcher)] == [later.id]
    assert take(fetcher) == []


def test_weights_apply_to_the_queues_of_all_shards(shards: TwoShards) -> None:
    sent = [task.using(queue_name=name).enqueue(1).id for name in ("low", "mail") for task in [note] * 6]
    fetcher = new_fetcher("low", "mail", weights=(1, 1))

    assert sorted(job.id for _ in range(12) for job in take(fetcher)) == sorted(sent)


def test_lease_of_a_task_names_its_shard_and_its_outcome_goes_there(shards: TwoShards) -> None:
    here, there = note.enqueue(1), mail.enqueue(2)
    fetcher = new_fetcher()

    jobs = {job.id: job for _ in range(2) for job in take(fetcher)}

    assert jobs[here.id].token.startswith("here:1/0/")
    assert jobs[there.id].token.startswith("here:1/0@b/")
    assert fetcher.pending_acks() == 1  # that of the shard that was asked first went with the second fetch
    fetcher.fetch("0", 0)
    assert [get_result(each.id).state for each in (here, there)] == ["successful"] * 2
    assert not fetcher.has_leases()


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_shard_that_is_away_stops_only_its_own_tasks(shards: TwoShards, children: Children, fault: str) -> None:
    worker = children.manage("runworker", "default", "mail", "--processes=2", "--threads=4", env=SITE)
    worker.wait_for("Poller")
    first = [task.enqueue(number, 1) for number in range(100) for task in (add, add.using(queue_name="mail"))]
    for result in first[:20]:
        result.get(TIMEOUT_S)
    if fault == "kill":
        shards.server_b.kill()
    else:
        os.kill(shards.server_b.pid, signal.SIGSTOP)
    began = time.monotonic()
    others = []
    while time.monotonic() - began < 4:  # longer than the processes need to notice
        others.append(add.enqueue(1, 2))
        others[-1].get(TIMEOUT_S)

    if fault == "kill":
        shards.server_b.start()
    else:
        os.kill(shards.server_b.pid, signal.SIGCONT)
    longest = max((each.finished_at - each.enqueued_at).total_seconds() for each in others)
    assert longest < 3.0  # no thread waits longer than a second for the other shard
    assert len(others) > 4
    for result in first:
        assert result.get(TIMEOUT_S) >= 1
    assert all(result.attempts == 1 for result in first)
    again = add.using(queue_name="mail").enqueue(5, 5)
    assert again.get(TIMEOUT_S) == 10


def test_shard_is_tried_again_when_no_thread_could_start(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fetcher = new_fetcher()
    shards.server_b.kill()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", refuse)
        assert fetcher.fetch("0", 1) == []
        assert fetcher.fetch("0", 1) == []
    assert fetcher.is_away(shards_of()[1])
    assert "the other shards are served" in caplog.text
    shards.server_b.start()
    result = mail.enqueue(1)

    assert [job.id for job in eventually(lambda: take(fetcher))] == [result.id]


def test_tasks_of_a_lost_reply_are_returned_when_their_shard_answers(shards: TwoShards) -> None:
    fetcher = new_fetcher()
    take(fetcher)
    result = mail.enqueue(1)
    os.kill(shards.server_b.pid, signal.SIGSTOP)
    fetcher.note_wakeup(shards_of()[1])
    assert fetcher.fetch("0", 1) == []

    os.kill(shards.server_b.pid, signal.SIGCONT)  # it leases the task for the thread that waits no more
    eventually(lambda: not fetcher.is_away(shards_of()[1]))

    assert [job.id for job in eventually(lambda: fetcher.fetch("1", 1))] == [result.id]


def test_shard_that_was_fast_is_left_out_soon(shards: TwoShards, caplog: pytest.LogCaptureFixture) -> None:
    fetcher = new_fetcher()
    eventually(lambda: fetcher.fetch("0", 1) or fetcher.is_quick(shards_of()[1]))
    result = note.enqueue(1)
    os.kill(shards.server_b.pid, signal.SIGSTOP)
    fetcher.note_wakeup(shards_of()[1])
    began = time.monotonic()

    jobs = fetcher.fetch("0", 1)
    waited_s = time.monotonic() - began
    was_away = fetcher.is_away(shards_of()[1])
    os.kill(shards.server_b.pid, signal.SIGCONT)
    eventually(lambda: not fetcher.is_away(shards_of()[1]))

    assert [job.id for job in jobs] == [result.id]
    assert was_away
    assert waited_s >= sharded_fetcher.QUICK_S
    assert not fetcher.is_quick(shards_of()[1])


def test_long_tasks_of_each_shard_keep_their_leases(shards: TwoShards, settings: Any, children: Children) -> None:
    set_options(settings, LEASE=2)
    worker = children.manage("runworker", "default", "mail", "--threads=2", env=SITE)
    results = [task.enqueue(5) for task in (nap, nap.using(queue_name="mail"))]
    for result in results:
        result.get(TIMEOUT_S)
    assert [len(result.worker_ids) for result in results] == [1, 1]
    assert "lost its lease" not in worker.output


def test_tasks_of_a_killed_process_are_recovered_in_each_shard(
    shards: TwoShards, settings: Any, children: Children
) -> None:
    set_options(settings, LEASE=600)  # the supervisor ends the leases, and the test does not wait for their expiry
    children.manage("runworker", "default", "mail", "--threads=2", env=SITE)
    held = [Held(shards.a, name) for name in ("one", "two")]
    results = [hold.enqueue("one"), hold.using(queue_name="mail").enqueue("two")]
    pid = held[0].started()
    assert held[1].started() == pid

    os.kill(pid, signal.SIGKILL)

    for each in held:
        assert each.started(2) != pid
        each.release()
    assert [result.get(TIMEOUT_S) for result in results] == ["one", "two"]


def test_running_task_of_another_shard_is_cancelled(shards: TwoShards, children: Children) -> None:
    children.manage("runworker", "default", "mail", env=SITE)
    held = Held(shards.a, "long")
    result = hold.using(queue_name="mail").enqueue("long")
    held.started()

    began = time.monotonic()
    assert result.cancel()

    eventually(lambda: (result.refresh(), result.state == "cancelled")[1])
    assert time.monotonic() - began < 4.0  # at the wakeup, not with the next renewal, which is due after 5 s


def test_burst_ends_when_all_shards_are_empty(shards: TwoShards, children: Children) -> None:
    results = [task.enqueue(1, number) for number in range(50) for task in (add, add.using(queue_name="mail"))]
    worker = children.manage("runworker", "default", "mail", "--burst", env=SITE)

    assert worker.wait() == 0
    for result in results:
        result.refresh()
    assert all(result.state == "successful" for result in results)


def test_worker_starts_while_a_shard_is_away(shards: TwoShards, children: Children) -> None:
    shards.server_b.kill()
    worker = children.manage("runworker", "default", "mail", env=SITE)
    worker.wait_for("Shard b: ")
    assert add.enqueue(1, 2).get(TIMEOUT_S) == 3

    shards.server_b.start()

    assert add.using(queue_name="mail").enqueue(2, 3).get(TIMEOUT_S) == 5


def test_route_that_changes_under_load_loses_and_repeats_nothing(
    shards: TwoShards, settings: Any, children: Children
) -> None:
    for _ in range(2):
        children.manage("runworker", "default", "mail", "--threads=2", env=SITE)
    routed = add.using(queue_name="mail")
    results = []
    for route in ("b", None, "b"):
        set_options(settings, QUEUES={"mail": route, "default": None})
        results += [routed.enqueue(number, 1) for number in range(100)]

    for number, result in enumerate(results):
        assert result.get(TIMEOUT_S) == number % 100 + 1
    assert [len(result.worker_ids) for result in results] == [1] * 300
