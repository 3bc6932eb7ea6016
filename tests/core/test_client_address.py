"""The address of a visitor, behind proxies and in networks."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory

from django_redis_components.core.client_address import bare_address, client_address, client_network


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
        ("64:ff9b::203.0.113.7", "203.0.113.7"),
        ("[64:ff9b::cb00:7107]:4711", "203.0.113.7"),
        ("64:ff9b:1::203.0.113.7", "203.0.113.7"),
        ("64:ff9b:1:fffe::cb00:7107", "203.0.113.7"),
        ("::ffff:0:203.0.113.7", "203.0.113.7"),
        ("", ""),
        ("unknown", "unknown"),
    ],
)
def test_ipv6_address_is_limited_by_its_network(address: str, limited_by: str) -> None:
    assert client_network(address) == limited_by


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("203.0.113.7", "203.0.113.7"),
        (" 203.0.113.7 ", "203.0.113.7"),
        ("203.0.113.7:4711", "203.0.113.7"),
        ("203.0.113.7%eth0", "203.0.113.7"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("::FFFF:cb00:7107", "203.0.113.7"),
        ("0:0:0:0:0:ffff:203.0.113.7", "203.0.113.7"),
        ("[::ffff:203.0.113.7]:4711", "203.0.113.7"),
        ("64:ff9b::203.0.113.7", "203.0.113.7"),
        ("[64:ff9b:1::cb00:7107]:4711", "203.0.113.7"),
        ("::FFFF:0:cb00:7107", "203.0.113.7"),
        ("64:ff9b:1:2:3:4:5:6", "64:ff9b:1:2:3:4:5:6"),
        ("::", "::"),
        ("::1", "::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:0DB8:0:0:0:0:0:1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ('"[2001:db8::1]:4711"', "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25eth0]:4711", "fe80::1"),
    ],
)
def test_address_has_one_form(text: str, bare: str) -> None:
    assert bare_address(text) == bare


@pytest.mark.parametrize(
    "text",
    [
        "", "-", "unknown", "unix:", "Nov", "10:00:00", "localhost", "203.0.113", "203.0.113.256", "203.0.113.07",
        "203.0.113.7,", "203.0.113.7, 10.0.0.1", "203.0.113.7:", "203.0.113.7 x", "[203.0.113.7", "2001:db8::g",
        "1" * 5_000, "[" * 5_000, "203.0.113.7\0", "２03.0.113.7", "\ud800",
    ],
    ids=lambda text: ascii(text[:20]),
)  # fmt: skip
def test_other_text_is_no_address(text: str) -> None:
    assert bare_address(text) is None


@pytest.mark.parametrize(
    ("header", "address"),
    [
        ("203.0.113.7:50000", "203.0.113.7"),
        ("6.6.6.6, 203.0.113.7:50001", "203.0.113.7"),
        ("[2001:db8::1]:50000", "2001:db8::1"),
        ("::ffff:203.0.113.7", "203.0.113.7"),
        ("64:ff9b::cb00:7107", "203.0.113.7"),
        ("x" * 5_000, "x" * 64),
    ],
)
def test_address_that_a_proxy_writes_has_one_form(settings: Any, header: str, address: str) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": 1}

    assert client_address(RequestFactory().get("/", headers={"X-Forwarded-For": header})) == address
