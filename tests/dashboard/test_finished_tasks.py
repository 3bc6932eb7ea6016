"""Finished tasks on the page of their queue, and the page of one whose record has expired."""

from __future__ import annotations

from html import unescape
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client

from django_redis_components.taskqueue import TaskResult
from tests.dashboard.queue_pages import url_of
from tests.dashboard.support import ROLES, client_of, text_of
from tests.support import Store
from tests.taskqueue.support import base_key, queue_key, recover, taskqueue_settings, work_off
from tests.taskqueue.tasks import echo, note

pytestmark = pytest.mark.django_db

TASK = "/admin/django_redis_components/task/"


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def forget_record(store: Store, *results: TaskResult) -> None:
    for result in results:
        assert store.raw.delete(base_key(store, "t", result.id)) == 1


def plain_text(html: str) -> str:
    return unescape(text_of(html))


def names(viewer: Client, **query: str) -> list[str]:
    """Return the ids of the rows."""
    data = viewer.get(url_of("default"), {"state": "successful", "format": "json", **query}).json()
    return [task["id"] for task in data["listing"]["tasks"]]


def test_mail_that_was_sent_is_found_after_its_record_has_expired(redis_server: Store, viewer: Client) -> None:
    mail, other = echo.enqueue("kim@example.com"), note.enqueue("other")
    work_off(worker="mailer:7")
    forget_record(redis_server, mail, other)

    assert names(viewer) == [other.id, mail.id]
    assert names(viewer, text="kim@") == [mail.id]
    assert names(viewer, name="echo") == [mail.id]
    assert names(viewer, begin="2020-01-01 00:00") == [other.id, mail.id]
    assert names(viewer, end="2020-01-01 00:00") == []
    page = viewer.get(url_of("default"), {"state": "successful", "text": "kim@"}).content.decode()
    assert "Succeeded 2" in text_of(page)
    assert "Task Arguments Finished ago Run time Age Attempts" in text_of(page)
    assert f'"{TASK}{quote(mail.id)}/?queue=default"' in page
    assert "1 found in all 2" in text_of(page)


