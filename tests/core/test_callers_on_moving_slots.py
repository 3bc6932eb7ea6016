"""Callers with shorter waits for a moving slot: leases, workers, pollers, rate limits and counting."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from django_redis_components.analytics import PageViews, safeguard
from django_redis_components.core.client import connections
from django_redis_components.core.client.exceptions import SlotMigrating
from django_redis_components.core.client.slot_migration import SlotWaits
from django_redis_components.core.keys import key
from django_redis_components.locks import Lock
from django_redis_components.ratelimits import RateLimit, limiter
from django_redis_components.taskqueue.poller import Poller
from django_redis_components.taskqueue.shards import home
from tests.conftest import components_settings
from tests.core.slots import moving
from tests.support import Store, eventually
from tests.support.pools import close_pools
from tests.support.renewals import renew_now
from tests.taskqueue import tasks
from tests.taskqueue.support import running_worker

QUEUE_LOG = "django_redis_components.taskqueue"


@pytest.fixture
def cluster(stores: Any, settings: Any) -> Iterator[Store]:
    lent = stores.get("cluster").for_test("callers")
    settings.REDIS_COMPONENTS = components_settings(lent)
    yield lent
    close_pools()
    lent.delete_keys()


def test_leases_in_other_slots_are_renewed_while_one_slot_moves(cluster: Store) -> None:
    here, other = Lock("here", timeout=0.9, renew=True), Lock("other", timeout=60, renew=True)
    assert here.acquire()
    assert other.acquire()

    with moving(cluster, key("locks", "here")) as move:
        move.begin()
        move.carry(key("locks", "here"))  # its fence stays behind: TRYAGAIN
        renew_now(other)
        assert here.lost.wait(30)

        assert other.check() is None
        assert other.owned()
    other.release()


def test_worker_logs_the_start_and_the_end_of_its_wait(cluster: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, QUEUE_LOG)
    tasks.recorded.clear()

    with moving(cluster, home().base) as move, running_worker():
        tasks.note.enqueue("before")
        eventually(lambda: tasks.recorded == ["before"])
        move.begin()
        eventually(lambda: "The queue's Cluster slot is being moved (Slot " in caplog.text)
        move.finish()
        tasks.note.enqueue("after")
        eventually(lambda: tasks.recorded == ["before", "after"])
        eventually(lambda: "Redis is available again" in caplog.text)
    assert "Redis is unavailable" not in caplog.text


def test_worker_stops_while_the_slot_of_its_queue_moves(cluster: Store) -> None:
    with moving(cluster, home().base) as move:
        with running_worker(threads=2):
            move.begin()
            started_at = time.monotonic()
        assert time.monotonic() - started_at < 30


def test_poller_gives_up_leadership_while_the_slot_moves(cluster: Store, caplog: pytest.LogCaptureFixture) -> None:
    poller = Poller(home(), connections.client())

    with moving(cluster, home().base) as move:
        poller.step()
        assert poller.is_active
        move.begin()

        def step() -> bool:
            poller.wait(0.05)
            poller.step()
            return poller.is_active

        assert eventually(lambda: not step())
        assert "Poller: The queue's Cluster slot is being moved" in caplog.text
        move.finish()
        assert eventually(step)
    poller.close()


@pytest.mark.parametrize(("on_error", "allowed"), [("open", True), ("closed", False)])
def test_rate_limit_decides_without_redis_after_a_short_wait(
    cluster: Store, monkeypatch: pytest.MonkeyPatch, on_error: Any, allowed: bool
) -> None:
    monkeypatch.setattr(limiter, "SLOT_MIGRATION_WAIT_S", 0.05)
    limit = RateLimit("slow", "5/m", on_error=on_error)
    limit.hit("me")
    written = cluster.keys()
    (found,) = [name.decode() for name in written if b"ratelimits" in name]

    with moving(cluster, found) as move:
        move.begin()
        move.carry()

        assert limit.hit("me").is_allowed is allowed
        assert limit.hit("other").is_allowed


def test_page_view_is_dropped_after_a_short_wait(
    cluster: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(safeguard, "SLOT_MIGRATION_WAIT_S", 0.05)
    safeguard.SAFEGUARD.reset()
    PageViews().hit("/")
    written = cluster.keys()
    found = next(name.decode() for name in written if b"analytics" in name)

    with moving(cluster, found) as move:
        move.begin()
        move.carry()
        with safeguard.SAFEGUARD.suppress_errors("page views"):
            PageViews().hit("/")

    assert not safeguard.SAFEGUARD.allows_attempt()
    assert "page views are not counted: Slot" in caplog.text
    assert PageViews().top() == [("/", 1)]


def test_slot_that_moves_for_long_is_logged_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    waits = SlotWaits()

    waits.begin(7, "c", 60)
    waits.begin(7, "c", 60)
    assert len(caplog.records) == 1
    monkeypatch.setattr("django_redis_components.core.client.slot_migration.LOG_AGAIN_S", 0)
    waits.begin(7, "c", 60)
    waits.end(7)
    waits.end(7)

    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]


def test_error_contains_the_time_waited() -> None:
    assert str(SlotMigrating(7, 0.0, "c")) == (
        "Slot 7 of the Cluster c is being moved to another node. Nothing was executed: try again later."
    )
    assert "to another node; waited for 2.5 s. Nothing" in str(SlotMigrating(7, 2.5, "c"))
