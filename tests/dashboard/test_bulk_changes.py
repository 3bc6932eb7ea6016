"""Changes of ticked tasks and of all that match: run now, reschedule, move, cancel; what the confirmations say."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client

from django_redis_components.dashboard.queues.task_query import parse_time
from django_redis_components.dashboard.queues.task_verbs import TASK_VERBS
from django_redis_components.taskqueue import get_queue
from tests.dashboard.queue_pages import url_of, verb_url
from tests.dashboard.support import Page, browser, fail_with, fields_of, group_of, now_ms, settle_tasks, text_of
from tests.support import Store
from tests.taskqueue.store.support import fail_many, ids, park_many
from tests.taskqueue.support import base_key, new_fetcher, taskqueue_settings
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

DEFAULT = url_of("default")
PERMISSIONS = sorted({each.verb.permission for each in TASK_VERBS})


@pytest.fixture
def operator() -> Client:
    return browser("view_overview", "restore_task", *PERMISSIONS)


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return text_of(response.content.decode()).replace("&quot;", '"')


def change(operator: Client, verb: str, form: dict[str, Any], **more: str) -> tuple[str, str]:
    """Ask for the confirmation and confirm; return the texts of both pages."""
    asked = operator.post(verb_url(verb), form)
    done = operator.post(verb_url(verb), {**fields_of(asked), **more}, follow=True)
    return text(asked), text(done)


def states(queue: str = "default") -> tuple[int, int]:
    info = get_queue(queue).info()
    return info.ready, info.scheduled


def test_ticked_scheduled_tasks_are_run_now(redis_server: Store, operator: Client) -> None:
    results = [note.using(run_after=3_600).enqueue(number) for number in range(3)]

    asked, done = change(operator, "run_now", {"state": "scheduled", "id": ids(results[:2])})

    assert "Run 2 tasks of the queue “default” in the state “Scheduled” now?" in asked
    assert "2 tasks are due now." in done
    assert states() == (2, 1)
    assert re.search(
        r"Run now scheduled tasks of queue 'default' until .* UTC \(.*\): 2 tasks made due\.",
        LogEntry.objects.get().change_message,
    )


@pytest.mark.parametrize("state", ["ready", "scheduled"])
def test_all_tasks_of_a_state_are_rescheduled_once(state: str, redis_server: Store, operator: Client) -> None:
    tasks = note.using(run_after=60) if state == "scheduled" else note
    tasks.enqueue_many([((number,), {}) for number in range(2_500)])
    form = {"state": state, "all": "1"}
    asked = operator.post(verb_url("reschedule"), form)
    late = tasks.enqueue("later than the preview")

    done = operator.post(verb_url("reschedule"), {**fields_of(asked), "after": "14400"}, follow=True)

    assert "Reschedule 2,500 tasks of the queue “default” in the state" in text(asked)
    assert "Rescheduled 2,500 tasks." in text(done)
    late.refresh()
    assert late.state == state
    [last] = get_queue("default").tasks("scheduled", limit=1, offset=2_499)
    assert last.run_after is not None
    assert last.enqueued_at is not None
    assert (last.run_after - last.enqueued_at).total_seconds() == pytest.approx(14_400, abs=120)


def test_tasks_are_rescheduled_to_a_time_and_a_wrong_one_is_asked_again(redis_server: Store, operator: Client) -> None:
    result = note.using(run_after=60).enqueue("x")
    fields = fields_of(operator.post(verb_url("reschedule"), {"state": "scheduled", "id": [result.id]}))

    wrong = operator.post(verb_url("reschedule"), {**fields, "due": "soon"})
    done = operator.post(verb_url("reschedule"), {**fields, "after": "900", "due": "2099-01-01T10:00"}, follow=True)

    assert wrong.status_code == 409
    assert "Due: expected date and time" in text_of(wrong.content.decode())
    assert "Rescheduled 1 task." in text(done)
    result.refresh()
    assert str(result.run_after)[:10] in ("2098-12-31", "2099-01-01")


def test_admin_log_has_no_text_of_filters_by_arguments_and_errors(redis_server: Store, operator: Client) -> None:
    note.enqueue("ada@example.com")

    change(operator, "cancel", {"state": "ready", "all": "1", "name": "note", "text": "ada@example.com"})

    message = LogEntry.objects.get().change_message
    assert "ada@example.com" not in message
    assert "(all that match name='note' text=…)" in message


def test_tasks_are_moved_to_a_queue_of_the_site(redis_server: Store, operator: Client, settings: Any) -> None:
    note.using(queue_name="slow").enqueue("there")
    results = [note.enqueue(number) for number in range(3)]

    asked, done = change(operator, "move", {"state": "ready", "id": ids(results[:2])}, to="slow")

    assert "Move 2 tasks of the queue “default” in the state “Ready”?" in asked
    assert "Moved 2 tasks." in done
    assert (states(), states("slow")) == ((1, 0), (3, 0))
    fields = fields_of(operator.post(verb_url("move"), {"state": "ready", "all": "1"}))
    for target in ("", "default", "unknown"):
        assert operator.post(verb_url("move"), {**fields, "to": target}).status_code == 409
    taskqueue_settings(settings, QUEUES=["default", "slow"])
    assert operator.post(verb_url("move"), {**fields, "to": "mail"}).status_code == 409
    assert states() == (1, 0)


def test_of_many_queues_one_that_is_not_listed_can_be_typed(
    redis_server: Store, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_redis_components.dashboard.queues.changes.MAX_QUEUE_NAMES", 2)
    monkeypatch.setattr("django_redis_components.taskqueue.registry.all_tasks", list)
    for name in ("a", "b", "c", "z"):
        note.using(queue_name=name).enqueue("there")
    note.enqueue("x")
    asked = operator.post(verb_url("move"), {"state": "ready", "all": "1"})
    fields = fields_of(asked)

    for typed in ("missing", "default", "{x}", "y" * 300):
        wrong = operator.post(verb_url("move"), {**fields, "to": "a", "other": typed})
        assert wrong.status_code == 409
    assert "{x} is not a queue of this site." in text_of(
        operator.post(verb_url("move"), {**fields, "to": "a", "other": "{x}"}).content.decode()
    )
    done = operator.post(verb_url("move"), {**fields, "to": "a", "other": "z"}, follow=True)

    assert "To the queue (2 of 4 are listed)" in text(asked)
    assert "Or another one" in text(asked)
    assert "Moved 1 task." in text(done)
    assert (states(), states("a"), states("z")) == ((0, 0), (1, 0), (2, 0))


def test_pending_tasks_are_cancelled_and_those_that_started_are_left_alone(
    redis_server: Store, operator: Client
) -> None:
    note.enqueue_many([((number,), {}) for number in range(10)])
    asked = operator.post(verb_url("cancel"), {"state": "ready", "all": "1"})
    new_fetcher(worker="here:7").fetch("0", 2)

    done = operator.post(verb_url("cancel"), fields_of(asked), follow=True)

    assert "Tasks that have started are left alone." in text(asked)
    assert "Cancelled 8 tasks, or asked them to stop." in text(done)
    assert (states(), get_queue("default").info().running) == ((0, 0), 2)


def test_running_tasks_are_asked_to_stop(redis_server: Store, operator: Client) -> None:
    result = note.enqueue("x")
    new_fetcher(worker="here:7").fetch("0", 1)

    asked, done = change(operator, "cancel", {"state": "running", "all": "1"})

    assert "its process is killed" in asked
    assert "Cancelled 1 task, or asked it to stop." in done
    assert redis_server.raw.hget(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}", "o")


@pytest.mark.parametrize("state", ["ready", "scheduled", "limited", "failed", "running", "unregistered"])
def test_rows_of_each_state_can_be_ticked_one_by_one_and_by_the_head(
    state: str, redis_server: Store, operator: Client
) -> None:
    fill_state(state)
    page = operator.get(DEFAULT, {"state": state}).content.decode()
    boxes = [each for each in Page(page).all("input") if each.get("type") == "checkbox"]
    listed = re.findall(r'name="listed" value="([^"]+)"', page)

    assert len(boxes) == 1 + len(listed) == 4
    assert (boxes[0]["name"], boxes[0]["aria-label"]) == ("page", "Select all on this page")
    offers = [each for each in TASK_VERBS if state in each.states and not each.needs_name]
    verb = offers[0]
    asked = text(operator.post(verb_url(verb.verb.name), {"state": state, "page": "1", "listed": listed}))
    assert f"{len(listed)} task" in asked or f"{len(listed)} failed tasks" in asked
    for offered in offers:
        assert f"_verb/{offered.verb.name}/default/" in page


def fill_state(state: str) -> None:
    if state == "failed":
        fail_many(3)
    elif state == "unregistered":
        park_many(3)
    elif state == "limited":
        limited = note.using(concurrency=1)
        for number in range(4):
            limited.enqueue(number)
        new_fetcher(worker="here:7").fetch("0", 4)
    else:
        (note.using(run_after=60) if state == "scheduled" else note).enqueue_many([((n,), {}) for n in range(3)])
        if state == "running":
            new_fetcher(worker="here:7").fetch("0", 3)


@pytest.mark.parametrize(
    ("state", "labels"),
    [
        ("ready", {"cancel": "Cancel…"}),
        ("scheduled", {"run_now": "Run now…", "cancel": "Cancel…"}),
        ("limited", {"cancel": "Cancel…"}),
        ("running", {"cancel": "Cancel…"}),
        ("failed", {"retry": "Retry…", "delete": "Delete…"}),
        ("unregistered", {"delete": "Delete…"}),
    ],
)
def test_rows_have_buttons_of_the_verbs_that_need_only_a_confirmation_and_are_permitted(
    state: str, labels: dict[str, str], redis_server: Store, operator: Client
) -> None:
    fill_state(state)
    pattern = r'formaction="[^"]*/_verb/([a-z_]+)/default/" name="only" value="([^"]+)">([^<]+)'
    page = operator.get(DEFAULT, {"state": state}).content.decode()
    listed = re.findall(r'name="listed" value="([^"]+)"', page)

    assert re.findall(pattern, page) == [(verb, each, labels[verb]) for each in listed for verb in labels]
    for verb in labels:
        asked = text(operator.post(verb_url(verb), {"state": state, "only": listed[0], "page": "1", "listed": listed}))
        assert re.search(r"\b1 (failed )?task of the queue", asked)
        permitted = next(each.verb.permission for each in TASK_VERBS if each.verb.name == verb)
        one = browser("view_overview", permitted).get(DEFAULT, {"state": state}).content.decode()
        assert {name for name, _, _ in re.findall(pattern, one)} == {verb}
    mover = browser("view_overview", "move_task").get(DEFAULT, {"state": state}).content.decode()
    assert "drc-row-action" not in mover


def test_a_running_task_is_cancelled_with_the_button_of_its_row(redis_server: Store, operator: Client) -> None:
    fill_state("running")
    first, *_ = get_queue("default").tasks("running")

    asked, done = change(operator, "cancel", {"state": "running", "only": first.id})

    assert "Cancel 1 task of the queue “default” in the state “Running”?" in asked
    assert "The tasks are asked to stop by an exception." in asked
    assert "Cancelled 1 task, or asked it to stop." in done


def test_a_failed_row_is_retried_with_its_own_button(redis_server: Store, operator: Client) -> None:
    results = fail_many(3)

    form = {"state": "failed", "only": results[1].id, "id": ids(results), "listed": ids(results)}
    asked, done = change(operator, "retry", form)

    assert "Retry 1 failed task of the queue “default”?" in asked
    assert "Retrying 1 task." in done
    results[1].refresh()
    assert results[1].state == "ready"


def test_a_confirmation_of_all_that_match_repeats_the_filters(redis_server: Store, operator: Client) -> None:
    fail_with("no stock", "no stock", "no <other>")
    group = group_of("no stock")
    filters = {"error": group, "name": "fail", "text": "1", "begin": "2020-01-01T10:00", "end": "2099-01-01T10:00"}

    by_group = text(operator.post(verb_url("retry"), {"state": "failed", "all": "1", **filters, "name": "note"}))
    by_text = text(operator.post(verb_url("delete"), {"state": "failed", "all": "1", "error": "no <"}))
    everything = text(operator.post(verb_url("retry"), {"state": "failed", "all": "1"}))
    ticked = text(operator.post(verb_url("retry"), {"state": "failed", "id": ["x"]}))

    assert (
        f"Only tasks that match: the name contains “note”; the error is LookupError ({group}); the arguments contain"
        " “1”; from 2020-01-01 10:00; until 2099-01-01 10:00." in by_group
    )
    assert "Only tasks that match: the error contains “no &lt;”." in by_text
    assert "All tasks in the state “Failed”: no filter is set." in everything
    assert "match" not in ticked
    assert "no filter" not in ticked


@pytest.mark.parametrize(
    ("state", "parameter", "labels"),
    [
        ("failed", "since", ["Last 15 minutes", "Last hour", "Since midnight"]),
        ("ready", "since", ["Last 15 minutes", "Last hour", "Since midnight"]),
        ("scheduled", "within", ["Next 15 minutes", "Next hour", "Until midnight"]),
    ],
)
def test_bounds_of_the_time_have_presets_that_keep_the_other_filters(
    state: str, parameter: str, labels: list[str], redis_server: Store, operator: Client
) -> None:
    page = operator.get(DEFAULT, {"state": state, "name": "no&te"}).content.decode()

    presets = re.findall(rf'href="[^"]*\?(state={state}&amp;name=no%26te&amp;{parameter}=\w+)">([^<]+)<', page)

    assert [label for _, label in presets] == labels
    for query, _ in presets:
        shown = operator.get(f"{DEFAULT}?{query.replace('&amp;', '&')}").content.decode()
        field = "begin" if parameter == "since" else "end"
        assert re.search(rf'name="{field}" value="\d{{4}}-\d\d-\d\dT\d\d:\d\d"', shown)
    assert operator.get(DEFAULT, {"state": state, parameter: "soon"}).status_code == 400


@pytest.mark.parametrize("state", ["failed", "unregistered", "successful", "cancelled", "expired"])
def test_finished_tasks_have_a_preset_of_the_newest_deploy(state: str, redis_server: Store, operator: Client) -> None:
    now = now_ms(redis_server)
    deploys = {"1.0": now - 90_000_000, "1.1": now - 7_200_000}
    redis_server.raw.zadd(base_key(redis_server, "deploys"), deploys)

    page = operator.get(DEFAULT, {"state": state, "name": "no&te", "end": "2099-01-01T10:00"}).content.decode()

    [query] = re.findall(r'href="[^"]*\?([^"]+)">Since deploy<', page)
    parameters = parse_qs(unescape(query))
    begin_ms = parse_time(parameters.pop("begin")[0])
    assert parameters == {"state": [state], "name": ["no&te"]}
    assert begin_ms == deploys["1.1"] // 60_000 * 60_000, "the minute of a deploy counts for it"


def test_lists_without_a_deploy_or_of_tasks_that_have_not_run_have_no_such_preset(
    redis_server: Store, operator: Client
) -> None:
    assert "Since deploy" not in text(operator.get(DEFAULT, {"state": "failed"}))
    redis_server.raw.zadd(base_key(redis_server, "deploys"), {"1.1": now_ms(redis_server) - 60_000})

    for state in ("ready", "running", "waiting", "scheduled", "retrying", "limited"):
        assert "Since deploy" not in text(operator.get(DEFAULT, {"state": state})), state


def test_one_error_of_one_hour_is_retried_with_four_clicks(redis_server: Store, operator: Client) -> None:
    fail_with("no stock", "no stock", "other")
    queue = operator.get(DEFAULT).content.decode()  # 1: the queue, on the overview

    [last_hour] = re.findall(rf'href="([^"]*error={group_of("no stock")}&amp;since=1h)"', queue)
    listed = operator.get(last_hour.replace("&amp;", "&")).content.decode()  # 2: the error's tasks of the last hour
    hidden = {name: value for name, value in fields_of_form(listed) if name in ("state", "error", "begin")}
    assert "Retry all that match…" in listed
    asked = operator.post(verb_url("retry"), {**hidden, "all": "1"})  # 3: the button
    done = operator.post(verb_url("retry"), fields_of(asked), follow=True)  # 4: the confirmation

    assert "Retrying 2 tasks." in text(done)
    assert get_queue("default").info().failed == 1


def test_fifty_tasks_are_rescheduled_with_four_clicks(redis_server: Store, operator: Client) -> None:
    note.using(run_after=60).enqueue_many([((number,), {}) for number in range(50)])
    operator.get(DEFAULT)  # 1: the queue, on the overview
    listed = operator.get(DEFAULT, {"state": "scheduled"}).content.decode()  # 2: the state
    assert "Reschedule all…" in listed
    asked = operator.post(verb_url("reschedule"), {"state": "scheduled", "all": "1"})  # 3: the button
    assert '<option value="3600" selected>1 hour</option>' in asked.content.decode()
    done = operator.post(verb_url("reschedule"), fields_of(asked), follow=True)  # 4: the confirmation, in an hour

    assert "Rescheduled 50 tasks." in text(done)


def fields_of_form(html: str) -> list[tuple[str, str]]:
    """Return the hidden fields of the form with the list."""
    form = html[html.index("data-drc-select") :]
    return re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)


def test_a_verb_is_offered_and_done_for_its_states_and_permission_only(redis_server: Store, operator: Client) -> None:
    note.enqueue("x")
    settle_tasks("succeeded")
    viewer = browser("view_overview")
    note.enqueue("y")

    assert "checkbox" not in viewer.get(DEFAULT).content.decode()
    for each in TASK_VERBS:
        name = each.verb.name
        assert viewer.post(verb_url(name), {"state": each.states[0], "all": "1"}).status_code == 403
        wrong = "ready" if "ready" not in each.states else "failed"
        assert operator.post(verb_url(name), {"state": wrong, "all": "1"}).status_code == 400, name
