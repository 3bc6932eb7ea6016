"""`@every` and `@cron`: accepted options, errors, and the registered schedules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.taskqueue import InvalidTask, cron, every, registry, task
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.schedules.recurrence import FixedInterval
from django_redis_components.taskqueue.schedules.schedule import MAX_CATCH_UP, Schedule, ScheduleOptions
from tests.taskqueue.tasks import add, echo, note

#: Minutes in milliseconds.
MIN = 60_000


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    schedules, tasks = dict(declared.schedules), dict(registry.tasks)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(schedules)
    registry.tasks.clear()
    registry.tasks.update(tasks)


def the_only() -> Schedule:
    [found] = declared.registered()
    return found


def report(day: str = "today") -> None: ...


def test_schedule_decorator_returns_the_task() -> None:
    made = task(report)

    assert every(300)(made) is made
    schedule = the_only()
    assert (schedule.task, schedule.recurrence, schedule.args, schedule.kwargs) == (
        made,
        FixedInterval(300_000),
        (),
        {},
    )
    assert (schedule.misfire, schedule.max_age_ms, schedule.jitter_ms, schedule.enabled) == ("once", None, 0, True)
    assert schedule.name == f"{made.name} every 300 s"


def test_task_may_have_several_schedules() -> None:
    cron("0 3 * * *", tz="UTC")(every(60, args=(1,))(every(timedelta(minutes=1), kwargs={"b": 2, "a": 1})(echo)))
    cron("0 3 * * *")(echo)

    names = [schedule.name for schedule in declared.registered()]
    assert len(names) == 4
    assert names[:2] == [f"{echo.name} cron 0 3 * * * (Europe/Berlin)", f"{echo.name} cron 0 3 * * * (UTC)"]
    assert {name.rpartition(" #")[0] for name in names[2:]} == {f"{echo.name} every 60 s"}


def test_identical_schedules_are_registered_once() -> None:
    every(60, kwargs={"a": 1, "b": 2})(echo)
    every(60, kwargs={"b": 2, "a": 1}, misfire="skip")(echo)

    assert the_only().misfire == "skip"


def test_schedule_uses_the_connection_of_its_task() -> None:
    far = dataclasses.replace(note, connection="far")
    every(60, name="mine", args=(1,))(note)
    every(90, name="mine", args=(1,))(far)

    assert [schedule.task for schedule in declared.registered("default")] == [note]
    assert [schedule.task for schedule in declared.registered("far")] == [far]


def test_schedule_below_the_task_decorator_raises_with_the_right_order() -> None:
    with pytest.raises(InvalidTask) as raised:
        task(every(60)(report))

    assert str(raised.value) == (
        f"@every(60) on {report!r}: expected a task. Write @every(60) above @task, not below it."
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"misfire": "never"}, "misfire='never': expected one of 'once', 'skip', 'all'."),
        ({"enabled": "yes"}, "enabled='yes': expected True or False."),
        ({"args": "ab"}, "args='ab': expected a list of arguments."),
        ({"kwargs": [1]}, "kwargs=[1]: expected a dict."),
        ({"jitter": -1}, "jitter=-1: expected a number of seconds of at least 0, or a timedelta."),
        ({"max_age": 0}, "max_age=0: expected a number of seconds above 0, or a timedelta."),
        (
            {"args": [datetime(2026, 1, 1, tzinfo=UTC)]},
            (
                "args[0] is a datetime.datetime: expected JSON (str, int, float, bool, None, and lists and dicts of"
                " these). Send an id or a string instead."
            ),
        ),
        ({"kwargs": {"a": float("nan")}}, "kwargs['a'] is nan: JSON has no NaN and no infinities."),
        ({"name": "a{b}"}, "name 'a{b}': braces are not accepted; they mark the Cluster slot in keys."),
        (
            {"at": 3, "missfire": "all"},
            f"unknown option at, missfire. Accepted: {', '.join(ScheduleOptions.__annotations__)}.",
        ),
    ],
)
def test_invalid_option_raises_with_its_value(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        cron("@daily", **options)(note)

    assert str(raised.value) == f"@cron('@daily') on {note.name}: {text}"
    assert declared.registered() == []


def test_task_with_its_own_eta_raises() -> None:
    with pytest.raises(InvalidTask) as raised:
        every(60)(note.using(run_after=5))

    assert str(raised.value) == f"@every(60) on {note.name}: a schedule determines the time; remove run_after."


def test_wrong_arguments_name_the_task_once() -> None:
    with pytest.raises(InvalidTask, match=rf"^@every\(60\) on {note.name}: does not take these arguments: "):
        every(60, args=(1, 2, 3))(note)


def test_duplicate_schedule_name_raises() -> None:
    every(60, name="nightly", args=(1,))(note)
    every(60, name="nightly", args=(1,), jitter=5)(note)

    with pytest.raises(InvalidTask) as raised:
        every(90, name="nightly", args=(1,))(note)

    assert str(raised.value) == (
        f"@every(90) on {note.name}: the name 'nightly' is already used: every 60 s of {note.name}."
    )
    assert the_only().jitter_ms == 5_000


def schedule(**options: Any) -> Schedule:
    declared.schedules.clear()
    every(60, args=(1, 2), **{"name": f"{add.name} every 60 s", **options})(add)
    return the_only()


def test_misfire_once_enqueues_the_latest_missed_slot() -> None:
    assert schedule().due(10 * MIN, 10 * MIN + 59_999) == []
    assert schedule().due(10 * MIN, 11 * MIN) == [11 * MIN]
    assert schedule().due(10 * MIN, 900_000 * MIN + 5) == [900_000 * MIN], "however late"
    assert schedule(max_age=59).due(10 * MIN, 20 * MIN + 59_000) == [20 * MIN]
    assert schedule(max_age=59).due(10 * MIN, 20 * MIN + 59_001) == []


def test_misfire_skip_enqueues_no_missed_slot() -> None:
    every(3_600, args=(1, 2), misfire="skip")(add)
    hourly = the_only()

    assert hourly.due(0, 120 * MIN + 60_000) == [120 * MIN], "a minute late is not missed"
    assert hourly.due(0, 120 * MIN + 60_001) == []


def test_misfire_all_enqueues_every_missed_slot() -> None:
    assert schedule(misfire="all").due(10 * MIN, 13 * MIN) == [11 * MIN, 12 * MIN, 13 * MIN]
    assert schedule(misfire="all", max_age=60).due(10 * MIN, 13 * MIN) == [12 * MIN, 13 * MIN]
    many = schedule(misfire="all").due(10 * MIN, 1_000 * MIN)
    assert (len(many), many[-1]) == (MAX_CATCH_UP, 1_000 * MIN), "the newest of them"
    every(86_400, misfire="all")(echo)
    daily = next(found for found in declared.registered() if found.task is echo)
    assert daily.due(0, 10 * 1_440 * MIN + 1) == [10 * 1_440 * MIN], "slots of the last day, unless max_age is longer"


def test_slot_task_id_is_deterministic() -> None:
    first, second = schedule(), schedule()

    ids = {first.task_id(slot) for slot in range(0, 2_000 * MIN, MIN)}

    assert first.task_id(MIN) == second.task_id(MIN) == "Imqv5aPWT-YOwJ5X1UGd"
    assert len(ids) == 2_000
    assert {len(one) for one in ids} == {20}
    assert not [one for one in ids if one.startswith("-")]
    assert schedule(name="other").task_id(MIN) != first.task_id(MIN)


def test_jitter_is_bounded_and_deterministic() -> None:
    first, second = schedule(jitter=30), schedule(jitter=30)

    dues = [int(first.message(slot).due) - slot for slot in range(0, 300 * MIN, MIN)]

    assert min(dues) >= 0
    assert max(dues) <= 30_000
    assert len(set(dues)) > 250, "spread"
    assert first.message(MIN) == second.message(MIN)
    assert schedule().message(MIN).due == ""
