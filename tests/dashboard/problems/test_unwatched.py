"""Pages say when no process watches the connection: what only the watching process checks is not known then."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.facts import STARTING_S, UNWATCHED_S
from django_redis_components.dashboard.problems.watcher import STARTED_AGAIN_S, ProblemWatcher
from tests.dashboard.problem_rows import set_option
from tests.dashboard.problems.support import PAGE
from tests.dashboard.support import URL, client_of, text_of, write_poller, write_queue
from tests.support import Store, eventually

pytestmark = pytest.mark.django_db

LINE = "No worker or poller watches this connection; data loss, hung tasks, locks and limits are not checked."


@pytest.fixture
def root() -> Client:
    return client_of("superuser")


def pages_with_line(client: Client) -> list[str]:
    return [url for url in (URL, PAGE) if LINE in text_of(client.get(url).content.decode())]


def open_incidents(client: Client) -> set[str]:
    return {each["id"] for each in client.get(PAGE, {"format": "json"}).json()["open"]}


def test_connection_that_was_never_watched_is_named(redis_server: Store, root: Client) -> None:
    assert pages_with_line(root) == [URL, PAGE]
    assert "No check has been made." in text_of(root.get(PAGE).content.decode())


def test_watched_connection_is_not_named(redis_server: Store, root: Client) -> None:
    ProblemWatcher("default").round()

    assert pages_with_line(root) == []


def test_process_that_has_started_is_known_before_its_first_round(
    redis_server: Store, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProblemWatcher, "round", lambda _watcher: None)
    watcher = ProblemWatcher("default", runs_tasks=True)

    watcher.start()

    eventually(lambda: pages_with_line(root) == [])
    watcher.stop()
    assert 0 < redis_server.raw.ttl(keyspace.key("starting")) <= STARTED_AGAIN_S


def test_processes_that_start_later_are_no_incident(redis_server: Store, root: Client) -> None:
    """A poller watches before the workers of its site have started."""
    watcher = ProblemWatcher("default")
    write_queue(redis_server, "mail", ready=2)
    write_poller(redis_server)
    redis_server.raw.set(keyspace.key("starting"), time.time())

    watcher.round()

    assert "no_worker" in {each["code"] for each in root.get(URL, {"format": "json"}).json()["problems"]}
    assert "no_worker:mail" not in open_incidents(root)

    redis_server.raw.set(keyspace.key("starting"), time.time() - STARTING_S - 1)
    watcher.round()
    redis_server.raw.set(keyspace.key("starting"), time.time())
    watcher.round()

    assert "no_worker:mail" in open_incidents(root), "one that is open stays so"


@pytest.mark.parametrize("word", ["", "of another program"])
def test_start_that_was_long_ago_is_no_watch_and_is_not_announced_again(
    word: str, redis_server: Store, root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of processes that die before their first round and are started again."""
    monkeypatch.setattr(ProblemWatcher, "round", lambda _watcher: None)
    key = keyspace.key("starting")
    redis_server.raw.set(key, word or time.time() - STARTING_S - 1, ex=STARTED_AGAIN_S)
    announced_before = redis_server.raw.get(key)
    ended: list[bool] = []
    monkeypatch.setattr(
        "django_redis_components.dashboard.problems.watcher.close_databases", lambda: ended.append(True)
    )
    monkeypatch.setattr("django_redis_components.dashboard.problems.watcher.ROUND_S", 0.01)

    watcher = ProblemWatcher("default", runs_tasks=True)
    watcher.start()

    eventually(lambda: ended)  # a round, which comes after the announcement
    watcher.stop()
    assert redis_server.raw.get(key) == announced_before
    assert pages_with_line(root) == [URL, PAGE]


@pytest.mark.parametrize(("before_s", "pages"), [(0.0, []), (UNWATCHED_S + 5, [URL, PAGE])])
def test_last_round_decides(before_s: float, pages: list[str], redis_server: Store, root: Client) -> None:
    stored = json.dumps({"locks": [time.time() - before_s, {"at": "", "held": []}]})
    redis_server.raw.set(keyspace.key("facts"), stored)

    assert pages_with_line(root) == pages


def test_page_of_incidents_says_when_the_last_round_was(redis_server: Store, root: Client) -> None:
    redis_server.raw.set(keyspace.key("facts"), json.dumps({"locks": [time.time() - 7, {"at": "", "held": []}]}))

    page = text_of(root.get(PAGE).content.decode())
    data = root.get(PAGE, {"format": "json"}).json()

    assert re.search(r"Last check: \d\d:\d\d:\d\d, [789] s ago\. The overview checks at each refresh", page)
    assert "No problem was found at the last check." in page
    assert data["checked_at"] is not None
    assert data["cost"]["round_trips"] == 1


@pytest.mark.parametrize("stored", ["", "[]", "{}", '{"locks": 3}', '{"locks": ["x", 1]}', '{"locks": [1e999, 1]}'])
def test_facts_of_another_program_are_no_round(stored: str, redis_server: Store, root: Client) -> None:
    redis_server.raw.set(keyspace.key("facts"), stored)

    assert pages_with_line(root) == [URL, PAGE]
    assert root.get(PAGE, {"format": "json"}).status_code == 200


def test_watch_that_is_off_is_named_on_the_page_of_incidents(redis_server: Store, root: Client, settings: Any) -> None:
    set_option(settings, WATCH=False)

    assert pages_with_line(root) == []
    assert "Nothing is recorded: WATCH is off" in text_of(root.get(PAGE).content.decode())