def test_cancelled_and_expired_tasks_have_tabs(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("never")
    result.cancel()

    assert names(viewer, state="cancelled") == [result.id]
    assert names(viewer, state="expired") == []
    text = text_of(viewer.get(url_of("default"), {"state": "cancelled"}).content.decode())
    assert "Succeeded 0 Cancelled 1 Expired 0" in text


def test_count_says_that_a_full_list_has_only_the_newest(redis_server: Store, viewer: Client, settings: Any) -> None:
    taskqueue_settings(settings, KEEP_FINISHED=3)
    results = [note.enqueue(number) for number in range(5)]
    work_off()

    assert names(viewer) == [result.id for result in reversed(results[2:])]
    assert "Succeeded 3 newest" in text_of(viewer.get(url_of("default")).content.decode())
    data = viewer.get(url_of("default"), {"format": "json"}).json()
    assert data["finished"] == {"successful": 3, "cancelled": 0, "expired": 0}


def test_row_has_the_facts_of_the_list_as_json(redis_server: Store, viewer: Client) -> None:
    result = echo.enqueue("a", b="c" * 300)
    work_off(worker="mailer:7")

    [task] = viewer.get(url_of("default"), {"state": "successful", "format": "json"}).json()["listing"]["tasks"]

    assert (task["id"], task["name"], task["arguments"]) == (result.id, echo.name, '"a"')
    assert (task["are_arguments_clipped"], task["worker_ids"], task["attempts"]) == (True, ["mailer:7"], 1)
    assert 0 <= task["duration_s"] < 60
    assert task["enqueued_at"] <= task["last_attempted_at"] <= task["finished_at"]
    assert '"a", …' in plain_text(viewer.get(url_of("default"), {"state": "successful"}).content.decode())


@pytest.mark.parametrize("length", [3, 300])
def test_masked_arguments_stay_masked(length: int, redis_server: Store, viewer: Client) -> None:
    secret = "s3cr3t" * length
    result = echo.enqueue({"token": secret[: 6 * 3]}, password=secret)
    work_off()
    forget_record(redis_server, result)

    page = viewer.get(url_of("default"), {"state": "successful"}).content.decode()
    task_page = viewer.get(f"{TASK}{quote(result.id)}/").content.decode()

    assert "s3cr3t" not in page + task_page
    assert "•••" in page
    assert "•••" in task_page
    assert names(viewer, text="s3cr3t") == [], "a search does not reveal them"


def test_page_of_an_expired_task_says_what_the_list_knows(redis_server: Store, viewer: Client) -> None:
    result = echo.enqueue("kim@example.com", subject="Invoice")
    work_off(worker="mailer:7")
    forget_record(redis_server, result)

    response = viewer.get(f"{TASK}{quote(result.id)}/")

    text = plain_text(response.content.decode())
    assert response.status_code == 200
    assert f"{echo.name} Succeeded The result of this task has expired." in text
    assert '"kim@example.com" subject="Invoice"' in text
    assert f"ID {result.id} Queue default Enqueued" in text
    assert "Attempts 1 Worker mailer:7" in text
    found = viewer.get(f"{TASK}{quote(result.id)}/", {"format": "json", "queue": "default"}).json()["finished"]
    assert (found["id"], found["state"], found["queue"]) == (result.id, "successful", "default")
    assert found["arguments"] == ['"kim@example.com"', 'subject="Invoice"']


def test_page_of_an_expired_task_with_long_arguments(redis_server: Store, viewer: Client) -> None:
    result = echo.enqueue("first", "x" * 1_000)
    work_off()
    forget_record(redis_server, result)

    text = plain_text(viewer.get(f"{TASK}{quote(result.id)}/").content.decode())

    assert '"first" … The list has the first 256 bytes of the arguments.' in text


def test_unknown_task_is_still_missing(redis_server: Store, viewer: Client) -> None:
    note.enqueue("other")
    work_off()

    for query in ({}, {"queue": "default"}, {"queue": "x" * 5_000}, {"format": "json"}):
        response = viewer.get(f"{TASK}unknown/", query)
        assert response.status_code == 404
    assert "No task has this ID" in text_of(viewer.get(f"{TASK}unknown/").content.decode())


def test_pages_of_finished_tasks_follow_each_other(redis_server: Store, viewer: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(120)])
    work_off()

    first = viewer.get(url_of("default"), {"state": "successful", "format": "json"}).json()["listing"]
    older = {"state": "successful", "format": "json", "cursor": first["older"]}
    second = viewer.get(url_of("default"), older).json()["listing"]

    arguments = [task["arguments"] for task in first["tasks"] + second["tasks"]]
    assert arguments == [str(number) for number in range(119, 19, -1)]


def test_rows_of_other_clients_are_shown(redis_server: Store, viewer: Client) -> None:
    note.enqueue("known")
    work_off()
    key = queue_key(redis_server, "successful")
    corrupt = [
        b"",
        b"\xff\xfe",
        b"id\t9" + b"9" * 30,
        b"<script>\t1\t2\t3\tx\t\t-\t+x,\t<b>\t[[",
        b"a\t1\t1\t1\t1\t\t\t\t\t[1]",
    ]
    redis_server.raw.rpush(key, *corrupt)

    for query in ({}, {"format": "json"}, {"text": "a"}, {"name": "b"}):
        assert viewer.get(url_of("default"), {"state": "successful", **query}).status_code == 200
    for task_id in ("id", "<script>", "a"):
        assert viewer.get(f"{TASK}{quote(task_id)}/").status_code in (200, 404)
    recover()


@pytest.mark.parametrize("role", sorted(ROLES))
def test_page_of_an_expired_task_requires_the_permission(role: str, redis_server: Store) -> None:
    result = note.enqueue("secret")
    work_off()
    forget_record(redis_server, result)
    client = client_of(role)

    response = client.get(f"{TASK}{quote(result.id)}/")

    assert (response.status_code == 200) is (client.get(url_of("default")).status_code == 200)
