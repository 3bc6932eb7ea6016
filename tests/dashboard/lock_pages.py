"""The page of locks: its URLs, what it lists, and a waiter."""

from __future__ import annotations

import re

from django.test import Client

from django_redis_components.locks.lock import PlainKind
from tests.support import Store

LOCKS = "/admin/django_redis_components/lock/"
RELEASE = f"{LOCKS}release/"


def wait_in_line(store: Store, name: str, token: str = "waiter") -> None:
    """Write a waiter of a lock as the script does."""
    run_call(PlainKind(name, 30).acquire(token, True))


def run_call(call: object) -> None:
    from django_redis_components.core.client.connections import client

    client().execute(call)


def held_by(viewer: Client, **query: str) -> dict[str, dict[str, object]]:
    """Return the resources in the page's JSON, by name and kind."""
    found = viewer.get(LOCKS, {"format": "json", **query}).json()
    return {f"{thing['kind']} {thing['name']}": thing for thing in found["held"]}


def release_link(client: Client, name: str, **query: str) -> str:
    """Return the page's link that releases the resource with this name."""
    html = client.get(LOCKS, {"name": name, **query}).content.decode()
    return re.findall(r'href="([^"]*/release/\?[^"]*)"', html)[0].replace("&amp;", "&")
