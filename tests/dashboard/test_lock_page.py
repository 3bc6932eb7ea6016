"""The page of locks and semaphores, and the release by an operator."""

from __future__ import annotations

import os
import re
import socket
import threading
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_redis_components.core.observability.catalog import RECORDER
from django_redis_components.dashboard.locks import scan, snapshot
from django_redis_components.dashboard.locks.resources import resource_of_key
from django_redis_components.locks import Lock, MultiLock, ReadWriteLock, lock
from django_redis_components.locks.group import GroupKind
from django_redis_components.locks.lock import PlainKind
from django_redis_components.locks.readwrite import READER, ReadWriteKind
from django_redis_components.semaphores import Semaphore, semaphore
from django_redis_components.semaphores.permits import PermitKind
from tests.dashboard.lock_pages import LOCKS, RELEASE, held_by, release_link, run_call, wait_in_line
from tests.dashboard.support import HOSTILE, Page, browser, dump, reason_of, text_of
from tests.support import Store, eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return browser("view_lock")


@pytest.fixture
def operator() -> Client:
    return browser("view_lock", "release_lock")


@pytest.mark.contract
def test_scan_finds_every_kind_of_held_resource(store: Store, viewer: Client) -> None:
    plain, together_, page = Lock("stock:42"), MultiLock("a", "b", group="accounts"), ReadWriteLock("page:7")
    reader, reports = page.read(), Semaphore("reports", 3, timeout=60, blocking=False)
    for each in (plain, together_, reader, reports):
        each.acquire()
    wait_in_line(store, "stock:42")

    found = held_by(viewer)

    assert set(found) == {"lock stock:42", "group a", "group b", "readwrite page:7", "semaphore reports"}
    [holder] = found["lock stock:42"]["holders"]
    assert holder["token"] == plain.token
    assert 0 < holder["remaining_s"] <= 30
    assert 0 <= holder["age_s"] < 60
    assert (found["lock stock:42"]["waiting"], found["lock stock:42"]["fencing_token"]) == (1, plain.fencing_token)
    assert (found["group a"]["group"], found["group a"]["fencing_token"]) == ("accounts", together_.fencing_token)
    assert [(each["role"], each["token"]) for each in found["readwrite page:7"]["holders"]] == [
        ("reader", reader.token)
    ]
    assert (found["semaphore reports"]["held"], found["semaphore reports"]["limit"]) == (1, 3)


def test_resources_with_waiters_come_first(redis_server: Store, viewer: Client) -> None:
    for name in ("a", "b", "c"):
        Lock(name).acquire()
    wait_in_line(redis_server, "b")

    text = text_of(viewer.get(LOCKS).content.decode())

    holder = rf"{socket.gethostname()}, process {os.getpid()}, thread MainThread \w{{32}}"
    assert re.search(rf"Fencing token b lock 1 (&lt; 1 s|\d s) \d\d s {holder} \d{{16}} [ac] lock", text)
    assert re.search(r"Scanned all [\d,]+ keys\.", text)


def test_names_of_the_list_lead_to_their_waiters(redis_server: Store, viewer: Client) -> None:
    Lock("stock:42").acquire()
    MultiLock("a", group="accounts").acquire()
    wait_in_line(redis_server, "stock:42", "first")

    found = re.findall(r'<a href="([^"]*)"><bdi>(stock:42|a)</bdi></a>', viewer.get(LOCKS).content.decode())

    links = {name: unescape(link) for link, name in found}
    assert "Waiters" in text_of(viewer.get(LOCKS + links["stock:42"]).content.decode())
    assert "first" in viewer.get(LOCKS + links["stock:42"]).content.decode()
    group = viewer.get(LOCKS + links["a"] + "&format=json").json()
    assert [(each["group"], each["name"], each["held"]) for each in group["held"] if each["held"]] == [
        ("accounts", "a", 1)
    ]


