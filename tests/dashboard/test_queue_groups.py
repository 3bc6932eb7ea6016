"""The groups of a queue on its page, and why a task of a group does not run."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.dashboard.queues import changes
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.explain import explain
from tests.dashboard.queue_pages import url_of, verb_url
from tests.dashboard.support import browser, text_of
from tests.support import Store
from tests.taskqueue.fair_share.support import send, serve, take
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

DEFAULT = url_of("default")


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", changes.PAUSE_GROUP.permission)


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def test_groups_are_shown_with_ready_tasks_and_the_oldest_wait(redis_server: Store, operator: Client) -> None:
    send("a1 b1 b2")

    page = text(operator.get(DEFAULT))

    assert "Groups" in page
    assert page.index(" b 2 ") < page.index(" a 1 ")
    data = operator.get(DEFAULT, {"format": "json"}).json()
    assert [(group["name"], group["ready"]) for group in data["groups"]["groups"]] == [("b", 2), ("a", 1)]


def test_queue_without_groups_has_no_such_section(redis_server: Store, operator: Client) -> None:
    note.enqueue("x")

    assert 'id="drc-groups"' not in operator.get(DEFAULT).content.decode()


def test_page_says_how_many_groups_it_does_not_show(redis_server: Store, operator: Client) -> None:
    serve.using(fair="{number}").enqueue_many([(("x", number), {}) for number in range(30)])

    page = text(operator.get(DEFAULT))

    assert "30 groups are served in turn. Those with most ready tasks are shown." in page


def test_group_is_paused_and_resumed_by_an_operator(redis_server: Store, operator: Client) -> None:
    send("a1 b1")
    asked = text(operator.get(verb_url("pause_group"), {"group": "a"}))
    assert "Pause group a of queue default" in asked
    assert "Reason (optional)" in asked

    done = text(operator.post(verb_url("pause_group"), {"group": "a", "reason": "<b>open</b> invoice"}, follow=True))

    assert "Paused: a" in done
    assert "&lt;b&gt;open&lt;/b&gt; invoice" in done
    assert take() == ["b1"]
    assert "Resume group a of queue default" in text(operator.get(verb_url("resume_group"), {"group": "a"}))
    assert "Resumed: a" in text(operator.post(verb_url("resume_group"), {"group": "a"}, follow=True))
    assert "Not paused: a" in text(operator.post(verb_url("resume_group"), {"group": "a"}, follow=True))
    assert take() == ["a1"]
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        "Pause group 'a' of queue 'default': done, reason '<b>open</b> invoice'.",
        "Resume group 'a' of queue 'default': done.",
        "Resume group 'a' of queue 'default': it was not paused.",
    ]


def test_buttons_need_the_permission(redis_server: Store) -> None:
    send("a1")
    viewer = browser("view_overview")

    assert "pause_group" not in viewer.get(DEFAULT).content.decode()
    for verb in ("pause_group", "resume_group"):
        assert viewer.post(verb_url(verb), {"group": "a"}).status_code == 403
    assert get_queue("default").groups()[0].paused is None


@pytest.mark.parametrize("group", [None, "a\tb", "x" * 101], ids=ascii)
def test_missing_or_impossible_group_is_refused(group: str | None, redis_server: Store, operator: Client) -> None:
    form = {} if group is None else {"group": group}

    for verb in ("pause_group", "resume_group"):
        assert operator.get(verb_url(verb), form).status_code == 400
        assert operator.post(verb_url(verb), form).status_code == 400


def test_hostile_names_of_groups_are_escaped_and_can_be_paused(redis_server: Store, operator: Client) -> None:
    hostile = "<script>alert(1)</script>&?/#%"
    serve.enqueue(hostile, 1)

    html = operator.get(DEFAULT).content.decode()

    assert hostile not in html
    assert f"{verb_url('pause_group')}?group=%3Cscript%3Ealert%281%29%3C%2Fscript%3E%26%3F%2F%23%25" in html
    operator.post(verb_url("pause_group"), {"group": hostile})
    assert [group.name for group in get_queue("default").groups() if group.paused] == [hostile]


def test_too_many_paused_groups_are_refused_in_a_message(redis_server: Store, operator: Client) -> None:
    for number in range(200):
        get_queue("default").pause_group(str(number))

    done = text(operator.post(verb_url("pause_group"), {"group": "more", "reason": ""}, follow=True))

    assert "Not paused: 200 groups of the queue are paused, which is the most." in done


def test_task_page_says_that_it_waits_for_a_turn(redis_server: Store, operator: Client) -> None:
    _, second, _ = send("a1 a2 b1")
    found = home().run(explain(home(), second.id))
    assert (found.place, found.ahead, found.group) == ("group", 1, "a")
    assert [reason.code for reason in found.reasons] == ["no_worker", "turn"]

    page = text(operator.get(f"/admin/django_redis_components/task/{second.id.replace('_', '_5F')}/"))

    assert "It waits for the turn of its group a. 1 task of the group is served first." in page


def test_task_page_says_that_its_group_is_paused(redis_server: Store, operator: Client) -> None:
    [only] = send("a1")
    get_queue("default").pause_group("a")
    take()

    found = home().run(explain(home(), only.id))

    assert [reason.code for reason in found.reasons] == ["no_worker", "group_paused"]
    page = text(operator.get(f"/admin/django_redis_components/task/{only.id.replace('_', '_5F')}/"))
    assert "Its group a is paused." in page
