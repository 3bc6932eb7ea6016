"""Datetimes of the package: aware in UTC with USE_TZ, naive in TIME_ZONE without, everywhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

import django_redis_components
from django_redis_components.core.units import aware, moment_of, moment_of_ms
from django_redis_components.locks import Lock, force_release
from django_redis_components.locks.exceptions import LockNotOwned
from django_redis_components.messaging import Mailbox
from django_redis_components.taskqueue import get_queue
from tests.support import Store
from tests.taskqueue.tasks import add

PACKAGE = Path(django_redis_components.__file__).parent
AT = datetime(2026, 10, 25, 0, 30, 5, 7, tzinfo=UTC)
#: Modules whose datetimes are no part of a public object: dates, log lines, calculations with zones, and pages.
INTERNAL = {
    "aggregation/log_times.py",
    "analytics/periods.py",
    "core/units.py",
    "taskqueue/logs.py",
    "taskqueue/schedules/recurrence.py",
}


def test_moment_is_aware_in_utc_with_time_zones(settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = True, "Europe/Berlin"

    assert moment_of(round(AT.timestamp() * 1_000_000)) == AT
    assert moment_of(0).tzinfo is UTC


@pytest.mark.parametrize("ms", [1_500, "1500", b"1500"])
def test_moment_of_milliseconds_takes_a_number_and_replies_of_redis(ms: int | str | bytes) -> None:
    assert moment_of_ms(ms) == moment_of(1_500_000)


@pytest.mark.parametrize("hours", [0, 1])
def test_moment_is_naive_in_the_zone_of_the_site_without_time_zones(hours: int, settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"

    moment = moment_of(round(AT.timestamp() * 1_000_000) + hours * 3_600_000_000)

    assert moment == datetime(2026, 10, 25, 2, 30, 5, 7)  # noqa: DTZ001 - naive; the hour that exists twice
    assert aware(moment) == AT + timedelta(hours=hours)


@pytest.mark.parametrize("use_tz", [True, False])
def test_all_moments_follow_one_rule(use_tz: bool, redis_server: Store, settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = use_tz, "Europe/Berlin"
    result = add.using(run_after=timedelta(hours=1)).enqueue(1, 2)
    queue = get_queue("default")
    queue.pause("maintenance")
    Mailbox("ada").send("hello")

    depths = queue.info()
    [message] = Mailbox("ada").fetch()
    moments = [
        result.run_after,
        result.enqueued_at,
        depths.next_due_at,
        depths.paused.at if depths.paused else None,
        queue.metrics().at,
        message.sent_at,
    ]

    assert all(moment is not None for moment in moments)
    assert {timezone.is_aware(moment) for moment in moments if moment} == {use_tz}
    now = timezone.now()
    assert all(abs(moment - now) < timedelta(hours=2) for moment in moments if moment)


def test_naive_times_are_in_the_zone_of_the_site_whatever_zone_is_active(redis_server: Store, settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"
    due = datetime(2030, 1, 1, 12)  # noqa: DTZ001 - naive
    queue = get_queue("default")

    with timezone.override("Asia/Tokyo"):
        result = add.using(run_after=due, expires=due + timedelta(hours=1)).enqueue(1, 2)
        queue.pause("maintenance", until=due)

    assert (result.run_after, result.expires_at) == (due, due + timedelta(hours=1))
    result.refresh()
    assert (result.run_after, result.expires_at) == (due, due + timedelta(hours=1))
    paused = queue.info().paused
    assert paused is not None
    assert paused.ends_at == due


@pytest.mark.parametrize("use_tz", [True, False])
def test_error_after_a_forced_release_has_the_local_time(use_tz: bool, redis_server: Store, settings: Any) -> None:
    settings.USE_TZ = use_tz
    lock = Lock("stock")
    lock.acquire()
    force_release("stock", author="ada")

    with pytest.raises(LockNotOwned, match=r"released by an operator \(ada\) at \d\d:\d\d:\d\d"):
        lock.release()


def test_public_modules_make_moments_by_one_function() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "datetime.fromtimestamp(" in path.read_text()
    }

    assert {path for path in found - INTERNAL if not path.startswith("dashboard/")} == set()
