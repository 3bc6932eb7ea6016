"""The status of schedules: `schedules()` and `manage.py redis schedules`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from django_redis_components.taskqueue import ScheduleInfo, Schedules, aschedules, cron, every, get_queue, schedules
from django_redis_components.taskqueue.schedules import schedule as declared
from tests.management.support import command_data, refusal, run_command
from tests.support import Store, run_async
from tests.taskqueue.schedulers import announced, at, next_round, poller_of, state_key, take_place_from
from tests.taskqueue.support import base_key, server_ms
from tests.taskqueue.tasks import add, note

#: An hour in milliseconds.
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


def moment(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


def the_only() -> ScheduleInfo:
    [found] = schedules()
    return found


def test_status_after_a_task_was_enqueued(store: Store) -> None:
    now_ms = int(server_ms(store))
    made = at(now_ms - 20, now_ms + HOUR, misfire="skip", max_age_ms=HOUR, task=note.using(queue_name="mail"))
    poller = poller_of(made)
    announced(poller, store, last_ms=now_ms - 1_000)
    next_round(poller)

    found = the_only()

    assert (found.name, found.task, found.queue_name, found.times) == ("s", note.name, "mail", "at chosen moments")
    assert (found.misfire, found.is_enabled, found.state) == ("skip", True, "on")
    assert (found.last_at, found.next_at) == (moment(now_ms - 20), moment(now_ms + HOUR))
    assert found.last_task_id == made.task_id(now_ms - 20)
    assert found.last_sent_at is not None
    assert found.registered_at is not None
    assert timedelta(0) <= found.last_sent_at - moment(now_ms) < timedelta(minutes=1)
    assert run_async(aschedules) == [found]


def test_status_before_any_task_was_enqueued(store: Store) -> None:
    now_ms = int(server_ms(store))
    next_round(poller_of(at(now_ms + HOUR)))

    found = the_only()

    assert (found.last_at, found.last_sent_at, found.last_task_id) == (None, None, None)
    assert found.next_at == moment(now_ms + HOUR)


def test_schedule_unknown_to_pollers_is_listed_from_the_code(redis_server: Store) -> None:
    cron("0 3 * * *", name="nightly", args=(1, 2), enabled=False)(add)
    every(60, args=(1,), name=f"{note.name} every 60 s")(note)
    next_round(poller_of(*declared.registered()[:1]))

    known, unknown = schedules()

    assert (known.name, known.state, known.is_enabled, known.next_at) == ("nightly", "off", False, None)
    assert (unknown.name, unknown.label) == (f"{note.name} every 60 s", note.name)
    assert (unknown.registered_at, unknown.state, unknown.last_task_id) == (None, "new", None)
    assert unknown.next_at is not None
    assert unknown.next_at.second == 0


def test_command_lists_schedules(redis_server: Store) -> None:
    now_ms = int(server_ms(redis_server))
    every(3_600, args=(1,))(note)
    sent = at(now_ms - 20, now_ms + HOUR + 30_000, name=f"{note.name} at chosen moments")
    mine = [
        at(now_ms - 60_000, name="late"),
        at(now_ms + HOUR, name="off", enabled=False),
        at(now_ms + HOUR, name="gone"),
        sent,
    ]
    poller = poller_of(*mine)
    announced(poller, redis_server, sent.name, last_ms=now_ms - 1_000)
    next_round(poller)
    redis_server.raw.hset(state_key(redis_server, "late"), "next", now_ms - 60_000)
    redis_server.raw.zadd(base_key(redis_server, "schedules"), {"gone": now_ms - 10 * 60_000})

    header, *rows = run_command("redis", "schedules", "list").splitlines()

    assert header.split("  ")[0] == "NAME"
    assert header.split() == ["NAME", "SCHEDULE", "QUEUE", "NEXT", "RUN", "LAST", "ENQUEUED", "LAST", "TASK", "NOTE"]
    by_label = {
        name: [row for row in rows if row.startswith(f"{name} ")] for name in (note.name, "late", "off", "gone")
    }
    assert ["not registered by a poller yet" in row for row in by_label[note.name]] == [False, True]
    assert "  in 1 h 0 min  2" in by_label[note.name][0]
    assert sent.task_id(now_ms - 20) in by_label[note.name][0]
    assert "  now  " in by_label["late"][0]
    assert by_label["late"][0].endswith("  overdue: no poller enqueues it")
    assert by_label["off"][0].endswith("  off")
    assert by_label["gone"][0].endswith("  not declared in the active poller's code")
    redis_server.raw.delete(base_key(redis_server, "poller"))
    states = {each["name"]: each["state"] for each in command_data("redis", "schedules", "list")["schedules"]}
    assert (states["late"], states["off"], states[sent.name]) == ("late", "off", "on")
    assert states["gone"] == "on", "without a poller the state is not updated"
    names = [each["name"] for each in command_data("redis", "schedules", "list")["schedules"]]
    assert names == sorted(["late", "off", "gone", sent.name, declared.registered()[0].name])


def test_command_lists_paused_and_counted_schedules(redis_server: Store) -> None:
    Schedules().add("paused", note, every=3_600, args=[1])
    Schedules().pause("paused")
    poller = poller_of(at(int(server_ms(redis_server)) - 20, name="counted", count=1))
    announced(poller, redis_server, "counted", last_ms=int(server_ms(redis_server)) - HOUR)
    next_round(poller)

    _, counted, paused = run_command("redis", "schedules", "list").rstrip().splitlines()

    assert counted.endswith("  finished, sent 1 of 1")
    assert paused.endswith("  paused")


def test_command_reports_that_there_are_no_schedules(redis_server: Store) -> None:
    assert run_command("redis", "schedules", "list").splitlines() == [
        "No schedules yet. Add `@every(60)` or `@cron(…)` above a task."
    ]
    assert command_data("redis", "schedules", "list")["schedules"] == []


def test_command_runs_a_schedule_now(redis_server: Store) -> None:
    every(3_600, args=(1,))(note.using(queue_name="mail"))
    [schedule] = declared.registered()

    sent = command_data("redis", "schedules", "run", schedule.name)

    [waiting] = get_queue("mail").tasks("ready")
    assert (waiting.id, waiting.args, sent["queue"]) == (sent["id"], [1], "mail")
    near = refusal("redis", "schedules", "run", f"{schedule.name}x", code=2)
    assert near == (
        f"There is no schedule '{schedule.name}x': no poller has registered it, and it was not added."
        f" Did you mean {schedule.name!r}?"
    )


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 5_000, json.dumps({"task": 3, "enabled": 0})])
def test_corrupt_schedule_data_is_skipped(redis_server: Store, text: str) -> None:
    poller = poller_of(at(int(server_ms(redis_server)) + HOUR))
    next_round(poller)
    redis_server.raw.hset(state_key(redis_server), "info", text)
    take_place_from(redis_server, poller)

    found = the_only()

    assert found.name == "s"
    assert found.task in ("", "3")


def test_command_pauses_resumes_and_removes_a_schedule(redis_server: Store) -> None:
    Schedules().add("hourly report", note, every=3_600, args=[1])

    texts = [
        run_command("redis", "schedules", *words).strip()
        for words in (
            ("pause", "hourly report"), ("pause", "hourly report"), ("resume", "hourly report"),
            ("resume", "hourly report"), ("run", "hourly report"), ("remove", "hourly report", "--yes"),
        )
    ]  # fmt: skip

    assert texts[:4] == [
        "Paused: hourly report.",
        "It was paused already: hourly report.",
        "Resumed: hourly report.",
        "Not paused: hourly report.",
    ]
    assert texts[4].startswith("Enqueued task ")
    assert texts[5] == "Removed: hourly report."
    assert (
        "There is no schedule 'hourly report': no poller has registered it, and it was not added. There are: none."
        in refusal("redis", "schedules", "pause", "hourly report", code=2)
    )


def test_command_that_removes_a_schedule_of_the_code_fails_and_names_the_ways(redis_server: Store) -> None:
    every(3_600, args=(1,))(note)
    [schedule] = declared.registered()

    error = refusal("redis", "schedules", "remove", schedule.name, "--yes")

    assert error == (
        f"Not removed: '{schedule.name}' was not added at run time, or was removed before. A schedule of the code ends "
        "with its decorator; `redis schedules pause` stops it until it is resumed."
    )
    assert [each.name for each in schedules()] == [schedule.name]
