"""Links and buttons on the rows of problems: they lead to the cause, and to the change that remedies it."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.admin.utils import quote
from django.test import Client

from django_redis_components.dashboard.problems.watched import locks
from django_redis_components.locks import Lock
from django_redis_components.ratelimits import RateLimit
from tests.dashboard.problem_rows import Row, rows, text_at
from tests.dashboard.problems.support import without_persistence, write_watched
from tests.dashboard.support import (
    browser,
    client_of,
    hit_recorded,
    write_poller,
    write_queue,
    write_schedule,
    write_worker,
)
from tests.support import Store
from tests.taskqueue.tasks import note

pytestmark = pytest.mark.django_db

ADMIN = "/admin/django_redis_components"


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, redis_server: Store) -> Client:
    without_persistence(monkeypatch)
    write_poller(redis_server)
    return client_of("superuser")


def row_of(client: Client, text: str) -> Row:
    [row] = [each for each in rows(client) if text in each.text]
    return row


def test_hung_task_has_its_stack_and_its_cancellation(root: Client, redis_server: Store) -> None:
    task = note.enqueue("x")
    write_watched(redis_server, tasks=[[task.id, note.name, "default", 3_700.0, None, "here:a"]])

    row = row_of(root, "has run for 1 h 1 min")

    assert row.links["Show task"] == f"{ADMIN}/task/{quote(task.id)}/"
    assert f"Cancel task {task.id}" in text_at(root, row.links["Cancel…"])
    assert row.links["Show the stack"] == f"{ADMIN}/task/_verb/stack/{quote(task.id)}/"


def test_changes_of_a_problem_require_their_permissions(root: Client, redis_server: Store) -> None:
    task = note.enqueue("x")
    write_watched(
        redis_server,
        tasks=[[task.id, note.name, "default", 3_700.0, None, "here:a"]],
        limits=[["login", 150, 149, "192.0.2.7", 149, "abc"]],
    )
    viewer = browser("view_overview", "view_task", "view_ratelimit")

    assert set(row_of(viewer, "has run for").links) == {"Show queue", "Show task"}
    assert set(row_of(viewer, "Rate limit login").links) == {"Show limits"}


def test_lock_with_waiters_is_found_by_name_and_can_be_released(
    root: Client, redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "WAITED_S", 0.0)
    held = Lock("order: 17")
    held.acquire()
    resource = ["order: 17", "lock", ""]
    entry = {"resource": resource, "token": held.token, "since": 1.0, "waiters": 2, "holder": "web-1:7"}
    write_watched(redis_server, locks={"at": "", "held": [entry]})

    row = row_of(root, "2 callers wait for order: 17")

    assert row.links["Show locks"].startswith(f"{ADMIN}/lock/?")
    assert "token" not in row.links["Show locks"]
    assert "order: 17" in text_at(root, row.links["Show locks"])
    confirmation = text_at(root, row.links["Release…"])
    assert "Release order: 17" in confirmation
    assert "There is nothing to release" not in confirmation
    held.release()


@pytest.mark.usefixtures("catalogued")
def test_limit_that_denies_leads_to_its_key_which_can_be_blocked(root: Client, redis_server: Store) -> None:
    limit = RateLimit("login", "1/m")
    hit_recorded(limit, "192.0.2.7")
    write_watched(redis_server, limits=[["login", 150, 149, "192.0.2.7", 149, limit.policy.id]])

    row = row_of(root, "Rate limit login denied")

    assert row.links["Show limits"] == f"{ADMIN}/ratelimit/?limit={limit.policy.id}&key=192.0.2.7"
    assert "The next hit is denied" in text_at(root, row.links["Show limits"])
    assert "Block a key of rate limit login" in text_at(root, row.links["Block…"])


def test_floods_lead_to_their_panels(root: Client, redis_server: Store) -> None:
    write_watched(redis_server, messages={"floods": [["lobby", 900]], "full": [["kim", 5]]})

    chats = row_of(root, "Chat lobby receives").links["Show chats"]
    mailboxes = row_of(root, "The mailbox of kim").links["Show mailboxes"]

    page = root.get(chats).content.decode()
    assert 'id="drc-panel-chats"' in page
    assert 'id="drc-panel-mailboxes"' in page
    assert chats.endswith("#drc-panel-chats")
    assert mailboxes.endswith("#drc-panel-mailboxes")


def test_late_schedule_leads_to_its_row(root: Client, redis_server: Store) -> None:
    write_schedule(redis_server, f"{note.name} @every(60)", late_s=300)

    url = row_of(root, "overdue").links["Show schedules"]

    assert anchor_of(root, url) == f"schedule-{note.name} @every(60)"


def test_lost_worker_leads_to_its_row(root: Client, redis_server: Store) -> None:
    write_worker(redis_server, "gone:b", seen_s=50)

    assert anchor_of(root, row_of(root, "is lost").links["Show workers"]) == "worker-gone:b"


def test_lost_worker_of_a_later_page_leads_to_its_row(root: Client, redis_server: Store) -> None:
    for number in range(60):
        write_worker(redis_server, f"app:{number:02}.a")
    write_worker(redis_server, "gone:1.b", seen_s=50)

    assert anchor_of(root, row_of(root, "is lost").links["Show workers"]) == "worker-gone:1.b"


def test_rest_of_a_kind_has_no_links_to_an_object(root: Client, redis_server: Store) -> None:
    runs: list[Any] = [[f"task-{number}", "x", "default", 3_700.0, None, "here:a"] for number in range(7)]
    write_watched(redis_server, tasks=runs)
    write_queue(redis_server, "default")

    assert set(row_of(root, "2 more of this kind").links) == {"Acknowledge…"}


def anchor_of(client: Client, url: str) -> str:
    """Return the id to which a URL leads, which must be on its page."""

    address, _, fragment = url.partition("#")
    assert f'id="{fragment}"' in client.get(address).content.decode()
    return unquote(fragment)
