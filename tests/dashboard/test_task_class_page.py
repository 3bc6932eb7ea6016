"""The page of a task class: its runs in all queues, failed tasks, options, limits, schedules and deploys."""

from __future__ import annotations

import dataclasses
import re
import struct
from typing import Any

import pytest
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.dashboard.links import APP
from django_redis_components.dashboard.task_class.snapshot import RANGES
from django_redis_components.taskqueue import Schedules, registry
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.metrics import SIZE
from django_redis_components.taskqueue.stats.task_class import MAX_ROWS, read_task_class
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.execution import execute
from tests.dashboard.support import browser, client_of, fail_with, now_ms, write_hour
from tests.dashboard.task_pages import text
from tests.dashboard.task_pages import url_of as task_url
from tests.support import Store
from tests.taskqueue.batching.tasks import collect_by_key
from tests.taskqueue.support import base_key, new_fetcher, queue_key, settle_now, taskqueue_settings
from tests.taskqueue.tasks import add, crowd, note

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def url_of(name: str) -> str:
    from django.contrib.admin.utils import quote

    return f"/admin/{APP}/taskclass/{quote(name)}/"


def data(viewer: Client, name: str = note.name) -> dict[str, Any]:
    response = viewer.get(url_of(name), {"format": "json"})
    assert response.status_code == 200, response.content
    found: dict[str, Any] = response.json()
    return found


def settle_all(queue: str, ran_us: int, outcome: str = "succeeded") -> None:
    """Run all ready tasks of a queue, each as if it had taken this long."""
    fetcher = new_fetcher(queue, worker=f"here:{queue}.{outcome}")
    jobs = fetcher.fetch("0", 200)
    settle_now(fetcher, *[Ack(job.id, job.token, outcome, b"null", ttl_ms=60_000, ran_us=ran_us) for job in jobs])


def write_counters(store: Store, queue: str, name: str, minutes_ago: int, succeeded: int) -> None:
    """Write the counters of a name as the scripts do, in a minute of the past."""
    minute = now_ms(store) // 60_000 - minutes_ago
    names = queue_key(store, f"task_names:{minute // 60}", queue)
    store.raw.hset(names, name, 1)
    numbers = [0] * SIZE + [succeeded] + [0] * (SIZE - 1)
    store.raw.set(queue_key(store, f"minute:{minute}", queue), struct.pack(f">{2 * SIZE}I", *numbers), ex=600)
    store.raw.zadd(base_key(store, "queues"), {queue: 1})


def test_runs_of_all_queues_are_counted_and_told_apart(redis_server: Store, viewer: Client) -> None:
    for queue, count, ran_us in (("mail", 30, 40_000), ("slow", 10, 2_000_000)):
        note.using(queue_name=queue).enqueue_many([((number,), {}) for number in range(count)])
        settle_all(queue, ran_us)
    add.using(queue_name="mail").enqueue(1, 2)
    settle_all("mail", 5_000, "failed")
    note.using(queue_name="slow").enqueue("fails")
    settle_all("slow", 5_000, "failed")

    page = text(viewer.get(url_of(note.name)))
    found = data(viewer)

    assert (found["succeeded"], found["failed"]) == (40, 1)
    assert [(each["queue"], each["succeeded"], each["failed"]) for each in found["queues"]] == [
        ("mail", 30, 0),
        ("slow", 10, 1),
    ]
    assert found["queues"][0]["run_time"]["p99"] < 0.1 < found["queues"][1]["run_time"]["p50"]
    assert f"Task class {note.name}" in page
    assert "Histogram of run times" in page
    assert "Most: 30 of 41" in page
    assert sum(each["succeeded"] for each in found["minutes"]) == 40


def test_page_takes_two_round_trips(redis_server: Store, viewer: Client) -> None:
    for number in range(30):
        write_counters(redis_server, f"q{number}", note.name, 5, 1)

    assert (data(viewer)["cost"]["round_trips"], data(viewer)["cost"]["commands"]) == (2, 3 + 6 + 5)
    fragment = viewer.get(url_of(note.name), {"format": "fragment"})
    assert "1 round trip" in text(fragment)


def test_further_queues_are_counted_and_said(redis_server: Store, viewer: Client) -> None:
    for number in range(MAX_ROWS + 3):
        write_counters(redis_server, f"q{number:02}", note.name, 5, 2)

    found = data(viewer)

    assert (len(found["queues"]), found["more_queues"], found["succeeded"]) == (MAX_ROWS, 3, 2 * MAX_ROWS)
    assert "Read: 10 queues. 3 more queues ran it." in text(viewer.get(url_of(note.name)))


