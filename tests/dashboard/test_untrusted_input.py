"""Hostile parameters, corrupt values in Redis and wrong settings: every page answers, none with an exception."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from django_redis_components.core.observability.live_events import stream_key
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.models import MODELS
from django_redis_components.locks import Lock
from django_redis_components.ratelimits import RateLimit
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from tests.dashboard.queue_pages import url_of, write_error, write_past
from tests.dashboard.support import (
    URL,
    fail_with,
    hit_recorded,
    write_poller,
    write_queue,
    write_schedule,
    write_worker,
)
from tests.dashboard.worker_pages import WORKERS
from tests.support import Store
from tests.taskqueue.tasks import echo, note

pytestmark = pytest.mark.django_db

ADMIN = "/admin/django_redis_components/"
SCHEDULES = f"{ADMIN}schedule/"
LOCKS, LIMITS, QUEUES, TASKS, FAILURES, LIVE = (
    f"{ADMIN}{page}/" for page in ("lock", "ratelimit", "queues", "task", "failure", "liveevent")
)
#: Members and fields that no version of this package writes.
CORRUPT = [
    b"", b"\xff\xfe", b"a{b}", b"a\nb", b"\x00", b"x" * 300, b"{% url %}", b"<b>", b"_add", b"..", b"a/b", b"|",
    b"a|b|c", b"0|0|{}", b"0|0|[]", b"null", b"[]", b"{}", b'"x"', b"-1", b"nan", b"inf", b"1e400", b"9" * 400,
    b'{"pid": "x"}', b'{"info": 7}', b"[" * 5_000, b'{"a":' * 5_000, b"[" * 5_000 + b"]" * 5_000,
    b'"\\ud800"', b'{"host": "\\ud800", "reason": "\\udfff"}', b'["\\ud800"]',
]  # fmt: skip


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    return client


def fill(store: Store) -> None:
    write_queue(store, "mail", ready=3, age_s=75, scheduled=2, running=1, failed=1, unregistered=1)
    write_past(store, "mail")
    write_error(store, "mail")
    write_worker(store, "here:1:abc")
    write_schedule(store, "shop.tasks.send every 60 s")
    note.using(id="known", queue_name="mail", concurrency=1, rate="5/m", unique=True).enqueue("x")
    write_poller(store)
    store.raw.hset(f"{home().base}:paused", "mail", '0|1000|{"reason": "r", "author": "a"}')
    store.raw.xadd(stream_key(), {"kind": "failed", "name": "shop.pay", "age_us": 0, "left_out": 0})


def corrupt(store: Store, value: bytes, *, other_type: bool) -> None:
    """Add the value to every key as the key's type stores it, or replace the key by a string."""
    raw = store.raw
    for key in list(store.keys()):
        kind = raw.type(key)
        if kind == b"string" or other_type:
            raw.delete(key)
            raw.set(key, value)
        elif kind == b"hash":
            raw.hset(key, mapping={value: value} | dict.fromkeys(raw.hkeys(key), value))
        elif kind == b"zset":
            raw.zadd(key, {value: 7})
        elif kind == b"list":
            raw.lpush(key, value)
        elif kind == b"stream":
            raw.xadd(key, {"kind": "failed", "age_us": value, "left_out": value, "duration_us": value, "queue": value})
            raw.xadd(key, {"kind": value, value: value})


def test_tasks_whose_names_no_url_can_have_are_shown_without_a_link(redis_server: Store, operator: Client) -> None:
    write_schedule(redis_server, "odd")
    info = {"task": "odd\ud800", "queue": "default", "misfire": "once", "enabled": True}
    redis_server.raw.hset(f"{home().base}:schedule:odd", "info", json.dumps(info))
    write_worker(redis_server, "here:1.a", busy=1, runs=[["id\ud800", "odd\ud800", "default", 1.0, 0.0]])

    for page in (SCHEDULES, WORKERS):
        shown = operator.get(page)
        assert shown.status_code == 200
        assert "odd" in shown.content.decode()


def pages(limit: RateLimit) -> list[str]:
    """Return the URLs of all pages, each with a query that may be extended."""
    chosen = f"limit={limit.policy.id}&key=ada"
    return [
        f"{URL}?",
        f"{url_of('mail')}?state=failed",
        f"{QUEUES}_verb/purge/mail/?",
        f"{QUEUES}_verb/retry/mail/?state=failed&all=1",
        f"{TASKS}known/?",
        f"{TASKS}_verb/cancel/known/?",
        f"{FAILURES}?",
        f"{FAILURES}?queue=mail&group={'ab' * 8}",
        f"{FAILURES}retry_error/?group={'ab' * 8}",
        f"{LOCKS}?",
        f"{LOCKS}?name=stock",
        f"{LOCKS}release/?kind=lock&name=stock&token=abc",
        f"{LIVE}?",
        f"{LIVE}?kind=failed&queue=mail&after=1-0",
        f"{WORKERS}?",
        f"{WORKERS}stop/?id=here:1:abc",
        f"{LIMITS}?",
        f"{LIMITS}?{chosen}",
        f"{LIMITS}reset/?{chosen}",
    ]


@pytest.mark.parametrize("name", [b"", b"\xff\xfe", b"a{b}", b"a\nb", b"\x00", b"x" * 300])
def test_invalid_queue_name_in_the_index_of_queues_is_not_shown(
    redis_server: Store, operator: Client, name: bytes
) -> None:
    fill(redis_server)
    redis_server.raw.zadd(f"{home().base}:queues", {name: 1})

    response = operator.get(URL)

    assert response.status_code == 200
    assert "mail" in response.content.decode()
    assert [queue["name"] for queue in operator.get(URL, {"format": "json"}).json()["queues"]] == ["mail"]