def test_lookup_by_name_does_not_scan(store: Store, viewer: Client) -> None:
    Lock("stock:42").acquire()

    found = viewer.get(LOCKS, {"format": "json", "name": "stock:42"}).json()

    assert found["scanned"] is None
    assert found["cost"]["round_trips"] == 1
    assert [(thing["kind"], thing["held"]) for thing in found["held"]] == [
        ("lock", 1),
        ("readwrite", 0),
        ("semaphore", 0),
    ]
    text = text_of(viewer.get(LOCKS, {"name": "stock:42"}).content.decode())
    assert "read-write lock 0 – – free –" in text


@pytest.mark.contract
def test_waiters_are_listed_in_order_with_the_time_of_their_wait(
    store: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lock("stock:42").acquire()
    for token in ("first", "second", "third"):
        wait_in_line(store, "stock:42", token)
    queue = f"{PlainKind('stock:42').base}:queue"
    [(_token, ticket), *_others] = store.raw.zrange(queue, 0, -1, withscores=True)
    store.raw.zadd(queue, {"first": ticket - 90e6})

    state = held_by(viewer, name="stock:42")["lock stock:42"]

    assert [(waiter["token"], waiter["role"]) for waiter in state["waiters"]] == [
        ("first", "holder"),
        ("second", "holder"),
        ("third", "holder"),
    ]
    assert 90 <= state["waiters"][0]["waited_s"] < 150
    assert 0 <= state["waiters"][1]["waited_s"] < 60
    monkeypatch.setattr("django_redis_components.dashboard.locks.page.MAX_WAITER_ROWS", 2)
    text = text_of(viewer.get(LOCKS, {"name": "stock:42"}).content.decode())
    assert re.search(r"lock: 1 to 2 of 3 Waiter Place Waits for Waiting for first 1 lock \d min [\d s]*second 2", text)
    assert "third" not in text
    assert "In the order of the queue." not in text_of(viewer.get(LOCKS).content.decode())


@pytest.mark.contract
def test_waiters_of_each_kind_are_listed_with_what_they_wait_for(store: Store, viewer: Client) -> None:
    pages, accounts = ReadWriteLock("it", timeout=60), MultiLock("it", "other", group="accounts", timeout=60)
    permits = Semaphore("it", 3, timeout=60, blocking=False)
    pages.write().acquire()
    accounts.acquire()
    permits.acquire(3)
    run_call(ReadWriteKind("it", READER, 30).acquire("waiter:r", True))
    run_call(GroupKind(["it"], "accounts", 30).acquire("waiter", True))
    run_call(PermitKind("it", 3, 30).acquire("waiter:2:3", True))

    found, grouped = held_by(viewer, name="it"), held_by(viewer, name="it", group="accounts")

    assert [each["role"] for each in found["readwrite it"]["waiters"]] == ["reader"]
    assert [each["permits"] for each in found["semaphore it"]["waiters"]] == [2]
    assert [each["token"] for each in grouped["group it"]["waiters"]] == ["waiter"]


def test_lookup_of_a_group_name_needs_the_group(store: Store, viewer: Client) -> None:
    held = MultiLock("a", "b", group="accounts")
    held.acquire()
    waiter = threading.Thread(target=lambda: MultiLock("b", "c", group="accounts").acquire(blocking_timeout=30))
    waiter.start()

    eventually(lambda: held_by(viewer, name="b", group="accounts")["group b"]["waiting"] == 1)
    found = held_by(viewer, name="b", group="accounts")

    assert found["group b"]["holders"][0]["token"] == held.token
    held.release()
    waiter.join(30)


def test_invalid_name_is_reported(redis_server: Store, viewer: Client) -> None:
    text = text_of(viewer.get(LOCKS, {"name": "a{b"}).content.decode())

    assert "Invalid name: name &#x27;a{b&#x27;: braces are not accepted" in text


def test_names_of_decorators_are_listed_and_read(redis_server: Store, viewer: Client, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CATALOG": True}

    @lock("nightly")
    def nightly() -> object:
        RECORDER.flush()
        return held_by(viewer)["lock nightly"]["held"]

    @semaphore("api:{customer}", limit=5)
    def sync(customer: int) -> None:
        """Nothing."""

    @lock(lambda: "made")
    def made() -> None:
        """Nothing."""

    assert nightly() == 1
    sync(7)
    made()
    RECORDER.flush()
    text = text_of(viewer.get(LOCKS).content.decode())
    assert "api:{customer} semaphore tests.dashboard.test_lock_page.test_names_of_decorators_are_listed" in text
    assert "computed by a function lock" in text
    assert "nightly lock tests.dashboard" in text


def test_partial_scan_continues_by_link(store: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "COUNT", 20)
    for number in range(300):
        store.raw.set(f"{store.prefix}:other:{number}", 1)
    held = {f"lock-{number}" for number in range(5)}
    for name in held:
        Lock(name).acquire()

    found, query, pages, scans = set[str](), {}, 0, 0
    while True:
        got = viewer.get(LOCKS, {"format": "json", **query}).json()
        found |= {thing["name"] for thing in got["held"]}
        pages += 1
        scans = max(scans, got["cost"]["commands"])
        if not got["next"]:
            break
        text = text_of(viewer.get(LOCKS, query).content.decode())
        assert re.search(r"Scanned about [\d,]+ of [\d,]+ keys\. .*Continue the scan", text)
        query = {"at": got["next"]}

    assert found == held
    assert pages > 2
    assert scans < 40


def test_more_resources_than_a_page_are_on_the_next(
    redis_server: Store, viewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MAX_SHOWN", 3)
    for number in range(5):
        Lock(f"lock-{number}").acquire()

    text = text_of(viewer.get(LOCKS).content.decode())
    rest = held_by(viewer, skip="3")

    assert "Show 2 more" in text
    assert set(rest) == {"lock lock-3", "lock lock-4"}
    assert viewer.get(LOCKS, {"format": "json"}).json()["not_shown"] == 2


@pytest.mark.parametrize("at", ["x", "0.1;", "1." + "9" * 21, "999999999.1", "0.-1", ",", "0.1,,0.2"])
def test_invalid_cursor_restarts_the_scan(at: str, redis_server: Store, viewer: Client) -> None:
    Lock("a").acquire()

    assert set(held_by(viewer, at=at)) == {"lock a"}


def test_other_keys_are_not_resources(settings) -> None:
    prefix = "drc"
    settings.REDIS_COMPONENTS = {"PREFIX": prefix}

    for key in (
        "locks:{a}:fence",
        "locks:{a}:queue",
        "locks:{a}:wakeup:x}",
        "locks:{a}b}",
        "locks:{}",
        "locks:{a}:rw:fence",
        "locks:{a}:group",
        "semaphores:{a}:rw:writer",
        "semaphores:{a}:alive",
        "search:{a}",
        "locks:{\n}",
    ):
        assert resource_of_key(f"{prefix}:{key}") is None, key
    assert resource_of_key(f"{prefix}:locks:{{g}}:group:held:a:b").name == "a:b"
    assert resource_of_key("other:locks:{a}") is None


def test_key_of_wrong_type_shows_an_error_beside_the_others(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.rpush(f"{redis_server.prefix}:locks:{{odd}}", "x")
    redis_server.raw.zadd(f"{redis_server.prefix}:semaphores:{{odd}}", {b"\xff": 9e15, "a:b": 9e15})
    redis_server.raw.zadd(f"{redis_server.prefix}:locks:{{odd}}:rw:readers", {"strange": 9e15})
    redis_server.raw.set(f"{redis_server.prefix}:locks:{{for ever}}", "me")
    Lock("good").acquire()
    wait_in_line(redis_server, "good")
    redis_server.raw.zadd(f"{redis_server.prefix}:locks:{{good}}:queue", {"waiter": "inf"})

    html = viewer.get(LOCKS).content.decode()
    one = viewer.get(LOCKS, {"name": "good"})

    text = text_of(html)
    assert "waiter 1 lock &lt; 1 s" in text_of(one.content.decode())
    assert "WRONGTYPE" in text
    assert "good lock" in text
    assert "for ever lock 0 – never me –" in text


@pytest.mark.parametrize("name", [name for name in HOSTILE if "{" not in name])
def test_hostile_names_and_tokens_are_escaped(name: str, redis_server: Store, operator: Client) -> None:
    clean = Page(operator.get(LOCKS).content.decode())
    Lock(name).acquire(token=name)

    page = Page(operator.get(LOCKS).content.decode())
    confirm = operator.get(release_link(operator, name)).content.decode()

    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
    asked = Page(confirm)
    assert {"name": "token", "value": name, "type": "hidden"} in asked.all("input")
    assert not any(word.startswith("on") for _, attributes in asked.tags for word in attributes)


def test_viewing_changes_no_key(store: Store, operator: Client) -> None:
    held = Lock("a")
    held.acquire()
    wait_in_line(store, "a")
    Semaphore("s", 1, blocking=False).acquire()
    before = dump(store)

    for query in ({}, {"name": "a"}, {"format": "json"}, {"format": "fragment"}):
        assert operator.get(LOCKS, query).status_code == 200
    assert operator.get(release_link(operator, "a")).status_code == 200

    assert dump(store) == before


@pytest.mark.parametrize(
    ("permissions", "page", "release"),
    [
        ((), 403, 403),
        (("view_overview",), 403, 403),
        (("release_lock",), 403, 403),
        (("view_lock",), 200, 403),
        (("view_lock", "release_lock"), 200, 200),
    ],
)
def test_each_page_requires_its_permission(
    permissions: tuple[str, ...], page: int, release: int, redis_server: Store
) -> None:
    held = Lock("a")
    held.acquire()
    client = browser(*permissions)
    asked = {"using": "default", "kind": "lock", "name": "a", "token": held.token}

    assert client.get(LOCKS).status_code == page
    assert client.get(RELEASE, asked).status_code == release
    if release == 403:
        assert client.post(RELEASE, asked).status_code == 403
        assert held.owned()
    shown = "Locks and semaphores" in client.get("/admin/").content.decode()
    assert shown == (page == 200)
    if page == 200:
        assert ("Release…" in client.get(LOCKS).content.decode()) == (release == 200)


def test_tabs_list_only_permitted_pages(redis_server: Store) -> None:
    both = browser("view_lock", "view_overview").get(LOCKS).content.decode()
    one = browser("view_lock").get(LOCKS).content.decode()

    assert f'<a href="{LOCKS}" aria-current="page">Locks</a>' in both
    assert '<a href="/admin/django_redis_components/overview/">Overview</a>' in both
    assert "drc-tabs" not in one


@pytest.mark.parametrize("kind", ["lock", "reader", "writer", "group", "semaphore"])
def test_release_is_written_to_the_admin_log(kind: str, store: Store, operator: Client) -> None:
    page = ReadWriteLock("it")
    held = {
        "lock": Lock("it"),
        "reader": page.read(),
        "writer": page.write(),
        "group": MultiLock("it", "other", group="accounts"),
        "semaphore": Semaphore("it", 1, timeout=60, blocking=False),
    }[kind]
    held.acquire()
    link = release_link(operator, "it", **({"group": "accounts"} if kind == "group" else {}))

    asked = operator.get(link)
    fields = {each["name"]: each["value"] for each in Page(asked.content.decode()).all("input") if each.get("name")}
    done = operator.post(RELEASE, fields, follow=True)

    assert "The holder is not stopped" in asked.content.decode()
    assert "Released: it" in text_of(done.content.decode())
    assert not held.owned()
    [entry] = LogEntry.objects.all()
    assert (entry.object_repr, entry.user.username) == ("it", "view_lock-release_lock")
    assert re.fullmatch(r"Release \w+ 'it'.* on connection 'default' from holder '[^']+': done\.", entry.change_message)
    assert operator.get(entry.get_admin_url(), follow=True).redirect_chain == [(LOCKS, 302)]


def test_first_waiter_holds_the_lock_after_release(store: Store, operator: Client) -> None:
    held = Lock("a")
    held.acquire()
    wait_in_line(store, "a", "next")

    operator.post(RELEASE, {"kind": "lock", "name": "a", "token": held.token})

    assert Lock("a").inspect().holder == "next"


def test_lock_of_a_later_holder_is_not_released(store: Store, operator: Client) -> None:
    old = Lock("a")
    old.acquire()
    link = release_link(operator, "a")
    asked = {"kind": "lock", "name": "a", "token": old.token}
    old.release()
    new = Lock("a")
    new.acquire()

    late = operator.get(link)
    done = operator.post(RELEASE, asked, follow=True)

    assert "This holder no longer holds it." in late.content.decode()
    assert '<form method="post" class="drc-form"' not in late.content.decode()
    assert "Not released: a. The holder no longer held it." in text_of(done.content.decode())
    assert new.owned()
    assert LogEntry.objects.get().change_message.endswith(": refused, the holder no longer held it.")


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "key"},
        {"name": ""},
        {"name": "a}b"},
        {"token": ""},
        {"token": "x" * 1_001},
        {"using": "nowhere"},
        {"kind": "group"},
    ],
)
def test_invalid_release_form_returns_400(wrong: dict[str, str], redis_server: Store, operator: Client) -> None:
    held = Lock("a")
    held.acquire()

    response = operator.post(RELEASE, {"kind": "lock", "name": "a", "token": held.token, **wrong})

    assert reason_of(response) == "Required: using, kind, name, token, group (kind=group)."
    assert held.owned()


def test_release_requires_a_csrf_token(redis_server: Store) -> None:
    held = Lock("a")
    held.acquire()
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("root"))

    assert client.post(RELEASE, {"kind": "lock", "name": "a", "token": held.token}).status_code == 403
    assert held.owned()
    assert client.put(RELEASE).status_code in (403, 405)


