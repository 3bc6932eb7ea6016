"""The form that enqueues a task: its fields, what it enqueues, what it refuses and what is logged."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client
from django.utils import timezone

from django_redis_components.dashboard.actions.sentences import sentence_of
from django_redis_components.taskqueue import Concurrency, TaskContext, get_queue, registry, task
from tests.dashboard.support import HOSTILE, Page, browser, dump, text_of
from tests.dashboard.task_pages import text
from tests.dashboard.task_pages import url_of as task_url
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.django_db

CLASSES = "/admin/django_redis_components/taskclass/"


def class_url(name: str) -> str:
    return f"{CLASSES}{quote(name)}/"


def enqueue_url(name: str) -> str:
    return f"{CLASSES}_verb/enqueue/{quote(name)}/"


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "enqueue_task")


def report_pages(
    context: TaskContext, start: int, /, fmt: str = "pdf", *pages: int, priority: int, deep: Any = None, **more: Any
) -> None:
    """Have parameters of all kinds."""


@pytest.fixture
def report() -> Iterator[Any]:
    yield task(name="tests.report", takes_context=True, queue_name="mail", priority=3)(report_pages)
    del registry.tasks["tests.report"]


def form_of(html: str) -> dict[str, str]:
    """Return what a browser sends with the form as it is shown."""
    page = Page(html)
    found = {each["name"]: each.get("value") or "" for each in page.all("input") if each.get("name")}
    found |= {each["name"]: "" for each in page.all("textarea")}
    for each in page.all("option"):
        if "selected" in each:
            found["to"] = each["value"] or ""
    return found


def shown_form(client: Client, name: str) -> dict[str, str]:
    return form_of(client.get(enqueue_url(name)).content.decode())


def last_entry() -> LogEntry:
    entry = LogEntry.objects.order_by("pk").last()
    assert entry is not None
    return entry


def test_form_has_a_field_for_each_parameter(redis_server: Store, operator: Client, report: Any) -> None:
    before = dump(redis_server)

    assert enqueue_url(report.name) in operator.get(class_url(report.name)).content.decode()
    response = operator.get(enqueue_url(report.name))
    form, shown = form_of(response.content.decode()), text(response)

    assert dump(redis_server) == before, "the form writes nothing"
    names = ("start", "fmt", "pages", "priority", "deep", "more")
    assert [each for each in form if each.startswith("argument-")] == [f"argument-{name}" for name in names]
    assert (form["to"], form["priority"], form["delay"]) == ("mail", "3", "")
    assert "context" not in shown
    hint = 'Enter JSON, such as 7, "text", null or [1, 2].'
    assert f"start (required) {hint} fmt Default: &#x27;pdf&#x27; *pages: further positional arguments" in shown
    assert f"priority (required) {hint} deep Default: None **more: further named arguments" in shown


def test_call_is_enqueued_and_logged(redis_server: Store, operator: Client, report: Any) -> None:
    wanted = {"argument-start": "7", "argument-priority": '"high"', "argument-deep": "{}", "priority": "-3"}
    form = shown_form(operator, report.name) | wanted | {"to": "default", "delay": "3600"}

    done = operator.post(enqueue_url(report.name), form, follow=True)

    assert done.redirect_chain == [(class_url(report.name), 302)]
    [result] = get_queue("default").tasks("scheduled")
    assert (result.args, result.kwargs) == ([7], {"priority": "high", "deep": {}})
    assert result.run_after is not None
    assert result.run_after.timestamp() - timezone.now().timestamp() == pytest.approx(3_600, abs=60)
    assert f'Enqueued: tests.report <a href="{task_url(result.id)}">{result.id}</a>' in done.content.decode()
    entry = last_entry()
    action = "Enqueue 'tests.report' on queue 'default', priority -3, in 3600 s"
    assert entry.change_message == f"{action}: task {result.id} enqueued."
    assert (entry.object_id, entry.content_type.model) == ("tests.report", "taskclass")
    assert sentence_of(entry.change_message) == "Enqueued tests.report on queue default, priority -3, in 3600 s."


def send_note(password: str) -> None:
    """Have a key of its concurrency that is no text."""


def test_error_that_shows_an_argument_is_not_in_the_log(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "tasks", {})
    monkeypatch.setattr(registry, "autodiscover", lambda: None)
    key: Any = lambda password: [password]  # noqa: E731
    task(name="tests.keyed", concurrency=Concurrency(1, key=key))(send_note)
    form = shown_form(operator, "tests.keyed") | {"argument-password": '"pa55word"'}

    done = operator.post(enqueue_url("tests.keyed"), form, follow=True)

    assert "pa55word" in done.content.decode(), "the operator has typed it"
    assert last_entry().change_message == "Enqueue 'tests.keyed' on queue 'default': refused, TypeError."


def test_further_arguments_follow_the_positional_ones(redis_server: Store, operator: Client, report: Any) -> None:
    wanted = {"argument-start": "1", "argument-pages": "[4, 5]", "argument-priority": "1", "argument-more": '{"x": 2}'}
    form = shown_form(operator, report.name) | wanted

    refused = operator.post(enqueue_url(report.name), form)
    operator.post(enqueue_url(report.name), form | {"argument-fmt": '"csv"'})

    assert refused.status_code == 409
    assert "Enter a value: one of the next arguments is given by position." in text_of(refused.content.decode())
    [result] = get_queue("mail").tasks("ready")
    assert (result.args, result.kwargs) == ([1, "csv", 4, 5], {"priority": 1, "x": 2})


def test_plain_call_keeps_the_options_of_the_task(redis_server: Store, operator: Client, report: Any) -> None:
    wanted = {"argument-start": "7", "argument-priority": "null"}
    operator.post(enqueue_url(report.name), shown_form(operator, report.name) | wanted)

    [result] = get_queue("mail").tasks("ready")
    assert (result.args, result.kwargs) == ([7], {"priority": None})
    assert last_entry().change_message.startswith("Enqueue 'tests.report' on queue 'mail': task ")


def test_form_that_is_sent_twice_enqueues_once(redis_server: Store, operator: Client) -> None:
    form = shown_form(operator, add.name) | {"argument-a": "1", "argument-b": "2"}
    operator.post(enqueue_url(add.name), form)

    again = operator.post(enqueue_url(add.name), form, follow=True)
    other = operator.post(enqueue_url(add.name), form | {"argument-b": "3"}, follow=True)

    [result] = get_queue("default").tasks("ready")
    assert "No new task: one has the same unique key, or the form was sent before." in text(again)
    assert task_url(result.id) in again.content.decode()
    assert "Not enqueued: Task id" in text(other)


def test_unique_key_that_is_taken_is_said(redis_server: Store, operator: Client, settings: Any) -> None:
    taskqueue_settings(settings, DEFAULTS={"unique": True})
    first = note.enqueue("x")

    form = shown_form(operator, note.name) | {"argument-what": '"x"'}
    done = operator.post(enqueue_url(note.name), form, follow=True)

    assert "No new task: one has the same unique key" in text(done)
    assert task_url(first.id) in done.content.decode()


def test_arguments_are_decoded_by_the_codec_of_the_site(redis_server: Store, operator: Client, settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC="django_redis_components.taskqueue.json_codec.ExtendedJSON")
    form = shown_form(operator, note.name) | {"argument-what": '{"__type__": "date", "value": "2026-11-22"}'}

    operator.post(enqueue_url(note.name), form)

    assert get_queue("default").tasks("ready")[0].kwargs == {"what": date(2026, 11, 22)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"argument-start": ""}, "This field is required."),
        ({"argument-start": "text"}, 'Enter JSON, such as 7, "text", null or [1, 2].'),
        ({"argument-start": "NaN"}, "Enter JSON, such as"),
        ({"argument-pages": "{}"}, "Enter a JSON list."),
        ({"argument-more": "[]"}, "Enter a JSON object."),
        ({"argument-more": '{"fmt": 1}', "argument-fmt": "2"}, "fmt is given twice."),
        ({"priority": "101"}, "less than or equal to 100"),
        ({"delay": "-1"}, "greater than or equal to 0"),
        ({"delay": "1e300"}, "run_after="),
        ({"to": "emial"}, "emial is not a queue of this site."),
        ({"id": "x" * 1_000}, "id="),
    ],
)
def test_wrong_values_are_refused_and_stay_in_the_form(
    wrong: dict[str, str], message: str, redis_server: Store, operator: Client, report: Any
) -> None:
    form = shown_form(operator, report.name) | {"argument-start": "7", "argument-priority": "1"}
    before = dump(redis_server)

    response = operator.post(enqueue_url(report.name), form | wrong)

    assert response.status_code == 409
    assert message in text_of(response.content.decode()).replace("&quot;", '"')
    assert dump(redis_server) == before
    assert not LogEntry.objects.exists()


def test_name_that_is_not_registered_here_cannot_be_enqueued(redis_server: Store, operator: Client) -> None:
    assert enqueue_url("no.task") not in operator.get(class_url("no.task")).content.decode()
    assert "This process has not registered a task of this name." in text(operator.get(enqueue_url("no.task")))
    assert operator.post(enqueue_url("no.task"), {}).status_code == 409


def test_task_of_another_connection_cannot_be_enqueued(redis_server: Store, operator: Client, report: Any) -> None:
    registry.tasks[report.name] = dataclasses.replace(report, connection="other")

    page = text(operator.get(enqueue_url(report.name)))

    assert "It is enqueued over the connection “other”, which is not that of these pages." in page
    assert operator.post(enqueue_url(report.name), {"argument-start": "7"}).status_code == 409


def test_user_without_the_permission_may_not_enqueue(redis_server: Store) -> None:
    client = browser("view_overview", "run_task", "change_task")

    assert client.get(enqueue_url(note.name)).status_code == 403
    assert client.post(enqueue_url(note.name), {"argument-what": "1"}).status_code == 403
    assert enqueue_url(note.name) not in client.get(class_url(note.name)).content.decode()
    assert get_queue("default").info().ready == 0


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_texts_are_escaped(hostile: str, redis_server: Store, operator: Client) -> None:
    clean = Page(operator.get(enqueue_url(note.name)).content.decode())

    fields = dict.fromkeys(("argument-what", "to", "priority", "delay", "id"), hostile)
    page = Page(operator.post(enqueue_url(note.name), fields).content.decode())

    assert page.all("img") == clean.all("img")
    assert len(page.all("script")) == len(clean.all("script"))
