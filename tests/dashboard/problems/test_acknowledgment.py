"""Acknowledgment of a problem: who may do it, what it silences, and until when; the page of incidents."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.dashboard.problems import Problem, register_check
from django_redis_components.dashboard.problems.registry import unregister_check
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from tests.dashboard.problems.support import PAGE, acknowledge, without_persistence
from tests.dashboard.support import URL, client_of, text_of, write_poller, write_queue, write_worker
from tests.support import Store

pytestmark = pytest.mark.django_db

PROBLEM = "no_worker:mail"


@pytest.fixture
def unserved(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site with one critical problem, which was watched."""
    without_persistence(monkeypatch)
    write_queue(redis_server, "mail", ready=2)
    write_poller(redis_server)
    ProblemWatcher("default").round()


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("kim"))
    return client


def problems(client: Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(URL, {"format": "json"}).json()["problems"]
    return found


@pytest.mark.usefixtures("unserved")
def test_problem_says_since_when_it_lasts(root: Client) -> None:
    html = text_of(root.get(URL).content.decode())

    assert re.search(r"Queue mail has 2 ready tasks and no live worker\. Oldest: .* since \d\d:\d\d:\d\d", html)
    [problem] = problems(root)
    assert problem["id"] == PROBLEM
    assert problem["started_at"].startswith("20")
    assert problem["acknowledged"] is None


@pytest.mark.usefixtures("unserved")
def test_acknowledged_problem_is_apart_and_sends_no_alarm(root: Client, settings: Any) -> None:
    token = "a-token-of-a-monitor"
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "MONITORING": {"TOKEN": token}}
    headers = {"Authorization": f"Bearer {token}"}
    assert root.get("/redis/healthz/", headers=headers).status_code == 503

    page = acknowledge(root, PROBLEM, reason="The worker is being moved", minutes="60")

    assert "Acknowledged until" in page
    html = text_of(root.get(URL).content.decode())
    assert "No problems" in html
    assert re.search(r"1 acknowledged problem .*Acknowledged by kim [\d:]+, until .*: The worker is being moved", html)
    health = root.get("/redis/healthz/", headers=headers)
    assert (health.status_code, health.json()["status"]) == (200, "healthy")
    assert health.json()["problems"][0]["acknowledged"]["author"] == "kim"
    entry = LogEntry.objects.get()
    assert entry.change_message == (
        "Acknowledge problem 'no_worker:mail' for 60 min: done, reason 'The worker is being moved'."
    )


@pytest.mark.usefixtures("unserved")
def test_withdrawn_acknowledgment_alarms_again(root: Client) -> None:
    acknowledge(root, PROBLEM)
    url = f"{PAGE}withdraw/?problem={PROBLEM}"
    assert "Acknowledged by kim" in root.get(url).content.decode()

    root.post(url, {"problem": PROBLEM})

    assert problems(root)[0]["acknowledged"] is None


@pytest.mark.usefixtures("unserved")
def test_acknowledgment_outlives_the_rounds_of_the_watching_process(root: Client, redis_server: Store) -> None:
    acknowledge(root, PROBLEM)
    redis_server.raw.delete(*redis_server.raw.keys(f"{redis_server.prefix}:problems:*:lease"))

    ProblemWatcher("default").round()

    assert problems(root)[0]["acknowledged"]["author"] == "kim"


def test_problem_that_was_not_watched_yet_can_be_acknowledged(redis_server: Store, root: Client) -> None:
    write_queue(redis_server, "mail", ready=2)
    write_poller(redis_server)

    acknowledge(root, PROBLEM)

    assert problems(root)[0]["acknowledged"]["author"] == "kim"


def test_code_with_a_colon_is_acknowledged_after_the_problem_is_found_no_more(
    redis_server: Store, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_persistence(monkeypatch)
    check = register_check(lambda _facts: [Problem("shop:orders", "3 orders are unpaid.", "", subject="today")])
    try:
        ProblemWatcher("default").round()
    finally:
        unregister_check(check)

    acknowledge(root, "shop:orders:today")

    [incident] = root.get(PAGE, {"format": "json"}).json()["open"]
    assert incident["acknowledged"]["author"] == "kim"


@pytest.mark.usefixtures("unserved")
def test_wrong_input_is_named_and_changes_nothing(root: Client) -> None:
    assert root.get(f"{PAGE}acknowledge/?problem=gone").status_code == 404
    page = acknowledge(root, PROBLEM, reason="x" * 5_000)

    assert re.search(r"Reason: expected at most [\d,]+ characters\.", page)
    assert problems(root)[0]["acknowledged"] is None


@pytest.mark.usefixtures("unserved")
def test_acknowledgment_needs_its_permission() -> None:
    viewer = client_of("staff with the permission")

    assert "Acknowledge" not in viewer.get(URL).content.decode()
    assert viewer.get(f"{PAGE}acknowledge/?problem={PROBLEM}").status_code == 403
    assert viewer.post(f"{PAGE}acknowledge/?problem={PROBLEM}", {"problem": PROBLEM}).status_code == 403


@pytest.mark.usefixtures("unserved")
def test_page_lists_open_and_resolved_incidents(
    root: Client, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = text_of(root.get(PAGE).content.decode())
    assert re.search(r"Queue mail has 2 ready tasks and no live worker.* Critical .*Acknowledge…", page)
    assert "No problem has been resolved yet." in page

    acknowledge(root, PROBLEM, reason="known")
    write_worker(redis_server, "here:a", queues=["mail"])
    monkeypatch.setattr("django_redis_components.dashboard.problems.incidents.END_AFTER_S", -1.0)
    redis_server.raw.delete(*redis_server.raw.keys(f"{redis_server.prefix}:problems:*:lease"))
    ProblemWatcher("default").round()

    page = text_of(root.get(PAGE).content.decode())
    assert "No problem was found at the last check." in page
    assert re.search(r"Queue mail has 2 .* Acknowledged by kim [\d:]+, until it is resolved: known", page)
    data = root.get(PAGE, {"format": "json"}).json()
    assert data["open"] == []
    assert data["resolved"][0]["resolved_at"] >= data["resolved"][0]["started_at"]