def test_every_page_returns_503_during_an_outage(settings, operator: Client) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}
    asked = {"kind": "lock", "name": "a", "token": "x"}

    answers = [
        operator.get(LOCKS),
        operator.get(LOCKS, {"name": "a"}),
        operator.get(LOCKS, {"format": "fragment"}),
        operator.get(RELEASE, asked),
        operator.post(RELEASE, asked),
    ]

    assert [answer.status_code for answer in answers] == [503] * 5
    assert all("Cannot connect to Redis." in answer.content.decode() for answer in answers)
    assert operator.get(LOCKS, {"format": "json"}).json()["error"]["code"] == "unreachable"
    assert "outcome unknown" in LogEntry.objects.get().change_message


def test_connection_is_selected_by_link(redis_server: Store, settings, viewer: Client) -> None:
    connections = settings.REDIS_COMPONENTS["CONNECTIONS"]
    settings.REDIS_COMPONENTS = {
        **settings.REDIS_COMPONENTS,
        "CONNECTIONS": {**connections, "other": connections["default"]},
    }
    Lock("a", using="other").acquire()

    html = viewer.get(LOCKS, {"using": "other"}).content.decode()

    assert re.search(r'<a href="\?using=other" aria-current="true"><bdi>other</bdi></a>', html)
    assert "a lock" in text_of(html)
    assert viewer.get(LOCKS, {"using": "third"}).status_code == 400


