"""Events of tasks and locks, recorded by workers and by callers that wait, as the page Live returns them."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from django_redis_components.core.observability import flushing, live_events
from django_redis_components.core.observability.live_events import RECORDER, Allowance, LiveEvent, stream_key
from django_redis_components.locks import Lock, MultiLock
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack, ErrorIdentity, Job
from django_redis_components.taskqueue.worker.run_events import record_outcome
from tests.dashboard.live import event, events_of, record_events, send
from tests.dashboard.support import browser
from tests.support import Store, eventually, run_async
from tests.support.processes import Children
from tests.taskqueue.support import queue_worker, running_worker, server_ms
from tests.taskqueue.tasks import add, add_async, come_back, fail, fail_thrice, fleet_size, insist

pytestmark = pytest.mark.django_db


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `flush` and `send` send events."""
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600.0)


@pytest.fixture
def viewer() -> Client:
    return browser("view_liveevent")


def work(*results: TaskResult) -> None:
    """Run tasks in a worker of this process until they have finished."""
    with running_worker():
        eventually(lambda: all(is_finished(result) for result in results))


def is_finished(result: TaskResult) -> bool:
    result.refresh()
    return result.is_finished


def summary(found: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Return kind and name of events, oldest first."""
    return [(each["kind"], each["name"].rpartition(".")[2]) for each in reversed(found)]


@pytest.mark.contract
def test_starts_and_outcomes_of_tasks_are_recorded(store: Store, settings: Any, at_rest: None, viewer: Client) -> None:
    record_events(settings)
    done = add.enqueue(2, 3)
    work(done)
    work(fail.using(max_attempts=1).enqueue("user Ada has no mail"))
    RECORDER.flush()

    found = events_of(viewer)

    assert summary(found) == [("started", "add"), ("succeeded", "add"), ("started", "fail"), ("failed", "fail")]
    failed, _, succeeded, started = found
    assert (started["task_id"], started["queue"], started["duration_s"]) == (done.id, "default", None)
    assert 0 <= succeeded["duration_s"] < 60
    assert started["source"].endswith(f":{os.getpid()}")
    assert (failed["error"], failed["message"]) == ("builtins.LookupError", "user Ada has no mail")
    assert 0 < store.raw.pttl(stream_key()) <= live_events.KEPT_MS
    assert "arguments" not in str(found)


def test_retries_delays_and_coroutines_are_recorded(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client
) -> None:
    record_events(settings)
    work(fail_thrice.enqueue())
    work(add_async.enqueue(2, 3))
    come_back.enqueue(0.01)
    with running_worker():
        eventually(lambda: RECORDER.flush() or "delayed" in [each["kind"] for each in events_of(viewer)])

    kinds = summary(events_of(viewer))

    assert [kind for kind, name in kinds if name == "fail_thrice"] == [
        "started", "retried", "started", "retried", "started", "failed",
    ]  # fmt: skip
    assert [kind for kind, name in kinds if name == "add_async"] == ["started", "succeeded"]


def test_two_workers_record_under_their_ids_until_they_exit(
    redis_server: Store, settings: Any, viewer: Client, children: Children
) -> None:
    record_events(settings)
    results = [add.using(queue_name=queue).enqueue(2, 3) for queue in ("default", "mail")]
    for queue in ("default", "mail"):
        assert queue_worker(children, queue, "--burst").wait() == 0
    assert all(is_finished(result) for result in results)

    found = events_of(viewer)

    assert sorted((each["kind"], each["queue"]) for each in found) == [
        ("started", "default"), ("started", "mail"), ("succeeded", "default"), ("succeeded", "mail"),
    ]  # fmt: skip
    assert len({each["source"] for each in found}) == 2
    assert {each["id"] for each in found if each["queue"] == "mail"}


def test_outcome_of_a_killed_task_is_recorded_by_the_supervisor(
    redis_server: Store, settings: Any, viewer: Client, children: Children
) -> None:
    record_events(settings)
    result = insist.using(timeout=(None, 0.5), max_attempts=1).enqueue("a")
    queue_worker(children)

    eventually(lambda: is_finished(result))

    [failed] = eventually(lambda: [each for each in events_of(viewer) if each["kind"] == "failed"])
    assert (failed["task_id"], failed["name"], failed["queue"]) == (
        result.id,
        "tests.taskqueue.tasks.insist",
        "default",
    )
    assert failed["error"].endswith("TimeLimitExceeded")
    assert failed["source"] in {each["source"] for each in events_of(viewer) if each["kind"] == "started"}


def test_many_events_are_sampled_and_the_others_counted(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client
) -> None:
    record_events(settings)
    results = [add.enqueue(1, number) for number in range(100)]
    work(*results)
    work(*[fail.using(max_attempts=1).enqueue() for _ in range(2)])
    RECORDER.flush()

    found = events_of(viewer)

    routine = [each for each in found if each["kind"] in ("started", "succeeded")]
    assert len(routine) == live_events.MAX_ROUTINE
    assert [each["kind"] for each in found].count("failed") == 2, "failures have room"
    [left_out] = [each for each in found if each["kind"] == "left_out"]
    assert left_out["left_out"] == 2 * 102 - live_events.MAX_ROUTINE - 2
    RECORDER.flush()
    assert len(events_of(viewer)) == len(found), "each is counted once"


def test_failures_are_bounded_too(redis_server: Store, settings: Any, at_rest: None, viewer: Client) -> None:
    record_events(settings)
    for _ in range(live_events.MAX_EVENTS + 7):
        if RECORDER.has_room():
            RECORDER.add("default", event("failed"))
    RECORDER.flush()

    found = events_of(viewer)

    assert [each["kind"] for each in found].count("failed") == live_events.MAX_EVENTS
    assert [each["left_out"] for each in found if each["left_out"]] == [7]


def test_the_stream_is_bounded(redis_server: Store, settings: Any, at_rest: None, viewer: Client) -> None:
    record_events(settings)
    for _ in range(30):
        for _ in range(live_events.MAX_EVENTS):
            RECORDER.add("default", event(message="x" * 10_000))
        RECORDER.flush()

    assert live_events.MAX_KEPT <= redis_server.raw.xlen(stream_key()) <= live_events.MAX_KEPT * 1.2
    assert redis_server.raw.memory_usage(stream_key()) < 1_000_000
    assert len(events_of(viewer)) == 100


def test_nothing_is_recorded_when_the_setting_is_off(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client
) -> None:
    record_events(settings, is_on=False)
    work(add.enqueue(2, 3))
    wait_for_lock(Lock("stock"))
    RECORDER.send("default", event())
    RECORDER.flush()

    assert events_of(viewer) == []
    assert not redis_server.raw.exists(stream_key())


def test_the_thread_of_the_process_sends_the_events(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    for number in (2, 4):  # the thread also serves the next task
        work(add.enqueue(2, 3))
        eventually(lambda number=number: len(events_of(viewer)) == number)


def wait_for_lock(lock: Any, *, acquire: Callable[[], bool] | None = None, hold_s: float = 0.2) -> bool:
    """Hold a lock in another thread while this one acquires it; return whether it was acquired."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(hold_s)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(10)
    try:
        acquired = acquire() if acquire else lock.acquire()
    finally:
        done.set()
        holder.join()
    if acquired:
        lock.release()
    return acquired


@pytest.mark.parametrize(
    ("lock", "subject", "name"),
    [
        (lambda: Lock("stock:42"), "lock", "stock:42"),
        (lambda: MultiLock("b", "a"), "lock", "a, b"),
        (lambda: MultiLock("b", "a", group="g"), "lock", "a, b"),
        (lambda: Semaphore("printers", 1), "semaphore", "printers"),
    ],
    ids=["lock", "multilock", "group", "semaphore"],
)
def test_acquisition_after_a_wait_is_recorded(
    lock: Callable[[], Any], subject: str, name: str, redis_server: Store, settings: Any, at_rest: None, viewer: Client
) -> None:
    record_events(settings)
    assert wait_for_lock(lock())
    RECORDER.flush()

    [found] = events_of(viewer)

    assert (found["kind"], found["subject"], found["name"]) == ("acquired", subject, name)
    assert 0.1 <= found["duration_s"] < 60
    assert (found["task_id"], found["queue"]) == ("", "")


def test_waits_that_fail_and_waits_of_coroutines_are_recorded(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "MIN_WAIT_S", 0.0)  # to connect may take most of the timeout
    record_events(settings)
    lock = Lock("stock")
    assert not wait_for_lock(lock, acquire=lambda: lock.acquire(blocking_timeout=0.5), hold_s=60)
    assert not wait_for_lock(lock, acquire=lambda: run_async(lambda: lock.aacquire(blocking_timeout=0.5)), hold_s=60)
    RECORDER.flush()

    assert [(each["kind"], each["name"]) for each in events_of(viewer)] == [("gave_up", "stock")] * 2


def test_long_wait_is_recorded_while_it_lasts(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    lock = Lock("stock")

    def acquire() -> bool:
        waiter = threading.Thread(target=lambda: lock.acquire() and lock.release())
        waiter.start()
        [found] = eventually(lambda: events_of(viewer))
        assert (found["kind"], found["name"]) == ("waiting", "stock")
        waiters.append(waiter)
        return False

    waiters: list[threading.Thread] = []
    wait_for_lock(lock, acquire=acquire, hold_s=60)
    waiters[0].join()

    eventually(lambda: [each["kind"] for each in events_of(viewer)] == ["acquired", "waiting"])


def test_free_locks_and_short_waits_are_not_recorded(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_events, "MIN_WAIT_S", 60.0)
    record_events(settings)
    lock = Lock("stock")
    with lock:
        pass
    waiter = threading.Thread(target=lambda: lock.acquire() and lock.release())

    def acquire() -> bool:
        waiter.start()
        eventually(lambda: len(lock.inspect().waiters) == 1)
        RECORDER.flush()
        return False

    wait_for_lock(lock, acquire=acquire, hold_s=60)
    waiter.join()
    RECORDER.flush()

    assert events_of(viewer) == []


def test_tasks_and_locks_do_not_notice_that_events_are_refused(
    redis_server: Store, settings: Any, at_rest: None, caplog: pytest.LogCaptureFixture
) -> None:
    record_events(settings)
    redis_server.raw.set(stream_key(), "another client's")
    result = add.enqueue(2, 3)

    work(result)
    assert wait_for_lock(Lock("stock"))
    for _ in range(3):
        send(event())

    assert result.return_value == 5
    warnings = [record for record in caplog.records if "cannot be recorded for the page Live" in record.getMessage()]
    assert len(warnings) == 1, "once a minute"


def test_stopped_redis_disturbs_no_task(own_server: Store, settings: Any, at_rest: None, viewer: Client) -> None:
    record_events(settings)
    with running_worker():
        first = add.enqueue(1, 2)
        eventually(lambda: is_finished(first))
        own_server.servers[0].kill()
        RECORDER.flush()  # no error
        send(event())
        own_server.servers[0].start()
        second = add.enqueue(3, 4)
        eventually(lambda: is_finished(second))
    RECORDER.flush()

    assert (first.return_value, second.return_value) == (3, 7)
    assert summary(events_of(viewer)) == [("started", "add"), ("succeeded", "add")], "the others are dropped"


def test_error_in_recording_is_logged_and_not_raised(
    redis_server: Store, settings: Any, at_rest: None, caplog: pytest.LogCaptureFixture
) -> None:
    record_events(settings)
    job = Job("id", "token", "shop.pay", b"[]", "mail", 0, 0, 0, 0, 0)

    record_outcome(
        "default", job, Ack("id", "token", "failed", ran_us=5, error=ErrorIdentity("0123456789abcdef", "{broken"))
    )

    assert [record.getMessage() for record in caplog.records] == [
        "An event of a task cannot be recorded for the page Live."
    ]


def test_invalid_settings_record_nothing(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"LIVE_EVENTS": "yes"}

    assert not RECORDER.has_room()


def test_forked_child_does_not_send_the_events_of_its_parent(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client
) -> None:
    record_events(settings)
    RECORDER.add("default", event(name="parent"))
    if (child := os.fork()) == 0:
        try:
            RECORDER.add("default", event(name="child"))
            RECORDER.flush()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    RECORDER.flush()

    assert sorted(each["name"] for each in events_of(viewer)) == ["child", "parent"]


def test_texts_are_cut_and_stored_as_utf_8(redis_server: Store, settings: Any, at_rest: None, viewer: Client) -> None:
    record_events(settings)
    send(LiveEvent("failed", "task", "\ud800" + "x" * 1_000, "id", "mail", error="\x00" * 1_000, message="é" * 1_000))

    [found] = events_of(viewer)

    assert found["name"] == "\\ud800" + "x" * (live_events.MAX_TEXT - 1)
    assert (len(found["error"]), len(found["message"])) == (live_events.MAX_TEXT, live_events.MAX_TEXT)
    assert json.dumps(found)


@pytest.mark.parametrize("fleet", [1, 7, 35, 50, 200, 1_000, 5_000])
def test_processes_share_what_they_record(fleet: int) -> None:
    allowance = Allowance(live_events.MAX_ROUTINE)
    allowance.renew(0.0, fleet)
    seconds = 2_000
    recorded = 0
    for second in range(seconds):
        recorded += allowance.left
        allowance.left = 0  # all of it is used
        allowance.renew(float(second), fleet)

    per_second = recorded * fleet / seconds

    assert live_events.MAX_ROUTINE / 2 < per_second <= live_events.MAX_ROUTINE * 1.03


def test_one_of_many_processes_records_a_few_events_and_counts_the_others(
    redis_server: Store, settings: Any, at_rest: None, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_events(settings)
    monkeypatch.setattr(RECORDER, "fleet", 1_000)
    RECORDER.flush()  # the first share
    for _ in range(20):
        work(add.enqueue(2, 3))
        RECORDER.flush()
    work(fail.using(max_attempts=1).enqueue())
    RECORDER.flush()

    found = events_of(viewer)

    assert [each["kind"] for each in reversed(found) if each["subject"]] == ["started", "failed"]
    assert sum(each["left_out"] for each in found) == 20 * 2 - 1 + 1, "none is forgotten"


def test_worker_processes_know_how_many_they_are(redis_server: Store, children: Children) -> None:
    queue_worker(children)
    assert fleet_size.enqueue().get(60) == 1

    others = {f"host:{number}.a": server_ms(redis_server) for number in range(999)}
    redis_server.raw.zadd(f"{home().base}:workers", others)

    eventually(lambda: fleet_size.enqueue().get(60) == 1_000)
