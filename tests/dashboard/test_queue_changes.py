"""Changes on a queue's page: pause, resume, purge, restore, and retry or delete of selected tasks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.dashboard import verbs
from django_redis_components.dashboard.queues import changes
from django_redis_components.taskqueue import get_queue
from tests.dashboard.queue_pages import url_of, verb_url
from tests.dashboard.support import browser, fields_of, settle_tasks, text_of
from tests.support import Store
from tests.taskqueue.store.support import counts, fail_many, ids
from tests.taskqueue.support import new_fetcher, queue_key
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

DEFAULT = url_of("default")
VERBS = ("pause", "resume", "purge", "restore", "retry", "delete")


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", *(verb.permission for verb in (*PERMISSIONS, changes.RESTORE)))


PERMISSIONS = (changes.PAUSE, changes.PURGE, changes.RETRY, changes.DELETE)


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return text_of(response.content.decode()).replace("&quot;", '"')


def test_pause_with_reason_and_end_and_resume(redis_server: Store, operator: Client) -> None:
    note.enqueue("x")
    assert "Pause…" in text(operator.get(DEFAULT))
    asked = text(operator.get(verb_url("pause")))

    done = operator.post(verb_url("pause"), {"reason": "<b>mail</b> is down", "minutes": "30"}, follow=True)

    assert "Reason (optional)" in asked
    assert "Paused: default" in text(done)
    assert re.search(r"by view_overview-\S+ until .*&lt;b&gt;mail&lt;/b&gt; is down", text(done))
    paused = get_queue("default").info().paused
    assert paused is not None
    assert (paused.reason, paused.ends_at is None) == ("<b>mail</b> is down", False)
    assert settle_tasks("succeeded") == []

    done = operator.post(verb_url("resume"), follow=True)

    assert "Resumed: default" in text(done)
    assert settle_tasks("succeeded") == ["x"]
    assert "Not paused: default" in text(operator.post(verb_url("resume"), follow=True))
    assert [entry.change_message for entry in LogEntry.objects.order_by("pk")] == [
        "Pause queue 'default' for 30 min: done, reason '<b>mail</b> is down'.",
        "Resume queue 'default': done.",
        "Resume queue 'default': it was not paused.",
    ]
    assert operator.get(LogEntry.objects.first().get_admin_url()).status_code == 200  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wrong", [{"minutes": "0"}, {"minutes": "-1"}, {"minutes": "٣"}, {"minutes": "9" * 9}, {"reason": "x" * 1_001}]
)
def test_wrong_pause_is_asked_again(wrong: dict[str, str], redis_server: Store, operator: Client) -> None:
    response = operator.post(verb_url("pause"), wrong)

    assert response.status_code == 409
    assert "expected" in response.content.decode()
    assert get_queue("default").info().paused is None


def test_purge_previews_hits_no_later_task_and_is_undone_in_order(redis_server: Store, operator: Client) -> None:
    fail_many(2)
    note.enqueue_many([((number,), {}) for number in range(1_200)])
    note.using(run_after=3_600).enqueue("later")
    asked = operator.get(verb_url("purge"))
    shown = text(asked)
    assert "Purge 1,201 pending tasks of the queue “default”?" in shown
    assert re.search(r"tests\.taskqueue\.tasks\.note 1,201 .{3,12} Total at [\d:]+ 1,201", shown)
    assert "Kept: Running 0 · Failed 2 · Waiting 0 · Unregistered 0." in shown
    assert re.search(r"Can be undone for 24 hours, until \w+", shown)
    assert "Sample: 10 of 1,201" in shown
    late = [note.enqueue("late"), note.using(run_after=60).enqueue("late")]

    fields = fields_of(asked)
    refused = operator.post(verb_url("purge"), {**fields, "typed": "mail"})
    assert (refused.status_code, counts()) == (409, (1_201, 2, 0))
    done = operator.post(verb_url("purge"), {**fields, "typed": "default"}, follow=True)

    assert "Purged 1,201 tasks. Undo…" in text(done)
    assert "1,201 tasks purged or deleted" in text(done)
    assert (counts(), get_queue("default").info().scheduled) == ((1, 2, 0), 1)
    again = operator.post(verb_url("purge"), {**fields, "typed": "default"}, follow=True)
    assert "Purged 0 tasks." in text(again)
    [undo] = re.findall(r'<a href="([^"]*_verb/restore/default/\?trash=\w+)">Undo…</a></li>', done.content.decode())[:1]
    asked = operator.get(undo)
    assert "Restore 1,201 tasks" in text(asked)
    done = operator.post(verb_url("restore"), fields_of(asked), follow=True)
    assert "Restored 1,201 tasks." in text(done)
    assert "There is nothing to restore" in text(operator.get(undo))
    assert settle_tasks("succeeded", 2_000) == [*range(1_200), "late"]
    assert late[1].state == "scheduled"
    messages = [entry.change_message for entry in LogEntry.objects.order_by("pk")]
    assert re.fullmatch(
        r"Purge queue 'default', tasks until \d{4}-\d\d-\d\d [\d:]{8}\.\d{3} UTC: 1,201 tasks purged, trash \w+\.",
        messages[0],
    )
    assert re.fullmatch(r"Restore trash '\w+' of queue 'default': 1,201 tasks restored\.", messages[-1])


def test_ticked_tasks_are_retried_unless_they_failed_after_the_preview(redis_server: Store, operator: Client) -> None:
    results = fail_many(4)
    html = operator.get(DEFAULT, {"state": "failed"}).content.decode()
    assert html.count('type="checkbox"') == 4 + 1, "each row, and the head"
    asked = operator.post(verb_url("retry"), {"state": "failed", "id": [results[0].id, results[2].id, "unknown"]})
    assert "Retry 2 failed tasks of the queue “default”?" in text(asked)
    get_queue("default").retry_failed([results[2].id])
    settle_tasks("failed")  # after the preview

    done = operator.post(verb_url("retry"), fields_of(asked), follow=True)

    assert "Retrying 1 task." in text(done)
    assert counts() == (1, 3, 0)
    assert done.redirect_chain == [(f"{DEFAULT}?state=failed", 302)]
    entry = LogEntry.objects.get()
    assert f"({results[0].id}, {results[2].id}): 1 task retried." in entry.change_message


@pytest.mark.parametrize("state", ["failed", "unregistered"])
def test_all_tasks_are_deleted_and_restored(state: str, redis_server: Store, operator: Client) -> None:
    if state == "failed":
        fail_many(700)
    else:
        note.enqueue_many([((number,), {}) for number in range(700)])
        settle_tasks("unregistered")
    asked = operator.post(verb_url("delete"), {"state": state, "all": "1"})
    assert "Delete 700 tasks of the queue “default” in the state" in text(asked)

    done = operator.post(verb_url("delete"), fields_of(asked), follow=True)

    assert "Deleted 700 tasks. Undo…" in text(done)
    assert counts() == (0, 0, 0)
    [undo] = re.findall(r'trash=(\w+)">Undo…</a></li>', done.content.decode())[:1]
    operator.post(verb_url("restore"), {"trash": undo})
    assert sum(counts()) == 700


def test_all_that_match_are_retried_in_order(redis_server: Store, operator: Client) -> None:
    fail_many(1_300)
    note.enqueue("x")
    asked = operator.post(verb_url("retry"), {"state": "failed", "all": "1", "text": '"7', "error": "LookupError"})
    matching = [str(number) for number in range(1_300) if str(number).startswith("7")]
    assert f"Retry {len(matching)} failed tasks" in text(asked)

    done = operator.post(verb_url("retry"), fields_of(asked), follow=True)

    assert f"Retrying {len(matching)} tasks." in text(done)
    assert counts() == (len(matching) + 1, 1_300 - len(matching), 0)


def test_a_change_that_is_out_of_time_says_so(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_many(3)
    asked = operator.post(verb_url("retry"), {"state": "failed", "all": "1"})
    monkeypatch.setattr(verbs, "BUDGET_S", 0.0)

    done = operator.post(verb_url("retry"), fields_of(asked), follow=True)

    assert "Retrying 0 tasks. The time was up before all were changed." in text(done)
    assert LogEntry.objects.get().change_message.endswith(": 0 tasks retried, stopped before the end.")


def test_nothing_selected_and_wrong_forms(redis_server: Store, operator: Client) -> None:
    fail_many(1)

    empty = operator.post(verb_url("retry"), {"state": "failed"}, follow=True)

    assert "Select at least one task." in text(empty)
    for verb, form in (
        ("retry", {"state": "unregistered", "all": "1"}),
        ("delete", {"state": "running", "all": "1"}),
        ("delete", {"state": "failed", "id": ["x" * 201]}),
        ("retry", {"state": "failed", "id": [str(number) for number in range(201)]}),
        ("restore", {}),
    ):
        assert operator.post(verb_url(verb), form).status_code == 400, (verb, form)
    gone = operator.post(verb_url("delete"), {"state": "failed", "id": ["unknown"]})
    assert "None of these tasks is in this state any more." in text(gone)
    assert "The queue has no pending tasks." in text(operator.get(verb_url("purge", "empty")))
    assert operator.get(verb_url("purge", "a%7Bb")).status_code == 404


def test_each_verb_requires_its_permission_csrf_and_no_read_only(redis_server: Store, settings: Any) -> None:
    fail_many(1)
    note.enqueue("x")
    forms: dict[str, dict[str, str]] = {
        "retry": {"state": "failed", "all": "1"},
        "delete": {"state": "failed", "all": "1"},
        "restore": {"trash": "x"},
    }
    every = {"pause": "pause_queue", "resume": "pause_queue", "purge": "purge_queue", "restore": "restore_task"}
    every |= {"retry": "retry_task", "delete": "delete_task"}
    for permission in ("", *sorted(set(every.values()))):
        client = browser("view_overview", permission)
        answers = {verb: client.get(verb_url(verb), forms.get(verb, {})).status_code for verb in VERBS}
        assert answers == {verb: 200 if every[verb] == permission else 403 for verb in VERBS}
        html = client.get(DEFAULT, {"state": "failed"}).content.decode()
        assert {verb for verb in VERBS if f"_verb/{verb}/default/" in html} <= {
            v for v in VERBS if every[v] == permission
        }
    assert browser("retry_task").get(verb_url("retry"), forms["retry"]).status_code == 403
    root = User.objects.create_superuser("root")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(root)
    assert {strict.post(verb_url(verb), forms.get(verb, {})).status_code for verb in VERBS} == {403}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"READ_ONLY": True}}
    client = Client()
    client.force_login(root)
    assert {client.post(verb_url(verb), forms.get(verb, {})).status_code for verb in VERBS} == {403}
    assert "Purge…" not in text(client.get(DEFAULT))
    assert counts() == (1, 1, 0)
    assert LogEntry.objects.count() == 0


def test_verbs_return_503_during_an_outage(settings: Any) -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}

    for verb, form in (
        ("retry", {"state": "failed", "all": "1"}),
        ("restore", {"trash": "x"}),
        ("resume", {}),
        ("pause", {}),
    ):
        assert client.post(verb_url(verb), form).status_code == 503, verb
    assert client.get(verb_url("purge")).status_code == 503
    assert all("outcome unknown" in entry.change_message for entry in LogEntry.objects.all())


def test_queue_without_tasks_in_work_is_purged_while_a_worker_fetches(redis_server: Store, operator: Client) -> None:
    results = note.enqueue_many([((number,), {}) for number in range(30)])
    asked = operator.get(verb_url("purge"))
    running = new_fetcher().fetch("0", 5)

    done = operator.post(verb_url("purge"), {**fields_of(asked), "typed": "default"}, follow=True)

    assert "Purged 25 tasks." in text(done)
    assert [job.id for job in running] == ids(results)[:5]
    assert get_queue("default").info().running == 5


def test_retries_are_purged_and_restored_as_retries(redis_server: Store, operator: Client) -> None:
    note.enqueue("fails")
    settle_tasks("retried", delay_ms=3_600_000)
    assert get_queue("default").info().retrying == 1

    fields = fields_of(operator.get(verb_url("purge")))
    done = operator.post(verb_url("purge"), {**fields, "typed": "default"}, follow=True)

    assert "Purged 1 task." in text(done)
    assert get_queue("default").info().retrying == 0
    [undo] = re.findall(r'<a href="([^"]*_verb/restore/default/\?trash=\w+)">Undo…</a></li>', done.content.decode())[:1]
    operator.post(verb_url("restore"), fields_of(operator.get(undo)))
    depth = get_queue("default").info()
    assert (depth.scheduled, depth.retrying) == (1, 1)


@pytest.mark.unmeasured
def test_purge_of_100_000_tasks_is_undone_in_order(redis_server: Store, operator: Client) -> None:
    note.using(priority=5).enqueue_many([((number,), {}) for number in range(1_000)])
    note.enqueue_many([((number,), {}) for number in range(98_000)])
    note.using(run_after=3_600).enqueue_many([((number,), {}) for number in range(1_000)])
    before = pending_ids(redis_server)
    assert list(map(len, before)) == [99_000, 1_000]

    asked = operator.get(verb_url("purge"))
    done = operator.post(verb_url("purge"), {**fields_of(asked), "typed": "default"}, follow=True)

    assert "Purged 100,000 tasks." in text(done)
    assert pending_ids(redis_server) == ([], [])
    while undo := re.findall(
        r'<a href="([^"]*_verb/restore/default/\?trash=\w+)">Undo…</a></li>', done.content.decode()
    ):
        done = operator.post(verb_url("restore"), fields_of(operator.get(undo[0])), follow=True)
    assert pending_ids(redis_server) == before


def pending_ids(store: Store) -> tuple[list[bytes], list[bytes]]:
    """Return the ids of the ready tasks of the default queue in the order of service, and of the scheduled ones.

    Restored tasks have a place by score, before newer ones; there is none with a priority below 0.
    """
    requeued, ready = (store.raw.lrange(queue_key(store, part), 0, -1) for part in ("requeued", "ready"))
    by_score, scheduled = (store.raw.zrange(queue_key(store, part), 0, -1) for part in ("priority", "scheduled"))
    return requeued + by_score + ready, scheduled
