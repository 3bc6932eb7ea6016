"""The page of a task: version and host of its runs, who enqueued it, how long it usually takes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client, RequestFactory

from django_redis_components.core.client import connections
from django_redis_components.core.leasing.holder import working_for
from django_redis_components.taskqueue import TaskResult
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.store.job import Ack
from tests.dashboard.support import browser, client_of, now_ms, text_of, write_worker
from tests.dashboard.task_pages import text, url_of
from tests.support import Store
from tests.taskqueue.support import base_key, end_lease, new_fetcher, renewal, settle_now, taskqueue_settings
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def data(viewer: Client, result: TaskResult) -> dict[str, Any]:
    found: dict[str, Any] = viewer.get(url_of(result.id), {"format": "json"}).json()
    return found


def settle_all(ran_us: int, worker: str = "here:1.a") -> None:
    """Run all ready tasks, each as if it had taken this long."""
    fetcher = new_fetcher(worker=worker)
    jobs = fetcher.fetch("0", 200)
    settle_now(fetcher, *[Ack(job.id, job.token, "succeeded", b"null", ttl_ms=60_000, ran_us=ran_us) for job in jobs])


def start(store: Store, result: TaskResult, seconds_ago: float) -> None:
    """Lease a task, as if its run had begun before."""
    new_fetcher(worker="here:2.a").fetch("0", 1)
    leased_us = int((now_ms(store) - seconds_ago * 1_000) * 1_000)
    store.raw.hset(base_key(store, "t", result.id), "l", leased_us)


def test_run_has_version_host_and_a_link_to_its_worker(redis_server: Store) -> None:
    viewer = browser("view_overview", "view_worker")
    result = note.enqueue("x")
    info = json.dumps({"queues": ["default"], "version": "2026.11.3"})
    connections.client().execute(renewal("app-1:f00.a", [], lease_ms=60_000, info=info))
    settle_all(5_000, "app-1:f00.a")
    write_worker(redis_server, "app-1:f00.a")

    page = viewer.get(url_of(result.id))

    assert "app-1:f00.a · version 2026.11.3" in text(page)
    assert 'href="/admin/django_redis_components/worker/?after=app-1%3Af00"' in page.content.decode()
    [run] = data(viewer, result)["runs"]
    assert (run["worker"], run["host"], run["version"]) == ("app-1:f00.a", "app-1", "2026.11.3")


def test_run_of_an_unknown_worker_has_no_version_and_no_link(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    settle_all(5_000, "gone:1.a")

    page = viewer.get(url_of(result.id))

    assert "after=gone" not in page.content.decode()
    [run] = data(viewer, result)["runs"]
    assert (run["worker"], run["host"], run["version"]) == ("gone:1.a", "gone", "")


def test_page_says_who_enqueued_the_task(redis_server: Store, viewer: Client, settings: Any) -> None:
    taskqueue_settings(settings, RECORD_ORIGIN=True)
    with working_for(RequestFactory().post("/cart/<b>/")):
        result = note.enqueue("x")

    assert "Enqueued by request POST /cart/&lt;b&gt;/" in text(viewer.get(url_of(result.id)))
    assert data(viewer, result)["task"]["enqueued_by"] == {"kind": "request", "name": "POST /cart/<b>/", "user": ""}


@pytest.mark.parametrize(
    ("stored", "shown", "link"),
    [
        ("task abc", "Enqueued by task abc", url_of("abc")),
        ("schedule sums", "Enqueued by schedule sums", "/admin/django_redis_components/schedule/"),
        ("command shell", "Enqueued by command shell", ""),
        ("request GET /\t7", "Enqueued by request GET /, user 7", ""),
    ],
)
def test_page_links_to_what_enqueued_the_task(redis_server: Store, stored: str, shown: str, link: str) -> None:
    result = note.enqueue("x")
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "O", stored)

    page = browser("view_overview", "view_schedule").get(url_of(result.id))

    assert shown in text(page)
    facts = page.content.decode().partition('id="drc-facts"')[2].partition("</dl>")[0]
    assert not link or f'href="{link}"' in facts


def test_page_says_nothing_of_an_unknown_origin(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    redis_server.raw.hset(base_key(redis_server, "t", result.id), "O", "<b>robot</b> x")

    assert "Enqueued by" not in text(viewer.get(url_of(result.id)))
    assert data(viewer, result)["task"]["enqueued_by"] is None


def test_page_says_how_long_the_name_usually_takes(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue_many([((number,), {}) for number in range(100)])[0]
    settle_all(40_000)
    add.enqueue(1, 2)
    settle_all(9_000_000)

    shown = text(viewer.get(url_of(result.id)))

    usual = data(viewer, result)["task"]["run_time"]
    assert usual["count"] == 100
    assert 0.03 < usual["p50"] <= usual["p95"] <= usual["p99"] < 0.06
    assert re.search(r"Usually 3\d ms \(p50\), 4\d ms \(p99\): 100 runs in the last 3 hours\.", shown)


def test_run_that_takes_far_longer_than_usual_is_amber(redis_server: Store, viewer: Client) -> None:
    note.enqueue_many([((number,), {}) for number in range(20)])
    settle_all(40_000)
    result = note.enqueue("x")
    start(redis_server, result, 50)

    page = viewer.get(url_of(result.id)).content.decode()
    assert "drc-answer-ok" in page
    assert "it may hang" not in page

    redis_server.raw.hset(base_key(redis_server, "t", result.id), "l", (now_ms(redis_server) - 61_000) * 1_000)
    page = viewer.get(url_of(result.id)).content.decode()

    assert "drc-answer-caution" in page
    assert "drc-answer-ok" not in page
    assert "It has run for more than ten times the p95 of its name: it may hang." in text_of(page)
    assert data(viewer, result)["task"]["is_overlong"] is True


def test_run_whose_lease_has_ended_does_not_hang(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    start(redis_server, result, 3_700)
    assert data(viewer, result)["task"]["is_overlong"] is True

    end_lease(redis_server, result.id)

    assert data(viewer, result)["task"]["is_overlong"] is False
    assert "it may hang" not in text(viewer.get(url_of(result.id)))


def test_run_whose_lease_has_ended_is_amber(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    start(redis_server, result, 1)
    end_lease(redis_server, result.id)

    page = viewer.get(url_of(result.id)).content.decode()

    assert "The poller requeues the task." in text_of(page)
    assert "drc-answer-caution" in page
    assert "drc-answer-ok" not in page


def test_run_whose_lease_has_ended_is_not_running_in_the_timeline(redis_server: Store, viewer: Client) -> None:
    result = note.enqueue("x")
    start(redis_server, result, 1)
    assert "Running" in runs_of(viewer, result)

    end_lease(redis_server, result.id)

    shown = runs_of(viewer, result)
    assert "Running" not in shown
    assert "Run 1: Lease ended at " in shown


def runs_of(viewer: Client, result: TaskResult) -> str:
    """Return the section of the timeline."""
    page = viewer.get(url_of(result.id)).content.decode()
    return page.partition('id="drc-runs"')[2].partition("</section>")[0]


def test_run_without_known_times_is_amber_after_an_hour_unless_it_has_a_limit(
    redis_server: Store, viewer: Client
) -> None:
    unlimited, limited = note.enqueue("x"), note.using(timeout=90_000, queue_name="slow").enqueue("x")
    start(redis_server, unlimited, 3_700)
    new_fetcher("slow").fetch("0", 1)
    leased_us = (now_ms(redis_server) - 3_700_000) * 1_000
    redis_server.raw.hset(f"{home().base}:t:{limited.id}", "l", leased_us)

    assert "more than an hour and has no time limit" in text(viewer.get(url_of(unlimited.id)))
    assert "it may hang" not in text(viewer.get(url_of(limited.id)))
