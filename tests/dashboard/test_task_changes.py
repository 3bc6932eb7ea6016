"""Changes of one task: retry, run now, reschedule, cancel, delete."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client

from django_redis_components.dashboard.task import changes
from django_redis_components.taskqueue import get_queue
from tests.dashboard.queue_pages import url_of as queue_url
from tests.dashboard.queue_pages import verb_url as queue_verb_url
from tests.dashboard.support import browser, fields_of, settle_tasks
from tests.dashboard.task_pages import TASKS, text, url_of
from tests.support import Store
from tests.taskqueue.store.support import counts, fail_many, park_many
from tests.taskqueue.support import new_fetcher
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

VERBS = (changes.RETRY, changes.RUN_NOW, changes.RESCHEDULE, changes.CANCEL, changes.DELETE, changes.SHOW_ARGUMENTS)


def verb_url(verb: str, task_id: str) -> str:
    return f"{TASKS}_verb/{verb}/{quote(task_id)}/"


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "restore_task", *(verb.permission for verb in VERBS))


def last_entry() -> str:
    entry = LogEntry.objects.order_by("pk").last()
    assert entry is not None
    return entry.change_message


def test_failed_task_is_retried_once(redis_server: Store, operator: Client) -> None:
    [result] = fail_many(1)
    assert "Retry" in text(operator.get(url_of(result.id)))
    assert "A retry cannot be undone" in text(operator.get(verb_url("retry", result.id)))
    assert counts() == (0, 1, 0)

    done = operator.post(verb_url("retry", result.id), follow=True)

    assert done.redirect_chain == [(url_of(result.id), 302)]
    assert "Retrying: tests.taskqueue.tasks.fail" in text(done)
    assert counts() == (1, 0, 0)
    assert last_entry() == f"Retry task {result.id!r}: done."
    again = operator.post(verb_url("retry", result.id), follow=True)
    assert "Not retried: it is not failed any more" in text(again)
    assert operator.get(LogEntry.objects.first().get_admin_url()).status_code == 200  # type: ignore[union-attr]


def test_scheduled_task_is_rescheduled_and_run_now(redis_server: Store, operator: Client) -> None:
    result = note.using(run_after=86_400).enqueue("x")
    asked = operator.get(verb_url("reschedule", result.id))
    assert re.search(r'type="datetime-local" name="due" value="\d{4}-\d\d-\d\dT\d\d:\d\d"', asked.content.decode())

    done = operator.post(verb_url("reschedule", result.id), {"due": "2099-01-02T03:04"}, follow=True)

    assert "Rescheduled: tests.taskqueue.tasks.note" in text(done)
    result.refresh()
    assert result.run_after is not None
    assert (result.run_after.year, result.run_after.minute) == (2099, 4)
    assert re.fullmatch(rf"Reschedule task '{result.id}' to 2099-01-02 03:04\S*: done\.", last_entry())
    assert settle_tasks("succeeded") == []
    assert "Due now: tests.taskqueue.tasks.note" in text(operator.post(verb_url("run_now", result.id), follow=True))
    assert settle_tasks("succeeded") == ["x"]
    late = operator.post(verb_url("run_now", result.id), follow=True)
    assert "Nothing was changed: the task is not scheduled any more." in text(late)


@pytest.mark.parametrize(
    "due", ["", "x", "2026-13-01T00:00", "9999-12-31T23:59", "0001-01-01T00:00", "٢٠٢٦-01-01", "1" * 500, "\0"]
)
def test_wrong_due_time_is_asked_again(due: str, redis_server: Store, operator: Client) -> None:
    result = note.using(run_after=86_400).enqueue("x")

    response = operator.post(verb_url("reschedule", result.id), {"due": due})

    assert response.status_code == 409
    assert "expected date and time" in response.content.decode()
    assert LogEntry.objects.count() == 0


def test_pending_task_is_cancelled_after_confirmation_unless_it_has_started(
    redis_server: Store, operator: Client
) -> None:
    results = [note.enqueue(number) for number in range(2)]
    asked = [operator.get(verb_url("cancel", result.id)) for result in results]
    assert "A cancellation cannot be undone." in text(asked[0])
    assert results[0].state == "ready"
    unconfirmed = operator.post(verb_url("cancel", results[0].id))
    assert (unconfirmed.status_code, counts()) == (200, (2, 0, 0))

    done = operator.post(verb_url("cancel", results[0].id), fields_of(asked[0]), follow=True)

    assert "Cancelled: tests.taskqueue.tasks.note" in text(done)
    results[0].refresh()
    assert results[0].state == "cancelled"
    stolen = operator.post(verb_url("cancel", results[1].id), fields_of(asked[0]))
    assert stolen.status_code == 200
    new_fetcher().fetch("0", 1)
    late = operator.post(verb_url("cancel", results[1].id), fields_of(asked[1]), follow=True)
    assert "Nothing was changed: the task has started." in text(late)
    running = operator.get(verb_url("cancel", results[1].id))
    assert "The task is asked to stop by an exception." in text(running)
    stopped = operator.post(verb_url("cancel", results[1].id), fields_of(running), follow=True)
    assert "It was asked to stop." in text(stopped)
    assert last_entry() == f"Stop task {results[1].id!r}: asked to stop."


@pytest.mark.parametrize("state", ["failed", "unregistered"])
def test_task_is_deleted_and_restored(state: str, redis_server: Store, operator: Client) -> None:
    [result] = fail_many(1) if state == "failed" else park_many(1)
    before, asked = counts(), operator.get(verb_url("delete", result.id))
    assert "Can be undone for 24 hours" in text(asked)

    done = operator.post(verb_url("delete", result.id), fields_of(asked), follow=True)

    assert done.redirect_chain == [(queue_url("default"), 302)]
    assert "Deleted: " in text(done)
    assert counts() == (0, 0, 0)
    assert "Not running: it was deleted." in text(operator.get(url_of(result.id)))
    assert "This does not apply to the task" in text(operator.get(verb_url("delete", result.id)))
    [trash] = set(re.findall(r'trash=(\w+)">Undo…</a></li>', done.content.decode()))
    operator.post(queue_verb_url("restore"), {"trash": trash})
    assert counts() == before


def test_task_that_failed_again_after_the_preview_is_not_deleted(redis_server: Store, operator: Client) -> None:
    [result] = fail_many(1)
    asked = operator.get(verb_url("delete", result.id))
    get_queue("default").retry_failed([result.id])
    settle_tasks("failed")

    done = operator.post(verb_url("delete", result.id), fields_of(asked), follow=True)

    assert "Nothing was changed: the task is not in this state any more." in text(done)
    assert counts() == (0, 1, 0)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_each_change_requires_its_permission(verb: Any, redis_server: Store, settings: Any) -> None:
    results = [*fail_many(1), note.using(run_after=60).enqueue("x")]
    others = browser("view_overview", *(each.permission for each in VERBS if each.permission != verb.permission))
    allowed = browser("view_overview", verb.permission)

    for result in results:
        address = verb_url(verb.name, result.id)
        assert address not in others.get(url_of(result.id)).content.decode()
        assert (others.get(address).status_code, others.post(address).status_code) == (403, 403)
        assert allowed.get(address).status_code == 200
    assert any(verb_url(verb.name, result.id) in allowed.get(url_of(result.id)).content.decode() for result in results)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    assert allowed.post(verb_url(verb.name, results[0].id)).status_code == 403
    assert LogEntry.objects.count() == 0


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_change_of_an_unknown_task_is_404(verb: Any, redis_server: Store, operator: Client) -> None:
    for task_id in ("unknown", "a/b", "x" * 300, "x:errors"):
        for method in (operator.get, operator.post):
            assert method(verb_url(verb.name, task_id)).status_code == 404


def test_ticket_of_another_page_is_refused(redis_server: Store, operator: Client) -> None:
    [result] = fail_many(1)
    ticket = fields_of(operator.get(verb_url("delete", result.id)))

    assert operator.post(queue_verb_url("delete"), {**ticket, "state": "failed", "id": result.id}).status_code == 409
    assert counts() == (0, 1, 0)
