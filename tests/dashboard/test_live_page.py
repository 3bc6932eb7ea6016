"""The page Live: its list, filters and JSON."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from django_redis_components.core.observability import flushing
from django_redis_components.core.observability.live_events import FIELDS, LiveEvent, stream_key
from django_redis_components.dashboard.live.snapshot import KINDS
from tests.dashboard.failure_pages import MASK
from tests.dashboard.live import LIVE, event, events_of, json_of, record_events, send
from tests.dashboard.support import HOSTILE, URL, Page, browser, dump, text_of, write_queue
from tests.support import Store

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only `send` sends events."""
    monkeypatch.setattr(flushing, "FLUSH_S", 3_600.0)


@pytest.fixture
def viewer() -> Client:
    return browser("view_liveevent", "view_overview")


def text(client: Client, **query: str) -> str:
    response = client.get(LIVE, query)
    assert response.status_code == 200, response.content
    return text_of(response.content.decode())


def test_page_lists_events_newest_first(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    send(
        event("started"),
        event(
            "failed", task_id="task-2", duration_s=1.4, error="builtins.LookupError", message="no mail", source="a:1"
        ),
        LiveEvent("acquired", "lock", "stock:42", duration_s=0.25),
        LiveEvent("left_out", "", "", left_out=1_214),
    )

    html = viewer.get(LIVE).content.decode()
    shown = text_of(html)

    assert shown.index("stock:42") < shown.index("task-2") < shown.index("task-1")
    for part in (
        "■ Failed shop.pay task-2 LookupError: no mail 1.4 s mail a:1",
        "▶ Started shop.pay task-1 – mail",
        "◆ Acquired stock:42 lock 250 ms –",
        "1,214 more events were not recorded.",
        "3 commands · 1 round trip ·",
        "A process records at most 50 events a second",
    ):
        assert part in shown, part
    assert '<a href="/admin/django_redis_components/task/task-2/"><bdi>shop.pay</bdi></a>' in html
    assert re.search(r'<time datetime="[^"]+" title="[^"]+">\d\d:\d\d:\d\d\.\d{3}</time>', html)
    assert 'data-refresh-s="2"' in html
    assert f'<a class="drc-refresh" href="{LIVE}">' in html


def test_json_can_be_continued_after_the_last_event(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    empty = json_of(viewer)
    send(event(name="one"), event(name="two"))
    first = json_of(viewer)
    send(event(name="three"))

    following = json_of(viewer, after=first["last_id"])

    assert (empty["events"], empty["last_id"], empty["is_recorded"]) == ([], None, True)
    assert [each["name"] for each in first["events"]] == ["two", "one"]
    assert first["last_id"] == first["events"][0]["id"]
    assert [each["name"] for each in following["events"]] == ["three"]
    assert json_of(viewer, after=following["last_id"])["last_id"] == following["last_id"]
    assert set(following["events"][0]) == {"id", "at", *FIELDS[:8], "duration_s", "left_out", "shard"}
    assert following["cost"]["round_trips"] == 1


def test_filters_search_all_events_that_are_kept(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    write_queue(redis_server, "mail", ready=1)
    send(event("failed", name="old"))
    send(*[event(queue="other") for _ in range(120)])
    send(LiveEvent("left_out", "", "", left_out=5))

    assert [each["name"] for each in events_of(viewer, kind="failed")] == ["", "old"]
    assert [each["name"] for each in events_of(viewer, queue="mail")] == ["", "old"]
    assert len(events_of(viewer)) == 100
    assert "old" not in text(viewer)
    page = Page(viewer.get(LIVE, {"kind": "failed", "queue": "mail"}).content.decode())
    options = [each for each in page.all("option") if ":" not in each["value"]]  # those of the search field have one
    assert [each["value"] for each in options if "selected" in each] == ["failed", "mail"]
    assert {each["value"] for each in options} == {"", *KINDS, "mail"}
    redis_server.raw.delete(stream_key())
    assert "No event matches the filter." in text(viewer, kind="waiting")


@pytest.mark.parametrize("query", [{"kind": "left_out"}, {"queue": "a{b}"}, {"after": "x"}, {"after": "1-" + "1" * 30}])
def test_invalid_query_is_rejected(query: dict[str, str], viewer: Client) -> None:
    assert viewer.get(LIVE, query).status_code == 400


def test_empty_page_says_why(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    assert "No events. They appear when workers run tasks, and are kept for 1 min 0 s." in text(viewer)

    record_events(settings, is_on=False)
    assert "No events are recorded: LIVE_EVENTS is False." in text(viewer)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_escaped(name: str, redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    texts = {"task_id": name, "queue": name, "source": name, "error": name, "message": name}
    clean = {tag for tag, _ in Page(viewer.get(LIVE).content.decode()).tags}
    send(event("failed", name=name, **texts), LiveEvent("waiting", "lock", name, duration_s=0.1))

    html = viewer.get(LIVE).content.decode()

    assert {tag for tag, _ in Page(html).tags} - clean <= {"table", "thead", "tbody", "tr", "th", "td", "time", "small"}
    assert "<script>alert" not in html
    assert all(each["name"] == name for each in events_of(viewer))


def test_messages_are_masked(redis_server: Store, settings: Any, viewer: Client) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"MASK_ERROR": MASK}}
    record_events(settings)
    send(event("failed", error="ValueError", message="user Ada has no mail"))

    assert "user ••• has no mail" in text(viewer)
    assert [each["message"] for each in events_of(viewer)] == ["user ••• has no mail"]


def test_entries_of_other_clients_are_ignored_or_shown_as_far_as_they_make_sense(
    redis_server: Store, settings: Any, viewer: Client
) -> None:
    record_events(settings)
    valid = {"kind": "failed", "name": b"\xff", "age_us": "0", "left_out": "0"}
    for fields in (
        {"a": "b"},
        {"kind": "boo"},
        valid | {"age_us": "x"},
        valid | {"age_us": "9" * 30},
        valid | {"duration_us": "x"},
        valid,
    ):
        redis_server.raw.xadd(stream_key(), fields)
    redis_server.raw.xadd(stream_key(), valid, id="18446744073709551615-0")

    assert [each["name"] for each in events_of(viewer)] == ["\ufffd"]
    assert viewer.get(LIVE).status_code == 200


def test_events_of_one_process_are_listed_in_the_order_in_which_it_added_them(
    redis_server: Store, settings: Any, viewer: Client
) -> None:
    record_events(settings)
    first_ms = int(redis_server.raw.xadd(stream_key(), {"a": "b"}).partition(b"-")[0])
    for number, (source, age_us) in enumerate([("a:1", 100), ("a:1", 900), ("a:1", 0), ("b:1", 2_000), ("b:1", 0)]):
        fields = {"kind": "failed", "name": str(number), "source": source, "age_us": age_us, "left_out": 0}
        redis_server.raw.xadd(stream_key(), fields, id=f"{first_ms + 1}-{number}")

    assert [each["name"] for each in events_of(viewer)] == ["4", "2", "1", "0", "3"]


@pytest.mark.contract
def test_viewing_changes_no_key(store: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    write_queue(store, "mail", ready=1)
    send(event())
    before = {key: value for key, value in dump(store).items() if not key.endswith(b"{events}")}

    for query in ({}, {"format": "json"}, {"format": "fragment"}, {"kind": "failed"}):
        assert viewer.get(LIVE, query).status_code == 200

    assert {key: value for key, value in dump(store).items() if not key.endswith(b"{events}")} == before
    assert store.raw.xlen(stream_key()) == 1


def test_read_only_acl_user_can_view_the_page(redis_server: Store, settings: Any, viewer: Client) -> None:
    record_events(settings)
    send(event())
    name = f"reader-{redis_server.prefix}"
    rights = ["+@read", "-@dangerous", "+info", "+time", "+evalsha_ro", "+eval_ro"]
    redis_server.raw.execute_command("ACL", "SETUSER", name, "on", ">secret", "~*", *rights)
    url = re.sub("//", f"//{name}:secret@", redis_server.url, count=1)
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": {"default": {"URL": url}}}

    try:
        assert [each["kind"] for each in events_of(viewer)] == ["succeeded"]
    finally:
        redis_server.raw.execute_command("ACL", "DELUSER", name)


def test_page_requires_its_permission_and_has_a_tab(redis_server: Store, viewer: Client) -> None:
    other = browser("view_overview")

    assert [client.get(LIVE).status_code for client in (viewer, other)] == [200, 403]
    assert f'href="{LIVE}"' not in other.get(URL).content.decode()
    assert (
        f'<a href="{LIVE}" aria-current="page">Live</a>'
        in browser("view_overview", "view_liveevent").get(LIVE).content.decode()
    )
    assert viewer.post(LIVE).status_code == 405


def test_page_is_503_while_redis_is_unavailable(own_server: Store, settings: Any, viewer: Client) -> None:
    own_server.servers[0].kill()

    assert viewer.get(LIVE).status_code == 503
    assert viewer.get(LIVE, {"format": "json"}).json()["error"]["code"] == "unreachable"
