"""The overview as HTML: values, escaping, languages and time zones."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client

from django_redis_components.analytics import SignIns, UniqueVisitors
from django_redis_components.analytics.dates import site_date
from django_redis_components.dashboard.overview.snapshot import read_overview_snapshot
from tests.dashboard.support import (
    HOSTILE,
    SIGN_INS_OFF,
    URL,
    Page,
    client_of,
    page_text,
    reason_of,
    text_of,
    write_poller,
    write_queue,
    write_worker,
)
from tests.support import Store

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def fill(store: Store) -> None:
    write_queue(store, "mail", ready=1_284, age_s=75, scheduled=2, running=3, failed=4, unregistered=5)
    write_queue(store, "high", running=1)
    write_worker(store, "web-1:a", queues=["high", "mail"], busy=2, finished=12_345, started_at=1_790_000_000)
    write_worker(store, "web-2:b", seen_s=100)
    write_poller(store)
    today = site_date()
    for ago in range(30):
        UniqueVisitors("default").add(*range(ago + 1), at=today - timedelta(days=ago))
        SignIns("default").sign_in(500 + ago, at=today - timedelta(days=ago))


def test_queues_that_fail_are_measured_beside_many_with_more_tasks(redis_server: Store, viewer: Client) -> None:
    for number in range(60):
        write_queue(redis_server, f"q{number:02}", ready=5)
    write_queue(redis_server, "mail", failed=1)
    write_queue(redis_server, "retries", scheduled=1, retrying=1)

    overview = read_overview_snapshot().queues

    assert overview is not None
    assert {"mail", "retries"} <= overview.metrics.keys()
    assert "last hour · 50 of 62 queues" in page_text(viewer)


def test_queues_table_shows_all_states(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    text = page_text(viewer)

    assert (
        "Queue ▴ State Ready Last hour Oldest Scheduled Retrying Running Failed In/min Out/min Wait p95 ETA Workers"
        in text
    )
    assert re.search(r"high Active 0 No finished tasks\. – 0 0 1 0 – 0 – – 1", text)
    assert re.search(r"mail Active 1,284 No finished tasks\. 1 min \d+ s 2 0 3 4 [\d.,]+ 0 – unknown 1", text)
    assert re.search(r"All queues 1,284 1 min \d+ s 2 0 4 4 [\d.,]+ 0 1", text)


def names_of(client: Client, **query: str) -> list[str]:
    """Return the names in the table of queues, in order."""
    return re.findall(r'queues/[^"]+"><bdi>(queue-\d+)</bdi></a></th>', client.get(URL, query).content.decode())


def test_long_table_of_queues_shows_those_with_most_ready_tasks(redis_server: Store, viewer: Client) -> None:
    for number in range(14):
        write_queue(redis_server, f"queue-{number:02d}", ready=number, failed=14 - number)

    assert names_of(viewer) == [f"queue-{number:02d}" for number in range(13, 1, -1)]
    text = page_text(viewer)
    assert "12 of 14 queues Show all queues" in text
    assert re.search(r"All queues 91 [^A-Z]* 0 0 0 105 ", text)
    assert names_of(viewer, queues="all") == [f"queue-{number:02d}" for number in range(14)]
    assert names_of(viewer, sort="failed")[0] == "queue-00"
    assert names_of(viewer, sort="ready", queue="QUEUE-1") == ["queue-13", "queue-12", "queue-11", "queue-10"]
    assert "4 of 14 queues match" in page_text(viewer, queue="queue-1")
    assert "No queue has this text in its name." in page_text(viewer, queue="mail")


def test_overview_leads_to_the_page_of_queues_beyond_a_hundred(redis_server: Store, viewer: Client) -> None:
    for number in range(101):
        write_queue(redis_server, f"queue-{number:03d}", failed=number)

    page = viewer.get(URL, {"sort": "failed", "queues": "all", "queue": "queue"}).content.decode()

    assert len(re.findall(r'queues/[^"]+"><bdi>queue-', page)) == 100
    assert "100 of 101 queues All queues" in text_of(page)
    [address] = re.findall(r'<a href="([^"]*)">All queues</a>', page)
    assert unescape(address).endswith("/queues/?sort=failed&queue=queue")
    assert "1 to 100 of 101" in text_of(viewer.get(unescape(address)).content.decode())


def test_columns_say_how_the_table_is_sorted(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1)

    for sort in ("ready", "name", "oldest", "scheduled", "retrying", "running", "failed", "in", "out", "wait"):
        page = Page(viewer.get(URL, {"sort": sort}).content.decode())

        [column] = [each for each in page.all("th") if each.get("aria-sort")]
        assert column["aria-sort"] == ("ascending" if sort == "name" else "descending")


def test_unknown_column_is_rejected_with_a_message(redis_server: Store, viewer: Client) -> None:
    response = viewer.get(URL, {"sort": "<x>"})

    assert reason_of(response) == (
        "sort='<x>': expected one of name, ready, oldest, scheduled, retrying, running, failed, in, out, wait, workers."
    )


def test_workers_table_shows_alive_and_lost(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    text = page_text(viewer)

    assert re.search(r"web-1 \(7\) alive (\d+ s|&lt; 1 s) ago high, mail 2 of 8 12,345 Sept. 21, 2026 16:13:20", text)
    assert re.search(r"web-2 \(7\) lost 1 min \d+ s ago default", text)
    assert "Poller: active here:1:abc" in text
    assert "Busy threads 2 of 8 1 lost worker" in text
    assert "Workers and poller 1 live worker, 1 lost" in text


def test_missing_poller_is_shown_in_its_panel(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")

    assert "Poller: missing Start a poller, or a worker without --no-poller: python manage.py runpoller" in page_text(
        viewer
    )


def test_tiles_show_visitors_and_sign_ins_of_today_with_a_link(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    assert "Visitors today 1 estimated Sign-ins today 2" in page_text(viewer)
    assert "analytics" not in viewer.get(URL).content.decode(), "no link without the permission"
    root = client_of("superuser")
    html = root.get(URL).content.decode()
    assert html.count('<dt><a href="/admin/django_redis_components/analytics/">') == 2
    [month] = re.findall(r'href="([^"]+)">This month against last<', html)
    assert ", compared with " in root.get(unescape(month)).content.decode()


def test_footer_shows_commands_and_round_trips(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    assert re.search(
        r"17 commands · 2 round trips · [\d.]+ ms · read at \d\d:\d\d:\d\d \(Europe/Berlin\)", page_text(viewer)
    )


def test_footer_counts_round_trips_per_node_on_cluster(store: Store, viewer: Client) -> None:
    words = "1 round trip per node" in page_text(viewer)

    assert words == store.is_cluster


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_escaped(name: str, redis_server: Store, viewer: Client) -> None:
    clean = Page(viewer.get(URL).content.decode())
    write_queue(redis_server, name.replace("{", "(").replace("}", ")"), ready=1, unregistered=1)
    write_worker(redis_server, f"{name}:1", host=name, queues=[name], pid=3)
    write_worker(redis_server, f"{name}:2", host=name, pid=4, seen_s=90)
    redis_server.raw.set(f"{redis_server.prefix}:taskqueue:{{default}}:poller", name)

    response = viewer.get(URL)
    fragment = viewer.get(URL, {"format": "fragment"})

    page = Page(response.content.decode())
    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
    assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)
    assert len(Page(fragment.content.decode()).all("script")) == 0
    assert [worker["host"] for worker in viewer.get(URL, {"format": "json"}).json()["workers"]] == [name, name]


@pytest.mark.parametrize(
    "raw_info",
    [
        "not JSON",
        "[]",
        "7",
        '"text"',
        '{"queues": 7}',
        '{"pid": "<b>"}',
        '{"pid": [1]}',
        '{"started_at": 1e300}',
        '{"started_at": "yesterday"}',
        '{"busy": null}',
        '{"host": {"a": 1}, "queues": [1, null]}',
        "[" * 100_000,
    ],
    ids=lambda raw_info: raw_info[:24],
)
def test_worker_with_invalid_info_is_shown(raw_info: str, redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "web-1:a", raw_info=raw_info)
    write_worker(redis_server, "web-2:b")
    write_poller(redis_server)

    found = viewer.get(URL, {"format": "json"}).json()

    assert found["errors"] == {}
    assert {worker["id"] for worker in found["workers"]} == {"web-1:a", "web-2:b"}
    assert viewer.get(URL).status_code == 200


def test_worker_without_info_is_shown_by_its_id(redis_server: Store, viewer: Client) -> None:
    write_worker(redis_server, "web-1:a")
    redis_server.raw.delete(f"{redis_server.prefix}:taskqueue:{{default}}:worker:web-1:a")

    assert "web-1:a alive" in page_text(viewer)


def test_empty_site_shows_next_steps(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, **SIGN_INS_OFF}
    redis_server.delete_keys()

    text = page_text(viewer)

    assert "No problems. No tasks have been enqueued yet. checked at" in text
    assert "Poller: none yet" in text
    assert "No queues yet. A queue appears when its first task is enqueued: send_mail_task.enqueue(…)" in text
    assert "No worker in the last 10 minutes. Start one: python manage.py runworker default" in text


def test_environment_is_shown_escaped(redis_server: Store, viewer: Client, settings) -> None:
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "DASHBOARD": {"ENVIRONMENT": "<i>Staging</i>"}}

    assert '<strong class="drc-environment">&lt;i&gt;Staging&lt;/i&gt;</strong>' in viewer.get(URL).content.decode()


def test_fragment_has_the_regions_of_the_page(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)
    html = viewer.get(URL).content.decode()

    fragment = viewer.get(URL, {"format": "fragment"}).content.decode()

    regions = re.findall(r'data-drc-live="([\w-]+)"', fragment)
    assert regions == re.findall(r'data-drc-live="([\w-]+)"', html)
    assert regions == [
        "tabs",
        "menu",
        "health",
        "tiles",
        "history",
        "queues",
        "workers",
        "server",
        "footer",
    ]
    assert "<html" not in fragment
    assert viewer.get(URL, {"format": "fragment"})["Cache-Control"].startswith("max-age=0, no-cache, no-store")


def test_unknown_format_is_rejected_with_a_message(redis_server: Store, viewer: Client) -> None:
    response = viewer.get(URL, {"format": "<xml>" * 20})

    cut = "<xml>" * 8
    assert reason_of(response) == f"format='{cut}': expected one of html, fragment, json."


def test_a_head_request_is_answered(redis_server: Store, viewer: Client) -> None:
    response = viewer.head(URL)

    assert (response.status_code, response.content) == (200, b"")


@pytest.mark.parametrize("use_tz", [True, False])
def test_it_works_with_and_without_time_zones(use_tz: bool, redis_server: Store, viewer: Client, settings) -> None:
    settings.USE_TZ = use_tz
    fill(redis_server)

    text = page_text(viewer)

    assert "(Europe/Berlin)" in text
    assert json.loads(viewer.get(URL, {"format": "json"}).content)["at"].endswith("+00:00")


def test_the_breadcrumbs_have_the_form_of_this_admin(redis_server: Store, viewer: Client) -> None:
    html = viewer.get(URL).content.decode()

    theirs = re.search(r'<(\w+) class="breadcrumbs">', client_of("superuser").get("/admin/auth/user/").content.decode())
    assert re.findall(r'<(\w+) class="breadcrumbs">', html) == [theirs[1]]
    assert 'href="/admin/django_redis_components/"' in html


def test_simplified_chinese(redis_server: Store, settings) -> None:
    viewer = client_of("staff with the permission")
    fill(redis_server)

    html = viewer.get(URL, headers={"Accept-Language": "zh-hans"}).content.decode()

    text = text_of(html)
    assert "<h1>Redis 运维</h1>" in html
    assert "首页 Redis 组件 Redis 运维" in text.replace("&rsaquo; ", "")
    assert re.search(r"工作进程 web-2 \(7\) 已失联。最后一次心跳：1 分 \d+ 秒前。", text)
    assert re.search(r"17 条命令 · 2 次往返 · [\d.]+ 毫秒 · 读取于", text)


def test_outage_page_is_translated(settings) -> None:
    viewer = client_of("staff with the permission")
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}

    text = text_of(viewer.get(URL, headers={"Accept-Language": "zh-hans"}).content.decode())

    assert "无法连接 Redis。 请确认服务器正在运行，并接受来自本机的连接。" in text
