"""Schedules that are added, paused and removed at run time, in the poller and for operators."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.taskqueue import (
    InvalidTask,
    ScheduleDoesNotExist,
    ScheduleInfo,
    Schedules,
    every,
    get_result,
    schedules,
)
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.schedules import schedule as declared
from django_redis_components.taskqueue.schedules import scheduler
from django_redis_components.taskqueue.shards import home
from tests.support import Store, eventually, run_async
from tests.taskqueue.schedulers import HOUR, announced, at, next_round, poller_of, scheduler_of, state, waiting
from tests.taskqueue.support import base_key, server_ms
from tests.taskqueue.tasks import add, note


@pytest.fixture(autouse=True)
def _no_schedules() -> Iterator[None]:
    before = dict(declared.schedules)
    declared.schedules.clear()
    yield
    declared.schedules.clear()
    declared.schedules.update(before)


def test_author_is_any_text(redis_server: Store) -> None:
    Schedules().add("report", note, every=60, args=["x"])

    assert Schedules().pause("report", author="\udcff Ada")

    assert named("report").paused_by == r"\udcff Ada"
    with pytest.raises(TypeError, match=r"^author=None: expected a string\.$"):
        Schedules().pause("report", author=None)  # type: ignore[arg-type]


def named(name: str) -> ScheduleInfo:
    [found] = [each for each in schedules() if each.name == name]
    return found


@pytest.mark.contract
def test_schedule_that_is_removed_while_a_poller_registers_it_is_not_registered_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    Schedules().add("hourly report", note, every=3_600, args=["x"])
    poller = Poller(home(), connections.client())

    def remove_meanwhile(*_: object) -> bool:
        Schedules().remove("hourly report")
        return True

    monkeypatch.setattr(scheduler, "copy_states", remove_meanwhile)
    next_round(poller)
    assert schedules() == []

    Schedules().add("daily report", note, every=86_400, args=["x"])
    next_round(poller)
    assert [(each.name, each.state) for each in schedules()] == [("daily report", "on")]


def test_added_schedule_is_sent_until_it_is_removed(store: Store) -> None:
    Schedules().add("hourly report", note, every=3_600, args=["x"])
    assert (named("hourly report").state, named("hourly report").is_added) == ("new", True)
    poller = Poller(home(), connections.client())
    next_round(poller)
    assert (named("hourly report").state, named("hourly report").times) == ("on", "every 3600 s")

    announced(poller, store, "hourly report", last_ms=int(server_ms(store)) - 2 * HOUR)
    next_round(poller)

    [task_id] = waiting(store)
    result = get_result(task_id)
    assert (result.name, result.args) == (note.name, ["x"])
    assert (named("hourly report").last_task_id, named("hourly report").last_task_state) == (task_id, "ready")
    assert Schedules().remove("hourly report")
    assert not Schedules().remove("hourly report")
    next_round(poller)
    assert schedules() == []
    assert 0 < store.raw.pttl(base_key(store, "schedule", "hourly report")) <= 60_000


@pytest.mark.contract
def test_paused_schedule_is_not_sent_and_its_slots_are_not_sent_later(store: Store) -> None:
    now_ms = int(server_ms(store))
    made = at(now_ms - 50, now_ms + HOUR)
    poller = poller_of(made)
    next_round(poller)
    assert Schedules().pause("s", author="ada\nforged")
    assert not Schedules().pause("s", author="grace")
    announced(poller, store, last_ms=now_ms - HOUR)

    next_round(poller)

    assert waiting(store) == []
    found = named("s")
    assert (found.state, found.paused_by, found.next_at) == ("paused", "ada forged", None)
    assert found.paused_at is not None
    assert Schedules().resume("s")
    assert not Schedules().resume("s")
    next_round(poller)
    assert waiting(store) == []
    assert (named("s").state, named("s").next_at) == ("on", datetime.fromtimestamp((now_ms + HOUR) / 1_000, UTC))


def test_slot_between_a_resume_and_the_next_registration_is_sent(store: Store) -> None:
    now_ms = int(server_ms(store))
    poller = poller_of(at(*range(now_ms, now_ms + HOUR, 500)))
    next_round(poller)
    Schedules().pause("s", author="ada")
    next_round(poller)
    assert named("s").state == "paused"

    Schedules().resume("s")
    resumed_ms = server_ms(store)
    eventually(lambda: server_ms(store) > resumed_ms + 500)
    next_round(poller)

    assert len(waiting(store)) == 1


@pytest.mark.parametrize("verb", ["pause", "remove"])
def test_poller_that_has_not_read_of_a_change_sends_no_slot(verb: str, redis_server: Store) -> None:
    """Its registration is a moment old."""
    now_ms = int(server_ms(redis_server))
    Schedules().add("s", note, every=3_600, args=["x"])
    poller = Poller(home(), connections.client())
    announced(poller, redis_server, last_ms=now_ms - 2 * HOUR)
    scheduler = scheduler_of(poller)
    scheduler.run_due((now_ms - 2 * HOUR + 1) * 1_000, 1)

    getattr(Schedules(), verb)("s")
    scheduler.run_due(now_ms * 1_000, 1)

    assert waiting(redis_server) == []


def test_schedule_that_is_added_again_begins_anew(redis_server: Store) -> None:
    poller = Poller(home(), connections.client())
    for interval in (60, 3_600, timedelta(minutes=5)):
        Schedules().add("report", add, every=interval, kwargs={"a": 1, "b": 2})
        next_round(poller)
    assert named("report").times == "every 300 s"
    Schedules().remove("report")
    Schedules().add("report", note, cron="0 3 * * *", tz="Europe/Rome", args=[1], misfire="skip", jitter=5)

    next_round(poller)

    found = named("report")
    assert (found.times, found.task, found.misfire) == ("cron 0 3 * * * (Europe/Rome)", note.name, "skip")
    assert int(state(redis_server, "report")["last"]) <= server_ms(redis_server)


def test_schedules_that_cannot_be_sent_do_not_stop_the_others(
    redis_server: Store, caplog: pytest.LogCaptureFixture
) -> None:
    every(60, name="mine", args=(1,))(note)
    key = base_key(redis_server, "added_schedules")
    gone = b'{"task":"shop.tasks.gone","every":60,"args":[],"kwargs":{},"misfire":"once","max_age":null,"jitter":0}'
    mine = gone.replace(b"shop.tasks.gone", note.name.encode()).replace(b"[]", b'["x"]')
    wrong = {"a": b"\xff", "b": b"[]", "c": b'{"task":"x"}', "gone": gone, "mine": mine}
    redis_server.raw.hset(key, mapping=wrong)
    redis_server.raw.hset(key, b"\xff", b"{}")
    redis_server.raw.hset(base_key(redis_server, "paused_schedules"), b"\xff", b"1 op")
    Schedules().add("good", note, every=60, args=["x"])

    with caplog.at_level(logging.WARNING):
        next_round(poller_of(*declared.registered()))

    assert {each.name for each in schedules() if each.state == "on"} == {"good", "mine"}
    unknown = "the task 'shop.tasks.gone' is not registered in this process."
    assert f"The added schedule gone is not sent: {unknown}" in caplog.text
    assert "The added schedule mine is not sent: the code declares this name." in caplog.text
    assert {each.name for each in schedules() if each.state == "new"} >= {"a", "b", "c", "gone"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "expected one of every, cron and at."),
        ({"every": 60, "cron": "@daily"}, "expected one of every, cron and at."),
        ({"every": 60, "tz": "UTC"}, "tz: an interval has no time zone."),
        ({"every": 0.5}, "every=0.5: expected at least a second; durations are in seconds."),
        ({"every": 60, "args": [1, 2]}, "tests.taskqueue.tasks.note does not take these arguments"),
        ({"every": 60, "enabeld": True}, "unknown option enabeld. Accepted: every, cron, tz, at, args, "),
        ({"every": 60, "args": ["x"], "name": "other"}, "unknown option name."),
        ({"every": 60, "args": ["x"], "enabled": False}, "unknown option enabled."),
    ],
)
def test_invalid_schedule_is_refused(options: dict[str, Any], text: str, redis_server: Store) -> None:
    with pytest.raises(InvalidTask, match="Schedule 'report': ") as raised:
        Schedules().add("report", note, **options)

    assert text in str(raised.value)
    assert schedules() == []


def test_tasks_and_names_that_cannot_be_added_are_refused(redis_server: Store) -> None:
    every(60, name="mine", args=(1,))(note)

    for name, task, text in (
        ("mine", note, "the code declares a schedule of this name."),
        ("other", note.using(queue_name="mail"), "expected the task as its module has it, without using(…)."),
        ("other", print, "<built-in function print>: expected a task."),
        ("a{b}", note, "braces are not accepted"),
    ):
        with pytest.raises(InvalidTask) as raised:
            Schedules().add(name, task, every=60, args=[1])  # type: ignore[arg-type]
        assert text in str(raised.value)
    with pytest.raises(ScheduleDoesNotExist) as missing:
        Schedules().pause("nowhere")
    assert str(missing.value) == ("There is no schedule 'nowhere': no poller has registered it, and it was not added.")


def test_async_methods_do_the_same(redis_server: Store) -> None:
    async def change() -> list[bool]:
        await Schedules().aadd("report", note, every=60, args=[1])
        mine = Schedules()
        return [await mine.apause("report"), await mine.aresume("report"), await mine.aremove("report")]

    assert run_async(change) == [True, True, True]
