"""Made-up visitors: their addresses with invented places, and their requests.

The addresses belong to no network: 192.88.99.0/24 was withdrawn by RFC 7526, and IANA has not allocated 4000::/16. The
blocks for documentation (192.0.2.0/24, 2001:db8::/32, …) have no place: `IpLookup` looks no special address up.
"""

from __future__ import annotations

import io
import random
from ipaddress import IPv6Address
from pathlib import Path

from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from django_redis_components.analytics import flush
from django_redis_components.geoip import IpLookup

#: Ranges of addresses with invented places, as a file of DB-IP has them. A few addresses are in no range.
RANGES = Path(__file__).with_name("places.csv")

#: Share of the addresses that are IPv6.
IPV6_SHARE = 0.25

#: Browsers with their shares, and what leads to the market: a link on another site, or a campaign.
AGENTS = {
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36": 5,
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 Safari/604.1": 4,
    "Mozilla/5.0 (iPad; CPU OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Safari/604.1": 1,
}
LINKS = {
    "": 4,
    "https://forum.example.org/collectors/": 3,
    "https://news.example.com/": 2,
    "https://search.example.net/": 1,
}
CAMPAIGNS = {"": 6, "newsletter": 2, "poster": 1}


def load_ranges() -> None:
    """Load the ranges to Redis, unless others are loaded."""
    if IpLookup().info().source in ("", RANGES.name):
        call_command("load_ip_ranges", str(RANGES), stdout=io.StringIO())


def address(rng: random.Random) -> str:
    """Return the address of a visitor."""
    if rng.random() < IPV6_SHARE:
        return str(IPv6Address(f"4000:{rng.randint(1, 4)}:{rng.randrange(2**16):x}::1"))
    return f"192.88.99.{rng.randrange(2**8)}"


def browse(rng: random.Random, count: int) -> None:
    """Request the market as the browsers of up to 100 visitors do, through the middlewares of the site."""
    found: set[str] = set()
    while len(found) < count:
        found.add(address(rng))
    for remote in sorted(found):
        agent, link, campaign = (_one_of(rng, weights) for weights in (AGENTS, LINKS, CAMPAIGNS))
        client = Client(REMOTE_ADDR=remote, headers={"User-Agent": agent, "Referer": link})
        client.get(reverse("market"), {"utm_source": campaign} if campaign else {}, SERVER_NAME="localhost")
    flush()


def _one_of(rng: random.Random, weights: dict[str, int]) -> str:
    return rng.choices([*weights], [*weights.values()])[0]
