"""Workers stop, die and are replaced in the middle of a loop; another one continues it."""

from __future__ import annotations

import os
import random
import signal
from datetime import UTC, datetime
from typing import Any

import pytest

from django_redis_components.taskqueue import Cursor, TaskResult, get_queue
from django_redis_components.taskqueue.states import State
from django_redis_components.taskqueue.worker.execution import execute
from django_redis_components.taskqueue.worker.interruption import ThreadRun
from tests.support import Store, eventually
from tests.support.processes import Child, Children
from tests.taskqueue.iterating.tasks import go_through, go_through_async, items_done, wait_until_asked_to_stop
from tests.taskqueue.support import (
    Held,
    base_key,
    kill_processes,
    new_fetcher,
    processes_of,
    queue_worker,
    running_worker,
    taskqueue_settings,
)
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.integration

SITE = {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.iterating.site"}
BOTH = pytest.mark.parametrize("made", [go_through, go_through_async], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def _settings(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, LEASE=3, GRACE=20)


def worker_of(children: Children, *args: str) -> Child:
    return queue_worker(children, *args, env=SITE)


def outcomes(result: TaskResult) -> list[str]:
    result.refresh()
    return [run.outcome for run in result.timeline]


@BOTH
def test_task_continues_on_another_worker_after_sigterm(redis_server: Store, children: Children, made: Any) -> None:
    first = worker_of(children)
    result = made.enqueue("a", 20, pause_at=7)
    held = Held(redis_server, "a")
    held.started()

    first.terminate()
    first.wait_for("Stopping: running tasks have 20 s to finish")
    wait_until_asked_to_stop(redis_server, "a")
    held.release()

    assert first.wait() == 0
    result.refresh()
    assert (result.state, result.attempts, result.cursor) == ("ready", 0, Cursor(0, None, 8, 8))
    assert items_done(redis_server, "a") == list(range(8)), "it ends after the current item"
    assert "returns to its queue after" in first.output
    second = worker_of(children)
    assert result.get(60) == "a"
    assert items_done(redis_server, "a") == list(range(20)), "each once"
    assert outcomes(result) == ["interrupted", "succeeded"]
    assert (result.attempts, result.runs, len(set(result.worker_ids))) == (1, 2, 2)
    assert second.returncode is None


@BOTH
def test_task_continues_at_the_last_cursor_after_kill_9(redis_server: Store, children: Children, made: Any) -> None:
    worker_of(children)
    result = made.enqueue("a", 20, pause_at=7, save_every=5)
    held = Held(redis_server, "a")
    pid = held.started()

    os.kill(pid, signal.SIGKILL)
    held.release()

    assert result.get(60) == "a"
    assert items_done(redis_server, "a") == [*range(7), *range(5, 20)], "those since the cursor run again"
    assert outcomes(result) == ["recovered", "succeeded"]


@BOTH
def test_task_survives_many_kills_and_stops(redis_server: Store, children: Children, made: Any) -> None:
    """Each kill repeats less than `save_every` items and the current one; a stop repeats none."""
    result = made.using(max_deliveries=100).enqueue("a", 400, item_s=0.005, save_every=10)
    kills = stops = 0
    while not result.is_finished:
        worker = worker_of(children)
        goal = len(items_done(redis_server, "a")) + random.Random(kills).randint(90, 130)
        eventually(lambda goal=goal: len(items_done(redis_server, "a")) >= goal or finished(result))
        if not result.is_finished and kills <= stops:
            kill_processes(processes_of(worker.pid))
            kills += 1
        elif not result.is_finished:
            stops += 1
        worker.terminate()
        assert worker.wait() == 0
        result.refresh()

    items = items_done(redis_server, "a")
    assert result.state == "successful"
    assert sorted(set(items)) == list(range(400))
    assert len(items) - 400 <= 11 * kills
    assert (kills > 0, stops > 0, result.attempts) == (True, True, 1)
    assert outcomes(result)[-1] == "succeeded"
    assert set(outcomes(result)) <= {"interrupted", "recovered", "succeeded"}


def finished(result: TaskResult) -> bool:
    result.refresh()
    return result.is_finished


def test_interrupted_task_is_first_in_its_queue(redis_server: Store) -> None:
    with running_worker() as worker:
        result = go_through.enqueue("a", 20, pause_at=3)
        Held(redis_server, "a").started()
        others = note.enqueue_many([((number,), {}) for number in range(2)])
        worker.stop()
        Held(redis_server, "a").release()
        eventually(lambda: not worker.is_alive())

    assert [each.id for each in get_queue("default").tasks("ready")] == [result.id, *(each.id for each in others)]


def test_quiet_worker_gives_the_task_away(redis_server: Store, children: Children) -> None:
    first = worker_of(children)
    result = go_through.enqueue("a", 20, pause_at=7)
    held = Held(redis_server, "a")
    held.started()
    second = worker_of(children)

    first.signal(signal.SIGUSR1)
    first.wait_for("Quiet")
    wait_until_asked_to_stop(redis_server, "a")
    held.release()

    assert result.get(60) == "a"
    assert items_done(redis_server, "a") == list(range(20))
    assert outcomes(result) == ["interrupted", "succeeded"]
    assert (first.returncode, second.returncode) == (None, None)


def test_replaced_process_gives_the_task_to_its_successor(redis_server: Store, children: Children) -> None:
    worker = worker_of(children, "--max-tasks", "1", "--threads", "2")
    result = go_through.enqueue("a", 20, pause_at=7)
    held = Held(redis_server, "a")
    first = held.started()

    assert add.enqueue(1, 2).get(60) == 3
    worker.wait_for(f"Restarting worker process {first}: it has run 1 tasks (--max-tasks 1).")
    wait_until_asked_to_stop(redis_server, "a")
    held.release()

    assert result.get(60) == "a"
    assert items_done(redis_server, "a") == list(range(20))
    assert outcomes(result) == ["interrupted", "succeeded"]


def test_item_that_is_longer_than_the_grace_period_runs_again(
    redis_server: Store, children: Children, settings: Any
) -> None:
    taskqueue_settings(settings, LEASE=3, GRACE=0.1)
    first = worker_of(children)
    result = go_through.enqueue("a", 20, pause_at=7, save_every=1)
    held = Held(redis_server, "a")
    held.started()

    first.terminate()
    assert first.wait() == 0
    result.refresh()
    assert (result.state, result.attempts, result.cursor) == ("ready", 0, Cursor(0, None, 7, 7))
    held.release()
    worker_of(children)

    assert result.get(60) == "a"
    assert items_done(redis_server, "a") == list(range(20))


def test_hard_time_limit_continues_at_the_cursor_in_the_next_attempt(redis_server: Store, children: Children) -> None:
    worker_of(children)
    result = go_through.using(timeout=(None, 0.5), max_attempts=2, backoff=0).enqueue("a", 20, pause_at=7, save_every=1)
    held = Held(redis_server, "a")
    held.started()
    eventually(lambda: (result.refresh(), result.attempts)[1] == 2 or held.starts() == 2)

    held.release()

    assert result.get(60) == "a"
    assert items_done(redis_server, "a") == list(range(20))
    assert outcomes(result) == ["retried", "succeeded"]


@BOTH
def test_soft_time_limit_continues_after_the_last_item_that_is_done(redis_server: Store, made: Any) -> None:
    result = made.using(timeout=(0.3, None), max_attempts=2, backoff=0).enqueue("a", 20, pause_at=7)
    with running_worker():
        held = Held(redis_server, "a")
        eventually(lambda: held.starts() == 2)
        held.release()
        assert result.get(60) == "a"

    assert items_done(redis_server, "a") == list(range(20))
    assert outcomes(result) == ["retried", "succeeded"]


@BOTH
def test_cancelled_task_keeps_its_position(redis_server: Store, children: Children, made: Any) -> None:
    worker_of(children)
    result = made.enqueue("a", 20, pause_at=7)
    Held(redis_server, "a").started()

    assert result.cancel()
    eventually(lambda: (result.refresh(), result.is_finished)[1])

    assert (result.state, result.cursor) == ("cancelled", Cursor(0, None, 7, 7))
    assert outcomes(result) == ["cancelled"]


def test_task_whose_cancellation_was_requested_is_not_continued(redis_server: Store) -> None:
    with running_worker() as worker:
        result = go_through.enqueue("a", 20, pause_at=3)
        Held(redis_server, "a").started()
        redis_server.raw.hset(base_key(redis_server, "t", result.id), "o", "9999999999999 60000")
        worker.stop()
        Held(redis_server, "a").release()
        eventually(lambda: not worker.is_alive())

    result.refresh()
    assert (result.state, result.cursor, len(result.worker_ids)) == ("cancelled", Cursor(0, None, 4, 4), 1)


def test_paused_queue_keeps_an_interrupted_task(redis_server: Store) -> None:
    with running_worker() as worker:
        result = go_through.enqueue("a", 10, pause_at=3)
        Held(redis_server, "a").started()
        get_queue("default").pause("deploy")
        worker.stop()
        Held(redis_server, "a").release()
        eventually(lambda: not worker.is_alive())
    with running_worker():
        note.using(queue_name="other").enqueue(1)
        result.refresh()
        assert result.state == State.ready

        get_queue("default").resume()

        assert result.get(60) == "a"


def test_task_that_has_run_does_not_expire(redis_server: Store) -> None:
    with running_worker() as worker:
        result = go_through.using(expires=0.2).enqueue("a", 10, pause_at=3)
        Held(redis_server, "a").started()
        eventually(lambda: result.expires_at is not None and (result.refresh(), is_past(result))[1])
        worker.stop()
        Held(redis_server, "a").release()
        eventually(lambda: not worker.is_alive())
    with running_worker():
        assert result.get(60) == "a"


def is_past(result: TaskResult) -> bool:
    assert result.expires_at is not None
    return result.expires_at < datetime.now(UTC)


def test_worker_that_stops_before_the_first_item_runs_none(redis_server: Store) -> None:
    """A run may start while the worker is stopped."""
    go_through.enqueue("a", 3)
    fetcher = new_fetcher()
    [job] = fetcher.fetch("0", 1)
    run = ThreadRun(job)
    run.stop_asked = True

    ack = execute(job, run)

    assert ack.outcome == "interrupted"
    assert items_done(redis_server, "a") == []
