"""The form that changes a pending task: what it changes, what it refuses and what it does not show."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client

from django_redis_components.dashboard.task import changes
from django_redis_components.taskqueue import TaskResult, get_queue, get_result
from tests.dashboard.support import HOSTILE, Page, browser, dump, text_of
from tests.dashboard.task_pages import TASKS, text, url_of
from tests.support import Store
from tests.taskqueue.store.support import park_many
from tests.taskqueue.support import new_fetcher, taskqueue_settings
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.django_db


def edit_url(result: TaskResult) -> str:
    return f"{TASKS}_verb/edit/{quote(result.id)}/"


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "change_task", "view_task_arguments")


def form_of(html: str) -> dict[str, str]:
    """Return what a browser sends with the form as it is shown."""
    page = Page(html)
    found = {each["name"]: each.get("value") or "" for each in page.all("input") if each.get("name")}
    for each in page.all("option"):
        if "selected" in each:
            found["to"] = each["value"] or ""
    return found | {name: found[f"initial-{name}"] for name in ("args", "kwargs") if f"initial-{name}" in found}


def shown_form(client: Client, result: TaskResult) -> dict[str, str]:
    return form_of(client.post(edit_url(result), {"show_arguments": ""}).content.decode())


def last_entry() -> str:
    entry = LogEntry.objects.order_by("pk").last()
    assert entry is not None
    return entry.change_message


def test_pending_task_is_changed_and_the_change_is_logged(redis_server: Store, operator: Client) -> None:
    get_queue("mail").pause()
    add.using(queue_name="mail").enqueue(0, 0)
    result = add.using(run_after=86_400).enqueue(1, b=2)
    assert edit_url(result) in operator.get(url_of(result.id)).content.decode()
    before = dump(redis_server)
    assert operator.get(edit_url(result)).status_code == 200
    form = shown_form(operator, result)
    assert dump(redis_server) == before, "the form writes nothing"
    assert (form["args"], form["kwargs"], form["priority"], form["to"], form["expires"]) == (
        *("[1]", '{"b": 2}'),
        *("0", "default", ""),
    )

    wanted = {"args": "[5]", "priority": "7", "to": "mail", "expires": "2099-01-02T03:04"}
    done = operator.post(edit_url(result), form | wanted, follow=True)

    assert done.redirect_chain == [(url_of(result.id), 302)]
    assert "Saved: tests.taskqueue.tasks.add" in text(done)
    result.refresh()
    assert (result.args, result.kwargs, result.queue_name) == ([5], {"b": 2}, "mail")
    assert result.expires_at is not None
    assert (result.expires_at.year, result.expires_at.minute) == (2099, 4)
    entry = last_entry()
    assert entry.startswith(f"Edit task {result.id!r}: args, priority 7, queue_name 'mail', expires '2099-01-02 03:04")
    assert entry.endswith("': done.")
    operator.post(edit_url(result), shown_form(operator, result) | {"expires": ""})
    result.refresh()
    assert result.expires_at is None


def test_what_another_operator_has_changed_is_not_changed_back(redis_server: Store, operator: Client) -> None:
    result = add.enqueue(1, b=2)
    form = shown_form(operator, result)
    result.update(args=[10], priority=3)

    operator.post(edit_url(result), form | {"kwargs": '{"b": 20}'})

    result.refresh()
    assert (result.args, result.kwargs) == ([10], {"b": 20})


def test_arguments_require_their_permission(redis_server: Store) -> None:
    client, result = browser("view_overview", "change_task"), note.enqueue("confidential")

    html = client.get(edit_url(result)).content.decode()
    client.post(edit_url(result), form_of(html) | {"args": '["x"]', "initial-args": "[]", "priority": "5"})
    forced = client.post(edit_url(result), {"show_arguments": ""}).content.decode()

    assert "confidential" not in html + forced
    assert "show_arguments" not in html
    assert (get_result(result.id).args, get_queue("default").tasks("ready")[0].args) == (["confidential"],) * 2
    assert last_entry() == f"Edit task {result.id!r}: priority 5: done."


def test_arguments_are_shown_by_a_request_that_is_logged(redis_server: Store, operator: Client) -> None:
    result = note.enqueue("confidential")
    html = operator.get(edit_url(result)).content.decode()
    assert "confidential" not in html
    assert 'name="show_arguments"' in html

    shown = operator.post(edit_url(result), {"show_arguments": ""}).content.decode()

    assert "confidential" in shown
    assert LogEntry.objects.get().change_message == f"Show arguments of task {result.id!r}: shown."


def test_user_without_the_permission_may_not_edit(redis_server: Store) -> None:
    client, result = browser("view_overview", "reschedule_task", "view_task_arguments"), note.enqueue(1)

    assert client.get(edit_url(result)).status_code == 403
    assert client.post(edit_url(result), {"priority": "5"}).status_code == 403
    assert edit_url(result) not in client.get(url_of(result.id)).content.decode()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "Nothing is different."),
        ({"args": "not JSON"}, "Enter a valid JSON."),
        ({"args": "7"}, "args=7: expected a list or a tuple."),
        ({"kwargs": "[1]"}, "kwargs=[1]: expected a dict."),
        ({"args": "[1, 2, 3]"}, "too many positional arguments"),
        ({"kwargs": '{"c": 1}'}, "unexpected keyword argument"),
        ({"priority": "101"}, "less than or equal to 100"),
        ({"priority": "x"}, "Enter a whole number."),
        ({"to": "emial"}, "emial is not a queue of this site."),
        ({"expires": "tomorrow"}, "Expires: expected date and time"),
    ],
)
def test_wrong_values_are_refused_and_stay_in_the_form(
    wrong: dict[str, str], message: str, redis_server: Store, operator: Client
) -> None:
    result = add.enqueue(1, b=2)
    form = shown_form(operator, result)
    before = dump(redis_server)

    response = operator.post(edit_url(result), form | wrong)

    assert response.status_code == 409
    html = response.content.decode()
    assert message in text_of(html).replace("&quot;", '"').replace("&#x27;", "'")
    assert dump(redis_server) == before
    again = form_of(html)
    assert [again[f"initial-{name}"] for name in ("args", "kwargs", "priority", "to", "expires")] == [
        form[f"initial-{name}"] for name in ("args", "kwargs", "priority", "to", "expires")
    ], "they are still the first values"


def test_task_that_has_started_or_finished_is_refused(redis_server: Store, operator: Client) -> None:
    result, other = note.using(unique=True).enqueue(1), note.using(unique=True, queue_name="other").enqueue(2)
    form = shown_form(operator, result)
    conflict = operator.post(edit_url(result), form | {"args": "[2]"}, follow=True)
    assert f"Nothing was changed: Task {result.id} cannot be changed: task {other.id} has" in text(conflict)
    past = operator.post(edit_url(result), form | {"expires": "2001-01-01T00:00"}, follow=True)
    assert "this time has passed" in text(past)
    new_fetcher().fetch("0", 1)

    page = operator.get(edit_url(result))
    late = operator.post(edit_url(result), form | {"args": "[5]"})

    assert "This does not apply to the task in its state: Running." in text(page)
    assert late.status_code == 409
    assert get_result(result.id).args == [1]


def test_task_that_starts_between_the_look_and_the_change_is_left_alone(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = note.enqueue(1)
    form, update = shown_form(operator, result), changes.update
    monkeypatch.setattr(changes, "update", lambda *args: new_fetcher().fetch("0", 1) and update(*args))

    late = operator.post(edit_url(result), form | {"args": "[5]"}, follow=True)

    assert "Nothing was changed: the task has started, has finished or was purged." in text(late)
    assert last_entry() == f"Edit task {result.id!r}: args: it was running."


def test_unregistered_and_large_tasks_are_edited_without_arguments(redis_server: Store, operator: Client) -> None:
    [parked] = park_many(1)
    large = note.enqueue("x" * 100_000)

    for result in (parked, large):
        html = operator.post(edit_url(result), {"show_arguments": ""}).content.decode()
        assert 'name="args"' not in html
        assert operator.post(edit_url(result), form_of(html) | {"priority": "2"}).status_code == 302
    assert redis_server.raw.hget(f"{redis_server.prefix}:taskqueue:{{default}}:t:{large.id}", "p") == b"2"


def test_arguments_are_those_of_the_codec(redis_server: Store, operator: Client, settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC="django_redis_components.taskqueue.json_codec.ExtendedJSON")
    result = note.enqueue(date(2026, 11, 22))
    form = shown_form(operator, result)
    assert form["args"] == '[{"__type__": "date", "value": "2026-11-22"}]'

    operator.post(edit_url(result), form | {"args": form["args"].replace("2026", "2027")})

    assert get_result(result.id).args == [date(2027, 11, 22)]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_are_escaped(hostile: str, redis_server: Store, operator: Client) -> None:
    result = note.enqueue("x")
    clean = Page(operator.get(edit_url(result)).content.decode())

    names = ("args", "kwargs", "priority", "to", "expires")
    fields = dict.fromkeys([*names, *(f"initial-{name}" for name in names)], hostile)
    page = Page(operator.post(edit_url(result), fields).content.decode())

    assert page.all("img") == clean.all("img")
    assert len(page.all("script")) == len(clean.all("script"))
