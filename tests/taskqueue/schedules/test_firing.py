"""Each slot enqueues one task: with crashed, concurrent and paused pollers, and lost replies."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import Middleware, NewTask, failpoints, get_queue, get_result
from django_redis_components.taskqueue.middleware import pipeline
from django_redis_components.taskqueue.schedules import scheduler as firing
from django_redis_components.taskqueue.schedules.schedule import Misfire, Schedule
from django_redis_components.taskqueue.schedules.scheduler import KEEP_MS, Scheduler
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.poller_failure import read_failure
from django_redis_components.taskqueue.store.scripts import ENQUEUE, ENQUEUE_DUE, REGISTER_SCHEDULES
from tests.support import Proxy, Store, eventually
from tests.taskqueue.schedulers import (
    HOUR,
    announced,
    at,
    next_round,
    poller_of,
    run_next_round_by,
    scheduler_of,
    seconds_to_next_round,
    state,
    state_key,
    take_place_from,
    waiting,
)
from tests.taskqueue.support import base_key, queue_key, running_worker, server_ms, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, echo, note, recorded


@pytest.fixture
def at_fault(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of failpoints; reaching one raises SystemExit, once."""
    deadly: list[str] = []

    def die(name: str) -> None:
        if name in deadly:
            deadly.remove(name)
            raise SystemExit(name)

    monkeypatch.setattr(failpoints, "hook", die)
    yield deadly
    assert deadly == []


class ExitOfAdd(Middleware):
    """Exits when `add` is enqueued."""

    def before_enqueue(self, task: NewTask) -> None:
        if task.name == add.name:
            raise SystemExit("no more tasks")


def fire(schedule: Schedule, due_ms: int, poller: str) -> tuple[int, int]:
    rest = schedule.message(due_ms).arguments
    call = ENQUEUE_DUE(
        base=home().base, poller=poller, name=schedule.name, due_ms=due_ms, next_ms=0, count=0, rest=rest
    )
    code, last_ms = connections.client().execute(call)
    return code, last_ms


def is_close(seconds: float, ms: float) -> bool:
    """Return whether a wait is as long as expected, less a minute for a busy machine."""
    return ms / 1_000 - 60 < seconds <= ms / 1_000


def test_slot_enqueues_its_task_when_due(store: Store) -> None:
    due_ms = int(server_ms(store)) + 1_500
    schedule = at(due_ms, due_ms + HOUR)
    poller = poller_of(schedule)

    next_round(poller)
    assert waiting(store) == []
    assert 0 < seconds_to_next_round(poller) <= 1.5, "the poller sleeps until the slot"

    def is_enqueued() -> bool:
        poller.step()
        poller.wait(1.0)
        return waiting(store) != []

    eventually(is_enqueued)
    assert waiting(store) == [schedule.task_id(due_ms)]
    result = note.get_result(schedule.task_id(due_ms))
    assert result.enqueued_at is not None
    assert due_ms <= result.enqueued_at.timestamp() * 1_000
    work_off()
    assert recorded == ["s"]
    assert (state(store)["last"], state(store)["next"]) == (str(due_ms), str(due_ms + HOUR))
    assert state(store)["id"] == result.id


def test_schedule_continues_after_the_clock_was_set_back(store: Store) -> None:
    now_ms = int(server_ms(store))
    due_ms = now_ms + 3_000  # after the first round, also on a slow machine
    schedule = at(due_ms, now_ms + HOUR, now_ms + 2 * HOUR, now_ms + 3 * HOUR)
    poller = poller_of(schedule)
    announced(poller, store, last_ms=now_ms + 2 * HOUR)

    eventually(lambda: (next_round(poller), waiting(store))[1] == [schedule.task_id(due_ms)])

    assert state(store)["last"] == str(due_ms)


@pytest.mark.parametrize("ahead_ms", [50, 7_200_000], ids=["a correction", "two hours"])
def test_slot_is_not_enqueued_again_after_the_clock_was_set_back(store: Store, ahead_ms: int) -> None:
    """Of a daily schedule, whose slot was sent before the clock was set back."""
    last_ms = int(server_ms(store)) + ahead_ms
    schedule = at(last_ms, last_ms + 24 * HOUR)
    poller = poller_of(schedule)
    announced(poller, store, last_ms=last_ms)

    next_round(poller)

    assert state(store)["last"] == str(last_ms)


