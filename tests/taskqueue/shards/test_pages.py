"""Pages of the dashboard over two shards: sums, the column of the shard, a shard that is away, and what they cost."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.observability.live_events import RECORDER
from django_redis_components.core.protocol import Read
from django_redis_components.taskqueue import Schedules, get_queue, group, schedules
from django_redis_components.taskqueue.fields import Key
from django_redis_components.taskqueue.shard_clients import client_for
from django_redis_components.taskqueue.shards import shards_of
from django_redis_components.taskqueue.stats.due import DueCounts, merged_due
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.fetcher import Fetcher
from django_redis_components.taskqueue.worker.run_events import record_start
from django_redis_components.testing import drain
from tests.dashboard.live import record_events
from tests.dashboard.support import text_of
from tests.support import Store, eventually
from tests.support.processes import Children
from tests.taskqueue.shards.support import Meetings, TwoShards, in_both, set_options
from tests.taskqueue.support import SITE, settle_now
from tests.taskqueue.tasks import add, fail, note

pytestmark = pytest.mark.django_db

START = "/admin/django_redis_components"
#: Commands and round trips of the pages of a site with one shard, one queue and one failed task.
COSTS = {
    "overview": (15, 2),
    "queues": (8, 2),
    "worker": (2, 1),
    "failure": (5, 2),
    "tasksearch": (6, 1),
    "taskflow": (4, 1),
    "schedule": (3, 1),
}


def data_of(client: Client, page: str, **query: str) -> dict[str, Any]:
    response = client.get(f"{START}/{page}/", {"format": "json", **query})
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def text(client: Client, page: str, **query: str) -> str:
    response = client.get(f"{START}/{page}/", query)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def rows_of(html: str, heading: str) -> list[list[str]]:
    """Return the cells of the table whose section has this id."""
    section = html[html.index(f'id="{heading}"') :]
    body = re.search(r"<tbody.*?</tbody>", section, re.S)
    assert body is not None
    rows = re.findall(r"<tr.*?</tr>", body[0], re.S)
    return [[text_of(cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.S)] for row in rows]


def costs(client: Client) -> dict[str, tuple[int, int]]:
    for page in COSTS:
        data_of(client, page)  # the server knows the scripts now
    found = {page: data_of(client, page)["cost"] for page in COSTS}
    return {page: (cost["commands"], cost["round_trips"]) for page, cost in found.items()}


def fail_once(queue: str = "default") -> str:
    task_id = fail.using(queue_name=queue, max_attempts=1).enqueue().id
    drain(queue, raise_errors=False)
    return task_id


def test_site_with_one_shard_reads_what_it_did_without_shards(redis_server: Store, admin_client: Client) -> None:
    fail_once()

    assert costs(admin_client) == COSTS
    cost = data_of(admin_client, "liveevent")["cost"]
    assert (cost["commands"], cost["round_trips"]) == (3, 1)
    assert "shards" not in data_of(admin_client, "overview")
    for page in COSTS:
        assert "Shard" not in text(admin_client, page)


def test_pages_read_two_shards_in_the_round_trips_of_one(shards: TwoShards, admin_client: Client) -> None:
    fail_once()
    fail_once("mail")

    found = costs(admin_client)

    assert {page: trips for page, (_, trips) in found.items()} == {page: trips for page, (_, trips) in COSTS.items()}
    assert all(commands <= 2 * COSTS[page][0] for page, (commands, _) in found.items()), found


def test_overview_shows_the_sums_of_all_shards(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)
    add.enqueue(1, 2)
    fail_once("other")

    data = data_of(admin_client, "overview")
    html = admin_client.get(f"{START}/overview/").content.decode()

    assert {each["name"]: each["ready"] for each in data["queues"]}["mail"] == 6
    assert data["shards"] == [{"name": "default", "error": None}, {"name": "b", "error": None}]
    assert sum(each["failed"] for each in data["history"]["intervals"]) == 1
    queues = {row[0]: row for row in rows_of(html, "drc-queues")}
    assert [queues[name][1] for name in ("mail", "default", "other")] == ["default, b", "default", "b"]
    listed = {row[0]: row for row in rows_of(html, "drc-shards")}
    assert [listed[name][1] for name in ("default", "b")] == ["answers", "answers"]
    assert [listed[name][4] for name in ("default", "b")] == ["4", "3"]
    assert "shards read" not in html


def test_shard_that_is_away_is_a_row_and_the_figures_of_the_others_stand(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    in_both(settings)
    shards.server_b.kill()

    data = data_of(admin_client, "overview")
    html = admin_client.get(f"{START}/overview/").content.decode()

    assert {each["name"]: each["ready"] for each in data["queues"]}["mail"] == 3
    assert [each["error"] is None for each in data["shards"]] == [True, False]
    assert [row[1] for row in rows_of(html, "drc-shards")] == ["answers", "away"]
    assert "1 of 2 shards read. The figures do not include the others." in text_of(html)
    assert ("redis_unreachable", "critical") in {(each["code"], each["severity"]) for each in data["problems"]}
    for page in COSTS:
        assert "1 of 2 shards read" in text(admin_client, page)
        assert "1 of 2 shards read" in text(admin_client, page, format="fragment")


def test_pages_are_shown_while_the_home_shard_is_away(shards: TwoShards, admin_client: Client) -> None:
    fail_once("mail")
    note.using(queue_name="mail").enqueue(1)
    shards.server_a.kill()

    data = data_of(admin_client, "overview")

    assert {each["name"]: each["ready"] for each in data["queues"]}["mail"] == 1
    assert "Shard default: " in " ".join(each["text"] for each in data["problems"])
    for page in COSTS:
        assert "1 of 2 shards read" in text(admin_client, page), page


def test_page_of_which_all_shards_are_away_says_so(shards: TwoShards, admin_client: Client) -> None:
    shards.server_a.kill()
    shards.server_b.kill()

    assert [admin_client.get(f"{START}/{page}/").status_code for page in COSTS] == [503] * len(COSTS)


def test_failures_of_all_shards_are_one_list_and_are_retried_together(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    mails = fail.using(queue_name="mail", max_attempts=1)
    there = mails.enqueue().id
    set_options(settings, QUEUES={"mail": None, "default": None, "other": "b"})
    here = mails.enqueue().id
    drain("mail", raise_errors=False)

    [found] = data_of(admin_client, "failure")["errors"]
    html = admin_client.get(f"{START}/failure/").content.decode()

    assert (found["count"], found["queues"]) == (2, {"default/mail": 1, "b/mail": 1})
    assert "mail (shard b)" in html
    assert f"{START}/queues/_in/b/mail/?state=failed" in html
    assert {row[0].split()[-1] for row in rows_of(html, "drc-tasks")} == {here, there}
    url = f"{START}/failure/retry_error/?group={found['fingerprint']}"
    form = admin_client.get(url)
    assert "Retry 2 failed tasks of this error?" in text_of(form.content.decode())
    response = admin_client.post(url, dict(form.context["confirmation"].fields))
    assert response.status_code == 302, response.content
    assert get_queue("mail").info().failed == 0


def test_workers_are_listed_once_with_the_shards_that_they_reach(
    shards: TwoShards, children: Children, admin_client: Client
) -> None:
    children.manage("runworker", "default", "mail", env=SITE)

    def reached() -> list[Any]:
        return [each["alive_in"] for each in data_of(admin_client, "worker")["workers"]]

    eventually(lambda: reached() == [["default", "b"]])
    rows = rows_of(admin_client.get(f"{START}/worker/").content.decode(), "drc-group-1")
    assert rows[0][2] == "all"
    shards.server_b.kill()
    assert reached() == [["default"]]
    assert rows_of(admin_client.get(f"{START}/worker/").content.decode(), "drc-group-1")[0][2] == "default"


def test_command_to_a_worker_is_stored_in_a_shard_that_answers(
    shards: TwoShards, children: Children, admin_client: Client
) -> None:
    children.manage("runworker", "default", "mail", env=SITE)
    [worker] = eventually(lambda: data_of(admin_client, "worker")["workers"])
    shards.server_a.kill()

    form = admin_client.get(f"{START}/worker/quiet/?id={worker['id']}")
    fields = dict(form.context["confirmation"].fields)
    response = admin_client.post(f"{START}/worker/quiet/?id={worker['id']}", {**fields, "id": worker["id"]})

    assert response.status_code == 302, response.content
    eventually(lambda: [each["state"] for each in data_of(admin_client, "worker")["workers"]] == ["quiet"])


def test_search_finds_tasks_of_all_shards_page_by_page(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    before, after = in_both(settings, 40)

    found, query = [], {"q": "name:note"}
    for _ in range(5):
        data = data_of(admin_client, "tasksearch", **query)["search"]
        found += [(each["shard"], each["id"]) for each in data["tasks"]]
        if data["next"] is None:
            break
        query = dict(parse_qsl(data["next"]))

    assert sorted(found) == sorted([*(("b", each) for each in before), *(("default", each) for each in after)])
    assert (data["total"], data["searched"]) == (80, 80)
    html = admin_client.get(f"{START}/tasksearch/?q=name:note").content.decode()
    assert {row[2] for row in rows_of(html, "drc-found")} <= {"default", "b"}
    response = admin_client.get(f"{START}/tasksearch/?q={before[0]}")
    assert response.headers["Location"] == f"{START}/task/{quote(before[0])}/"


def test_flows_of_all_shards_are_one_list(shards: TwoShards, admin_client: Client) -> None:
    here = group(note.s(number) for number in range(2)).enqueue()
    there = group(note.using(queue_name="mail").s(number) for number in range(2)).enqueue()

    assert {each["id"] for each in data_of(admin_client, "taskflow")["flows"]} == {here.id, there.id}
    html = admin_client.get(f"{START}/taskflow/").content.decode()
    assert f"{START}/taskflow/_in/b/" in html


def test_pages_of_a_queue_and_a_task_name_their_shard(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    before, _after = in_both(settings)

    html = admin_client.get(f"{START}/queues/mail/").content.decode()
    assert [row[:2] for row in rows_of(html, "drc-shards")] == [["default", "3"], ["b", "3"]]
    assert "All shards 6 0 0 0" in text_of(html)
    assert f'href="{START}/queues/_in/b/mail/"' in html
    assert "Shard b" in text(admin_client, f"task/{quote(before[0])}")
    shards.server_b.kill()
    assert "Shard b: " in text(admin_client, "queues/mail")


def test_figures_of_a_queue_are_those_of_all_shards_unless_the_url_names_one(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    in_both(settings, 4)
    for shard, count in zip(shards_of(), (2, 1), strict=True):
        fetcher = Fetcher(shard, shard.client(), "here:1", ("mail",))
        jobs = [job for _ in range(count) for job in fetcher.fetch("0", 1)]
        settle_now(fetcher, *[Ack(job.id, job.token, "succeeded", ran_us=5) for job in jobs])

    of_all, of_b = (admin_client.get(f"{START}/queues/{at}mail/?format=json").json()["queue"] for at in ("", "_in/b/"))
    assert (of_all["ready"], of_all["last_hour"]["succeeded"], of_all["last_day"]["succeeded"]) == (5, 3, 0)
    assert (of_b["ready"], of_b["last_hour"]["succeeded"]) == (3, 1)
    found = text(admin_client, "queues/mail")
    assert "Figures, charts and the list of tasks: all shards." in found
    assert "list of tasks: all" not in text(admin_client, "queues/_in/b/mail")

    [minute, *_] = shards.b.raw.scan_iter(f"{shards_of()[1].base}:q:mail:minute:*")
    kept = shards.b.raw.dump(minute)
    shards.b.raw.delete(minute)
    shards.b.raw.rpush(minute, "corrupt")
    found = text(admin_client, "queues/mail")
    assert "the list of tasks: all shards. They do not include b." in found, "its counts are there, its minutes are not"
    shards.b.raw.restore(minute, 0, kept, replace=True)
    assert "They do not include" not in text(admin_client, "queues/mail")

    shards.server_b.kill()

    assert "the list of tasks: all shards. They do not include b." in text(admin_client, "queues/mail")


def test_live_events_name_the_shard_of_their_task(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    record_events(settings)
    in_both(settings, 1)
    for shard in shards_of():
        fetcher = Fetcher(shard, shard.client(), "here:1", ("mail",))
        [job] = fetcher.fetch("0", 1)
        record_start("default", dataclasses.replace(job, shard=shard))
    RECORDER.flush()

    html = admin_client.get(f"{START}/liveevent/").content.decode()

    assert {row[5] for row in rows_of(html, "drc-events")} == {"default", "b"}


def test_requests_to_the_servers_of_two_shards_are_sent_side_by_side(shards: TwoShards) -> None:
    met = Meetings(2)

    client = client_for("default", met.client)

    assert client.execute_many([Read("ZCARD", shard.key(Key.queues)) for shard in shards_of()]) == [0, 0]
    assert met.count == 2


def test_two_shards_on_one_server_are_read_in_one_request(
    redis_server: Store, settings: Any, admin_client: Client
) -> None:
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "TASKQUEUE": {
            "SHARDS": {"default": "default", "b": "default"},
            "QUEUES": {"default": None, "mail": "b", "other": None},
        },
    }
    assert client_for("default") is connections.client()
    note.enqueue(1)
    note.using(queue_name="mail").enqueue(2)
    fail_once("mail")
    fail_once("other")

    html = admin_client.get(f"{START}/overview/").content.decode()

    assert {row[0]: row[1] for row in rows_of(html, "drc-queues")} == {
        "default": "default",
        "mail": "b",
        "other": "default",
    }
    assert [row[1] for row in rows_of(html, "drc-shards")] == ["answers", "answers"]
    assert {page: trips for page, (_, trips) in costs(admin_client).items()} == {
        page: trips for page, (_, trips) in COSTS.items()
    }


def test_tabs_keep_the_shard_of_a_list_but_not_that_of_an_object(shards: TwoShards, admin_client: Client) -> None:
    note.using(queue_name="mail").enqueue(1)

    def tab(path: str) -> bool:
        html = admin_client.get(f"{START}/{path}").content.decode()
        tabs = html[html.index('class="drc-tabs') :]
        return f'href="{START}/overview/_in/b/"' in tabs[: tabs.index("</nav>")]

    assert tab("queues/_in/b/")
    assert not tab("queues/_in/b/mail/")
    assert not tab("schedule/")


def test_remedies_of_a_problem_lead_to_its_shard(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)
    set_options(settings, QUEUES={"mail": "b", "default": None})

    html = admin_client.get(f"{START}/overview/").content.decode()
    problems = html[html.index('id="drc-health"') : html.index("drc-tiles")]

    assert f'href="{START}/queues/_in/default/mail/' in problems
    assert f'href="{START}/queues/_in/b/mail/' in problems
    assert f'href="{START}/queues/mail/' not in problems


# Schedules and live events


def test_schedules_of_all_shards_are_one_list(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    Schedules().add("home", add, every=3_600, args=[1, 2])
    Schedules().add("mails", add, every=3_600, args=[3, 4], options={"queue_name": "mail"})
    in_due = [note.using(run_after=3_000).enqueue(1), note.using(queue_name="mail", run_after=3_000).enqueue(2)]

    html = admin_client.get(f"{START}/schedule/").content.decode()
    data = data_of(admin_client, "schedule")

    assert [each["name"] for each in data["schedules"]] == ["home", "mails"]
    assert (data["total"], sum(data["due"]["hours"])) == (2, len(in_due))
    cells = [cell for row in rows_of(html, "drc-schedules") for cell in row]
    assert [cell for cell in cells if cell in ("default", "b")] == ["default", "b"]
    assert [each["name"] for each in data_of(admin_client, "schedule/_in/b")["schedules"]] == ["mails"]
    assert change_schedule(admin_client, "mails") == "Paused: mails"
    assert {each.name: each.state for each in schedules()}["mails"] == "paused"
    shards.server_b.kill()
    assert [each["name"] for each in data_of(admin_client, "schedule")["schedules"]] == ["home"]
    assert "1 of 2 shards read" in text(admin_client, "schedule")


def change_schedule(client: Client, name: str) -> str:
    response = client.post(f"{START}/schedule/pause/", {"name": name}, follow=True)
    return " ".join(str(each) for each in response.context["messages"])


def test_pages_of_schedules_follow_each_other_over_all_shards(
    shards: TwoShards, monkeypatch: pytest.MonkeyPatch, admin_client: Client
) -> None:
    for number in range(6):
        queue = {"queue_name": "mail"} if number % 2 else {}
        Schedules().add(f"s{number}", add, every=3_600, args=[1, 2], options=queue)
    monkeypatch.setattr("django_redis_components.dashboard.schedules.page.PAGE_SIZE", 4)

    first = data_of(admin_client, "schedule")
    second = data_of(admin_client, "schedule", after="s3")

    assert [each["name"] for each in first["schedules"]] == ["s0", "s1", "s2", "s3"]
    assert [each["name"] for each in second["schedules"]] == ["s4", "s5"]
    assert first["total"] == 6
    assert "after=s3" in admin_client.get(f"{START}/schedule/").content.decode()
    assert "after=s5" not in admin_client.get(f"{START}/schedule/", {"after": "s3"}).content.decode()


def test_due_tasks_of_servers_in_different_hours_are_added(shards: TwoShards) -> None:
    first = datetime(2026, 1, 1, 11, tzinfo=UTC)
    hours = [1] * 24

    found = merged_due([DueCounts(first + timedelta(hours=1), hours), DueCounts(first, hours)])

    assert found == DueCounts(first, [1, *[2] * 23])


def test_live_events_are_filtered_by_queues_of_all_shards(
    shards: TwoShards, settings: Any, admin_client: Client
) -> None:
    in_both(settings)
    note.enqueue(1)

    html = admin_client.get(f"{START}/liveevent/").content.decode()

    assert '<option value="mail"' in html
    assert '<option value="default"' in html
    shards.server_b.kill()
    assert "1 of 2 shards read" in text(admin_client, "liveevent")


# Changes of a queue


def change(client: Client, verb: str, shard: str = "", **fields: str) -> str:
    """Confirm a change of queue "mail"; return the messages of the next page."""
    url = f"{START}/queues/{shard}_verb/{verb}/mail/"
    page = client.post(url, fields) if "state" in fields else client.get(url, fields)
    assert page.status_code == 200, page.content
    hidden = dict(page.context["confirmation"].fields)
    typed = {"typed": "mail"} if verb == "purge" else {}
    response = client.post(url, {**hidden, **typed, "reason": "x", "minutes": ""}, follow=True)
    assert response.status_code == 200, response.content
    assert response.redirect_chain[0][0].split("?")[0] == f"{START}/queues/{shard}mail/"
    return " ".join(str(each) for each in response.context["messages"])


def is_paused() -> list[bool]:
    return [bool(shard.client().execute(Read("HLEN", shard.key(Key.paused)))) for shard in shards_of()]


def ready_in() -> list[int]:
    return [shard.client().execute(Read("LLEN", shard.queue("mail", "ready"))) for shard in shards_of()]


def test_queue_is_paused_and_resumed_in_all_shards(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)

    assert change(admin_client, "pause") == "Paused: mail"
    assert is_paused() == [True, True]
    assert change(admin_client, "resume", "_in/b/") == "Resumed: mail"
    assert is_paused() == [True, False]
    assert change(admin_client, "resume") == "Resumed: mail"
    assert is_paused() == [False, False]


def test_queue_is_purged_and_restored_in_all_shards(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)
    page = text_of(admin_client.get(f"{START}/queues/_verb/purge/mail/").content.decode())
    assert "Purge 6 pending tasks of the queue “mail”?" in page
    assert "default · tests.taskqueue.tasks.note" in page
    assert "This applies to the queue in the shards default, b." in page

    message = change(admin_client, "purge")

    assert message.startswith("Purged 6 tasks.")
    assert ready_in() == [0, 0]
    undo = re.search(r'href="([^"]+)/restore/mail/\?trash=(\w+)"', message)
    assert undo is not None
    assert "_in" not in undo[1]
    assert change(admin_client, "restore", trash=undo[2]) == "Restored 6 tasks."
    assert get_queue("mail").info().ready == 6


def test_all_tasks_of_a_list_are_changed_in_all_shards(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    fail_once("mail")
    set_options(settings, QUEUES={"mail": None, "default": None})
    fail_once("mail")

    assert change(admin_client, "delete", state="failed", all="1").startswith("Deleted 2 tasks.")

    assert get_queue("mail").info().failed == 0


def test_ticked_tasks_are_those_of_the_list(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    before, after = in_both(settings)

    assert change(admin_client, "cancel", state="ready", id=after[0]).startswith("Cancelled 1 task")
    assert change(admin_client, "cancel", "_in/b/", state="ready", id=before[0]).startswith("Cancelled 1 task")
    assert get_queue("mail").info().ready == 4


def test_change_says_in_which_shard_it_was_not_made(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)
    url = f"{START}/queues/_verb/purge/mail/"
    hidden = dict(admin_client.get(url).context["confirmation"].fields)
    shards.server_b.kill()

    paused = change(admin_client, "pause")
    purged = admin_client.post(url, {**hidden, "typed": "mail"}, follow=True)

    problem = "Not done in all shards. Repeat it to complete it. Shard b: "
    assert paused.startswith(f"Paused: mail {problem}")
    assert f"Purged 3 tasks. {problem}" in " ".join(str(each) for each in purged.context["messages"])
    note.using(queue_name="mail").enqueue(1)
    page = text_of(admin_client.get(url).content.decode())
    assert "Tasks in shards that do not answer are not changed: b." in page
    [logged] = LogEntry.objects.filter(change_message__startswith="Pause queue")
    assert "not in shard b: " in logged.change_message
    shards.server_b.start()
    change(admin_client, "pause")
    assert is_paused() == [True, True]


def test_change_in_no_shard_is_an_outage(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)
    shards.server_a.kill()
    shards.server_b.kill()

    assert admin_client.post(f"{START}/queues/_verb/pause/mail/", {"reason": "", "minutes": ""}).status_code == 503


def test_group_is_paused_in_all_shards(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)

    assert change(admin_client, "pause_group", group="x") == "Paused: x"
    assert [group.name for group in get_queue("mail").groups() if group.paused] == ["x"]
    keys = [shard.queue("mail", "paused_groups") for shard in shards_of()]
    assert [shard.client().execute(Read("HLEN", key)) for shard, key in zip(shards_of(), keys, strict=True)] == [1, 1]
    assert change(admin_client, "resume_group", group="x") == "Resumed: x"


def test_queue_page_links_to_changes_in_all_shards(shards: TwoShards, settings: Any, admin_client: Client) -> None:
    in_both(settings)

    html = admin_client.get(f"{START}/queues/mail/").content.decode()
    assert f"{START}/queues/_verb/pause/mail/" in html
    html = admin_client.get(f"{START}/queues/_in/b/mail/").content.decode()
    assert f"{START}/queues/_in/b/_verb/pause/mail/" in html
