"""Whose request it is, behind proxies and in networks."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import RequestFactory

from django_redis_components.core.addresses import client_address, household


@pytest.mark.parametrize(
    ("proxies", "address"), [(0, "10.0.0.1"), (1, "203.0.113.7"), (2, "198.51.100.1"), (9, "6.6.6.6")]
)
def test_the_address_is_what_the_outermost_trusted_proxy_saw(settings: Any, proxies: int, address: str) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": proxies}
    chain = "6.6.6.6, 198.51.100.1, 203.0.113.7"
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": chain})

    assert client_address(request) == address


def test_a_room_may_count_otherwise(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"TRUSTED_PROXIES": 1}
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.1", headers={"X-Forwarded-For": "203.0.113.7"})

    assert client_address(request, 0) == "10.0.0.1"


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
def test_an_ipv6_address_stands_for_its_network(address: str, limited_by: str) -> None:
    assert household(address) == limited_by
