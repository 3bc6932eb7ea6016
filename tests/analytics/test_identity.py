"""Identifying visitors: addresses behind proxies, and the rotating salt."""

from __future__ import annotations

import os
import sys
from datetime import UTC, date, datetime, time, timedelta

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.utils import timezone

from django_redis_components.analytics import identity, opt_in, opt_out
from django_redis_components.analytics.dates import site_date
from django_redis_components.analytics.periods import Unit, following, start_of
from django_redis_components.core.client import connections
from django_redis_components.core.client_address import client_address
from django_redis_components.core.protocol import run
from tests.support import Proxy, Store, eventually, run_together

#: Not a fixed one: the salt of a day that has long ended is kept for `CACHE_S` only.
DAY = datetime.now(UTC).date()


@pytest.fixture(autouse=True)
def _no_salts() -> None:
    identity.clear_salts()


def salt(day: date = DAY, site: str = "default", using: str = "default", unit: Unit = "day") -> bytes:
    return run(connections.client(using), identity.read_salt(site, using, unit, day))


def visitor(
    day: date = DAY, site: str = "default", agent: str = "Firefox", address: str = "10.0.0.1", unit: Unit = "day"
) -> bytes:
    return identity.hash_id(salt(day, site, unit=unit), site, address, agent)


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, "6.6.6.6", "10.0.0.1"),
        (1, "6.6.6.6, 1.2.3.4", "1.2.3.4"),
        (2, "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        (1, "", "10.0.0.1"),
        (2, "1.2.3.4", "1.2.3.4"),
        (3, "1.2.3.4,10.0.0.2", "1.2.3.4"),
        (1, "2001:db8::1", "2001:db8::1"),
    ],
)
def test_address_is_the_one_that_the_outermost_trusted_proxy_saw(proxies: int, forwarded: str, address: str) -> None:
    request = RequestFactory().get("/", headers={"X-Forwarded-For": forwarded}, REMOTE_ADDR="10.0.0.1")

    assert client_address(request, proxies) == address


def test_unix_socket_clients_share_one_address() -> None:
    assert client_address(RequestFactory().get("/", REMOTE_ADDR=""), 0) == ""


def test_salt_is_random(store: Store) -> None:
    found = salt()
    key = f"{store.prefix}:analytics:{{default}}:salt:{DAY:%Y%m%d}"

    assert len(found) == 32
    assert store.raw.get(key) == found
    assert salt(DAY + timedelta(days=1)) != found
    assert salt(site="other") != found


@pytest.mark.contract
@pytest.mark.parametrize("unit", ["day", "week", "month"])
def test_salt_is_deleted_a_day_after_its_period(store: Store, unit: Unit) -> None:
    today = site_date()
    salt(today, unit=unit)

    end = following(unit, start_of(unit, today)) + timedelta(days=1)
    midnight = datetime.combine(end, time.min, timezone.get_default_timezone())
    left_ms = 1_000 * (midnight - timezone.now()).total_seconds()
    [key] = store.keys()
    assert abs(store.raw.pttl(key) - left_ms) < 10_000


def test_salt_of_an_old_period_is_kept_for_a_minute_only(redis_server: Store) -> None:
    salt(site_date() - timedelta(days=3))

    [key] = redis_server.keys()
    assert 0 < redis_server.raw.pttl(key) <= 60_000


def test_processes_share_the_salt_of_a_day(store: Store) -> None:
    found = salt()
    identity.clear_salts()  # another process

    assert salt() == found


def test_concurrent_generation_gives_one_salt(redis_server: Store) -> None:
    def ask(_: int) -> bytes:
        identity.clear_salts()
        return salt()

    assert len(set(run_together(8, ask))) == 1


def test_lost_reply_leaves_one_salt(proxy: Proxy, redis_server: Store) -> None:
    proxy.drop_next_reply(after=b":salt:")

    found = salt(using="proxied")

    assert proxy.dropped == 1
    assert redis_server.raw.get(f"{redis_server.prefix}:analytics:{{default}}:salt:{DAY:%Y%m%d}") == found


def test_process_reads_the_salt_once_a_minute(redis_server: Store) -> None:
    first = salt(DAY)
    redis_server.delete_keys()

    assert salt(DAY) == first


def test_lost_salt_is_replaced_in_every_process(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CACHE_S", 0.01)
    first = salt(DAY)
    redis_server.delete_keys()

    new = eventually(lambda: (found := salt(DAY)) != first and found)

    assert redis_server.raw.get(f"{redis_server.prefix}:analytics:{{default}}:salt:{DAY:%Y%m%d}") == new


def test_idle_process_removes_the_salt(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "CACHE_S", 0.01)
    found = salt(DAY)

    eventually(lambda: sys.getrefcount(found) == 2)  # this name, and the argument


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_forked_child_does_not_have_the_salt(redis_server: Store) -> None:
    found = salt(DAY)
    child = os.fork()
    if not child:
        os._exit(sys.getrefcount(found))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


def test_hash_is_constant_for_a_day_and_differs_the_next_day(redis_server: Store) -> None:
    assert visitor() == visitor()
    assert visitor() != visitor(DAY + timedelta(days=1))
    assert visitor() != visitor(agent="Chrome")
    assert visitor() != visitor(address="10.9.9.9")
    assert visitor() != visitor(site="other")


@pytest.mark.parametrize(
    ("unit", "same", "other"),
    [("week", date(2026, 11, 22), date(2026, 11, 23)), ("month", date(2026, 11, 1), date(2026, 12, 1))],
)
def test_salt_of_a_longer_period_rotates_at_its_end(redis_server: Store, unit: Unit, same: date, other: date) -> None:
    day = date(2026, 11, 20)

    assert visitor(day, unit=unit) == visitor(same, unit=unit)
    assert visitor(day, unit=unit) != visitor(other, unit=unit)


def test_opted_out_visitor_is_excluded_until_opting_in() -> None:
    response = HttpResponse()
    opt_out(response)
    cookie = response.cookies[identity.OPT_OUT_COOKIE]
    request = RequestFactory().get("/", headers={"Cookie": f"other=1; {cookie.key}={cookie.value}"})

    assert (cookie["httponly"], cookie["max-age"]) == (True, 34_560_000)
    assert response.cookies[identity.COOKIE]["max-age"] == 0
    assert identity.is_excluded(request)
    assert not identity.is_excluded(RequestFactory().get("/", headers={"Cookie": f"{cookie.key}=on"}))
    opt_in(response)
    assert response.cookies[identity.OPT_OUT_COOKIE]["max-age"] == 0


def test_address_and_browser_are_not_stored(redis_server: Store) -> None:
    found = visitor(address="10.9.9.9", agent="Firefox")

    assert len(found) == 16
    (salt_key,) = redis_server.keys()
    assert b":salt:" in salt_key
    assert redis_server.raw.type(salt_key) == b"string"


def test_user_without_a_primary_key_is_not_a_visitor() -> None:
    assert identity.user_visitor(None) is None
    assert identity.user_visitor(7) == b"u:7"
