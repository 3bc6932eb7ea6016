"""The search over the tasks of all queues and states."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.timezone import localtime

from django_redis_components.dashboard.queues.task_query import parse_time
from django_redis_components.dashboard.task_search import snapshot, suggestions
from django_redis_components.dashboard.task_search.counts import read_counts
from django_redis_components.dashboard.task_search.query import OVERLAPPING, search_of
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.queue_stats import read_depths
from django_redis_components.taskqueue.store import finished
from django_redis_components.taskqueue.store.scan import STATES
from tests.dashboard.queue_pages import url_of as queue_url
from tests.dashboard.support import URL, browser, fail_with, group_of, settle_tasks, text_of
from tests.dashboard.task_pages import url_of as task_url
from tests.support import Store
from tests.taskqueue.store.support import fail_many, park_many
from tests.taskqueue.support import base_key, new_fetcher, taskqueue_settings, work_off
from tests.taskqueue.tasks import echo, fail_thrice, note

pytestmark = pytest.mark.django_db

SEARCH = "/admin/django_redis_components/tasksearch/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_overview")


def found(viewer: Client, text: str, **more: str) -> dict[str, Any]:
    """Return what a search finds, as JSON."""
    response = viewer.get(SEARCH, {"q": text, "format": "json", **more})
    assert response.status_code == 200, response.content
    search: dict[str, Any] = response.json()["search"]
    return search


def ids_of(viewer: Client, text: str) -> set[str]:
    return {task["id"] for task in found(viewer, text)["tasks"]}


def fill() -> dict[str, str]:
    """One task with the text "kim" in each state and two queues; return their ids by state."""
    running = note.using(queue_name="mail").enqueue({"to": "kim@example.com"})
    new_fetcher("mail", worker="here:7").fetch("0", 1)
    retrying = fail_thrice.enqueue("kim")
    settle_tasks("retried", delay_ms=600_000)
    [failed] = fail_with("no mailbox kim", queue="mail")
    [unregistered] = park_many(1)
    ready = note.enqueue("kim")
    scheduled = echo.using(queue_name="mail", run_after=3_600).enqueue(to="kim")
    for number in range(5):
        note.enqueue(number)
    names = {"running": running, "retrying": retrying, "unregistered": unregistered, "ready": ready}
    return {name: result.id for name, result in names.items()} | {"failed": failed, "scheduled": scheduled.id}


def test_a_text_is_found_in_all_queues_and_states(redis_server: Store, viewer: Client) -> None:
    known = fill()

    tasks = found(viewer, "kim")

    states = {task["id"]: (task["queue"], task["state"]) for task in tasks["tasks"]}
    assert states[known["running"]] == ("mail", "running")
    assert states[known["failed"]] == ("mail", "failed")
    assert states[known["ready"]] == ("default", "ready")
    assert states[known["scheduled"]] == ("mail", "scheduled")
    assert tasks["searched"] == tasks["total"]
    assert tasks["next"] is None


def test_each_prefix_narrows_the_search(redis_server: Store, viewer: Client) -> None:
    known = fill()

    assert ids_of(viewer, "kim queue:mail") == {known["running"], known["failed"], known["scheduled"]}
    assert ids_of(viewer, "kim state:ready") == {known["ready"]}
    assert ids_of(viewer, "arg:to=kim") == {known["scheduled"], known["running"]}
    assert ids_of(viewer, "arg:kim@example") == {known["running"]}
    assert ids_of(viewer, 'error:"no mailbox"') == ids_of(viewer, f"error:{group_of('no mailbox kim')}") != set()
    assert ids_of(viewer, "name:fail_thrice") == {known["retrying"]}
    assert ids_of(viewer, "name:unknown") == {known["unregistered"]}
    assert ids_of(viewer, "kim since:1h state:failed") == {known["failed"]}
    assert ids_of(viewer, "kim until:2020-01-01") == set()
    assert ids_of(viewer, "kim since:2020-01-01T10:00 until:2099-01-01 state:failed") == {known["failed"]}
    assert ids_of(viewer, "nothing:of-this") == set()


def test_an_id_opens_its_task_and_an_unknown_one_is_searched(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")

    opened = viewer.get(SEARCH, {"q": f"  {result.id} "})
    unknown = viewer.get(SEARCH, {"q": result.id[:-1] + ("_" if result.id[-1] != "_" else "-")})
    key = viewer.get(SEARCH, {"q": f"{result.id}:errors"})

    assert (opened.status_code, opened["Location"]) == (302, task_url(result.id))
    assert "No task matches, and none has this ID." in text_of(unknown.content.decode())
    assert key.status_code == 200
    assert found(viewer, result.id)["id"] == result.id


def expire_records(store: Store, *task_ids: str) -> None:
    for task_id in task_ids:
        store.raw.delete(base_key(store, "t", task_id))


@pytest.mark.parametrize("task_id", [None, "order-7"], ids=["generated", "chosen"])
def test_an_id_opens_a_finished_task_whose_record_has_expired(
    task_id: str | None, redis_server: Store, viewer: Client
) -> None:
    result = note.using(queue_name="mail").enqueue("x") if task_id is None else send_as(task_id)
    work_off("mail")
    note.enqueue({"parent": result.id} if task_id is None else "another")
    expire_records(redis_server, result.id)

    opened = viewer.get(SEARCH, {"q": result.id})

    assert (opened.status_code, opened["Location"]) == (302, f"{task_url(result.id)}?queue=mail")
    assert viewer.get(opened["Location"]).status_code == 200
    assert found(viewer, result.id)["id"] == result.id
    assert found(viewer, f"name:{result.id}")["id"] is None


def send_as(task_id: str) -> Any:
    return note.using(queue_name="mail", id=task_id).enqueue("x")


def test_a_search_by_id_among_finished_tasks_is_bounded(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finished, "SEARCH_ROWS", 10)
    monkeypatch.setattr(finished, "SEARCH_CALLS", 3)
    for number in range(20):
        note.using(queue_name=f"queue-{number:02}").enqueue(number)

    for text in ("A" * 20, "unknown"):
        cost = viewer.get(SEARCH, {"q": text, "format": "json"}).json()["cost"]
        assert cost["round_trips"] <= 1 + snapshot.MAX_TRIPS + 3


def test_the_mail_to_kim_is_found_with_two_clicks_from_the_overview(redis_server: Store, viewer: Client) -> None:
    known = fill()
    overview = viewer.get(URL).content.decode()

    [action] = re.findall(r'<form method="get" action="([^"]+)" class="drc-jump"', overview)  # 1: into the field
    page = viewer.get(action, {"q": "kim@example.com"}).content.decode()  # 2: the button

    assert task_url(known["running"]) in page
    assert f"{queue_url('mail')}?state=running" in page


def test_the_budget_is_said_and_the_next_page_continues_where_this_one_has_ended(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "BUDGET", 100)
    for queue in ("a", "b"):
        note.using(queue_name=queue).enqueue_many([((f"number {n:04}",), {}) for n in range(900)])
    expected = {f"number {n:04}" for n in range(0, 900, 100)}

    pages, text, query = 0, "", "q=00"
    seen: list[str] = []
    while query:
        page = viewer.get(f"{SEARCH}?{query}")
        text = text_of(page.content.decode())
        answer = viewer.get(f"{SEARCH}?{query}&format=json").json()["search"]
        seen += [task["id"] for task in answer["tasks"] if any(each in task["arguments"] for each in expected)]
        assert len(answer["tasks"]) <= snapshot.PAGE_SIZE
        pages += 1
        last = f"{answer['searched']:,} of 1,800 tasks in 2 queues"
        found, first = answer["count"]["found"], answer["count"]["first"]
        assert found == len(answer["tasks"])
        assert f"{found} found in {f'{first:,} to' if pages > 1 else 'the first'} {last}" in text
        assert ("Continue search" in text) == bool(answer["next"])
        query = answer["next"]
    assert pages >= 4
    assert len(seen) == len(set(seen)) == 18
    assert "to 1,800 of 1,800 tasks" in text


def test_a_page_costs_a_bounded_number_of_round_trips(redis_server: Store, viewer: Client) -> None:
    for number in range(40):
        note.using(queue_name=f"queue-{number:02}").enqueue_many([((n,), {}) for n in range(60)])

    cost = viewer.get(SEARCH, {"q": "none of them", "format": "json"}).json()["cost"]
    nothing = viewer.get(SEARCH, {"format": "json"}).json()["cost"]

    assert cost["round_trips"] <= 1 + snapshot.MAX_TRIPS
    assert cost["commands"] <= 200
    assert nothing["round_trips"] == 1


def test_upper_and_lower_case_are_equal_in_each_text(redis_server: Store, viewer: Client) -> None:
    fail_with("No Mailbox", queue="mail")
    sent = note.using(queue_name="done").enqueue({"to": "Kim Müller"})
    ready = echo.enqueue(Title="KIM's order")
    work_off("done")
    expire_records(redis_server, sent.id)

    assert ids_of(viewer, "kim") == ids_of(viewer, "KIM") == {sent.id, ready.id}
    assert ids_of(viewer, "arg:to=kIM") == ids_of(viewer, "arg:TO=kim") == {sent.id}
    assert ids_of(viewer, "arg:title=kim") == {ready.id}
    assert ids_of(viewer, "name:TASKS.Echo") == ids_of(viewer, "TASKS.ECHO") == {ready.id}
    assert len(ids_of(viewer, 'error:"no MAILBOX"')) == len(ids_of(viewer, "no mailbox")) == 1
    assert ids_of(viewer, "mülLER") == {sent.id}
    assert ids_of(viewer, "mÜller") == set(), "Lua folds ASCII letters only"


def at(moment: str) -> Any:
    """Set the clock of the dashboard."""
    now = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    return patch("django_redis_components.dashboard.queues.task_query.timezone.now", return_value=now)


@pytest.mark.parametrize(
    ("text", "begin", "end"),
    [
        ("since:tuesday", "2026-11-24T00:00", ""),
        ("since:Wednesday", "2026-11-25T00:00", ""),  # it is Thursday in this zone, Wednesday in UTC
        ("since:thursday", "2026-11-26T00:00", ""),
        ("since:friday", "2026-11-20T00:00", ""),
        ("since:today", "2026-11-26T00:00", ""),
        ("since:yesterday until:YESTERDAY", "2026-11-25T00:00", "2026-11-26T00:00"),
        ("since:tuesday until:tuesday", "2026-11-24T00:00", "2026-11-25T00:00"),
        ("until:today", "", "2026-11-27T00:00"),
        ("since:2026-11-23 until:2026-11-23", "2026-11-23T00:00", "2026-11-24T00:00"),
        ("since:midnight until:2026-11-26T03:00", "2026-11-26T00:00", "2026-11-26T03:00"),
    ],
)
def test_days_have_names(text: str, begin: str, end: str) -> None:
    with timezone.override("Asia/Tokyo"), at("2026-11-25T20:00"):
        filters = search_of(f"x {text}").filters

        assert filters.begin_ms == parse_time(begin)
        assert filters.end_ms == parse_time(end)


def test_the_mail_to_kim_that_succeeded_is_found_with_two_clicks(redis_server: Store, viewer: Client) -> None:
    mail = note.using(queue_name="mail").enqueue({"to": "Kim@example.com"})
    work_off("mail")
    expire_records(redis_server, mail.id)
    overview = viewer.get(URL).content.decode()
    today = f"{localtime():%A}".lower()

    [action] = re.findall(r'<form method="get" action="([^"]+)" class="drc-jump"', overview)  # 1: into the field
    page = viewer.get(action, {"q": f"kim since:{today} until:{today}"}).content.decode()  # 2: the button

    assert f"{task_url(mail.id)}?queue=mail" in page
    assert f"{queue_url('mail')}?state=successful" in page


def test_masked_values_are_not_found_and_do_not_change_what_a_page_says(redis_server: Store, viewer: Client) -> None:
    operator = browser("view_overview", "view_task_arguments")
    note.enqueue_many([((), {"what": {"password": "hunter2", "order": n}}) for n in range(120)])

    for client in (viewer, operator):
        for text in ("hunter2", "arg:hunter2", "password=hunter2", 'arg:"password=hunter2"'):
            secret, other = found(client, text), found(client, text.replace("hunter2", "hunter3"))
            assert secret["tasks"] == []
            assert {**secret, "text": ""} == {**other, "text": ""}, "a right guess looks like a wrong one"
    assert len(found(viewer, "arg:order=1")["tasks"]) > 0


def test_masked_errors_are_not_found(redis_server: Store, viewer: Client, settings: Any) -> None:
    fail_with("kim has no mailbox")
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "DASHBOARD": {"MASK_ERROR": "tests.dashboard.test_task_search.without_kim"},
    }

    assert ids_of(viewer, "kim") == ids_of(viewer, "error:kim") == set()
    assert len(ids_of(viewer, "mailbox")) == 1


def without_kim(text: str) -> str:
    return text.replace("kim", "someone")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("state:done", "state:done: expected one of ready, scheduled,"),
        (
            "since:soon",
            "since:soon: expected a duration such as 15m, 1h or 2d; today, yesterday or a day such as tuesday;",
        ),
        ("until:Dienstag", "a day such as tuesday; midnight; or a time such as 2026-11-23 or 2026-11-23T11:20."),
        ("until:0001-01-01", "until:0001-01-01: expected a duration"),
        ("until:2026-13-41", "until:2026-13-41: expected a duration"),
        ("until:9999-12-31", "until:9999-12-31: expected a duration"),
        ("since:0001-01-01T00:00+14:00", "since:0001-01-01T00:00+14:00: expected a duration"),
        ("queue:a{b", "queue name"),
        ("x" * 401, "expected at most 400 characters"),
        ("name:" + "x" * 201, "name: expected at most 200 characters"),
    ],
)
def test_a_text_that_cannot_be_searched_says_why(text: str, problem: str, redis_server: Store, viewer: Client) -> None:
    page = viewer.get(SEARCH, {"q": text})

    assert page.status_code == 200
    assert problem in text_of(page.content.decode())
    assert problem in found(viewer, text)["problem"]
    assert "Searched" not in text_of(page.content.decode())


@pytest.mark.parametrize(
    "parameters",
    [
        {"in_state": "done", "in_queue": "a", "searched": "1"},
        {"in_state": "ready", "in_queue": "a{b", "searched": "1"},
        {"in_state": "ready", "in_queue": "a", "cursor": "no cursor", "searched": "1"},
        {"in_state": "ready", "in_queue": "a", "searched": "-1"},
        {"in_state": "ready", "in_queue": "a", "searched": "9" * 20},
        {"in_state": "ready", "in_queue": "a", "searched": "0" * 14 + "9" * 20},
    ],
)
def test_a_wrong_link_is_400(parameters: dict[str, str], redis_server: Store, viewer: Client) -> None:
    assert viewer.get(SEARCH, {"q": "x", **parameters}).status_code == 400


def test_the_page_explains_the_prefixes_and_links_fill_them(redis_server: Store, viewer: Client) -> None:
    note.using(queue_name="mail").enqueue("x")
    page = viewer.get(SEARCH, {"q": "kim state:ready"}).content.decode()

    for prefix in ("name", "arg", "error", "queue", "state", "since", "until"):
        assert f'<code dir="ltr">{prefix}:</code>' in page
    for link in ("q=kim+state%3Aready+queue%3Amail", "q=kim+state%3Afailed", "q=kim+state%3Aready+since%3A1h"):
        assert f'href="{SEARCH}?{link}"' in page
    assert f"q=kim+state%3Aready+name%3A{sorted(registry.names())[0]}" in page
    assert f"q=name%3A{note.name}" in viewer.get(SEARCH, {"q": "name:tasks.note"}).content.decode()
    assert '<option value="queue:mail">' in page


def test_the_field_of_each_page_suggests_prefixes_states_days_and_names_that_the_process_knows(
    redis_server: Store, viewer: Client, settings: Any
) -> None:
    note.using(queue_name="mail").enqueue("x")
    for address in (URL, queue_url("mail")):
        page = viewer.get(address).content.decode()
        [field] = re.findall(r'<input type="text" name="q"[^>]* list="([^"]+)"', page)
        [options] = re.findall(rf'<datalist id="{field}">(.*?)</datalist>', page)
        suggested = re.findall(r'<option value="([^"]+)"', options)
        assert {"name:", "arg:", "error:", "queue:", "state:", "since:", "until:"} <= set(suggested)
        assert "state:successful" not in suggested, "pages call it succeeded"
        known = {"state:failed", "state:succeeded", "since:tuesday", "queue:default"}
        assert {*known, f"name:{sorted(registry.names())[0]}"} <= set(suggested)
        assert len(suggested) <= 2 * suggestions.MAX_SUGGESTED + 40
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    assert '<option value="queue:mail">' in viewer.get(URL).content.decode()


def test_suggestions_of_the_field_cost_no_command(redis_server: Store) -> None:
    before = redis_server.raw.info("stats")["total_commands_processed"]

    assert "name:" in suggestions.suggestions()

    assert redis_server.raw.info("stats")["total_commands_processed"] == before + 1, "the INFO itself"


def test_states_are_those_of_the_queues_lists(redis_server: Store) -> None:
    assert set(search_of("x").states) == set(STATES) - set(OVERLAPPING)
    assert search_of("x").states[-1] == "ready", "a queue may have a million of them"


def test_words_are_told_apart() -> None:
    query = search_of('a "b c" name:x arg:"to=k m" http://x y:z')

    assert query.text == "a b c http://x y:z"
    assert query.values == {"name": "x", "arg": "to=k m"}
    assert search_of("name:").is_empty


def test_search_needs_the_permission_of_the_overview(redis_server: Store) -> None:
    assert browser("view_lock").get(SEARCH, {"q": "x"}).status_code == 403


def test_numbers_that_the_depths_of_a_queue_do_not_have_are_those_of_its_lists(redis_server: Store) -> None:
    fail_many(3)
    note.enqueue("x")
    [depth] = home().run(read_depths(home()))
    unknown = SimpleNamespace(name="default", ready=depth.ready)

    counts = home().run(read_counts(home(), [unknown], ["failed", "ready", "running"]))  # type: ignore[list-item]

    assert counts == [("failed", "default", 3), ("ready", "default", 1)]
