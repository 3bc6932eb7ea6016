"""The list of tasks on the page of a queue that is spread over two shards, and the changes of selected tasks."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.core.management import call_command
from django.test import Client

from django_redis_components.taskqueue import get_queue, get_result
from django_redis_components.testing import drain
from tests.dashboard.support import text_of
from tests.support import eventually
from tests.taskqueue.shards.support import TwoShards, in_both, set_options
from tests.taskqueue.tasks import fail, note

pytestmark = pytest.mark.django_db

QUEUE = "/admin/django_redis_components/queues/mail/"
VERB = "/admin/django_redis_components/queues/_verb"


def listing_of(client: Client, url: str = QUEUE, **query: str) -> dict[str, Any]:
    response = client.get(url, {"format": "json", **query})
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()["listing"]
    return found


def pages_of(client: Client, **query: str) -> list[dict[str, Any]]:
    """Return the pages of a list, each followed by its link to the next one."""
    pages = [listing_of(client, **query)]
    while pages[-1]["older"]:
        pages.append(listing_of(client, **{**query, "cursor": pages[-1]["older"], "direction": "after"}))
    return pages


def current_shard(html: str) -> str:
    """Return the link to a shard that is marked."""
    found = re.search(r'aria-label="Shards".*?<a[^>]*aria-current="true"[^>]*>(.*?)</a>', html, re.S)
    assert found is not None
    return text_of(found[1])


def in_turn(settings: Any, count: int, **options: Any) -> list[str]:
    """Enqueue tasks in shard b and the home shard in turn; return their ids."""
    ids = []
    for number in range(count):
        set_options(settings, QUEUES={"mail": None if number % 2 else "b", "default": None, "other": "b"})
        ids.append(note.using(queue_name="mail", **options).enqueue(number).id)
    return ids


def test_list_has_the_tasks_of_all_shards_newest_first(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    ids = in_turn(settings, 6)

    found = listing_of(admin_client)

    assert [each["id"] for each in found["tasks"]] == ids[::-1]
    assert [each["shard"] for each in found["tasks"]] == ["default", "b"] * 3
    assert (found["total"], found["older"]) == (6, None)
    assert {each.id for each in get_queue("mail").tasks("ready")} == set(ids)
    of_b = listing_of(admin_client, QUEUE.replace("mail", "_in/b/mail"))
    assert [each["id"] for each in of_b["tasks"]] == ids[4::-2]
    assert "shard" not in of_b["tasks"][0]


def test_page_names_the_shard_of_each_task_and_links_to_it(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    before, after = in_both(settings)

    html = admin_client.get(QUEUE).content.decode()

    section = html[html.index('id="drc-tasks"') :]
    for shard, ids in (("b", before), ("default", after)):
        for task_id in ids:
            assert f"/task/_in/{shard}/{quote(task_id)}/" in section
    assert "1 to 6 of 6" in text_of(html)
    assert current_shard(html) == "All shards"
    assert current_shard(admin_client.get(QUEUE.replace("mail", "_in/b/mail")).content.decode()) == "Shard b"
    assert "Ready 6" in text_of(html), "the tabs count those of all shards"


def test_pages_of_scheduled_tasks_are_in_the_order_of_their_due_times(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    count = 60
    due = {}
    for route, later_s, some in (("b", 0, 40), (None, 100, 20)):  # the shards have unequal parts
        set_options(settings, QUEUES={"mail": route, "default": None, "other": "b"})
        for number in range(some):
            sent = note.using(queue_name="mail", run_after=3_600 + 10 * number + later_s).enqueue(number)
            due[sent.id] = sent.run_after

    pages = pages_of(admin_client, state="scheduled")

    listed = [each["id"] for page in pages for each in page["tasks"]]
    assert [len(page["tasks"]) for page in pages] == [50, 10]
    assert listed == sorted(due, key=lambda each: due[each])
    assert [(page["start"], page["scanned"], page["total"]) for page in pages] == [(0, 50, count), (50, 10, count)]


def test_search_finds_tasks_of_all_shards_page_by_page(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    before, after = in_both(settings, 40)

    pages = pages_of(admin_client, name="note")

    assert sorted(each["id"] for page in pages for each in page["tasks"]) == sorted([*before, *after])
    assert [len(page["tasks"]) for page in pages] == [50, 30]
    html = admin_client.get(QUEUE, {"name": "note"}).content.decode()
    assert "50 found in the first 50 of 80" in text_of(html)


def test_list_without_a_shard_that_is_away(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    _before, after = in_both(settings)
    shards.server_b.kill()

    found = listing_of(admin_client)

    assert {each["id"] for each in found["tasks"]} == set(after)
    assert "all shards. They do not include b." in text_of(admin_client.get(QUEUE).content.decode())


def test_shard_that_was_away_continues_where_its_list_was(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    ids = in_turn(settings, 160)
    first = listing_of(admin_client)
    shards.server_b.kill()
    without_b = listing_of(admin_client, cursor=first["older"], direction="after")
    shards.server_b.start()
    eventually(lambda: listing_of(admin_client)["total"] == len(ids))

    rest = pages_of(admin_client, cursor=without_b["older"], direction="after")

    listed = [each["id"] for page in (first, without_b, *rest) for each in page["tasks"]]
    assert sorted(listed) == sorted(ids), "none is repeated, none is missing"


def test_pages_of_finished_tasks_tell_where_they_are(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    ids = in_turn(settings, 60)
    drain("mail")

    pages = pages_of(admin_client, state="successful")
    found = pages_of(admin_client, state="successful", name="note")

    for each in (pages, found):
        assert sorted(row["id"] for page in each for row in page["tasks"]) == sorted(ids)
        assert [(page["start"], page["scanned"]) for page in each] == [(0, 50), (50, 10)]


@pytest.mark.parametrize("cursor", ['{"b": "x"}', '{"b": 1}', "{", "[]", '{"b": "ready 1 x"'])
def test_cursor_of_no_link_is_refused(shards: TwoShards, admin_client: Client, cursor: str) -> None:
    assert admin_client.get(QUEUE, {"cursor": cursor}).status_code == 400


def change(client: Client, verb: str, **fields: Any) -> tuple[str, str]:
    """Confirm a change of selected tasks; return the text of the confirmation, and of the page that follows."""
    form = client.post(f"{VERB}/{verb}/mail/", fields)
    assert form.status_code == 200, form.headers
    response = client.post(f"{VERB}/{verb}/mail/", dict(form.context["confirmation"].fields), follow=True)
    return text_of(form.content.decode()), text_of(response.content.decode())


def test_selected_tasks_of_different_shards_are_cancelled(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    before, after = in_both(settings)

    asked, page = change(admin_client, "cancel", state="ready", id=[before[0], after[1]])

    assert "Cancel 2 tasks of the queue “mail” in the state “Ready”?" in asked
    assert "Cancelled 2 tasks" in page
    states = [get_result(each).state for each in (*before, *after)]
    assert states == ["cancelled", "ready", "ready", "ready", "cancelled", "ready"]


def test_selected_failed_tasks_of_different_shards_are_deleted_and_restored(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    mails = fail.using(queue_name="mail", max_attempts=1)
    there = mails.enqueue().id
    set_options(settings, QUEUES={"mail": None, "default": None, "other": "b"})
    here = mails.enqueue().id
    drain("mail", raise_errors=False)

    change(admin_client, "delete", state="failed", id=[here, there])

    assert get_queue("mail").info().failed == 0
    response = admin_client.get(QUEUE)
    [(trash, _text)] = response.context["page"]["trash"]
    assert get_queue("mail").restore(trash.id) == 2


def test_selected_task_of_a_shard_that_is_away_is_not_changed(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    before, after = in_both(settings)
    shards.server_b.kill()

    asked, _page = change(admin_client, "cancel", state="ready", id=[before[0], after[1]])

    assert "Cancel 1 task of the queue" in asked
    assert "Tasks in shards that do not answer are not changed: b." in asked
    assert get_result(after[1]).state == "cancelled"


def test_list_of_a_queue_with_one_shard_names_none(redis_server: Any, admin_client: Client) -> None:
    note.using(queue_name="mail").enqueue(1)

    assert "shard" not in listing_of(admin_client)["tasks"][0]


def test_command_names_the_shard_of_each_task(
    shards: TwoShards, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = in_both(settings, 2)

    call_command("redis", "tasks", "list", "mail", "ready", "--json")
    found = json.loads(capsys.readouterr().out)["tasks"]
    call_command("redis", "tasks", "list", "mail", "ready")
    shown = capsys.readouterr().out

    assert {each["id"]: each["shard"] for each in found} == {
        **dict.fromkeys(before, "b"),
        **dict.fromkeys(after, "default"),
    }
    assert "SHARD" in shown
