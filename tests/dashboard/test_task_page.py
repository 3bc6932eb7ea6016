"""The page of a task: why it does not run, runs, errors, arguments, limits, flow; and the form that opens it."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client
from django.utils import translation

from django_redis_components.taskqueue import TaskResult, get_queue, group
from tests.dashboard.flow_pages import url_of as flow_url_of
from tests.dashboard.queue_pages import url_of as queue_url
from tests.dashboard.support import (
    HOSTILE,
    ROLES,
    URL,
    Page,
    browser,
    client_of,
    settle_tasks,
    text_of,
    work_off_in_a_thread,
    write_worker,
)
from tests.dashboard.task_pages import TASKS, text, url_of
from tests.support import Store
from tests.taskqueue.batching.tasks import collect
from tests.taskqueue.store.support import fail_many
from tests.taskqueue.support import base_key, new_fetcher
from tests.taskqueue.tasks import add, echo, note

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


@pytest.mark.parametrize("role", ROLES)
def test_page_requires_the_permission_of_the_overview(role: str, redis_server: Store) -> None:
    result, client = note.enqueue("x"), client_of(role)

    for address in (url_of(result.id), f"{TASKS}?id={result.id}"):
        found, overview = client.get(address).status_code, client.get(URL).status_code
        assert found == overview or (found, overview) == (302, 200)
    assert client.post(url_of(result.id)).status_code in (302, 403, 405)


def test_page_says_why_a_task_does_not_run_and_what_was_checked(redis_server: Store, viewer: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    result = note.enqueue("mine")
    write_worker(redis_server, "here:1", threads=8, busy=2)

    shown = text(viewer.get(url_of(result.id)))

    assert "Not running: 3 tasks are served first." in shown
    assert "The queue default is active." in shown
    assert "Workers of the queue: 1, 2 of 8 threads busy." in shown
    assert "No worker has run it yet." in shown
    get_queue("default").pause("<b>mail</b> is down", author="ada")
    shown = text(viewer.get(url_of(result.id)))
    reason = "by ada: &lt;b&gt;mail&lt;/b&gt; is down."
    assert re.search(rf"Not running: the queue default is paused\. Paused (&lt; )?\d+ s ago {reason}", shown)
    data = viewer.get(url_of(result.id), {"format": "json"}).json()
    assert [(reason["code"], reason["count"]) for reason in data["reasons"]] == [("paused", 0), ("behind", 3)]
    assert (data["task"]["state"], data["task"]["arguments"]) == ("ready", ['what="mine"'])


def test_page_takes_one_command_in_one_round_trip(redis_server: Store, viewer: Client) -> None:
    results = note.using(concurrency=2, unique=True, rate="5/m").enqueue("x"), fail_many(1)[0]

    for result in results:
        cost = viewer.get(url_of(result.id), {"format": "json"}).json()["cost"]
        assert (cost["commands"], cost["round_trips"]) == (2, 1), "the counts of the tabs included"


def test_runs_and_errors_are_shown(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    settle_tasks("retried", 1)
    settle_tasks("failed")

    response = viewer.get(url_of(result.id))
    shown = text(response)

    assert "Failed at" in shown
    assert shown.index("Run 1 Failed, retried settles:") < shown.index("Run 2 Failed settles:")
    assert shown.count("LookupError out of order") == 2
    assert len([bar for bar in Page(response.content.decode()).all("svg") if bar.get("class") == "drc-runbar"]) == 2
    data = viewer.get(url_of(result.id), {"format": "json"}).json()
    assert [run["outcome"] for run in data["runs"]] == ["retried", "failed"]
    assert [error["message"] for error in data["errors"]] == ["out of order"] * 2
    assert data["reasons"] == []


@pytest.mark.parametrize(
    ("cursor", "shown"),
    [
        (b'[0,"pk",41,12]', 'Continues after {"pk":41}'),
        (b'[0,"session_key","secret",1]', 'Continues after {"session_key":"•••"}'),
        (b"[0,null,1200,1200]", "Continues after item 1,200"),
    ],
)
def test_page_shows_where_a_task_continues(redis_server: Store, viewer: Client, cursor: bytes, shown: str) -> None:
    result = note.enqueue("x")
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "I", cursor)

    assert shown in text(viewer.get(url_of(result.id)))

    data = viewer.get(url_of(result.id), {"format": "json"}).json()
    assert data["task"]["continues_after"] == shown.removeprefix("Continues after ")
    settle_tasks("succeeded")
    assert "Continues after" not in text(viewer.get(url_of(result.id))), "it has succeeded"


@pytest.mark.parametrize("cursor", [b"[0,null,null,0]", b"[0]", b"{", b'[0,null,"x",1]'])
def test_page_omits_a_cursor_without_an_item_or_of_another_client(
    redis_server: Store, viewer: Client, cursor: bytes
) -> None:
    result = note.enqueue("x")
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "I", cursor)

    assert "Continues after" not in text(viewer.get(url_of(result.id)))


def test_page_says_that_a_call_waits_for_others_and_with_how_many_it_has_run(
    redis_server: Store, viewer: Client
) -> None:
    write_worker(redis_server, "here:1", threads=8, busy=2)
    first = collect.enqueue("a")

    shown = text(viewer.get(url_of(first.id)))
    assert "Not running: it waits for further calls of its batch, until" in shown
    assert re.search(r"at the latest, in (\d+ s|1 min)", shown)
    assert f"Group batch:{collect.name}" in shown
    assert "Calls in its batch" not in shown

    collect.enqueue_many([(("b",), {}), (("c",), {})])
    assert "it waits for the turn of its group" in text(viewer.get(url_of(first.id)))
    new_fetcher().fetch("0", 1)

    assert "Calls in its batch 3" in text(viewer.get(url_of(first.id)))
    assert viewer.get(url_of(first.id), {"format": "json"}).json()["task"]["batch_size"] == 3


def test_wait_of_a_call_is_translated(redis_server: Store, viewer: Client) -> None:
    result = collect.enqueue("a")

    with translation.override("zh-hans"):
        shown = viewer.get(url_of(result.id), headers={"Accept-Language": "zh-hans"}).content.decode()

    assert "等待同批的更多调用" in shown


def test_result_progress_limits_and_flow_are_shown(redis_server: Store, viewer: Client) -> None:
    flow = group(add.s(1, 2), add.s(3, 4)).then(echo.s()).enqueue()
    first, second, last = flow.results
    limited = [note.using(concurrency=1, queue_name="mail", unique=True).enqueue(number) for number in range(2)]
    new_fetcher("mail").fetch("0", 2)

    waits = viewer.get(url_of(last.id)).content.decode()
    assert "it waits for 2 tasks of its flow" in waits
    assert f'href="{url_of(first.id)}"' in waits
    assert f'href="{flow_url_of(flow.id)}"' in waits
    assert f'href="{url_of(last.id)}"' in viewer.get(url_of(second.id)).content.decode()
    work_off_in_a_thread()
    assert "Succeeded" in text(viewer.get(url_of(last.id)))
    assert "[[[3,7]],{}]" in text(viewer.get(url_of(last.id)))
    assert "3 of 3 tasks finished." in text(viewer.get(url_of(last.id)))
    shown = text(viewer.get(url_of(limited[1].id)))
    assert f"is full, 1 of 1: held by {note.name} {limited[0].id}." in shown
    assert "Held by this task, until it has finished." in shown
    assert "one by this task" in text(viewer.get(url_of(limited[0].id)))


def test_arguments_are_masked_and_the_view_of_masked_values_is_logged(redis_server: Store, viewer: Client) -> None:
    result = echo.enqueue("<b>", password="s3cret", deep={"api_key": "k3y"})
    work_off_in_a_thread()
    address = f"{TASKS}_verb/arguments/{quote(result.id)}/"

    for form in ("html", "json", "fragment"):
        response = viewer.get(url_of(result.id), {"format": form})
        assert b"s3cret" not in response.content
        assert b"k3y" not in response.content
    assert (viewer.get(address).status_code, viewer.post(address).status_code) == (403, 403)
    reader = browser("view_overview", "view_task_arguments")
    assert "Show arguments…" in text(reader.get(url_of(result.id)))
    assert "s3cret" not in text(reader.get(address))
    assert LogEntry.objects.count() == 0

    shown = reader.post(address)

    assert '"&lt;b&gt;" password="s3cret" deep={"api_key":"k3y"}' in text(shown)
    assert "no-store" in shown["Cache-Control"]
    assert LogEntry.objects.get().change_message == f"Show arguments of task {result.id!r}: shown."


def test_long_values_are_shown_as_their_size(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x" * 200_000)

    shown = text(viewer.get(url_of(result.id)))

    assert "The arguments are not shown: they have 195 KiB." in shown
    assert len(shown) < 20_000


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_are_escaped(name: str, redis_server: Store, viewer: Client) -> None:
    result = echo.enqueue(name, **{name: name})
    settle_tasks("retried", 1)
    redis_server.raw.hset(base_key(redis_server, "t", result.id), mapping={"n": name, "w": name, "C": f"1/{name}"})
    clean = Page(viewer.get(url_of(note.enqueue("x").id)).content.decode())

    response = viewer.get(url_of(result.id))

    assert response.status_code == 200
    page = Page(response.content.decode())
    assert len(page.all("script")) == len(clean.all("script"))
    assert page.all("img") == clean.all("img")
    assert html.escape(name) in response.content.decode()


@pytest.mark.parametrize("task_id", ["unknown", "a/b/c", "_verb", "x" * 300, "ü", "<b>x</b>", "..", "%00", "x:errors"])
def test_unknown_id_is_404_and_says_so(task_id: str, redis_server: Store, viewer: Client) -> None:
    response = viewer.get(url_of(task_id))

    assert response.status_code == 404
    assert "No task has this ID" in text_of(response.content.decode())
    assert "<b>x</b>" not in response.content.decode()
    assert viewer.get(url_of(task_id), {"format": "json"}).json()["error"]["code"] == "no_task"
    assert viewer.get(url_of(task_id), {"format": "nonsense"}).status_code == 400


def test_the_form_on_each_page_opens_a_task(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    search = "/admin/django_redis_components/tasksearch/"

    for address in (URL, queue_url("default"), url_of(result.id)):
        shown = viewer.get(address).content.decode()
        assert f'<form method="get" action="{search}" class="drc-jump"' in shown
    opened = viewer.get(search, {"q": f" {result.id} "})
    assert (opened.status_code, opened["Location"]) == (302, url_of(result.id))


def test_the_address_with_an_id_opens_a_task(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")

    opened = viewer.get(TASKS, {"id": f" {result.id} "})
    assert (opened.status_code, opened["Location"]) == (302, url_of(result.id))
    assert viewer.get(TASKS)["Location"] == URL
    assert viewer.get(TASKS, {"id": "x" * 201}).status_code == 404
    assert "drc-jump" not in browser("view_lock").get("/admin/django_redis_components/lock/").content.decode()


def test_rows_of_a_queue_link_to_the_page(redis_server: Store, viewer: Client) -> None:
    results = fail_many(2)

    shown = viewer.get(queue_url("default"), {"state": "failed"}).content.decode()

    for result in results:
        assert f'<a href="{url_of(result.id)}">' in shown


def test_page_is_translated(redis_server: Store, viewer: Client) -> None:
    result: TaskResult[Any] = note.using(run_after=600).enqueue("x")

    with translation.override("zh-hans"):
        shown = viewer.get(url_of(result.id), headers={"Accept-Language": "zh-hans"}).content.decode()

    assert "Not running" not in shown
    assert "到期" in shown