def test_more_than_500_queues_are_read_in_parts(redis_server: Store) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {f"a{number:04}": 0 for number in range(500)})
    write_counters(redis_server, "zz", note.name, 5, 7)

    task = run(connections.client(), read_task_class(home(), note.name))

    assert [(queue, counts.totals.succeeded) for queue, counts in task.by_queue] == [("zz", 7)]


def test_queue_with_too_many_names_is_said(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {"crowded": 0})
    hour = now_ms(redis_server) // 3_600_000
    names = {f"other.{number}": number for number in range(1, 31)}
    redis_server.raw.hset(queue_key(redis_server, f"task_names:{hour}", "crowded"), mapping=names)

    assert data(viewer)["uncounted_queues"] == 1
    assert "1 queue has more than 30 task names an hour." in text(viewer.get(url_of(note.name)))


def test_runs_are_split_by_deploys(redis_server: Store, viewer: Client) -> None:
    write_counters(redis_server, "mail", note.name, 40, 5)
    write_counters(redis_server, "mail", note.name, 10, 7)
    now = now_ms(redis_server)
    deploys = {"1.0": now - 90 * 86_400_000, "1.1": now - 20 * 60_000, "1.2": now - 5 * 60_000}
    redis_server.raw.zadd(base_key(redis_server, "deploys"), deploys)

    found = [(each["version"], each["succeeded"]) for each in data(viewer)["deploys"]]

    assert found == [("1.1", 7), ("1.0", 5)]
    assert "By version" in text(viewer.get(url_of(note.name)))


def test_runs_before_the_first_known_version_are_apart(redis_server: Store, viewer: Client) -> None:
    write_counters(redis_server, "mail", note.name, 40, 5)
    redis_server.raw.zadd(base_key(redis_server, "deploys"), {"1.1": now_ms(redis_server) - 20 * 60_000})

    assert [each["version"] for each in data(viewer)["deploys"]] == [None]
    assert "before the first known version" in text(viewer.get(url_of(note.name)))


def test_page_without_deploys_has_no_table_of_versions(redis_server: Store, viewer: Client) -> None:
    write_counters(redis_server, "mail", note.name, 40, 5)

    assert "By version" not in text(viewer.get(url_of(note.name)))


def test_last_failed_tasks_are_listed_with_a_link_to_all(redis_server: Store, viewer: Client) -> None:
    ids = [
        task_id for text_of_error in ("no stock", "out of order") for task_id in fail_with(text_of_error, queue="mail")
    ]
    add.using(queue_name="mail").enqueue(1, 2)
    settle_all("mail", 5_000, "failed")
    write_counters(redis_server, "mail", note.name, 3, 1)

    page = viewer.get(url_of(note.name))

    assert [each["id"] for each in data(viewer)["failed_tasks"]] == ids[::-1]
    assert "out of order" in text(page)
    assert f'href="/admin/{APP}/queues/mail/?state=failed&amp;name={note.name}"' in page.content.decode()
    assert all(f'href="{task_url(task_id)}"' in page.content.decode() for task_id in ids)


def test_slowest_runs_of_all_queues_are_listed(redis_server: Store, viewer: Client) -> None:
    expected = []
    for queue, ran_us in (("mail", 40_000), ("slow", 2_000_000), ("bulk", 70_000)):
        task = note.using(queue_name=queue)
        expected.append((task.enqueue({"to": queue, "password": "s3cr3t"}).id, ran_us / 1e6))
        add.using(queue_name=queue).enqueue(1, 2)
        fetcher = new_fetcher(queue, worker=f"here:{queue}")
        settle_now(fetcher, *[execute(job)._replace(ran_us=ran_us) for job in fetcher.fetch("0", 2)])

    found = data(viewer)["slowest_runs"]
    response = viewer.get(url_of(note.name))

    assert [(each["id"], each["duration_s"]) for each in found["tasks"]] == [expected[1], expected[2], expected[0]]
    assert (found["scanned"], found["matched"]) == (6, 3)
    shown = text(response)
    assert "Of the newest 3 runs that succeeded (succeeded tasks scanned: 6)." in shown
    assert re.search(r"Slowest runs .* slow 2\.0 s .* bulk 70 ms .* mail 40 ms", shown)
    assert f'href="{task_url(expected[1][0])}?queue=slow"' in response.content.decode()
    assert "s3cr3t" not in response.content.decode()
    assert "•••" in shown


