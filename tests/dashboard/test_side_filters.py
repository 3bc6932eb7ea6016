"""Filters beside lists of tasks: by state, queue, name, version and host; links that need no JavaScript."""

from __future__ import annotations

import itertools
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client

from django_redis_components.dashboard.side_filter import MAX_VALUES, filter_group
from django_redis_components.taskqueue.store.job import Ack
from tests.dashboard.queue_pages import url_of as queue_url
from tests.dashboard.queue_pages import verb_url
from tests.dashboard.support import browser, now_ms, text_of
from tests.support import Store
from tests.taskqueue.support import base_key, new_fetcher, settle_now
from tests.taskqueue.tasks import add, note

pytestmark = pytest.mark.django_db

#: Numbers of threads: a fetch by the same one would be a repeated request.
threads = itertools.count()

SEARCH = "/admin/django_redis_components/tasksearch/"
STATES = {"succeeded": "successful", "failed": "failed", "retried": "retrying", "": "running"}


@pytest.fixture
def viewer() -> Client:
    return browser("view_overview", "view_queues")


def run_on(worker: str, outcome: str, queue: str = "mail", task: Any = note) -> str:
    """Let a worker run a task; with the outcome "" it still runs. Return the id."""
    task_id: str = task.using(queue_name=queue).enqueue(*((1, 2) if task is add else ("x",))).id
    fetcher = new_fetcher(queue, worker=worker)
    [job] = fetcher.fetch(str(next(threads)), 1)
    if outcome:
        more = {"delay_ms": 600_000} if outcome == "retried" else {"ttl_ms": 60_000}
        error = b'{"exception_class_path": "ValueError", "message": "odd", "traceback": ""}'
        body = b"null" if outcome == "succeeded" else error
        settle_now(fetcher, Ack(job.id, job.token, outcome, body, ran_us=5_000, **more))
    return task_id


@pytest.fixture
def ids(store: Store) -> dict[tuple[str, str], str]:
    """A task in each state by each of two workers: of another version, on another host; by state and host."""
    now = now_ms(store)
    store.raw.zadd(base_key(store, "deploys"), {"2026.10": now - 9_000_000, "2026.11": now - 5_000})
    store.raw.zadd(base_key(store, "versions"), {"app-1.example.com:aa": now - 9_000_000, "app-2:bb": now - 5_000})
    store.raw.zadd(base_key(store, "workers"), {"app-1.example.com:aa.x": now, "app-2:bb.y": now})
    found = {}
    for worker, host in (("app-1.example.com:aa.x", "app-1.example.com"), ("app-2:bb.y", "app-2")):
        for outcome, state in STATES.items():
            found[state, host] = run_on(worker, outcome)
    return found


def listed(viewer: Client, **query: str) -> set[str]:
    response = viewer.get(queue_url("mail"), {"format": "json", **query})
    assert response.status_code == 200, response.content
    return {task["id"] for task in response.json()["listing"]["tasks"]}


@pytest.mark.contract
@pytest.mark.parametrize("state", STATES.values())
def test_list_is_narrowed_by_version_and_host(state: str, ids: dict[tuple[str, str], str], viewer: Client) -> None:
    one, other = ids[state, "app-1.example.com"], ids[state, "app-2"]

    assert listed(viewer, state=state) == {one, other}
    assert listed(viewer, state=state, version="2026.10") == {one}
    assert listed(viewer, state=state, version="2026.1") == set(), "a version is compared whole"
    assert listed(viewer, state=state, host="app-2") == {other}
    assert listed(viewer, state=state, host="app-1") == set()
    assert listed(viewer, state=state, host="app-2", version="2026.10") == set()
    assert listed(viewer, state=state, host="app-2", version="2026.11", name="note") == {other}


@pytest.mark.contract
def test_search_is_narrowed_by_version_and_host(ids: dict[tuple[str, str], str], viewer: Client) -> None:
    def found(text: str) -> set[str]:
        return {task["id"] for task in viewer.get(SEARCH, {"q": text, "format": "json"}).json()["search"]["tasks"]}

    assert found("host:app-2") == {task_id for (_, host), task_id in ids.items() if host == "app-2"}
    assert found("version:2026.10 state:failed") == {ids["failed", "app-1.example.com"]}
    assert found("version:none") == set()
    assert found("state:succeeded") == {task_id for (state, _), task_id in ids.items() if state == "successful"}


def links_of(html: str) -> dict[str, dict[str, tuple[str, bool]]]:
    """Return query string and mark of each link of the side filters, by group and label."""
    side = html.partition('id="drc-side"')[2].partition("</nav>")[0]
    groups = {}
    for part in side.split("<details open>")[1:]:
        title = text_of(part.partition("</summary>")[0])
        found = re.findall(r'<a href="[^"?]*\?([^"]*)"( aria-current="true")?><bdi>([^<]*)</bdi>', part)
        groups[title] = {unescape(label): (unescape(query), bool(current)) for query, current, label in found}
    return groups


