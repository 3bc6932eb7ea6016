"""Helpers of the tests of problems."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from django.test import Client

from django_redis_components.dashboard.problems import keyspace
from django_redis_components.dashboard.problems.watched import CHECKS
from django_redis_components.dashboard.problems.watcher import ProblemWatcher
from tests.dashboard.support import URL
from tests.support import Store

#: URL of the page of incidents.
PAGE = "/admin/django_redis_components/incident/"


def without_persistence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a check: that the servers of tests store nothing on disk is no problem of the test."""
    others = tuple(check for check in CHECKS if check.name != "persistence")
    monkeypatch.setattr("django_redis_components.dashboard.problems.finding.WATCHED", others)


def write_watched(store: Store, **found: Any) -> None:
    """Store what checks of the watching process have found, by name, as a round does."""
    store.raw.set(keyspace.key("facts"), json.dumps({name: [time.time(), data] for name, data in found.items()}))


def watched(viewer: Client, rounds: int = 1) -> list[dict[str, Any]]:
    """Watch, and return the problems of the page."""
    watcher = ProblemWatcher("default")
    for _ in range(rounds):
        watcher.round()
    watcher.stop()
    found: list[dict[str, Any]] = viewer.get(URL, {"format": "json"}).json()["problems"]
    return [each for each in found if each["code"] != "poller_missing"]


def acknowledge(client: Client, problem: str, **fields: str) -> str:
    """Acknowledge a problem; return the page that follows."""
    url = f"{PAGE}acknowledge/?problem={problem}"
    assert client.get(url).status_code == 200
    return client.post(url, {"problem": problem, **fields}, follow=True).content.decode()
