"""Periodic tasks on the dashboard: next run, last task, and overdue schedules."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command
from tests.dashboard.addresses import SCHEDULES
from tests.dashboard.support import URL, client_of, page_text, text_of
from tests.support import Store
from tests.taskqueue.schedulers import HOUR, announced, at, next_round, poller_of, state_key
from tests.taskqueue.support import base_key, server_ms
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def fill(store: Store) -> tuple[int, str]:
    """One that has sent a task, one that is late, one that is off; the server's time, and the id of the task."""
    now_ms = int(server_ms(store))
    sent = at(now_ms - 20, now_ms + HOUR + 30_000, name="tests.note at chosen moments")
    poller = poller_of(sent, at(now_ms - 90_000, name="late"), at(now_ms + HOUR, name="off", enabled=False))
    announced(poller, store, sent.name, last_ms=now_ms - 1_000)
    next_round(poller)
    store.raw.hset(state_key(store, "late"), "next", now_ms - 90_000)
    return now_ms, sent.task_id(now_ms - 20)


@pytest.mark.contract
def test_schedules_table_shows_state_and_next_run(store: Store, viewer: Client) -> None:
    fill(store)

    text = text_of(viewer.get(SCHEDULES).content.decode())

    assert re.search(r"tests\.note at chosen moments on in 1 h 0 min \d\d:\d\d:\d\d ready default", text)
    assert "late at chosen moments overdue now – – default" in text
    assert "off at chosen moments off – – – default" in text


def test_overdue_schedule_is_a_problem(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    [problem] = [
        each for each in viewer.get(URL, {"format": "json"}).json()["problems"] if each["code"] == "schedule_late"
    ]

    assert re.fullmatch(r"Schedule late is 1 min \d+ s overdue: no poller has enqueued its task\.", problem["text"])
    assert problem["advice"] == "Start a poller, or a worker without --no-poller, with the code that declares it:"
    assert problem["command"] == "python manage.py runpoller"


def test_undeclared_schedule_is_no_problem(redis_server: Store, viewer: Client) -> None:
    now_ms, _ = fill(redis_server)
    redis_server.raw.zadd(base_key(redis_server, "schedules"), {"late": now_ms - 10 * 60_000})

    shown = text_of(viewer.get(SCHEDULES).content.decode())
    assert "late at chosen moments not declared now – – default" in shown
    assert "no poller has enqueued" not in page_text(viewer)


def test_schedules_as_json(store: Store, viewer: Client) -> None:
    _, task_id = fill(store)

    late, off, sent = viewer.get(URL, {"format": "json"}).json()["schedules"]

    assert (late["state"], off["state"], sent["state"]) == ("late", "off", "on")
    assert (sent["name"], sent["task"], sent["last_task_id"]) == ("tests.note at chosen moments", note.name, task_id)
    assert (off["next_at"], off["is_enabled"]) == (None, False)


def test_page_without_schedules_shows_an_example(redis_server: Store, viewer: Client) -> None:
    shown = "Periodic tasks No schedules yet. Add a line above a task: @every(60)"
    assert shown in text_of(viewer.get(SCHEDULES).content.decode())


def test_names_are_text(redis_server: Store, viewer: Client) -> None:
    next_round(poller_of(at(int(server_ms(redis_server)) + HOUR, name="<b>bold</b>", text="<i>now</i>")))

    html = viewer.get(SCHEDULES).content.decode()

    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "&lt;i&gt;now&lt;/i&gt;" in html
    assert "<b>bold" not in html


def test_unreadable_schedules_do_not_fail_the_overview(redis_server: Store, viewer: Client) -> None:
    connections.client().execute(Command("SET", base_key(redis_server, "schedules"), "mine"))

    assert "Cannot read periodic tasks" in page_text(viewer)


def test_schedules_are_translated(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    pages = [viewer.get(url, headers={"Accept-Language": "zh-hans"}).content.decode() for url in (URL, SCHEDULES)]

    for words in ("计划 late 已逾期 1 分", "没有轮询器将其任务入队。"):
        assert words in pages[0]
    for words in ("周期任务", "上次入队", "已逾期", "停用"):
        assert words in pages[1]