def test_queue_page_has_filters_that_keep_each_other(ids: dict[tuple[str, str], str], viewer: Client) -> None:
    run_on("app-2:bb.y", "failed", task=add)
    query = {"state": "failed", "version": "2026.11", "text": "x"}

    html = viewer.get(queue_url("mail"), query).content.decode()

    groups = links_of(html)
    assert list(groups) == ["By task name", "By version", "By host"]
    assert [*groups["By version"]] == ["All", "2026.11", "2026.10"], "newest first"
    assert [*groups["By host"]] == ["All", "app-1.example.com", "app-2"]
    assert {add.name, note.name} <= {*groups["By task name"]}
    assert [label for label, (_, current) in groups["By version"].items() if current] == ["2026.11"]
    kept = parse_qs(groups["By host"]["app-2"][0])
    assert kept == {"state": ["failed"], "version": ["2026.11"], "text": ["x"], "host": ["app-2"]}
    assert parse_qs(groups["By version"]["All"][0]) == {"state": ["failed"], "text": ["x"]}
    assert '<input type="hidden" name="version" value="2026.11">' in html, "the form keeps the filter"
    assert listed(viewer, **{name: values[0] for name, values in kept.items()}) == {ids["failed", "app-2"]}


def test_tasks_that_wait_have_no_filter_by_version(redis_server: Store, viewer: Client) -> None:
    note.using(queue_name="mail").enqueue("x")

    assert "By version" not in links_of(viewer.get(queue_url("mail"), {"state": "ready"}).content.decode())


def test_search_page_has_filters_that_change_the_search(ids: dict[tuple[str, str], str], viewer: Client) -> None:
    html = viewer.get(SEARCH, {"q": "x state:failed host:app-2"}).content.decode()

    groups = links_of(html)
    assert list(groups) == ["By state", "By queue", "By task name", "By version", "By host"]
    assert groups["By state"]["Failed"] == ("q=x+host%3Aapp-2+state%3Afailed", True)
    assert groups["By state"]["All"] == ("q=x+host%3Aapp-2", False)
    assert parse_qs(groups["By queue"]["mail"][0]) == {"q": ["x state:failed host:app-2 queue:mail"]}
    assert groups["By host"]["All"][0] == "q=x+state%3Afailed"


def test_bulk_change_repeats_the_filters_and_obeys_them(ids: dict[tuple[str, str], str]) -> None:
    operator = browser("view_overview", "view_queues", "retry_task")
    query = {"state": "failed", "version": "2026.10", "host": "app-1.example.com", "all": "1"}

    page = operator.post(verb_url("retry", "mail"), query)

    shown = text_of(unescape(page.content.decode()))
    assert "Only tasks that match: the version is “2026.10”; the host is “app-1.example.com”." in shown
    assert ids["failed", "app-1.example.com"] in shown
    assert ids["failed", "app-2"] not in shown


def test_values_that_another_client_wrote_are_escaped_and_bounded(redis_server: Store, viewer: Client) -> None:
    now = now_ms(redis_server)
    redis_server.raw.zadd(base_key(redis_server, "deploys"), {"<b>": now, "x" * 5_000: now - 1, b"\xff": now - 2})
    redis_server.raw.zadd(base_key(redis_server, "workers"), {"<i>:aa.x": now, "none": now, b"\xff:a.b": now})
    run_on("<i>:aa.x", "failed")

    html = viewer.get(queue_url("mail"), {"state": "failed", "host": "<i>"}).content.decode()

    assert "<b>" not in html.partition('id="drc-side"')[2].partition("</nav>")[0]
    assert {"All", "<i>", "\ufffd"} == {*links_of(html)["By host"]}
    assert max(map(len, links_of(html)["By version"])) == 100


@pytest.mark.parametrize("name", ["version", "host"])
def test_too_long_filter_is_rejected(redis_server: Store, viewer: Client, name: str) -> None:
    response = viewer.get(queue_url("mail"), {"state": "failed", name: "x" * 201})

    assert response.status_code == 400
    assert name in text_of(response.content.decode())


def test_group_has_the_current_value_and_says_how_many_are_left_out() -> None:
    group = filter_group("name", "task name", [str(number) for number in range(30)], "29", str)

    assert group is not None
    assert [link.label for link in group.links] == ["All", "29", *map(str, range(MAX_VALUES - 1))]
    assert [link.label for link in group.links if link.is_current] == ["29"]
    assert group.more == 10
    assert filter_group("name", "task name", ["", ""], "", str) is None


def test_no_link_leads_elsewhere(ids: dict[tuple[str, str], str], viewer: Client) -> None:
    for url in (queue_url("mail"), SEARCH):
        html = viewer.get(url).content.decode()
        side = html.partition('id="drc-side"')[2].partition("</nav>")[0]
        assert {urlsplit(unescape(each)).path for each in re.findall(r'href="([^"]+)"', side)} == {url}