def test_holders_beyond_twenty_are_summarized(redis_server: Store, viewer: Client) -> None:
    for _ in range(23):
        Semaphore("crowd", 30, timeout=60, blocking=False).acquire()

    text = text_of(viewer.get(LOCKS).content.decode())

    assert text.count("semaphore, 23 of 30 held") == 20
    assert "and 3 more" in text


def test_read_only_acl_user_can_view_locks(redis_server: Store, settings, viewer: Client) -> None:
    Lock("a").acquire()
    name = f"looker-{redis_server.prefix}"
    rights = ["+@read", "-@dangerous", "+info", "+time", "+evalsha_ro", "+eval_ro"]
    redis_server.raw.execute_command("ACL", "SETUSER", name, "on", ">secret", "~*", *rights)
    url = re.sub("//", f"//{name}:secret@", redis_server.url, count=1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    try:
        assert set(held_by(viewer)) == {"lock a"}
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", name)


def test_links_keep_the_query(redis_server: Store, viewer: Client) -> None:
    html = viewer.get(LOCKS, {"name": "a b", "using": "default"}).content.decode()

    query = urlencode({"name": "a b", "using": "default"}).replace("&", "&amp;")
    assert f'<a class="drc-refresh" href="{LOCKS}?{query}">' in html
    assert re.search(r'href="\?name=a\+b&amp;using=default&amp;format=json"', html)
