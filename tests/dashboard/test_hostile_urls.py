"""Hostile ids, parameters and stored texts at every URL of the dashboard: no exception, no markup, bounded size."""

from __future__ import annotations

from collections.abc import Set
from typing import Any
from urllib.parse import parse_qsl

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.locks import Lock
from django_redis_components.taskqueue.shards import home
from tests.autocomplete.hostile_values import HOSTILE
from tests.dashboard.support import Page, write_poller, write_queue, write_schedule, write_worker
from tests.dashboard.urls_of_pages import ADMIN, EXAMPLES, PAGES, VERBS, address_of, fill, routes
from tests.support import Store
from tests.taskqueue.tasks import note

pytestmark = [pytest.mark.django_db, pytest.mark.unmeasured]

ACCEPTED = {200, 301, 302, 400, 403, 404, 405, 409}
#: Most bytes of a response.
MAX_BYTES = 300_000
#: Markup that a browser would execute, or that would add an attribute, if it was not escaped.
MARKUP = '<script>alert(1)</script><img src=x onerror=alert(1)>"\' data-injected=1 onload="alert(1)'
#: Ids as they are in a path.
IDS = [
    "%2F", "%25", "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "%22%20data-injected=1%20x=%22", "%0A", "%00", "x" * 10_000,
    "%ff", "%c3%28", "%ed%a0%80", "%E2%80%AEevil", "..%2F..", "%2e%2e", "_", "_FF", "_0A", "_00", "a/b/c", "{x}", "%zz",
]  # fmt: skip
#: Parameters that pages and verbs read.
PARAMETERS = (
    "after", "all", "at", "begin", "cursor", "direction", "due", "end", "environment", "error", "format", "group", "id",
    "key", "kind", "limit", "minutes", "name", "of", "queue", "queues", "range", "reason", "skip", "sort", "state",
    "text", "ticket", "token", "trash", "typed", "using",
)  # fmt: skip
VALUES = [MARKUP, *(text.encode("utf-8", "replace").decode() for text in HOSTILE)]


@pytest.fixture
def root() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("root"))
    return client


def problem_of(response: Any, accepted: Set[int] = ACCEPTED) -> str:
    """Return why a response is not accepted, or ""."""
    if response.status_code not in accepted:
        return f"status {response.status_code}"
    if len(response.content) > MAX_BYTES:
        return f"{len(response.content)} bytes"
    return markup_in(response.content.decode()) if "html" in response.get("Content-Type", "") else ""


def markup_in(html: str) -> str:
    """Return the first element or attribute that no template writes, or ""."""
    if "alert" not in html and "injected" not in html:
        return ""  # nothing of MARKUP or IDS is there: parsing takes as long as the request
    for tag, attributes in Page(html).tags:
        is_foreign = tag in ("img", "iframe", "object") or (tag == "script" and not attributes.get("src"))
        if is_foreign and attributes.get("type") != "application/json":
            return f"<{tag} {attributes}>"
        for name in ("href", "action"):
            if (attributes.get(name) or "").strip().lower().startswith(("javascript:", "data:")):
                return f"<{tag} {name}={attributes[name]!r}>"
        if any(name.startswith("on") or name == "data-injected" for name in attributes):
            return f"<{tag} {attributes}>"
    return ""


def problems(
    client: Client, addresses: list[str], accepted: Set[int] = ACCEPTED, **options: Any
) -> list[tuple[str, str]]:
    found = [(address[:200], problem_of(client.get(address, **options), accepted)) for address in addresses]
    return [(address, problem) for address, problem in found if problem]


@pytest.mark.parametrize("method", ["get", "post"])
def test_hostile_ids_in_each_url(method: str, redis_server: Store, root: Client) -> None:
    wrong = []

    # Every fourth id at a route, the others at the next ones: the pages decode their ids in one function.
    for number, route in enumerate(sorted({each.path for each in routes() if "<path:object_id>" in each.path})):
        for text in IDS[number % 4 :: 4]:
            address = f"{ADMIN}{route.replace('<path:object_id>', text)}"
            if problem := problem_of(getattr(root, method)(address)):
                wrong.append((address[:200], problem))

    assert wrong == []


@pytest.mark.parametrize("route", sorted(EXAMPLES))
def test_hostile_parameters_of_each_url(route: str, redis_server: Store, root: Client) -> None:
    address, _, given = address_of(route, EXAMPLES[route], fill(redis_server)).partition("?")
    example, wrong = dict(parse_qsl(given)), []
    forms = [dict.fromkeys(PARAMETERS, value) for value in VALUES]
    forms += [example | {name: VALUES[number % len(VALUES)]} for number, name in enumerate(PARAMETERS, len(route))]

    # Every fourth form at a page and every eighth at a verb, of which there are three times as many; the others at the
    # next ones: they read their parameters in the same functions.
    step = 8 if route in VERBS else 4
    for number, form in enumerate(forms[sorted(EXAMPLES).index(route) % step :: step]):
        query = {"format": ("html", "json", "fragment")[number % 3]} | form
        if problem := problem_of(root.get(address, query)):
            wrong.append((str(form)[:200], problem))
        if route in VERBS and (problem := problem_of(root.post(address, form))):
            wrong.append(("POST", str(form)[:200], problem))

    assert wrong == []


def test_hostile_texts_in_redis_are_escaped(redis_server: Store, root: Client) -> None:
    known = fill(redis_server)
    queue, lock = MARKUP.replace("{", "("), Lock(MARKUP, timeout=600)
    write_queue(redis_server, queue, ready=1, failed=1, unregistered=1)
    write_worker(redis_server, f"{MARKUP}:1", host=MARKUP, queues=[MARKUP], version=MARKUP, runs=[[MARKUP] * 3 + [1]])
    write_schedule(redis_server, f"{MARKUP} every 60 s", late_s=60)
    write_poller(redis_server)
    lock.acquire()
    ids = [note.using(queue_name="mail").enqueue(text).id for text in (MARKUP, "\u202eevil", "x" * 1_000_000)]

    addresses = [address_of(route, query, known) for route, queries in PAGES.items() for query in queries]
    addresses += [f"{ADMIN}task/{each.replace('_', '_5F')}/" for each in ids]

    assert problems(root, addresses) == []
    assert problems(root, addresses, data={"format": "fragment"}) == []


#: Values of a task's record that no version of this package writes: not JSON, too deep, of other types.
RECORDS = [
    b"", b"\xff\xfe", b"not JSON", b"[" * 100_000, b"[NaN]", b"null", b"7", b"[[], []]", MARKUP.encode(),
]  # fmt: skip


@pytest.mark.parametrize("value", [*RECORDS, None], ids=[*range(len(RECORDS)), "missing"])
def test_corrupt_records_of_a_task(value: bytes | None, redis_server: Store, root: Client) -> None:
    known = fill(redis_server)
    key = home().record(known["failed"])
    fields = redis_server.raw.hkeys(key)
    addresses = [
        address_of(route, query, known)
        for route, query in [("task/<path:object_id>/", "?of={failed}"), ("queues/<path:object_id>/", "?state=failed")]
    ]
    wrong = []

    for field in fields:
        kept = redis_server.raw.hget(key, field)
        if value is None:
            redis_server.raw.hdel(key, field)
        else:
            redis_server.raw.hset(key, field, value)
        wrong += [(field, *each) for each in problems(root, addresses, {200, 404})]
        redis_server.raw.hset(key, field, kept)

    assert wrong == []
