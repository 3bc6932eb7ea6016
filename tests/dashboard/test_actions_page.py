"""The page of actions: entries, undo, cursor, filter, hostile input."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.dashboard.models import MODELS
from django_redis_components.taskqueue import get_queue
from tests.dashboard.action_pages import ACTIONS, write_entries
from tests.dashboard.queue_pages import url_of, verb_url
from tests.dashboard.support import HOSTILE, Page, browser, fields_of, text_of
from tests.support import Store
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "view_action", "purge_queue", "restore_task")


def test_purge_is_listed_and_undone_from_the_page(redis_server: Store, operator: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(3)])
    asked = operator.get(verb_url("purge"))
    operator.post(verb_url("purge"), {**fields_of(asked), "typed": "default"})
    queue_page = operator.get(url_of("default")).content.decode()

    [link] = re.findall(rf'<a href="({ACTIONS}[^"]+)">History</a>', queue_page)
    html = operator.get(link.replace("&amp;", "&")).content.decode()

    assert re.search(r"Purge queue &#x27;default&#x27;, tasks until [-\d:. ]+ UTC: 3 tasks purged, trash", html)
    assert "task queue default" in text_of(html)
    [undo] = re.findall(r'<a href="([^"]+_verb/restore/default/\?trash=\w+)">Undo…</a>', html)
    operator.post(verb_url("restore"), fields_of(operator.get(undo)))
    assert get_queue("default").info().ready == 3
    assert "Undo…" not in operator.get(ACTIONS).content.decode(), "there is nothing left to restore"
    newest = LogEntry.objects.order_by("pk").last().pk
    [found] = operator.get(ACTIONS, {"format": "json", "before": newest}).json()["actions"]
    assert (found["user"], found["model"], found["name"]) == (User.objects.get().username, "queues", "default")
    assert found["trash"] == ""


def test_undo_is_offered_for_a_day_and_with_the_permission(operator: Client) -> None:
    message = "Purge queue 'mail': 2 tasks purged, trash 0123456789abcdef, stopped before the end."
    write_entries(1, message=message)

    assert "Undo…" in operator.get(ACTIONS).content.decode()
    assert "Undo…" not in browser("view_action").get(ACTIONS).content.decode()
    entry = LogEntry.objects.get()
    entry.action_time -= timedelta(hours=25)
    entry.save()
    assert "Undo…" not in operator.get(ACTIONS).content.decode()


def test_action_without_an_outcome_is_named(operator: Client) -> None:
    write_entries(1, message="Purge queue 'mail': requested.")

    assert "Outcome unknown" in operator.get(ACTIONS).content.decode()


def test_entries_are_read_in_pages_by_a_bounded_number_of_queries(
    operator: Client, django_assert_max_num_queries
) -> None:
    write_entries(51)
    write_entries(60, model=User, message="not ours")
    write_entries(1, model=MODELS["lock"], name="stock")
    operator.get(ACTIONS)

    with django_assert_max_num_queries(6):
        html = operator.get(ACTIONS).content.decode()

    assert html.count("Pause: done.") == 50
    assert "not ours" not in html
    [older] = re.findall(r'<a href="(\?before=\d+)">Older</a>', html)
    assert operator.get(ACTIONS + older).content.decode().count("Pause: done.") == 2
    only = operator.get(ACTIONS, {"model": "lock", "object": "stock"}).content.decode()
    assert only.count("Pause: done.") == 1


@pytest.mark.parametrize(
    "query",
    [
        {"before": "x"},
        {"before": "٣"},
        {"before": "9" * 19},
        {"before": "-1"},
        {"model": "user"},
        {"object": "x" * 1_001},
    ],
)
def test_invalid_parameters_are_refused(query: dict[str, str], operator: Client) -> None:
    response = operator.get(ACTIONS, query)

    assert response.status_code == 400
    assert "expected" in response.content.decode()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name: str, operator: Client) -> None:
    write_entries(1, name="mail")
    clean = Page(operator.get(ACTIONS).content.decode())
    LogEntry.objects.update(object_id=name, change_message=f"Release {name!r}: done.")

    page = Page(operator.get(ACTIONS).content.decode())

    assert [tag for tag, _ in page.tags] == [tag for tag, _ in clean.tags]
    assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)


@pytest.mark.parametrize(("permissions", "expected"), [(("view_overview",), 403), (("view_action",), 200)])
def test_page_requires_its_permission(permissions: tuple[str, ...], expected: int) -> None:
    assert browser(*permissions).get(ACTIONS).status_code == expected


def test_page_works_while_redis_is_down(own_server: Store, operator: Client) -> None:
    write_entries(1)
    own_server.servers[0].kill()

    assert "Pause: done." in operator.get(ACTIONS).content.decode()
