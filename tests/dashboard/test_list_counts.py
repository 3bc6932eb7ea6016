"""How many rows lists have, how many pages show, and what filters have found: with few rows, many, and filtered."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.list_counts import CountedRows, FoundCount, ListCount
from django_redis_components.taskqueue import chain
from tests.dashboard.action_pages import ACTIONS, write_entries
from tests.dashboard.flow_pages import FLOWS
from tests.dashboard.queue_pages import QUEUES, url_of
from tests.dashboard.support import browser, text_of
from tests.support import Store
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.django_db

ADMIN = "/admin/django_redis_components/"


def pages_of(client: Client, url: str, **query: str) -> tuple[str, dict[str, Any]]:
    """Return the text and the JSON of a page."""
    answer = client.get(url, {**query, "format": "json"})
    return text_of(client.get(url, query).content.decode()), answer.json()


def counts_of(html: str) -> dict[str, dict[str, str]]:
    """Return the counts of the side filters, by group and label."""
    side = html.partition('id="drc-side"')[2].partition("</nav>")[0]
    link = r'<a [^>]*><bdi>([^<]*)</bdi>(?: <span class="drc-side-count">([^<]*)</span>)?'
    parts = side.split("<details open>")[1:]
    return {
        text_of(part.partition("</summary>")[0]): {unescape(label): count for label, count in re.findall(link, part)}
        for part in parts
    }


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (ListCount(0, 0), ""),
        (ListCount(3, 3), "1 to 3 of 3"),
        (ListCount(50, 1_204), "1 to 50 of 1,204"),
        (ListCount(50, 1_204, 100), "101 to 150 of 1,204"),
        (ListCount(50, 1_204, None), "50 of 1,204"),
        (ListCount(50, None), "1 to 50; there are more"),
        (ListCount(50, None, None), "50; there are more"),
        (ListCount(8, 1_000, is_least=True), "1 to 8 of at least 1,000"),
        (ListCount(8, 8, None, is_least=True), "8 of at least 8"),
        (ListCount(0, 12), "0 of 12"),
        (FoundCount(23, 2_000, 100_000), "23 found in the first 2,000 of 100,000"),
        (FoundCount(4, 500, 4_500, 4_000), "4 found in 4,001 to 4,500 of 4,500"),
        (FoundCount(1, 251, 251), "1 found in all 251"),
    ],
)
def test_count_is_a_text(count: ListCount | FoundCount, text: str) -> None:
    assert count.text == text


def test_total_that_was_not_counted_is_no_number_in_json() -> None:
    assert ListCount(50, None).data() == {"first": 1, "shown": 50, "total": None, "is_total_exact": False}
    assert ListCount(8, 1_000, None, is_least=True).data()["is_total_exact"] is False


def test_note_of_a_panel_without_rows_is_empty() -> None:
    assert CountedRows[int]().note("Newest first.") == ""


def test_few_and_many_tasks_are_counted_and_filters_beside_say_what_the_page_has(redis_server: Store) -> None:
    viewer = browser("view_overview", "view_queues")
    note.enqueue_many([((number,), {}) for number in range(3)])
    add.enqueue(1, 2)
    few, data = pages_of(viewer, url_of("default"))
    assert "1 to 4 of 4" in few
    assert data["listing"]["count"] == {"first": 1, "shown": 4, "total": 4, "is_total_exact": True}
    names = counts_of(viewer.get(url_of("default")).content.decode())["By task name"]
    assert (names[note.name], names[add.name]) == ("3", "1"), names

    found, data = pages_of(viewer, url_of("default"), name=add.name)
    assert "1 found in all 4" in found
    assert data["listing"]["count"] == {"found": 1, "first": 1, "searched": 4, "total": 4}
    names = counts_of(viewer.get(url_of("default"), {"name": add.name}).content.decode())["By task name"]
    assert (names.get(note.name, ""), names[add.name]) == ("", "1"), "other names were not counted"

    note.enqueue_many([((number,), {}) for number in range(60)])
    many, _ = pages_of(viewer, url_of("default"))
    assert "1 to 50 of 64" in many
    names = counts_of(viewer.get(url_of("default")).content.decode())["By task name"]
    assert (names[note.name], names.get(add.name, "")) == ("≥ 50", ""), "the rest of the list was not counted"


def test_search_counts_what_it_has_found_by_state_and_queue(redis_server: Store) -> None:
    viewer = browser("view_overview", "view_queues")
    note.enqueue_many([((number,), {}) for number in range(3)])
    add.using(queue_name="mail").enqueue(1, 2)
    text, data = pages_of(viewer, f"{ADMIN}tasksearch/", q=f"name:{note.name}")

    assert "3 found in all 4 tasks in 2 queues" in text
    assert data["search"]["count"] == {"found": 3, "first": 1, "searched": 4, "total": 4}
    side = counts_of(viewer.get(f"{ADMIN}tasksearch/", {"q": f"name:{note.name}"}).content.decode())
    assert (side["By state"]["Ready"], side["By state"]["Failed"]) == ("3", "0")
    assert (side["By queue"]["default"], side["By queue"]["mail"]) == ("3", "0")
    nothing = viewer.get(f"{ADMIN}tasksearch/").content.decode()
    assert set(counts_of(nothing)["By state"].values()) == {""}, "nothing was counted"


def test_lists_of_queues_and_flows_say_how_many_there_are(redis_server: Store) -> None:
    viewer = browser("view_overview", "view_queues", "view_flow", "view_flows", "view_task")
    chain(note.s(1), note.si(2)).enqueue()
    add.using(queue_name="mail").enqueue(1, 2)

    queues, data = pages_of(viewer, QUEUES)
    assert "1 to 2 of 2" in queues
    assert data["count"] == {"first": 1, "shown": 2, "total": 2, "is_total_exact": True}
    assert "1 of 2 queues match" in pages_of(viewer, QUEUES, queue="mail")[0]
    flows, data = pages_of(viewer, FLOWS)
    assert "1 to 1 of 1" in flows
    assert data["count"]["total"] == 1


def test_entries_of_the_log_on_other_pages_are_not_counted() -> None:
    viewer = browser("view_action")
    write_entries(1)
    assert "1 to 1 of 1" in pages_of(viewer, ACTIONS)[0]

    write_entries(60)
    text, data = pages_of(viewer, ACTIONS)
    assert "1 to 50; there are more" in text
    assert data["count"] == {"first": 1, "shown": 50, "total": None, "is_total_exact": False}
    assert "11 of at least 11" in pages_of(viewer, ACTIONS, before=str(data["older"]))[0]
