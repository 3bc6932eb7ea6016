"""Schedules with one time, a start, an end, a count, or options of their own; and thousands of them."""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import (
    InvalidTask,
    ScheduleInfo,
    Schedules,
    cron,
    every,
    failpoints,
    get_result,
    schedules,
)
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import definitions
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.schedules.scheduler import KEEP_MS
from django_redis_components.taskqueue.schedules.status import read_part
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.scripts import CHANGE_SCHEDULE
from tests.support import Proxy, Store, eventually, run_async
from tests.taskqueue.schedulers import (
    HOUR,
    announced,
    at,
    next_round,
    poller_of,
    run_next_round_by,
    scheduler_of,
    state_key,
    take_place_from,
    waiting,
)
from tests.taskqueue.support import base_key, server_ms, taskqueue_settings, work_off
from tests.taskqueue.tasks import add, note, recorded


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


def named(name: str) -> ScheduleInfo:
    [found] = [each for each in schedules() if each.name == name]
    return found


def moment(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def rewind(store: Store, name: str, *, by_ms: int) -> None:
    """Have a stored schedule begin earlier, as if it had been added then."""
    last_ms = int(store.raw.hget(state_key(store, name), "last"))
    store.raw.hset(state_key(store, name), "last", last_ms - by_ms)


# --- One time ---


def add_soon(store: Store, margin_ms: int) -> float:
    """Add a schedule of one time before that time, on a machine of any speed; return the time in milliseconds."""
    while True:
        at_ms = server_ms(store) + margin_ms
        with suppress(InvalidTask):  # the time is over
            Schedules().add("once", note, at=moment(at_ms), args=["x"])
            if server_ms(store) < at_ms:
                return at_ms
        margin_ms *= 2


@pytest.mark.contract
def test_one_time_is_sent_once(store: Store) -> None:
    at_ms = add_soon(store, 400)
    poller = Poller(home(), connections.client())
    next_round(poller)
    before = named("once").state, waiting(store)
    assert before == ("on", []) or server_ms(store) >= at_ms

    eventually(lambda: (next_round(poller), waiting(store))[1] != [])
    for _ in range(3):
        scheduler_of(poller).invalidate()
        next_round(poller)

    [task_id] = waiting(store)
    assert get_result(task_id).args == ["x"]
    found = named("once")
    assert (found.state, found.next_at, found.last_task_id) == ("finished", None, task_id)


@pytest.mark.contract
def test_one_time_that_passes_before_a_poller_has_read_it_is_sent(store: Store) -> None:
    """It counts from when it was added."""
    at_ms = add_soon(store, 30)
    eventually(lambda: server_ms(store) > at_ms)

    poller = Poller(home(), connections.client())
    next_round(poller)
    next_round(poller)

    assert len(waiting(store)) == 1


def test_added_again_it_is_not_sent_again(redis_server: Store) -> None:
    at_ms = add_soon(redis_server, 300)
    poller = Poller(home(), connections.client())
    eventually(lambda: (next_round(poller), waiting(redis_server))[1] != [])
    with pytest.raises(InvalidTask, match=r"Schedule 'once': at 2\S+: nothing is due from now on\."):
        Schedules().add("once", note, at=moment(at_ms), args=["x"])
    work_off()

    Schedules().add("once", note, at=moment(server_ms(redis_server) + HOUR), args=["y"])
    next_round(poller)

    assert waiting(redis_server) == []
    assert named("once").state == "on"


def test_one_time_that_could_not_be_prepared_is_late_and_sent_when_it_can(redis_server: Store) -> None:
    schedule = definitions.parse("s", one_time(server_ms(redis_server) - 60_000, task=add.name))
    poller = poller_of(schedule)
    announced(poller, redis_server, last_ms=int(server_ms(redis_server)) - HOUR)
    redis_server.raw.hset(state_key(redis_server), "next", 0)

    assert named("s").state == "late"
    next_round(poller)
    assert (len(waiting(redis_server)), named("s").state) == (1, "finished")


def one_time(at_ms: float, *, task: str, **fields: Any) -> str:
    common = {"kwargs": {"a": 1, "b": 2}, "args": [], "misfire": "once", "max_age": None, "jitter": 0}
    return json.dumps({"task": task, "at": moment(at_ms).isoformat(), **common, **fields})


# --- Start and end ---


def test_start_and_end_limit_the_due_times(redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    times = [now_ms - age_s * 1_000 for age_s in (50, 40, 30, 20, 10)]
    schedule = at(*times, now_ms + HOUR, misfire="all", start_ms=times[1], end_ms=times[3])
    poller = poller_of(schedule)
    announced(poller, redis_server, last_ms=times[0] - 1)

    next_round(poller)
    next_round(poller)

    assert waiting(redis_server) == [schedule.task_id(due_ms) for due_ms in times[1:4]], "both are included"
    found = named("s")
    assert (found.state, found.start, found.end) == ("finished", moment(times[1]), moment(times[3]))


def test_last_time_is_sent_late_once_after_the_end(redis_server: Store) -> None:
    """No poller ran at the end."""
    now_ms = int(server_ms(redis_server))
    schedule = at(now_ms - 30_000, now_ms - 20_000, now_ms - 10, end_ms=now_ms - 15_000)
    poller = poller_of(schedule)
    announced(poller, redis_server, last_ms=now_ms - HOUR)

    next_round(poller)
    take_place_from(redis_server, poller)
    other = poller_of(schedule)
    next_round(other)
    next_round(other)

    assert waiting(redis_server) == [schedule.task_id(now_ms - 20_000)]


def test_cron_and_interval_begin_at_the_start(redis_server: Store) -> None:
    start = datetime(2040, 3, 1, 12, 30, tzinfo=UTC)
    Schedules().add("interval", note, every=3_600, start=start, end=start + timedelta(days=1), args=["x"])
    cron("0 3 * * *", tz="UTC", name="nightly", start=start, args=["x"])(note)

    poller = poller_of(*declared.registered())
    next_round(poller)

    assert named("interval").next_at == datetime(2040, 3, 1, 13, tzinfo=UTC)
    assert named("nightly").next_at == datetime(2040, 3, 2, 3, tzinfo=UTC)


# --- Count ---


@pytest.mark.contract
def test_count_limits_the_tasks(store: Store) -> None:
    now_ms = int(server_ms(store))
    times = [now_ms - age_s * 1_000 for age_s in (50, 40, 30, 20, 10)]
    schedule = at(*times, now_ms + HOUR, misfire="all", count=3)
    poller = poller_of(schedule)
    announced(poller, store, last_ms=times[0] - 1)

    next_round(poller)
    scheduler_of(poller).invalidate()
    next_round(poller)

    assert waiting(store) == [schedule.task_id(due_ms) for due_ms in times[:3]]
    found = named("s")
    assert (found.state, found.next_at, found.count, found.sent) == ("finished", None, 3, 3)


def test_time_that_enqueued_nothing_does_not_count(redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    schedule = at(now_ms - 20, now_ms - 10, misfire="all", count=2, task=note.using(unique=True))
    poller = poller_of(schedule)
    announced(poller, redis_server, last_ms=now_ms - 1_000)

    next_round(poller)

    assert (named("s").sent, len(waiting(redis_server))) == (1, 1)


def test_count_is_exact_with_many_pollers(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pollers overtake each other between their round and sending, and no record is left to recognize a task."""
    dawdling = random.Random(2)
    dawdle = {"before_fire": lambda: time.sleep(dawdling.uniform(0, 0.03))}
    monkeypatch.setattr(failpoints, "hook", lambda name: dawdle.get(name, lambda: None)())
    start_ms = int(server_ms(redis_server)) + 100
    times = [start_ms + 30 * number for number in range(20)]
    schedule = at(*times, task=note.using(result_ttl=0.001), misfire="all", count=7)
    first = poller_of(schedule)
    announced(first, redis_server, last_ms=start_ms - 1)
    first.close()
    stop = threading.Event()

    def run_poller() -> None:
        poller = poller_of(schedule)
        while not stop.is_set():
            run_next_round_by(poller, time.monotonic() + 0.005)
            poller.step()
            poller.wait(0.005)
        poller.close()

    def end_leases() -> None:
        while not stop.wait(0.011):
            redis_server.raw.delete(base_key(redis_server, "poller"))

    threads = [threading.Thread(target=run_poller) for _ in range(3)] + [threading.Thread(target=end_leases)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: server_ms(redis_server) > times[-1] + 100 and len(waiting(redis_server)) >= 7)
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert len(waiting(redis_server)) == 7
    assert named("s").sent == 7


def test_last_task_is_sent_once_after_a_lost_reply(proxy: Proxy, redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    schedule = at(now_ms - 20, now_ms - 10, name="named", task=note.using(result_ttl=0.001), misfire="all", count=1)
    near, far = poller_of(schedule), poller_of(schedule, using="proxied")
    announced(near, redis_server, "named", last_ms=now_ms - 1_000)
    near.close()
    redis_server.raw.set(base_key(redis_server, "poller"), far.id, px=10_000)
    scheduler_of(far).run_due((now_ms - 500) * 1_000, 0)  # registers the schedule; its times have not come
    proxy.drop_next_reply(after=b"named")

    scheduler_of(far).run_due(now_ms * 1_000, 0)

    assert proxy.dropped == 1
    assert waiting(redis_server) == [schedule.task_id(now_ms - 20)]
    work_off()
    next_round(far)
    assert recorded == ["s"]
    assert named("named").sent == 1


@pytest.mark.parametrize("point", ["before_fire", "after_fire"])
def test_last_task_is_sent_once_by_a_killed_poller_and_the_next(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    deadly: list[str] = []

    def die(name: str) -> None:
        if name in deadly:
            deadly.remove(name)
            raise SystemExit(name)

    monkeypatch.setattr(failpoints, "hook", die)
    now_ms = int(server_ms(redis_server))
    schedule = at(now_ms - 20, now_ms - 10, misfire="all", count=1)
    first, second = poller_of(schedule), poller_of(schedule)
    announced(first, redis_server, last_ms=now_ms - 1_000)
    deadly.append(point)
    with pytest.raises(SystemExit):
        next_round(first)

    take_place_from(redis_server, first)
    next_round(second)

    assert waiting(redis_server) == [schedule.task_id(now_ms - 20)]


def test_count_continues_when_the_schedule_is_edited_and_restarts_when_it_is_removed(redis_server: Store) -> None:
    poller = Poller(home(), connections.client())
    Schedules().add("s", note, every=60, args=["x"], count=2)
    for verb, sent in (("add", 1), ("add", 2), ("remove", 0)):
        next_round(poller)
        rewind(redis_server, "s", by_ms=120_000)
        scheduler_of(poller).invalidate()
        next_round(poller)
        if verb == "remove":
            assert named("s").sent == 2, "nothing was sent"
            assert Schedules().remove("s")
        Schedules().add("s", note, every=60, args=["y"], count=2)
        assert named("s").sent == sent


@pytest.mark.parametrize("limit", ["count", "end_ms"])
def test_finished_schedule_that_is_extended_continues_from_now(limit: str, store: Store) -> None:
    now_ms = int(server_ms(store))
    limits = {"count": (1, 9), "end_ms": (now_ms - 40_000, None)}[limit]
    times = [now_ms - age_s * 1_000 for age_s in (50, 30, 20, 10)]
    first, extended = (at(*times, now_ms + HOUR, misfire="all", **{limit: value}) for value in limits)
    poller = poller_of(first)
    announced(poller, store, last_ms=times[0] - 1)
    next_round(poller)
    assert named("s").state == "finished"

    take_place_from(store, poller)
    other = poller_of(extended)
    next_round(other)

    assert waiting(store) == [first.task_id(times[0])], "those that passed meanwhile are not made up for"
    assert named("s").state == "on"


def test_count_of_an_added_schedule_outlives_a_day_without_a_poller_that_knows_it(redis_server: Store) -> None:
    Schedules().add("s", note, every=60, args=["x"], count=2)
    poller = Poller(home(), connections.client())
    next_round(poller)
    rewind(redis_server, "s", by_ms=120_000)
    scheduler_of(poller).invalidate()
    next_round(poller)
    assert len(waiting(redis_server)) == 1
    definition = redis_server.raw.hget(base_key(redis_server, "added_schedules"), "s")
    redis_server.raw.hset(base_key(redis_server, "added_schedules"), "s", definition.replace(b"note", b"gone"))
    redis_server.raw.zincrby(base_key(redis_server, "schedules"), -2 * KEEP_MS, "s")

    other = Poller(home(), connections.client())
    take_place_from(redis_server, poller)
    next_round(other)

    assert (named("s").state, named("s").sent) == ("new", 1)
    assert redis_server.raw.exists(state_key(redis_server, "s"))


def test_count_of_the_code_outlives_a_day_without_pollers(redis_server: Store) -> None:
    """With more schedules than one call registers: the first call must not delete those of the next."""
    counted = at(int(server_ms(redis_server)) - 20, name="z", count=1)
    others = [at(int(server_ms(redis_server)) + HOUR, name=f"a{number:03}") for number in range(120)]
    poller = poller_of(*others, counted)
    announced(poller, redis_server, "z", last_ms=int(server_ms(redis_server)) - HOUR)
    next_round(poller)
    index = base_key(redis_server, "schedules")
    assert (len(waiting(redis_server)), redis_server.raw.zcard(index)) == (1, 121)
    redis_server.raw.zadd(index, dict.fromkeys(redis_server.raw.zrange(index, 0, -1), 1))

    scheduler_of(poller).invalidate()
    next_round(poller)

    assert (named("z").sent, redis_server.raw.zcard(index)) == (1, 121)


def test_count_of_a_schedule_that_left_the_code_is_deleted_with_it(redis_server: Store) -> None:
    poller = poller_of(at(int(server_ms(redis_server)) - 20, count=5))
    announced(poller, redis_server, last_ms=int(server_ms(redis_server)) - HOUR)
    next_round(poller)
    assert named("s").sent == 1
    redis_server.raw.zadd(base_key(redis_server, "schedules"), {"s": 1})
    take_place_from(redis_server, poller)

    next_round(poller_of())

    assert schedules() == []
    assert not redis_server.raw.exists(base_key(redis_server, "schedule_counts"))


# --- Removal of finished ones ---


def test_finished_schedule_is_removed_after_a_day(redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    for name, age_ms in (("old", KEEP_MS + 60_000), ("recent", KEEP_MS - 60_000)):
        Schedules().add(name, note, every=60, args=["x"])
        definition = one_time(now_ms - age_ms, task=add.name)
        redis_server.raw.hset(base_key(redis_server, "added_schedules"), name, definition)
        text = definitions.parse(name, definition).recurrence.text
        redis_server.raw.hset(
            state_key(redis_server, name), mapping={"last": now_ms - age_ms, "times": text, "enabled": 1}
        )

    poller = Poller(home(), connections.client())
    next_round(poller)
    next_round(poller)

    assert [(each.name, each.state) for each in schedules()] == [("recent", "finished")]
    assert waiting(redis_server) == []


def test_schedule_that_was_changed_meanwhile_is_not_removed(redis_server: Store) -> None:
    Schedules().add("s", note, every=60, args=["x"])

    [code] = connections.client().execute(
        CHANGE_SCHEDULE(base=home().base, verb="discard", name="s", value="{}", times="", op=new_op())
    )

    assert (code, named("s").state) == (0, "new")


# --- Options ---


@pytest.mark.contract
def test_task_has_the_options_of_the_schedule(store: Store) -> None:
    options = {"queue_name": "urgent", "priority": 7, "expires": timedelta(seconds=50), "max_attempts": 4}
    Schedules().add("s", note, every=60, args=["x"], options={**options, "timeout": (5, None), "unique": "started"})
    poller = Poller(home(), connections.client())
    next_round(poller)
    rewind(store, "s", by_ms=120_000)
    scheduler_of(poller).invalidate()

    next_round(poller)

    assert (named("s").queue_name, named("s").options["expires"]) == ("urgent", 50.0)
    [job] = work_off("urgent")
    assert job.message()[2] == {"max_attempts": 4, "timeout": [5, None]}
    assert store.raw.hget(base_key(store, "t", job.id), "p") == b"7"
    assert note.get_result(job.id).enqueued_at is not None
    assert store.raw.hexists(base_key(store, "t", job.id), "X")
    assert Schedules().run_now("s").queue_name == "urgent"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"options": {"prioritty": 1}},
            "options: 'prioritty' is not accepted. Did you mean 'priority'? Accepted: queue_",
        ),
        (
            {"options": {"run_after": 5}},
            "options: 'run_after' is not accepted. Accepted: queue_name, priority, expires,",
        ),
        ({"options": []}, "options=[]: expected a dict of options of the task."),
        ({"options": {"priority": 500}}, "priority=500: expected an integer from -100 to 100."),
        ({"options": {"queue_name": "a{b}"}}, "braces are not accepted"),
        ({"options": {"expires": datetime(2040, 1, 1, tzinfo=UTC)}}, "expires: expected seconds or a timedelta, which"),
        ({"options": {"backoff": {1, 2}}}, "options"),
        ({"start": "tomorrow"}, "start='tomorrow': expected a datetime."),
        ({"end": 5}, "end=5: expected a datetime."),
        ({"start": datetime(2040, 1, 1)}, "expected an aware datetime, since USE_TZ is on."),  # noqa: DTZ001
        ({"end": datetime(2001, 1, 1, tzinfo=UTC)}, "end=2001-01-01T00:00:00.000+00:00: nothing is due from now on."),
        (
            {"start": datetime(2041, 1, 1, tzinfo=UTC), "end": datetime(2040, 1, 1, tzinfo=UTC)},
            "expected a time after start=",
        ),
        ({"count": 0}, "count=0: expected an integer from 1 to 1000000000."),
        ({"count": True}, "count=True: expected an integer"),
        (
            {"every": None, "at": datetime(2040, 1, 1, tzinfo=UTC), "count": 2},
            "count: a schedule with one time has none.",
        ),
        ({"every": None, "at": datetime(2040, 1, 1, tzinfo=UTC), "tz": "UTC"}, "tz: the datetime has one."),
        ({"every": None, "at": 60}, "at=60: expected a datetime."),
        ({"at": datetime(2040, 1, 1, tzinfo=UTC)}, "expected one of every, cron and at."),
    ],
)
def test_invalid_limit_or_option_is_refused(options: dict[str, Any], text: str, redis_server: Store) -> None:
    given = {name: value for name, value in {"every": 60, **options}.items() if value is not None}

    with pytest.raises(InvalidTask, match="Schedule 'report': ") as raised:
        Schedules().add("report", note, args=["x"], **given)

    assert text in str(raised.value)
    assert schedules() == []


def test_queue_must_be_declared(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    with pytest.raises(InvalidTask, match="Did you mean 'mail'"):
        Schedules().add("report", note, every=60, args=["x"], options={"queue_name": "mial"})


def test_decorators_refuse_wrong_limits(redis_server: Store) -> None:
    with pytest.raises(
        InvalidTask, match=r"@every\(60\) on tests\.taskqueue\.tasks\.note: count=-1: expected an integer"
    ):
        every(60, count=-1)(note)


# --- A mixed fleet ---


@pytest.mark.parametrize("field", ["options", "start", "end", "count"])
def test_field_is_stored_only_if_it_is_set(field: str) -> None:
    """Pollers that do not know a field do not send a schedule that has it, so one without must not."""
    schedule = definitions.create_added(note, declared.FixedInterval(60_000), {"args": ["x"], "name": "s"}, {})

    assert field not in json.loads(definitions.encode(schedule))


@pytest.mark.parametrize("name", ["future", "after"])
def test_schedule_with_an_unknown_field_is_not_sent(
    name: str, redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    definition = one_time(server_ms(redis_server) + HOUR, task=add.name, **{name: 1})
    redis_server.raw.hset(base_key(redis_server, "added_schedules"), "s", definition)

    with caplog.at_level(logging.WARNING):
        next_round(Poller(home(), connections.client()))

    assert f"The added schedule s is not sent: unknown field {name!r}." in caplog.text
    assert named("s").state == "new"


def test_stored_schedule_with_a_step_that_an_earlier_release_accepted_is_sent(redis_server: Store) -> None:
    stored = json.dumps({"task": note.name, "cron": "*/100 * * * *", "args": ["x"]})
    redis_server.raw.hset(base_key(redis_server, "added_schedules"), "s", stored)

    next_round(Poller(home(), connections.client()))

    assert named("s").state == "on"


# --- Many ---


def fill(store: Store, count: int) -> None:
    """Store this number of added schedules at once."""
    one = definitions.create_added(note, declared.FixedInterval(3_600_000), {"args": ["x"], "name": "s"}, {})
    text = definitions.encode(one)
    store.raw.hset(base_key(store, "added_schedules"), mapping={f"s{number:05}": text for number in range(count)})


def test_there_may_be_10_000_schedules(redis_server: Store) -> None:
    fill(redis_server, 9_999)
    Schedules().add("last", note, every=3_600, args=["x"])

    with pytest.raises(InvalidTask, match=r"Schedule 'one more' was not added: 10,000 are\."):
        Schedules().add("one more", note, every=3_600, args=["x"])
    next_round(poller := Poller(home(), connections.client()))

    assert poller.is_active
    found = schedules()
    assert (len(found), {each.state for each in found}) == (10_000, {"on"})
    assert [each.name for each in found] == ["last", *(f"s{number:05}" for number in range(9_999))]


def test_schedules_are_read_in_parts_and_by_a_part_of_their_name(redis_server: Store) -> None:
    fill(redis_server, 30)
    Schedules().add("Report", note, every=60, args=["x"])
    next_round(Poller(home(), connections.client()))
    Schedules().add("later report", note, every=60, args=["x"])

    def read(**given: Any) -> tuple[list[str], int, bool]:
        found = home().run(read_part(home(), **given))
        return [each.name for each in found.schedules], found.total, found.has_more

    assert read(part="rEPort", limit=1) == (["Report"], 2, True)
    assert read(part="report", after="Report", limit=1) == (["later report"], 2, False)
    assert read(after="s00027", limit=9) == (["s00028", "s00029"], 32, False)
    assert read(part="%d") == ([], 0, False)


def test_async_add_takes_the_same(redis_server: Store) -> None:
    async def change() -> None:
        start = datetime(2040, 1, 1, tzinfo=UTC)
        await Schedules().aadd("s", note, every=60, args=[1], start=start, count=3, options={"priority": 5})

    run_async(change)

    found = named("s")
    assert (found.count, found.start, found.options) == (3, datetime(2040, 1, 1, tzinfo=UTC), {"priority": 5})