def test_scheduled_task_has_its_options_and_arguments(store: Store) -> None:
    due_ms = int(server_ms(store)) - 10
    urgent = echo.using(queue_name="urgent", priority=7, max_attempts=4, max_deliveries=9)
    poller = poller_of(at(due_ms, task=urgent, args=(1, "ü"), kwargs={"b": [None]}))
    announced(poller, store, last_ms=due_ms - 1)

    next_round(poller)

    [job] = work_off("urgent")
    assert job.message() == ([1, "ü"], {"b": [None]}, {"max_attempts": 4})
    assert store.raw.hget(base_key(store, "t", job.id), "D") == b"9"
    assert store.raw.hget(base_key(store, "t", job.id), "p") == b"7"


def test_enqueue_slot_takes_the_arguments_of_enqueue_in_order() -> None:
    expected = ("id", "queue", "due", "priority", "unique", "expires", "fields*")

    assert ENQUEUE.args == expected, "enqueue_due.lua reads them by position: change it too"


@pytest.mark.contract
def test_pending_unique_task_is_not_enqueued_again(store: Store) -> None:
    now_ms = int(server_ms(store))
    schedule = at(now_ms - 20, now_ms - 10, misfire="all", task=note.using(unique=True))
    poller = poller_of(schedule)
    announced(poller, store, last_ms=now_ms - 1_000)

    next_round(poller)

    assert waiting(store) == [schedule.task_id(now_ms - 20)]
    assert (state(store)["last"], state(store)["id"]) == (str(now_ms - 10), schedule.task_id(now_ms - 20))


def test_jitter_delays_the_task(store: Store) -> None:
    due_ms = int(server_ms(store)) - 10
    schedule = at(due_ms, jitter_ms=HOUR)
    poller = poller_of(schedule)
    announced(poller, store, last_ms=due_ms - 1)

    next_round(poller)

    [(task_id, starts_ms)] = store.raw.zrange(queue_key(store, "scheduled"), 0, -1, withscores=True)
    assert task_id.decode() == schedule.task_id(due_ms)
    assert str(math.ceil(starts_ms)) == schedule.message(due_ms).due


