"""The way around: tabs with counts, the pages of all queues and flows, the state that a queue's page opens."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import chain, get_queue, group
from django_redis_components.taskqueue.flows.listing import list_flows
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats import failure_counts, queue_stats
from django_redis_components.taskqueue.stats.failure_counts import FailureCounts, read_failure_counts
from tests.dashboard.flow_pages import FLOWS
from tests.dashboard.queue_pages import url_of
from tests.dashboard.support import (
    URL,
    browser,
    client_of,
    dump,
    fail_with,
    text_of,
    write_minute,
    write_queue,
    write_worker,
)
from tests.dashboard.urls_of_pages import EXAMPLES, address_of, fill
from tests.support import Store
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import add, fail, note

pytestmark = pytest.mark.django_db

QUEUES = url_of("x").removesuffix("x/")


@pytest.fixture
def viewer() -> Client:
    return client_of("superuser")


def tabs_of(client: Client, url: str) -> dict[str, tuple[str, str]]:
    """Return ``aria-current`` and the badge of the tabs that have one of them, by label."""
    tabs = client.get(url).context["tabs"]
    return {tab.label: (tab.current, tab.badge) for tab in tabs if tab.current or tab.badge}


@pytest.mark.contract
def test_failures_of_all_queues_and_lost_workers_are_counted_in_one_round_trip(store: Store) -> None:
    write_queue(store, "mail", failed=3)
    write_queue(store, "low", failed=4, ready=2)
    write_worker(store, "here:a", seen_s=100)
    write_worker(store, "here:b")

    found = run(connections.client(), read_failure_counts(home()))

    assert found == FailureCounts(7, 1)
    assert found.by_queue == {"mail": 3, "low": 4}


def test_failures_of_very_many_queues_are_counted_in_part_and_say_so(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failure_counts, "MAX_QUEUES", 2)
    for number in range(3):
        write_queue(redis_server, f"q{number}", failed=2)

    assert tabs_of(viewer, f"{QUEUES}q0/") == {"Queues": ("true", ""), "Failures": ("", "4+")}


def test_tabs_have_counts_on_every_page_and_after_each_refresh(redis_server: Store, viewer: Client) -> None:
    fail_with("no stock", "no stock", queue="mail")
    write_worker(redis_server, "here:a", seen_s=100)

    problems = len(viewer.get(URL, {"format": "json"}).json()["problems"])
    assert tabs_of(viewer, URL) == {
        "Overview": ("page", str(problems)),
        "Failures": ("", "2"),
        "Workers": ("", "1 lost"),
    }
    schedules = URL.replace("overview", "schedule")
    assert tabs_of(viewer, schedules) == {"Schedules": ("page", ""), "Failures": ("", "2"), "Workers": ("", "1 lost")}
    limits = URL.replace("overview", "ratelimit")
    assert tabs_of(viewer, limits) == {"Rate limits": ("page", ""), "Failures": ("", "2"), "Workers": ("", "1 lost")}
    fragment = viewer.get(schedules, {"format": "fragment"}).content.decode()
    assert re.search(
        r'data-drc-live="tabs">.*?Failures <span class="drc-count drc-count-bad"><bdi>2<', fragment, re.DOTALL
    )


def test_each_page_names_its_server(redis_server: Store) -> None:
    root, server = client_of("superuser"), str(connections.endpoint("default"))
    for page in ("overview", "ratelimit", "schedule", "failure", "worker", "memory", "incident"):
        html = unescape(root.get(URL.replace("overview", page)).content.decode())
        assert f'class="drc-address">{server}<' in html, page


def test_page_of_failures_reads_failed_tasks_once(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", failed=2, ready=1)
    write_queue(redis_server, "low", ready=3)
    redis_server.raw.zadd(f"{home().base}:queues", {b"\xff": 1})  # written by another client
    redis_server.raw.zadd(f"{home().base}:q:".encode() + b"\xff:failed", {"x": 1})
    failures = URL.replace("overview", "failure")
    viewer.get(failures)  # the scripts are known to the server

    found = viewer.get(failures, {"format": "json"}).json()

    assert (found["cost"]["commands"], found["cost"]["round_trips"]) == (3, 1)  # failed tasks, errors, deploys
    assert found["failed"] == {"mail": 2}
    assert tabs_of(viewer, failures) == {"Failures": ("page", "3")}


def test_page_of_queues_counts_failures_in_what_it_has_read(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", failed=2)
    write_queue(redis_server, "low", failed=3)
    write_worker(redis_server, "here:a", seen_s=100)
    viewer.get(QUEUES)  # the scripts are known to the server

    cost = viewer.get(QUEUES, {"format": "json"}).json()["cost"]

    assert tabs_of(viewer, QUEUES) == {"Queues": ("page", ""), "Failures": ("", "5"), "Workers": ("", "1 lost")}
    # Depths, workers, poller, INFO, two about packed minutes; then errors of each queue, reports and metrics.
    assert (cost["commands"], cost["round_trips"]) == (6 + 4, 2)


def test_page_of_too_many_queues_says_that_failures_are_counted_in_part(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_stats, "MAX_QUEUES", 2)
    for name in ("high", "low"):
        write_queue(redis_server, name, failed=2)

    assert tabs_of(viewer, QUEUES)["Failures"] == ("", "4+")
    assert tabs_of(viewer, URL)["Failures"] == ("", "4+")


def test_one_tab_is_marked_on_each_page_and_confirmation(redis_server: Store, viewer: Client) -> None:
    known = fill(redis_server)
    sections = {"queues": "Queues", "task": "Queues", "taskflow": "Flows", "failure": "Failures", "lock": "Locks"}

    for route, query in EXAMPLES.items():
        response = viewer.get(address_of(route, query, known))
        if response.context and "tabs" in response.context:
            marked = [tab.label for tab in response.context["tabs"] if tab.current]
            assert len(marked) == 1, route
            assert marked[0] == sections.get(route.partition("/")[0], marked[0]), route


def test_tabs_of_messages_and_of_files_and_logs_are_apart(redis_server: Store, viewer: Client) -> None:
    labels = [tab.label for tab in viewer.get(URL).context["tabs"]]

    assert labels[:8] == ["Overview", "Queues", "Failures", "Live", "Schedules", "Incidents", "Flows", "Workers"]
    assert labels[-4:] == ["Messages", "Files and logs", "Memory", "Actions"]


def test_word_actions_is_on_a_page_once(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1)

    html = viewer.get(url_of("mail")).content.decode()

    assert html.count(">Actions<") == 2, "the tab, and its twin in the menu of narrow pages"
    assert ">History<" in html


def test_page_of_queues_lists_all_by_pages_with_totals(redis_server: Store, viewer: Client) -> None:
    for number in range(130):
        write_queue(redis_server, f"queue-{number:03}", ready=number % 3)
    write_minute(redis_server, "queue-002", succeeded=60)

    before = dump(redis_server)
    first, second = (text_of(viewer.get(QUEUES, {"page": page}).content.decode()) for page in "12")
    found = viewer.get(QUEUES, {"format": "json"}).json()

    assert dump(redis_server) == before
    assert "queue-000 Idle 0" in first
    assert "queue-100" not in first
    assert "1 to 100 of 130 Next Out/min and Wait p95: last hour. In/min: latest arrivals." in first
    assert "They are measured for 50 of 130 queues, those with most tasks first." in first
    assert "101 to 130 of 130 Previous" in second
    assert "All queues 129" in second
    assert "1 of 130 queues match" in text_of(viewer.get(QUEUES, {"queue": "-077"}).content.decode())
    assert len(found["queues"]) == 130
    assert found["cost"]["round_trips"] == 2
    for wrong in ({"page": "0"}, {"page": "x"}, {"page": "1000"}, {"sort": "x"}):
        assert viewer.get(QUEUES, wrong).status_code == 400
    assert viewer.get(QUEUES, {"page": "9"}).status_code == 200
    assert browser("view_lock").get(QUEUES).status_code == 403


def test_page_of_queues_without_any_says_how_one_appears(redis_server: Store, viewer: Client) -> None:
    assert "No queues yet. A queue appears when" in text_of(viewer.get(QUEUES).content.decode())


def test_page_of_flows_lists_the_unfinished_ones(redis_server: Store, viewer: Client) -> None:
    finished = chain(add.s(1, 1)).enqueue()
    work_off()
    flow = chain(add.s(1, 1), note.s()).enqueue()

    html = viewer.get(FLOWS).content.decode()

    assert re.search(rf"{flow.id} in progress 0 2 2 (< 1|&lt; 1|\d+) s", text_of(html))
    assert f'href="{FLOWS}{flow.id}/"' in html.replace("_5F", "_")
    assert finished.id not in html
    assert viewer.get(FLOWS, {"format": "json"}).json()["unfinished"] == 1
    assert viewer.get(FLOWS, {"id": finished.id})["Location"].startswith(FLOWS)


def test_flow_that_cannot_succeed_is_marked(redis_server: Store, viewer: Client) -> None:
    group(fail.using(max_attempts=1).s("x"), add.using(run_after=600).s(1, 1)).enqueue(callback=note.s())
    work_off()

    [flow] = run(connections.client(), list_flows(home(), 10)).flows

    assert (flow.tasks, flow.has_failed) == (3, True)
    assert "has failed" in text_of(viewer.get(FLOWS).content.decode())


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({}, "Ready"),
        ({"failed": 2}, "Failed"),
        ({"failed": 2, "ready": 1}, "Ready"),
        ({"scheduled": 1}, "Scheduled"),
        ({"scheduled": 1, "running": 1}, "Running"),
        ({"unregistered": 1}, "Unregistered"),
        ({"waiting": 1}, "Waiting"),
    ],
)
def test_page_of_a_queue_opens_the_most_interesting_state(
    states: dict[str, int], expected: str, redis_server: Store, viewer: Client
) -> None:
    write_queue(redis_server, "mail", **states)

    response = viewer.get(url_of("mail"))

    html = response.content.decode()
    assert f"Tasks: {expected}<" in html
    assert f'data-query="state={expected.lower()}"' in html, "a refresh keeps the state"
    assert re.search(rf'state={expected.lower()}" aria-current="page"', html)
    assert "1 round trip" in html
    assert "Tasks: Scheduled<" in viewer.get(url_of("mail"), {"state": "scheduled"}).content.decode()


def test_figures_of_a_queue_are_above_its_tasks(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1)

    text = text_of(viewer.get(url_of("mail")).content.decode())

    assert text.index("Throughput 0 per minute, last hour") < text.index("Tasks: Ready")
    assert "Workers 0 no live worker" in text


def test_throughput_has_one_window_everywhere(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")
    write_minute(redis_server, "mail", succeeded=600)

    overview, queue = (text_of(viewer.get(url).content.decode()) for url in (URL, url_of("mail")))

    assert re.search(r"Throughput (9\.\d|10) /min .*? last hour · 600 peak at", overview)
    assert re.search(r"Throughput (9\.\d|10) per minute, last hour", queue)
    assert re.search(r"mail Active 0 .*? – 0 0 0 0 – (9\.\d|10) ", overview)
    assert get_queue("mail").info().ready == 0


def test_visitors_are_shown_only_where_they_are_counted(redis_server: Store, viewer: Client) -> None:
    assert "Sign-ins today" not in text_of(viewer.get(URL).content.decode())
    assert viewer.get(URL, {"format": "json"}).json()["sign_ins"]["today"] == 1


def test_pages_of_queues_and_flows_are_in_the_index_of_the_admin(redis_server: Store, viewer: Client) -> None:
    index = viewer.get("/admin/django_redis_components/").content.decode()

    assert {f'href="{QUEUES}"' in index, f'href="{FLOWS}"' in index} == {True}
    assert QUEUES not in browser("view_lock").get("/admin/").content.decode()
