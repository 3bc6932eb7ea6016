"""The list of tasks on a queue's page: tabs, pages, filters, masking."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from django_redis_components.taskqueue import get_queue
from tests.dashboard.queue_pages import url_of
from tests.dashboard.support import HOSTILE, Page, client_of, dump, fail_with, reason_of, settle_tasks, text_of
from tests.support import Store
from tests.taskqueue.store.support import fail_many
from tests.taskqueue.support import new_fetcher, queue_key
from tests.taskqueue.tasks import fail_thrice, note

pytestmark = pytest.mark.django_db

DEFAULT = url_of("default")


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def shown(client: Client, **query: str) -> str:
    response = client.get(DEFAULT, query)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def listing(client: Client, **query: str) -> dict[str, Any]:
    return client.get(DEFAULT, {"format": "json", **query}).json()["listing"]


def fill() -> None:
    fail_thrice.enqueue()
    settle_tasks("retried", delay_ms=600_000)
    fail_many(3)
    note.enqueue("unknown")
    settle_tasks("unregistered")
    note.using(run_after=90).enqueue("soon")
    for number in range(3):
        note.using(concurrency=1).enqueue(number)
    new_fetcher().fetch("0", 3)
    note.enqueue({"order_id": 7, "password": "hunter2"})


def test_tabs_count_the_states_and_lists_show_their_tasks(redis_server: Store, viewer: Client) -> None:
    fill()

    text = shown(viewer)

    tabs = "Ready 3 Scheduled 2 Retrying 1 Limited 2 Waiting 0 Running 1 Failed 3 Unregistered 1"
    assert tabs in text, text[:1500]
    assert re.search(
        r'tests\.taskqueue\.tasks\.note \S{20} \{"order_id":7,"password":"•••"\} (< 1|\d+) s 0', unescape(text)
    )
    assert "hunter2" not in viewer.get(DEFAULT).content.decode()
    failed = unescape(shown(viewer, state="failed"))
    assert re.search(r"tasks\.fail \S{20} \"\d\" LookupError out of order (< 1|\d+) s (< 1|\d+) s 1 ", failed)
    assert re.search(
        r"tasks\.fail_thrice \S{20} LookupError out of order 9 min \d+ s", unescape(shown(viewer, state="retrying"))
    )
    assert re.search(r'note \S{20} "soon" 1 min \d+ s', unescape(shown(viewer, state="scheduled")))
    assert "No tasks in this state." in shown(viewer, state="waiting")
    found = listing(viewer, state="failed")
    assert sorted(task["arguments"] for task in found["tasks"]) == ['"0"', '"1"', '"2"']
    assert found["tasks"][0]["error"] == {"class": "builtins.LookupError", "message": "out of order"}
    assert (found["total"], found["start"], found["scanned"], found["older"]) == (3, 0, 3, None)


def unescape(text: str) -> str:
    return text.replace("&quot;", '"').replace("&lt;", "<")


def test_pages_follow_each_other_by_cursor_while_tasks_arrive(redis_server: Store, viewer: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(120)])
    html = viewer.get(DEFAULT).content.decode()
    assert "1 to 50 of 120" in html
    [older] = re.findall(r'<a href="\?([^"]+)">Older</a>', html)

    note.enqueue_many([((number,), {}) for number in range(200, 230)])
    html = viewer.get(f"{DEFAULT}?{older.replace('&amp;', '&')}").content.decode()

    assert re.findall(r'<bdi class="drc-args">(\d+)</bdi>', html) == [str(number) for number in range(69, 19, -1)]
    assert "81 to 130 of 150" in html
    [newer] = re.findall(r'<a href="\?([^"]+)">Newer</a>', html)
    html = viewer.get(f"{DEFAULT}?{newer.replace('&amp;', '&')}").content.decode()
    assert re.findall(r'<bdi class="drc-args">(\d+)</bdi>', html)[-1] == "70"


def test_search_says_how_far_it_has_looked_and_continues(redis_server: Store, viewer: Client) -> None:
    for start in range(0, 4_500, 1_500):
        note.enqueue_many([((f"n{number}",), {}) for number in range(start, start + 1_500)])

    html = viewer.get(DEFAULT, {"text": '"n7"'}).content.decode()
    assert "0 found in the first 2,000 of 4,500" in html
    for looked in ("0 found in 2,001 to 4,000", "1 found in 4,001 to 4,500"):
        [link] = re.findall(r'<a href="\?([^"]+)">Continue scan</a>', html)
        html = viewer.get(f"{DEFAULT}?{link.replace('&amp;', '&')}").content.decode()
        assert f"{looked} of 4,500" in html
    assert re.findall(r'<bdi class="drc-args">(.*)</bdi>', html) == ["&quot;n7&quot;"]
    assert "Continue scan" not in html


def test_search_finds_arguments_as_shown_but_no_masked_values(redis_server: Store, viewer: Client) -> None:
    note.enqueue({"order_id": 7, "token": "hunter2"})

    for text, count in (("order_id=7", 1), ('"order_id":7', 1), ("hunter", 0), ("token=", 0), ("é", 0)):
        assert len(listing(viewer, text=text)["tasks"]) == count, text
    assert len(listing(viewer, name="tasks.note")["tasks"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": "gone"},
        {"direction": "up"},
        {"cursor": "ready"},
        {"cursor": "failed ( x"},
        {"cursor": "failed nan x"},
        {"text": "x" * 201},
        {"name": "x" * 201},
        {"begin": "0001-01-01"},
        {"end": "9999-12-31T23:59"},
    ],
)
def test_wrong_parameters_are_a_400(wrong: dict[str, str], redis_server: Store, viewer: Client) -> None:
    response = viewer.get(DEFAULT, wrong)

    assert "expected" in reason_of(response)


@pytest.mark.parametrize(
    "place", ["ready 5", "priority -1e13", "failed inf", "limited 0", "scheduled 99999999999999999999"]
)
def test_cursor_of_another_list_or_time_is_accepted(place: str, redis_server: Store, viewer: Client) -> None:
    fill()

    for state in ("ready", "failed", "scheduled", "limited"):
        for direction in ("after", "before"):
            assert (
                viewer.get(DEFAULT, {"state": state, "cursor": f"{place} x\ty", "direction": direction}).status_code
                == 200
            )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_arguments_names_and_errors_are_escaped(text: str, redis_server: Store, viewer: Client) -> None:
    clean = Page(viewer.get(DEFAULT, {"state": "failed"}).content.decode())
    [result] = fail_many(1)
    note.enqueue(text)
    error = '{"exception_class_path":"x","message":"y","traceback":""}'
    base = next(key for key in redis_server.keys() if key.endswith(b":errors") and b":t:" in key)  # noqa: SIM118
    redis_server.raw.lpush(base, error)
    redis_server.raw.hset(base.removesuffix(b":errors"), "n", text)

    for query in ({"state": "failed"}, {"state": "ready", "name": text, "text": text}):
        page = Page(viewer.get(DEFAULT, query).content.decode())
        for tag in ("b", "script", "img"):
            assert len(page.all(tag)) == len(clean.all(tag)), (tag, result)
        assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)


@pytest.mark.contract
def test_page_takes_two_round_trips_with_trash_and_writes_nothing(store: Store, viewer: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(80)])
    get_queue("default").purge()
    fill()
    before = dump(store)

    cost = viewer.get(DEFAULT, {"format": "json"}).json()["cost"]
    for query in ({"state": "failed"}, {"text": "x"}, {"format": "fragment"}):
        assert viewer.get(DEFAULT, query).status_code == 200

    assert (cost["commands"], cost["round_trips"]) == (23, 2)
    assert dump(store) == before


def test_fragment_has_no_list(redis_server: Store, viewer: Client) -> None:
    fill()

    html = viewer.get(DEFAULT, {"format": "fragment", "state": "failed"}).content.decode()

    assert 'type="checkbox"' not in html
    assert "Failed <span" in html


def test_tasks_are_filtered_by_time(redis_server: Store, viewer: Client, settings: Any) -> None:
    """The time is that of the failure, of the next run, or of the acceptance; it is read in the active time zone."""
    settings.TIME_ZONE = "Asia/Shanghai"
    old, new = fail_with("old", "new")
    failed_at = datetime(2026, 11, 20, 4, tzinfo=UTC)
    redis_server.raw.zadd(queue_key(redis_server, "failed"), {old: failed_at.timestamp() * 1_000})
    later = note.using(run_after=86_400).enqueue("later")
    tomorrow = f"{timezone.localtime(later.run_after) - timedelta(minutes=1):%Y-%m-%dT%H:%M}"

    def ids(**query: str) -> list[str]:
        return [task["id"] for task in viewer.get(DEFAULT, {"format": "json", **query}).json()["listing"]["tasks"]]

    assert ids(state="failed", begin="2026-11-20T12:00", end="2026-11-20T12:01") == [old]
    assert ids(state="failed", begin="2026-11-20T12:01") == [new]
    assert ids(state="failed", end="2026-11-20 11:59") == []
    assert ids(state="scheduled", begin=tomorrow) == [later.id]
    assert ids(state="scheduled", end=tomorrow) == []
    assert "1 found in all 2" in shown(viewer, state="failed", begin="2026-11-20T12:01")


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01 10:00", "2026-11-20T25:00", "<x>"])
def test_wrong_time_is_rejected_with_a_message(text: str, redis_server: Store, viewer: Client) -> None:
    response = viewer.get(DEFAULT, {"begin": text})

    assert reason_of(response) == f"begin={text!r}: expected a time such as 2026-11-23 11:20."


def test_a_page_of_a_search_does_not_tell_whether_masked_values_match(redis_server: Store, viewer: Client) -> None:
    note.enqueue_many([((), {"what": {"password": "hunter2", "order": number}}) for number in range(120)])

    def listing(text: str, **more: str) -> Any:
        found = viewer.get(DEFAULT, {"state": "ready", "text": text, "format": "json", **more}).json()["listing"]
        return {**found, "filters": None}

    assert listing("hunter2") == listing("hunter3")
    pages, cursor, seen = 0, {}, []
    while cursor is not None:
        page = listing("order", **cursor)
        seen += [task["id"] for task in page["tasks"]]
        cursor = {"cursor": page["older"]} if page["older"] else None
        pages += 1
    assert (pages, len(seen), len(set(seen))) == (3, 120, 120)
