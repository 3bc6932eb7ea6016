"""The page of actions: entries, undo, cursor, filter, hostile input."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qsl

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

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

    assert "Purged 3 tasks of queue default." in text_of(html)
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


UNTIL, TRASH, ERROR = "until 2026-11-24 10:00:00.123 UTC", "trash 0123456789abcdef", "error 5f0c5f0c5f0c5f0c"


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (
            f"Purge queue 'mail', tasks {UNTIL}: 560 tasks purged, {TRASH}.",
            "Purged 560 tasks of queue mail.",
        ),
        (
            f"Purge queue 'mail', tasks {UNTIL}: 1 task purged, {TRASH}, stopped before the end.",
            "Purged 1 task of queue mail, stopped before the end.",
        ),
        (
            "Restore trash '0123456789abcdef' of queue 'mail': 3 tasks restored.",
            "Restored 3 deleted tasks of queue mail.",
        ),
        (
            f"Retry failed tasks of {ERROR} (ValueError) in 'mail' {UNTIL}, 'bulk' {UNTIL}: 1,200 tasks retried.",
            "Retried 1,200 failed tasks of the error ValueError in mail, bulk.",
        ),
        (
            f"Delete failed tasks of {ERROR} (KeyError) in 'mail' {UNTIL}: 2 tasks deleted, {TRASH}, 0123456789abcdee.",
            "Deleted 2 failed tasks of the error KeyError in mail.",
        ),
        (
            f"Move ready tasks of queue 'mail' to 'bulk' {UNTIL} (0190-a, 0190-b): 2 tasks moved.",
            "Moved 2 ready tasks of queue mail to bulk (selected: 0190-a, 0190-b).",
        ),
        (
            f"Run now scheduled tasks of queue 'mail' {UNTIL} (all that match name='send'): 2 tasks made due.",
            "Made 2 scheduled tasks of queue mail due now (all that match name=send).",
        ),
        (
            f"Reschedule scheduled tasks of queue 'mail' to '1763978400000' {UNTIL} (all): 2 tasks rescheduled.",
            "Rescheduled 2 scheduled tasks of queue mail to 2025-11-24 10:00:00.000 UTC (all).",
        ),
        ("Quiet worker 'web-1:77': sent, operation 2109aa.", "Sent the command quiet to worker web-1:77."),
        (
            "Stop workers 'web-1:77', 'web-2:78': sent, operation 2109aa; refused, worker 'web-2:78' has exited.",
            "Sent the command stop to workers web-1:77, web-2:78; refused, worker web-2:78 has exited.",
        ),
        (
            f"Delete task '0190-a' of queue 'mail': deleted, {TRASH}.",
            "Deleted task 0190-a of queue mail.",
        ),
        ("Stop task '0190-a': asked to stop.", "Asked task 0190-a to stop."),
        ("Cancel flow 'f-1': 5 tasks cancelled.", "Cancelled 5 tasks of flow f-1."),
        ("Pause queue 'mail' for 5 min: done, reason 'a deploy'.", "Paused queue mail for 5 min. Reason: a deploy."),
        (
            "Pause queue 'mail': done, reason 'The provider is down.'.",
            "Paused queue mail. Reason: The provider is down.",
        ),
        (
            "Release lock 'stock' on connection 'default' from holder '5d1e5d1e': done.",
            "Released lock stock on connection default.",
        ),
        (
            "Block key 'ip:203.0.113.7' of rate limit 'login' until unblocked: done.",
            "Blocked key ip:203.0.113.7 of rate limit login until unblocked.",
        ),
        ("Run schedule 'nightly': task 0190-a enqueued.", "Ran schedule nightly: task 0190-a enqueued."),
        ("Show arguments of task '0190-a': shown.", "Showed arguments of task 0190-a."),
        ("Resume queue 'mail': it was not paused.", "Resume queue mail: it was not paused."),
        (
            "Edit schedule 'a b': shop.tasks.send, every 60 s: done.",
            "Edited schedule 'a b': shop.tasks.send, every 60 s.",
        ),
        ("Something that an older release wrote", "Something that an older release wrote"),
    ],
)
def test_entry_is_shown_as_a_sentence_without_internal_ids(stored: str, shown: str, operator: Client) -> None:
    write_entries(1, message=stored)

    response = operator.get(ACTIONS)

    [(title, text)] = re.findall(r'<bdi lang="en"(?: title="([^"]*)")?>(.*?)</bdi>', response.content.decode())
    assert (unescape(title) or stored, unescape(text)) == (stored, shown)
    [found] = operator.get(ACTIONS, {"format": "json"}).json()["actions"]
    assert found["text"] == stored


def test_entries_are_filtered_by_user_verb_kind_and_time(operator: Client) -> None:
    write_entries(1, message="Purge queue 'mail': 2 tasks purged, trash 0123456789abcdef.")
    write_entries(1, message="Pause queue 'mail': done.")
    write_entries(1, model=MODELS["schedule"], name="nightly", message="Pause schedule 'nightly': done.")
    write_entries(1, message="Purge queue 'old': 2 tasks purged, trash 0123456789abcdef.")
    bob, old = User.objects.create(username="bob"), LogEntry.objects.order_by("pk").last()
    LogEntry.objects.filter(pk=old.pk).update(user=bob, action_time=old.action_time - timedelta(days=3))
    day = timezone.localtime() - timedelta(days=1)

    def found(**query: str) -> list[str]:
        shown = operator.get(ACTIONS, {"format": "json", **query}).json()["actions"]
        return [entry["text"].partition(":")[0] for entry in shown]

    assert found(user="bob") == ["Purge queue 'old'"]
    assert found(user="ad") == []
    assert found(verb="Purge", user="ada") == ["Purge queue 'mail'"]
    assert found(verb="Pause") == ["Pause schedule 'nightly'", "Pause queue 'mail'"]
    assert found(verb="Pause", model="queues") == ["Pause queue 'mail'"]
    assert found(end=f"{day:%Y-%m-%dT%H:%M}") == ["Purge queue 'old'"]
    assert len(found(begin=f"{day:%Y-%m-%dT%H:%M}")) == 3


def test_filter_is_a_form_that_keeps_its_values_and_the_pages_of_it(operator: Client) -> None:
    write_entries(51, message="Pause queue 'mail': done.")
    query = {"user": "ada", "verb": "Pause", "model": "queues", "begin": "2026-01-02T03:04"}

    html = operator.get(ACTIONS, query).content.decode()

    assert re.search(r'<input type="text" name="user" value="ada"', html)
    assert re.search(r'<option value="Pause" selected>', html)
    assert re.search(r'<option value="queues" selected>', html)
    assert re.search(r'<input type="datetime-local" name="begin" value="2026-01-02T03:04"', html)
    [older] = re.findall(r'<a href="\?([^"]+)">Older</a>', html)
    kept = dict(parse_qsl(unescape(older)))
    assert kept.pop("before").isdigit()
    assert kept == query
    assert operator.get(f"{ACTIONS}?{unescape(older)}").content.decode().count("Paused queue mail.") == 1
    nothing = operator.get(ACTIONS, {"user": "nobody"}).content.decode()
    assert "No action matches the filter." in nothing


@pytest.mark.parametrize(
    "query",
    [
        {"user": "x" * 201},
        {"verb": "Dance"},
        {"begin": "yesterday"},
        {"end": "2026-13-01"},
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
