"""Filters beside the lists of workers, errors and locks: links with counts that need no JavaScript."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs

import pytest
from django.test import Client

from django_redis_components.locks import Lock
from django_redis_components.semaphores import Semaphore
from django_redis_components.taskqueue.fields import Field
from tests.dashboard.support import browser, fail_with, now_ms, text_of
from tests.support import Store
from tests.taskqueue.support import base_key

pytestmark = pytest.mark.django_db

BASE = "/admin/django_redis_components"
WORKERS, FAILURES, LOCKS = f"{BASE}/worker/", f"{BASE}/failure/", f"{BASE}/lock/"


@pytest.fixture
def viewer() -> Client:
    return browser("view_overview", "view_queues", "view_failure", "view_lock")


def links_of(html: str) -> dict[str, dict[str, tuple[str, str, bool]]]:
    """Return query string, count and mark of each link of the side filters, by group and label."""
    side = html.partition('id="drc-side"')[2].partition("</nav>")[0]
    link = r'<a href="[^"?]*\?([^"]*)"( aria-current="true")?><bdi>([^<]*)</bdi>(?: <span[^>]*>([^<]*)</span>)?'
    return {
        text_of(part.partition("</summary>")[0]): {
            unescape(label): (unescape(query), count, bool(mark))
            for query, mark, label, count in re.findall(link, part)
        }
        for part in side.split("<details open>")[1:]
    }


def counts_of(html: str) -> dict[str, dict[str, str]]:
    return {title: {name: link[1] for name, link in links.items()} for title, links in links_of(html).items()}


@pytest.fixture
def workers(store: Store) -> None:
    """Three live workers and a lost one, of two versions on two hosts."""
    now = now_ms(store)
    store.raw.zadd(base_key(store, "deploys"), {"2026.10": now - 9_000, "2026.11": now - 5_000})
    store.raw.zadd(base_key(store, "versions"), {"app-1:aa": now - 9_000, "app-2:bb": now - 5_000})
    seen = {"app-1:aa.x": now, "app-1:aa.y": now - 60_000, "app-2:bb.x": now, "app-2:bb.y": now}
    store.raw.zadd(base_key(store, "workers"), seen)


def workers_of(viewer: Client, **query: str) -> list[str]:
    response = viewer.get(WORKERS, {"format": "json", **query})
    assert response.status_code == 200, response.content
    return [worker["id"] for worker in response.json()["workers"]]


@pytest.mark.contract
def test_workers_are_narrowed_by_state_version_and_host(workers: None, viewer: Client) -> None:
    assert workers_of(viewer) == ["app-1:aa.x", "app-1:aa.y", "app-2:bb.x", "app-2:bb.y"]
    assert workers_of(viewer, state="lost") == ["app-1:aa.y"]
    assert workers_of(viewer, state="alive", host="app-1") == ["app-1:aa.x"]
    assert workers_of(viewer, version="2026.11") == ["app-2:bb.x", "app-2:bb.y"]
    assert workers_of(viewer, version="2026.1") == [], "a version is compared whole"
    assert workers_of(viewer, version="2026.10", after="app-1:aa.x") == ["app-1:aa.y"]


@pytest.mark.contract
def test_filters_of_workers_count_those_that_pass_the_others(workers: None, viewer: Client) -> None:
    assert counts_of(viewer.get(WORKERS).content.decode()) == {
        "By state": {"All": "", "alive": "3", "lost": "1"},
        "By version": {"All": "", "2026.10": "2", "2026.11": "2"},
        "By host": {"All": "", "app-1": "2", "app-2": "2"},
    }

    html = viewer.get(WORKERS, {"state": "alive", "host": "app-1", "after": "app-1"}).content.decode()

    assert counts_of(html)["By host"] == {"All": "", "app-1": "1", "app-2": "2"}
    query, _, is_current = links_of(html)["By host"]["app-2"]
    assert (parse_qs(query), is_current) == ({"state": ["alive"], "host": ["app-2"]}, False)
    assert links_of(html)["By state"]["alive"][2]
    assert "Live workers 3" in text_of(html), "the key figures are of all workers"
    assert "1 of 1 1 found in all 4" in text_of(html)


def test_workers_without_a_match_and_wrong_filters_are_told_apart(workers: None, viewer: Client) -> None:
    assert "No worker matches." in text_of(viewer.get(WORKERS, {"host": "app-3"}).content.decode())
    for query in ({"state": "dead"}, {"host": "x" * 1_001}, {"version": "x" * 1_001}):
        assert viewer.get(WORKERS, query).status_code == 400, query


def test_one_host_of_one_version_has_no_filters(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.zadd(base_key(redis_server, "workers"), {"app-1:aa.x": now_ms(redis_server)})

    assert 'id="drc-side"' not in viewer.get(WORKERS).content.decode()


def test_errors_are_narrowed_by_queue_and_exception(redis_server: Store, viewer: Client) -> None:
    fail_with("one", "two", queue="mail")
    fail_with("three", queue="reports")

    def errors(**query: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = viewer.get(FAILURES, {"format": "json", **query}).json()["errors"]
        return found

    html = viewer.get(FAILURES).content.decode()

    [name] = {str(error["class"]).removeprefix("builtins.") for error in errors()}
    assert counts_of(html)["By queue"] == {"All": "", "mail": "2", "reports": "1"}
    assert counts_of(html)["By exception"] == {"All": "", name: str(len(errors()))}
    assert len(errors(exception=name)) == len(errors())
    assert errors(exception="OSError") == []
    assert "No error matches the filter." in viewer.get(FAILURES, {"exception": "OSError"}).content.decode()
    kept = parse_qs(links_of(viewer.get(FAILURES, {"exception": name}).content.decode())["By queue"]["mail"][0])
    assert kept == {"queue": ["mail"], "exception": [name]}
    assert viewer.get(FAILURES, {"exception": "x" * 301}).status_code == 400


def test_another_time_keeps_the_error_in_detail(redis_server: Store, viewer: Client) -> None:
    fail_with("one", queue="mail")
    [error] = viewer.get(FAILURES, {"format": "json"}).json()["errors"]
    group = error["fingerprint"]

    links = links_of(viewer.get(FAILURES, {"group": group}).content.decode())

    assert parse_qs(links["By time"]["Last hour"][0]) == {"group": [group], "since": ["1h"]}
    assert "group" not in parse_qs(links["By queue"]["mail"][0])
    assert all("group" not in parse_qs(query) for query, _count, _mark in links["By exception"].values())


def test_locks_are_narrowed_by_kind_and_waiters(redis_server: Store, viewer: Client) -> None:
    with Lock("stock", timeout=60), Semaphore("mail", limit=2, timeout=60):

        def held(**query: str) -> list[str]:
            return [each["name"] for each in viewer.get(LOCKS, {"format": "json", **query}).json()["held"]]

        html = viewer.get(LOCKS).content.decode()

        assert counts_of(html) == {"By kind": {"All": "", "lock": "1", "semaphore": "1"}}
        kept = parse_qs(links_of(html)["By kind"]["semaphore"][0])
        assert held(**{name: values[0] for name, values in kept.items()}) == ["mail"]
        assert held() == ["mail", "stock"]
        assert held(waiters="some") == []
        nothing = viewer.get(LOCKS, {"waiters": "some"}).content.decode()
        assert "None of the locks and semaphores on this page matches." in text_of(nothing)
        assert counts_of(nothing)["By waiters"] == {"All": "", "with waiters": "0", "without waiters": "2"}
        assert viewer.get(LOCKS, {"kind": "door"}).status_code == 400


def test_retry_of_an_error_obeys_the_time_that_the_page_shows(redis_server: Store) -> None:
    client = browser("view_overview", "view_queues", "view_failure", "retry_task")
    fail_with("no mail server 1", "no mail server 2", queue="mail")
    old, new = viewed(client)
    redis_server.raw.zincrby(base_key(redis_server, "q", "mail", "failed"), -7_200_000, old)
    record, past_us = base_key(redis_server, "t", old), (now_ms(redis_server) - 7_200_000) * 1_000
    redis_server.raw.hset(record, Field.finished_at_us, past_us)

    html = client.get(FAILURES, {"since": "1h"}).content.decode()

    assert [label for label, link in links_of(html)["By time"].items() if link[2]] == ["Last hour"]
    assert viewed(client, since="1h") == [new]
    [address] = re.findall(r'href="([^"]*retry_error[^"]*)"', html)
    assert "since=1h" in unescape(address)
    question = client.get(unescape(address)).content.decode()
    assert "Retry 1 failed task of this error?" in text_of(question)
    assert re.search("Only tasks that match: the error is .*; from 20", text_of(unescape(question)))
    assert client.get(FAILURES, {"since": "soon"}).status_code == 400


def viewed(client: Client, **query: str) -> list[str]:
    """Return the failed tasks of the error in detail, the oldest first."""
    tasks = client.get(FAILURES, {"format": "json", **query}).json()["selected"]["tasks"]["mail"]["newest"]
    return [task["id"] for task in tasks][::-1]