@pytest.mark.unmeasured
def test_corrupt_values_in_redis_break_no_page(redis_server: Store, operator: Client) -> None:
    """Each value is written into every key that the pages read; each fifth one also changes the type of the key.

    A page is read in one form for each value, in the other one for the next value.
    """
    limit = RateLimit("api", "5/m", penalty=(3, 60))
    operator.raise_request_exception = False
    failed = []

    for number, value in enumerate(CORRUPT):
        fill(redis_server)
        hit_recorded(limit, "ada")
        Lock("stock", timeout=60).acquire()
        corrupt(redis_server, value, other_type=number % 5 == 4)
        for form, address in enumerate(pages(limit), number):
            response = operator.get(f"{address}&format={('html', 'json')[form % 2]}")
            accepted = (200, 404, 503) if address.startswith(TASKS) else (200, 503)
            if response.status_code not in accepted:
                failed.append((value, address, response.status_code))
        redis_server.delete_keys()

    assert failed == []


#: Text with a byte of a file name that is not UTF-8, as Python reads it.
SURROGATE = "cannot read caf\udce9.txt"
ESCAPED = r"cannot read caf\udce9.txt"


def test_texts_that_utf_8_cannot_encode_are_escaped_on_every_page(redis_server: Store, operator: Client) -> None:
    waiting = echo.using(queue_name="mail").enqueue(SURROGATE)
    failed = fail_with(SURROGATE, queue="mail")[0]
    get_queue("mail").pause(SURROGATE, author=SURROGATE)
    write_worker(redis_server, "here:1:abc", host=SURROGATE, version=SURROGATE, queues=[SURROGATE])
    definition = {"task": SURROGATE, "cron": SURROGATE, "args": [SURROGATE], "kwargs": {SURROGATE: SURROGATE}}
    redis_server.raw.hset(f"{home().base}:schedules:definitions", "odd", json.dumps(definition))
    Lock("stock", timeout=60).acquire()

    addresses = [*pages(RateLimit("api", "5/m")), f"{TASKS}{quote(failed)}/?", f"{TASKS}{quote(waiting.id)}/?"]
    found = {
        (address, form): operator.get(f"{address}&format={form}")
        for address in [*addresses, f"{SCHEDULES}?"]
        for form in ("html", "fragment", "json")
    }

    assert {key: answer.status_code for key, answer in found.items() if answer.status_code not in (200, 404)} == {}
    for address in (f"{TASKS}{quote(failed)}/?", f"{FAILURES}?", f"{url_of('mail')}?state=failed"):
        assert ESCAPED in found[address, "html"].content.decode()
    assert ESCAPED in found[f"{TASKS}{quote(waiting.id)}/?", "html"].content.decode()
    assert found[f"{TASKS}{quote(failed)}/?", "json"].json()["errors"][0]["message"] == ESCAPED


def test_entries_of_the_log_escape_texts_that_utf_8_cannot_encode(admin_user: User) -> None:
    request = RequestFactory().get("/")
    request.user = admin_user

    AuditEntry(request, MODELS["task"], "id", f"Retry {SURROGATE}").finish(SURROGATE)

    assert LogEntry.objects.get().change_message == f"Retry {ESCAPED}: {ESCAPED}."


@pytest.mark.parametrize("form", ["html", "json", "fragment"])
@pytest.mark.parametrize(
    "wrong",
    [{"ANALITICS": {}}, 7, {"PREFIX": "{"}, {"CONNECTIONS": {"default": {}}}, {"DASHBOARD": {"USING": "nowhere"}}],
)
def test_invalid_settings_are_reported_on_every_page(settings: Any, operator: Client, wrong: Any, form: str) -> None:
    limit = RateLimit("api", "5/m")
    settings.REDIS_COMPONENTS = wrong
    names = {"kind": "lock", "name": "stock", "token": "abc"}

    answers = {address: operator.get(f"{address}&format={form}").status_code for address in pages(limit)}
    posted = operator.post(f"{LOCKS}release/", names).status_code

    assert answers.pop(f"{LIMITS}?") in (200, 503)  # limits registered in this process need no Redis
    assert set(answers.values()) == {503}
    assert posted == 503
    assert [operator.get(address).status_code for address in ("/admin/", ADMIN)] == [200, 200]


def test_pages_name_a_misspelled_section_of_the_settings(settings: Any, operator: Client) -> None:
    limit = RateLimit("api", "5/m")
    settings.REDIS_COMPONENTS = {"ANALITICS": {}}

    answers = [operator.get(address) for address in pages(limit) if address != f"{LIMITS}?"]
    answers.append(operator.post(f"{LIMITS}reset/", {"limit": limit.policy.id, "key": "ada"}))

    for answer in answers:
        text = answer.content.decode()
        assert "REDIS_COMPONENTS[&quot;ANALITICS&quot;] is unknown. Did you mean &quot;ANALYTICS&quot;?" in text


def test_line_breaks_in_a_user_name_do_not_break_the_log_line(
    redis_server: Store, operator: Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(User, "get_username", lambda user: "root\n2026-01-01 WARNING forged\r\x1b[2K\u2028\x85")
    lock = Lock("stock", timeout=60)
    lock.acquire()

    with caplog.at_level(logging.WARNING, "django_redis_components.dashboard"):
        operator.post(f"{LOCKS}release/", {"kind": "lock", "name": "stock", "token": lock.token})

    (record,) = [record for record in caplog.records if record.name == "django_redis_components.dashboard"]
    message = record.getMessage()
    assert message.splitlines() == [message]
    assert message.isprintable()
    assert r"by root\n2026-01-01 WARNING forged\r\x1b[2K\u2028\x85: done" in message
    assert LogEntry.objects.count() == 1