def test_due_times_are_enqueued_once_with_many_pollers(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each poller dawdles between asking whether it is active and sending; another may have overtaken it then."""
    dawdling = random.Random(1)
    dawdle = {"before_fire": lambda: time.sleep(dawdling.uniform(0, 0.03))}
    monkeypatch.setattr(failpoints, "hook", lambda name: dawdle.get(name, lambda: None)())
    start_ms = int(server_ms(redis_server)) + 100
    times = [start_ms + 40 * number for number in range(20)]
    forgetful = note.using(result_ttl=0.001)  # no record is left to recognize a repeated task
    schedules = [at(*times, name=f"s{n}", task=forgetful, args=(n,), misfire="all", max_age_ms=HOUR) for n in range(3)]
    first = poller_of(*schedules)
    announced(first, redis_server, "s0", "s1", "s2", last_ms=start_ms - 1)
    first.close()
    stop = threading.Event()

    def run_poller() -> None:
        poller = poller_of(*schedules)
        while not stop.is_set():
            run_next_round_by(poller, time.monotonic() + 0.005)
            poller.step()
            poller.wait(0.005)
        poller.close()

    def end_leases() -> None:
        while not stop.wait(0.011):
            redis_server.raw.delete(base_key(redis_server, "poller"))

    threads = [threading.Thread(target=run_poller) for _ in range(4)] + [threading.Thread(target=end_leases)]
    with running_worker(threads=2):
        for thread in threads:
            thread.start()
        try:
            eventually(lambda: len(recorded) >= 60)
            time.sleep(0.05)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    assert sorted(recorded) == sorted([0, 1, 2] * 20)


def test_standby_poller_enqueues_nothing(store: Store) -> None:
    due_ms = int(server_ms(store)) - 10
    schedule = at(due_ms)
    poller = poller_of(schedule)
    announced(poller, store, last_ms=due_ms - 1)

    assert fire(schedule, due_ms, "other:1") == (-2, due_ms - 1)
    call = REGISTER_SCHEDULES(
        base=home().base, poller="other:1", keep_ms=0, version=0, rows=("other", 1, "daily", 0, "{}", 0)
    )
    assert connections.client().execute(call) == []

    assert waiting(store) == []
    assert store.raw.zrange(base_key(store, "schedules"), 0, -1) == [b"s"]


def test_server_clock_decides_what_is_due(store: Store) -> None:
    due_ms = int(server_ms(store)) + HOUR
    schedule = at(due_ms)
    poller = poller_of(schedule)
    next_round(poller)

    code, _ = fire(schedule, due_ms, poller.id)

    assert (code, waiting(store)) == (-1, [])


@pytest.mark.contract
def test_poller_with_a_fast_clock_asks_again(store: Store) -> None:
    due_ms = int(server_ms(store)) + HOUR
    poller = poller_of(at(due_ms))
    next_round(poller)

    scheduler_of(poller).run_due((due_ms + 5) * 1_000, 0)
    assert waiting(store) == []

    now_ms = int(server_ms(store))
    assert is_close(scheduler_of(poller).run_due(now_ms * 1_000, 0), due_ms - now_ms)


@pytest.mark.contract
def test_slot_is_not_enqueued_again_after_its_record_was_deleted(store: Store) -> None:
    due_ms = int(server_ms(store)) - 10
    schedule = at(due_ms)
    poller = poller_of(schedule)
    announced(poller, store, last_ms=due_ms - 1)
    next_round(poller)
    work_off()
    store.raw.delete(base_key(store, "t", schedule.task_id(due_ms)))

    assert fire(schedule, due_ms, poller.id) == (1, due_ms)
    assert fire(schedule, due_ms - 1, poller.id) == (0, due_ms)
    scheduler_of(poller).invalidate()
    next_round(poller)

    assert waiting(store) == []


@pytest.mark.parametrize("point", ["before_maintain", "after_maintain", "before_fire", "after_fire"])
def test_standby_poller_continues_after_a_crash(store: Store, at_fault: list[str], point: str) -> None:
    now_ms = int(server_ms(store))
    schedule = at(now_ms - 20, misfire="once")
    first, second = poller_of(schedule), poller_of(schedule)
    announced(first, store, last_ms=now_ms - 1_000)
    at_fault.append(point)

    with pytest.raises(SystemExit, match=point):
        next_round(first)
    next_round(second)
    assert not second.is_active, "the crashed poller is active until its lease expires"
    take_place_from(store, first)
    next_round(second)

    assert waiting(store) == [schedule.task_id(now_ms - 20)]


@pytest.mark.contract
def test_paused_poller_enqueues_nothing_after_it_was_replaced(store: Store, at_fault: list[str]) -> None:
    now_ms = int(server_ms(store))
    schedule = at(now_ms - 20, task=note.using(result_ttl=0.001))
    first, second = poller_of(schedule), poller_of(schedule)
    announced(first, store, last_ms=now_ms - 1_000)
    scheduler_of(first).run_due((now_ms - 500) * 1_000, 0)  # registers the schedule; its slot is not due
    take_place_from(store, first)
    next_round(second)
    work_off()

    scheduler_of(first).run_due(now_ms * 1_000, 0)
    assert fire(schedule, now_ms - 20, first.id) == (-2, now_ms - 20)

    assert recorded == ["s"]
    assert waiting(store) == []


def test_slot_is_enqueued_once_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    schedule = at(now_ms - 20, name="named", task=note.using(result_ttl=0.001))
    near, far = poller_of(schedule), poller_of(schedule, using="proxied")
    announced(near, redis_server, "named", last_ms=now_ms - 1_000)
    near.close()
    redis_server.raw.set(base_key(redis_server, "poller"), far.id, px=10_000)
    scheduler_of(far).run_due((now_ms - 500) * 1_000, 0)  # registers the schedule; its slot is not due
    proxy.drop_next_reply(after=b"named")

    scheduler_of(far).run_due(now_ms * 1_000, 0)

    assert proxy.dropped == 1
    assert len(waiting(redis_server)) == 1
    work_off()
    next_round(far)
    assert recorded == ["s"]


def test_slot_is_enqueued_after_a_server_outage(own_server: Store) -> None:
    now_ms = int(server_ms(own_server))
    schedule = at(now_ms - 20)
    poller = poller_of(schedule)
    announced(poller, own_server, last_ms=now_ms - 1_000)
    scheduler_of(poller).run_due((now_ms - 500) * 1_000, 0)  # registers the schedule; its slot is not due
    own_server.servers[0].stop()
    with pytest.raises(RedisError):
        scheduler_of(poller).run_due(now_ms * 1_000, 0)
    next_round(poller)
    assert not poller.is_active
    own_server.servers[0].start()

    def is_enqueued() -> bool:
        next_round(poller)
        return waiting(own_server) != []

    eventually(is_enqueued)
    assert waiting(own_server) == [schedule.task_id(now_ms - 20)]


@pytest.mark.parametrize(
    ("options", "ages_s"),
    [
        ({"misfire": "once"}, [10]),
        ({"misfire": "skip", "max_age_ms": 5_000}, []),
        ({"misfire": "skip", "max_age_ms": 15_000}, [10]),
        ({"misfire": "all"}, [50, 40, 30, 20, 10]),
        ({"misfire": "all", "max_age_ms": 35_000}, [30, 20, 10]),
    ],
    ids=str,
)
def test_misfire_policy_applies_after_a_time_without_pollers(
    redis_server: Store, caplog: pytest.LogCaptureFixture, options: dict[str, Any], ages_s: list[int]
) -> None:
    now_ms = int(server_ms(redis_server))
    times = [now_ms - age_s * 1_000 for age_s in (60, 50, 40, 30, 20, 10)]
    schedule = at(*times, now_ms + HOUR, **options)
    poller = poller_of(schedule)
    announced(poller, redis_server, last_ms=times[0])

    next_round(poller)
    next_round(poller)

    assert waiting(redis_server) == [schedule.task_id(now_ms - age_s * 1_000) for age_s in ages_s]
    assert is_close(scheduler_of(poller).run_due(now_ms * 1_000, 0), HOUR)
    assert ("Schedule s: enqueued 10 s late" in caplog.text) == bool(ages_s)


def test_new_schedule_starts_with_the_next_slot(store: Store) -> None:
    now_ms = int(server_ms(store))
    poller = poller_of(at(now_ms - 1_000, now_ms + HOUR, misfire="all"))

    next_round(poller)

    assert waiting(store) == []
    assert now_ms <= int(state(store)["last"]) <= server_ms(store)
    assert state(store)["next"] == str(now_ms + HOUR)
    assert state(store)["info"] == {"task": note.name, "queue": "default", "misfire": "all", "enabled": True}


def test_changed_schedule_enqueues_no_missed_due_times(store: Store) -> None:
    now_ms = int(server_ms(store))
    announced(poller := poller_of(at(now_ms + HOUR, text="old")), store, last_ms=now_ms - HOUR)
    take_place_from(store, poller)

    changed = poller_of(at(now_ms - 60_000, now_ms + HOUR, text="new"))
    next_round(changed)

    assert waiting(store) == []
    assert (state(store)["times"], int(state(store)["last"]) >= now_ms) == ("new", True)


def test_disabled_schedule_enqueues_nothing_and_has_no_missed_due_times(store: Store) -> None:
    now_ms = int(server_ms(store))
    off = poller_of(at(now_ms - 20, now_ms + HOUR, enabled=False))
    announced(off, store, last_ms=now_ms - 1_000)
    next_round(off)
    assert waiting(store) == []
    assert (state(store)["next"], state(store)["info"]["enabled"]) == ("0", False)
    take_place_from(store, off)

    on = poller_of(at(now_ms - 20, now_ms + HOUR))
    next_round(on)

    assert waiting(store) == []
    assert state(store)["next"] == str(now_ms + HOUR)


@pytest.mark.parametrize("misfire", ["once", "skip", "all"])
def test_schedule_that_is_switched_on_starts_with_the_next_slot(store: Store, misfire: Misfire) -> None:
    """The last registration of the disabled schedule was up to a minute ago, or longer after a time without pollers."""
    now_ms = int(server_ms(store))
    times = [now_ms - age_s * 1_000 for age_s in (3_000, 50, 40, 30, 20, 10)]
    off = poller_of(at(*times, now_ms + HOUR, enabled=False, misfire=misfire))
    announced(off, store, last_ms=now_ms - HOUR)
    take_place_from(store, off)

    on = poller_of(at(*times, now_ms + HOUR, misfire=misfire))
    next_round(on)

    assert waiting(store) == []
    assert int(state(store)["last"]) >= now_ms
    announced(on, store, last_ms=now_ms - 15_000)
    next_round(on)
    assert len(waiting(store)) == 1, "it catches up while it is switched on"


def test_removed_schedule_is_deleted_after_a_day(store: Store) -> None:
    now_ms = int(server_ms(store))
    announced(old := poller_of(at(now_ms + HOUR, name="gone"), at(now_ms + HOUR)), store, "gone", last_ms=now_ms - 1)
    take_place_from(store, old)
    index = base_key(store, "schedules")
    new = poller_of(at(now_ms + HOUR))
    next_round(new)
    assert store.raw.zrange(index, 0, -1) == [b"gone", b"s"], "kept for a day, for the old code"

    store.raw.zadd(index, {"gone": now_ms - KEEP_MS - 1, "s": now_ms - KEEP_MS - 1})
    scheduler_of(new).invalidate()
    next_round(new)

    assert store.raw.zrange(index, 0, -1) == [b"s"]
    assert store.raw.exists(state_key(store, "gone")) == 0
    assert store.raw.exists(state_key(store)) == 1, "registered schedules are kept"


def test_last_schedule_is_deleted_too(store: Store) -> None:
    now_ms = int(server_ms(store))
    next_round(old := poller_of(at(now_ms + HOUR)))
    store.raw.zadd(base_key(store, "schedules"), {"s": now_ms - KEEP_MS - 1})
    take_place_from(store, old)

    next_round(poller_of())

    assert store.raw.exists(base_key(store, "schedules")) == 0
    assert store.raw.exists(state_key(store)) == 0


def test_two_versions_of_the_code_enqueue_a_slot_once(store: Store) -> None:
    now_ms = int(server_ms(store))
    times = (now_ms - 30, now_ms - 20, now_ms - 10)
    both, added = at(*times, task=note.using(result_ttl=0.001)), at(*times, name="new", args=("new",))
    old, new = poller_of(both), poller_of(both, added)
    announced(old, store, last_ms=now_ms - 1_000)
    next_round(old)
    work_off()
    take_place_from(store, old)
    announced(new, store, "new", last_ms=now_ms - 1_000)
    next_round(new)
    take_place_from(store, new)
    next_round(old)

    work_off()
    assert recorded == ["s", "new"]
    assert store.raw.zcard(base_key(store, "schedules")) == 2


def test_poller_that_becomes_active_again_reads_the_last_due_times(store: Store) -> None:
    due_ms = int(server_ms(store)) + 100
    old, new = poller_of(at(due_ms, text="old")), poller_of(at(text="new"))
    next_round(old)
    take_place_from(store, old)
    next_round(new)
    next_round(old)
    assert (old.is_active, new.is_active) == (False, True)
    eventually(lambda: server_ms(store) > due_ms)
    take_place_from(store, new)

    next_round(old)

    assert waiting(store) == [], "the times changed twice: no missed slot is enqueued"


def test_schedules_restart_after_a_flush(redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    poller = poller_of(at(now_ms - 60_000, now_ms - 20, now_ms + HOUR))
    announced(poller, redis_server, last_ms=now_ms - 40)
    next_round(poller)
    assert len(waiting(redis_server)) == 1
    redis_server.delete_keys()

    next_round(poller)
    scheduler_of(poller).invalidate()
    next_round(poller)

    assert waiting(redis_server) == []
    assert state(redis_server)["next"] == str(now_ms + HOUR)


def test_failing_schedule_does_not_stop_the_others(
    redis_server: Store, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = int(server_ms(redis_server))
    taskqueue_settings(settings, QUEUES=["default"])
    lost = at(now_ms - 20, name="lost", task=add.using(queue_name="nowhere"), args=(1, 2))
    poller = poller_of(lost, at(now_ms - 20))
    announced(poller, redis_server, "lost", "s", last_ms=now_ms - 1_000)

    next_round(poller)

    assert len(waiting(redis_server)) == 1
    assert get_queue("default").info().ready == 1
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message == "Cannot enqueue schedule lost."
    assert "Queue 'nowhere' is not in" in caplog.text


def test_schedule_whose_middleware_exits_does_not_stop_the_others(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = int(server_ms(redis_server))
    poller = poller_of(at(now_ms - 20, name="exits", task=add, args=(1, 2)), at(now_ms - 20))
    announced(poller, redis_server, "exits", "s", last_ms=now_ms - 1_000)

    with pipeline.installed(ExitOfAdd()):
        next_round(poller)

    assert [get_result(task_id).name for task_id in waiting(redis_server)] == [note.name]
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message == "Cannot enqueue schedule exits."


def test_schedule_whose_task_redis_rejects_stops_neither_the_others_nor_the_recovery(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(firing, "CHUNK", 1)
    now_ms = int(server_ms(redis_server))
    redis_server.raw.set(queue_key(redis_server, "ready", "broken"), "a key of another type")
    broken = at(now_ms - 20, name="broken", task=add.using(queue_name="broken"), args=(1, 2))
    poller = poller_of(broken, at(now_ms - 20))
    announced(poller, redis_server, "broken", "s", last_ms=now_ms - 1_000)

    next_round(poller)

    assert poller.is_active
    assert len(waiting(redis_server)) == 1
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.message.startswith("Cannot enqueue schedule broken: Redis rejected it (WRONGTYPE")


@pytest.mark.parametrize("option", ["min-replicas-to-write", "maxmemory"])
def test_schedule_is_enqueued_as_soon_as_the_server_accepts_writes(
    own_server: Store, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    now_ms = int(server_ms(own_server))
    poller = poller_of(at(now_ms - 20))
    announced(poller, own_server, last_ms=now_ms - 1_000)

    def refuse_writes(point: str) -> None:
        if point == "before_fire":
            own_server.raw.config_set(option, 1)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hook", refuse_writes)
        next_round(poller)
    own_server.raw.config_set(option, 0)
    next_round(poller)

    assert len(waiting(own_server)) == 1


def test_poller_continues_after_an_error_in_a_round(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = int(server_ms(redis_server))
    poller = poller_of(at(now_ms - 20))
    announced(poller, redis_server, last_ms=now_ms - 1_000)

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "run_due", lambda *_: 1 // 0)
        next_round(poller)
        assert (poller.is_active, waiting(redis_server)) == (False, [])
    next_round(poller)

    assert (poller.is_active, len(waiting(redis_server))) == (True, 1)
    [record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.message == "A round of the poller failed; retrying."


def test_poller_that_fails_for_ever_logs_one_traceback_and_stores_a_report(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    poller = poller_of()

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "run_due", lambda *_: 1 // 0)
        for _ in range(20):
            next_round(poller)
        stored = run(home().client(), read_failure(home()))
    assert stored is not None
    assert (stored.poller, stored.count) == (poller.id, 1)
    assert stored.error.startswith("ZeroDivisionError: ")
    assert 0 < redis_server.raw.pttl(f"{home().base}:poller_failure") <= 60_000

    next_round(poller)

    records = [record for record in caplog.records if "round of the poller" in record.message]
    assert [record.levelname for record in records] == ["ERROR", "INFO"]
    assert records[1].message.startswith("A round of the poller works again: it has failed for ")
    assert records[1].message.endswith(" (20×).")
    assert run(home().client(), read_failure(home())) is None


def test_poller_that_works_leaves_the_report_of_another(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, other = poller_of(), poller_of()
    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "run_due", lambda *_: 1 // 0)
        next_round(ours)
        ours.close()
        redis_server.raw.delete(f"{home().base}:poller")
        next_round(other)

    next_round(ours)

    stored = run(home().client(), read_failure(home()))
    assert stored is not None
    assert stored.poller == other.id


def test_schedules_are_sent_in_chunks(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing, "CHUNK", 3)
    now_ms = int(server_ms(redis_server))
    names = [f"s{number}" for number in range(8)]
    poller = poller_of(*[at(now_ms - 20, name=name, args=(name,)) for name in names])
    announced(poller, redis_server, *names, last_ms=now_ms - 1_000)

    next_round(poller)
    work_off()

    assert recorded == names


def test_poller_replaced_before_registration_enqueues_nothing(store: Store) -> None:
    now_ms = int(server_ms(store))
    poller = poller_of(at(now_ms - 20))
    announced(poller, store, last_ms=now_ms - 1_000)
    take_place_from(store, poller)

    scheduler_of(poller).run_due(now_ms * 1_000, 0)

    assert waiting(store) == []


def test_schedule_without_further_due_times_does_not_wake_the_poller(store: Store) -> None:
    poller = poller_of(at(1_000))

    next_round(poller)

    assert seconds_to_next_round(poller) > 0.5
    assert state(store)["next"] == "0"
