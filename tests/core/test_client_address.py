"""The address of a visitor, behind proxies and in networks."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory

from django_redis_components.core.client_address import client_address, client_network


@pytest.mark.parametrize(
    ("proxies", "address"), [(0, "10.0.0.1"), (1, "203.0.113.7"), (2, "198.51.100.1"), (9, "6.6.6.6")]
)
def test_address_is_the_one_seen_by_the_outermost_trusted_proxy(settings: Any, proxies: int, address: str) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": proxies}
    chain = "6.6.6.6, 198.51.100.1, 203.0.113.7"
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": chain})

    assert client_address(request) == address


def test_number_of_proxies_can_be_passed(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": 1}
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": "203.0.113.7"})

    assert client_address(request, 0) == "10.0.0.1"


def test_address_follows_changes_of_meta(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": 1}
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": "203.0.113.7"})
    assert request.headers["X-Forwarded-For"] == "203.0.113.7"  # Django keeps `headers` from now on

    request.META["HTTP_X_FORWARDED_FOR"] = "203.0.113.8"
    assert client_address(request) == "203.0.113.8"
    del request.META["HTTP_X_FORWARDED_FOR"]
    assert client_address(request) == "10.0.0.1"


@pytest.mark.parametrize("remote", ["", "unix:", None])
@pytest.mark.parametrize("proxies", [0, 1])
def test_request_without_an_address_is_logged_once(
    settings: Any, caplog: pytest.LogCaptureFixture, remote: str | None, proxies: int
) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": proxies}
    request = RequestFactory().get("/")
    request.META["REMOTE_ADDR"] = remote

    addresses = [client_address(request) for _ in range(3)]

    assert addresses == [remote or ""] * 3
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        f"REMOTE_ADDR is {remote!r} and X-Forwarded-For gives no address (TRUSTED_PROXIES = {proxies}): visitors "
        "without an address share one limit and count as one. Behind a Unix socket, have the proxy send "
        "X-Forwarded-For and set "
        'REDIS_COMPONENTS["TRUSTED_PROXIES"] to the number of proxies.'
    )


def test_address_behind_a_unix_socket_comes_from_the_proxy(settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": 1}
    request = RequestFactory().get("/", REMOTE_ADDR="", headers={"X-Forwarded-For": "6.6.6.6, 203.0.113.7"})

    assert client_address(request) == "203.0.113.7"
    assert caplog.records == []


@pytest.mark.parametrize(
    ("address", "limited_by"),
    [
        ("203.0.113.7", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2::1]:4711", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_ipv6_address_is_limited_by_its_network(address: str, limited_by: str) -> None:
    assert client_network(address) == limited_by