def test_ten_slowest_runs_are_listed(redis_server: Store, viewer: Client) -> None:
    for queue in ("mail", "slow"):
        note.using(queue_name=queue).enqueue_many([((number,), {}) for number in range(12)])
        settle_all(queue, 7_000)

    assert len(data(viewer)["slowest_runs"]["tasks"]) == 10
    assert data(viewer)["slowest_runs"]["matched"] == 24


def test_class_without_a_finished_run_has_no_slowest(redis_server: Store, viewer: Client) -> None:
    assert "No run that succeeded is listed." in text(viewer.get(url_of(note.name)))


def test_batch_is_listed_in_place_of_fair(redis_server: Store, viewer: Client) -> None:
    options = {each["name"]: (each["value"], each["source"]) for each in data(viewer, collect_by_key.name)["options"]}

    assert options["batch"] == ("Batch(size=3, wait=60, key='{customer}')", "decorator")
    assert "fair" not in options
    assert "Batch(size=3, wait=60" in text(viewer.get(url_of(collect_by_key.name)))


def test_options_say_where_they_come_from(redis_server: Store, viewer: Client) -> None:
    options = {each["name"]: (each["value"], each["source"]) for each in data(viewer, crowd.name)["options"]}

    assert options["queue_name"] == ("'default'", "package")
    assert options["concurrency"][1] == "decorator"
    assert "3" in options["concurrency"][0]
    page = text(viewer.get(url_of(crowd.name)))
    assert "decorator" in page
    assert "default" in page


class Opaque:
    """An option of a site whose code cannot be shown or compared."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        return 7

    def __call__(self, exc: BaseException, tried: object) -> float:
        return 1.0


def test_option_that_cannot_be_shown_is_named_by_its_class(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = dataclasses.replace(
        crowd, declared_options=dataclasses.replace(crowd.options, backoff=Opaque()), declared=frozenset({"backoff"})
    )
    monkeypatch.setattr(registry, "find", {crowd.name: changed}.get)

    options = {each["name"]: (each["value"], each["source"]) for each in data(viewer, crowd.name)["options"]}

    assert options["backoff"] == ("<Opaque>", "decorator")
    assert viewer.get(url_of(crowd.name)).status_code == 200


def test_schedules_of_the_class_are_listed(redis_server: Store, viewer: Client) -> None:
    Schedules().add("hourly notes", note, every=3_600, args=["x"])
    Schedules().add("sums", add, every=3_600, args=[1, 2])

    assert data(viewer)["schedules"] == ["hourly notes"]
    assert "hourly notes" in text(viewer.get(url_of(note.name)))


@pytest.mark.parametrize("name", ["unknown.task", "<b>bold</b>", "a/b%20c?d#e", "x" * 300])
def test_unknown_name_has_an_empty_page(redis_server: Store, viewer: Client, name: str) -> None:
    response = viewer.get(url_of(name))

    assert "No run in the last 3 hours." in text(response)
    assert "This process has not registered a task of this name." in text(response)
    assert "<b>bold</b>" not in response.content.decode()


def test_name_that_is_too_long_is_not_found(redis_server: Store, viewer: Client) -> None:
    assert viewer.get(url_of("x" * 501)).status_code == 404


def test_page_requires_the_permission_of_the_overview(redis_server: Store) -> None:
    assert browser("view_lock").get(url_of(note.name)).status_code == 403


@pytest.mark.parametrize("wrong", [{"max_attempts": 0}, {"unique": "order:{order_id}"}])
def test_invalid_defaults_are_stated_or_left_out(
    wrong: dict[str, Any], redis_server: Store, viewer: Client, settings: Any
) -> None:
    note.enqueue("x")
    taskqueue_settings(settings, DEFAULTS=wrong)

    for address in ("overview/", "queues/default/", "tasksearch/?q=x", "worker/", note.name):
        response = viewer.get(f"/admin/{APP}/{address}" if "?" in address or address[-1] == "/" else url_of(address))
        html = response.content.decode()
        assert response.status_code == 200 or (response.status_code, "DEFAULTS" in html) == (503, True), address


def test_history_by_hour_has_counts_and_quantiles(redis_server: Store, viewer: Client) -> None:
    write_hour(redis_server, note.name, 100, succeeded=11)
    write_hour(redis_server, note.name, 40, succeeded=5, failed=1)
    write_counters(redis_server, "mail", note.name, 0, 2)

    by_range = {name: viewer.get(url_of(note.name), {"format": "json", "range": name}).json() for name in RANGES}

    assert {name: (each["succeeded"], each["failed"]) for name, each in by_range.items()} == {
        "3h": (2, 0),
        "3d": (7, 1),
        "7d": (18, 1),
    }
    assert [(each["succeeded"], each["failed"]) for each in by_range["7d"]["hours"]] == [(11, 0), (5, 1), (2, 0)]
    assert 4 < by_range["3d"]["hours"][0]["run_time"]["p50"] < by_range["3d"]["hours"][0]["run_time"]["p99"] < 9
    assert by_range["3h"]["hours"] == []
    assert by_range["7d"]["cost"]["round_trips"] == by_range["3h"]["cost"]["round_trips"] == 2


def test_page_of_a_range_of_hours_shows_charts_with_three_quantiles(redis_server: Store, viewer: Client) -> None:
    write_hour(redis_server, note.name, 40, succeeded=5, failed=1)
    redis_server.raw.zadd(base_key(redis_server, "deploys"), {"1.1": now_ms(redis_server) - 30 * 3_600_000})
    write_hour(redis_server, note.name, 20, succeeded=4)

    response = viewer.get(url_of(note.name), {"range": "3d"})
    page, html = text(response), response.content.decode()

    assert "Finished 10 last 3 days" in page
    assert re.search(r"From Wait p50 Wait p95 Wait p99 Run time p50 Run time p95 Run time p99", page)
    assert "drc-line-third" in html
    assert "1.1 (" in page
    assert re.search(r"By version .* 1\.1 since .* 4 .* before the first known version 6", page)
    assert '<a href="?range=3d" aria-current="true">3 d</a>' in html
    assert "Histogram of run times" in page
    assert [
        each["version"] for each in viewer.get(url_of(note.name), {"range": "3d", "format": "json"}).json()["deploys"]
    ] == [
        "1.1",
        None,
    ]


def test_unknown_range_is_rejected(redis_server: Store, viewer: Client) -> None:
    response = viewer.get(url_of(note.name), {"range": "9y"})

    assert response.status_code == 400
    assert (
        "range=&#x27;9y&#x27;: expected one of &#x27;3h&#x27;, &#x27;3d&#x27;, &#x27;7d&#x27;."
        in response.content.decode()
    )


def test_hours_without_a_poller_are_said(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.zadd(base_key(redis_server, "queues"), {"mail": 1})
    write_counters(redis_server, "mail", note.name, 0, 2)
    redis_server.raw.set(base_key(redis_server, "class_rollup"), now_ms(redis_server) // 3_600_000 - 30, ex=600)

    assert "Not contained: " in text(viewer.get(url_of(note.name), {"range": "3d"}))


def test_listed_tasks_name_the_version_that_has_run_them(redis_server: Store, viewer: Client) -> None:
    now = now_ms(redis_server)
    redis_server.raw.zadd(base_key(redis_server, "deploys"), {"2026.10": now - 9_000_000, "2026.11": now - 5_000})
    redis_server.raw.zadd(base_key(redis_server, "versions"), {"app-1:aa": now - 9_000_000, "app-2:bb": now - 5_000})
    for worker, outcome in (("app-1:aa.x", "succeeded"), ("app-2:bb.y", "succeeded"), ("app-2:bb.z", "failed")):
        note.using(queue_name="mail").enqueue(worker)
        fetcher = new_fetcher("mail", worker=worker)
        [job] = fetcher.fetch("0", 1)
        settle_now(fetcher, Ack(job.id, job.token, outcome, b"{}", ttl_ms=60_000, ran_us=5_000))
    unknown = note.using(queue_name="mail").enqueue("unknown").id
    settle_all("mail", 4_000)

    found = data(viewer)
    page = text(viewer.get(url_of(note.name)))

    assert [each["version"] for each in found["failed_tasks"]] == ["2026.11"]
    assert sorted(each["version"] or "" for each in found["slowest_runs"]["tasks"]) == ["", "2026.10", "2026.11"]
    assert [each["id"] for each in found["slowest_runs"]["tasks"] if each["version"] is None] == [unknown]
    assert re.search(r"Last failed tasks Task Arguments Error Version Failed ago Attempts .* 2026\.11 ", page)
    assert re.search(r"Slowest runs Task Arguments Queue Version Run time Finished ago .* mail 2026\.1[01] 5 ms", page)
