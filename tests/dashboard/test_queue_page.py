"""The page of a queue: throughput, charts, errors."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import reverse
from django.utils import translation

from django_redis_components.dashboard.queues import throughput
from django_redis_components.taskqueue import get_queue
from django_redis_components.taskqueue.shards import home
from tests.dashboard.queue_pages import QUEUES, counters, url_of, write_error, write_past
from tests.dashboard.support import (
    HOSTILE,
    ROLES,
    URL,
    Page,
    client_of,
    now_ms,
    page_text,
    text_of,
    write_poller,
    write_queue,
)
from tests.support import Store

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def fill(store: Store) -> None:
    write_queue(store, "mail", ready=1_000, age_s=75)
    write_past(store, "mail")
    write_queue(store, "high")
    write_poller(store)


def test_overview_shows_throughput_of_the_last_hour(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)

    html = viewer.get(URL).content.decode()

    text = text_of(html)
    assert re.search(r"Throughput [\d.]+ /min Peak: 33 \(\d\d:\d\d\) · 3 failed last hour · 33 peak at \d\d:\d\d", text)
    assert re.search(r"Failure rate 7\.0 % Peak: 3 \(\d\d:\d\d\) · 3 failed mail 7\.0 %", text)
    assert re.search(
        r"mail No worker 1,000 Peak: 33 \(\d\d:\d\d\) · 3 failed 1 min \d+ s 0 0 0 .* \d\d ms [23] h", text
    )
    assert re.search(r"high Idle 0 No finished tasks\. – 0 0 0 0 – 0 – – 0", text)
    page = Page(html)
    sparks = [svg for svg in page.all("svg") if svg["class"] == "drc-spark"]
    assert [bool(svg["aria-label"]) for svg in sparks] == [True] * 5
    assert f'<a href="{url_of("mail")}"><bdi>mail</bdi></a>' in html


def test_queue_page_shows_throughput_and_errors(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)
    write_error(redis_server, "mail")

    html = viewer.get(url_of("mail")).content.decode()

    text = text_of(html)
    assert "<h1>Queue mail</h1>" in html
    assert "Ready 1,000 Scheduled 0 Retrying 0 Limited 0 Waiting 0 Running 0 Failed 0 Unregistered 0 " in text
    assert re.search(r"Oldest 1 min \d+ s Throughput", text)
    assert re.search(r"Wait p50 \d\d ms p95 \d\d ms, p99 \d\d ms", text)
    assert re.search(r"Throughput 0\.7 per minute, last hour Wait p50 .* ETA [23] h \d+ min", text)
    assert re.search(r"shop\.tasks\.send 43 3 0 \d\d ms \d\d ms 1\.\d s 1\.\d s", text)
    assert re.search(r"LookupError no user # shop\.tasks\.send 1,204 12 [\d:]+ [\d:]+ newest", text)
    assert [text.count(f"Throughput per {span}") for span in ("minute, last hour", "hour, last 24 hours")] == [2, 2]
    assert "Peak: 501 (" in text
    page = Page(html)
    ids = {attributes["id"] for _, attributes in page.tags if attributes.get("id")}
    charts = [svg for svg in page.all("svg") if svg.get("aria-labelledby")]
    details = [each for each in page.all("details") if each.get("class") == "drc-details"]
    assert len(charts) == len(page.all("figure")) == len(details) == 2
    assert all(set(svg["aria-labelledby"].split()) <= ids for svg in charts)
    assert 5 <= html.count('<tr><th scope="row"><time datetime=') <= 7, "since the first task"


def test_limited_tasks_are_shown(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1)
    lines = {f"c:shop.tasks.send\t100\t{number}\tid{number}": 0 for number in range(3)}
    redis_server.raw.zadd(f"{home().base}:q:mail:limited", lines)

    assert "Scheduled 0 Retrying 0 Limited 3 Waiting 0 Running 0" in page_text_of(viewer, "mail")


def test_waiting_tasks_are_shown(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", waiting=2)

    assert "Limited 0 Waiting 2 Running 0" in page_text_of(viewer, "mail")
    assert viewer.get(url_of("mail"), {"format": "json"}).json()["queue"]["waiting"] == 2


def test_idle_queue_shows_empty_states(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "idle")

    text = page_text_of(viewer, "idle")

    assert "No tasks ran in the last hour." in text
    assert "No errors recorded." in text
    assert text.count("No finished tasks.") == 2


def page_text_of(viewer: Client, name: str, **headers: Any) -> str:
    response = viewer.get(url_of(name), **headers)
    assert response.status_code == 200
    return text_of(response.content.decode())


def test_queue_without_a_worker_says_so_with_the_command(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=1)

    assert "No worker No live worker serves this queue. Start a worker: python manage.py runworker mail" in (
        page_text_of(viewer, "mail")
    )

    redis_server.raw.zadd(f"{home().base}:q:mail:workers", {"here:a": now_ms(redis_server)})
    assert "No live worker" not in page_text_of(viewer, "mail")


def test_paused_queue_shows_reason_and_author(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)
    now = now_ms(redis_server)
    redis_server.raw.hset(f"{home().base}:paused", "mail", f'0|{now - 5000}|{{"reason":"a look","author":"ada"}}')

    text = page_text_of(viewer, "mail")

    assert re.search(r"paused Paused \d+ s ago by ada: a look\.", text)
    assert "ETA paused" in text


@pytest.mark.contract
def test_queue_page_takes_one_round_trip(store: Store, viewer: Client) -> None:
    fill(store)

    text = page_text_of(viewer, "mail")

    trips = "1 round trip per node" if store.is_cluster else "1 round trip"
    assert f"20 commands · {trips} · " in text


def test_queue_page_as_json(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)
    write_error(redis_server, "mail")

    found = viewer.get(url_of("mail"), {"format": "json"}).json()

    assert (found["queue"]["name"], found["queue"]["ready"]) == ("mail", 1_000)
    hour = found["queue"]["last_hour"]
    assert (hour["succeeded"], hour["failed"], hour["finished"], len(hour["intervals"])) == (40, 3, 43, 60)
    assert 0.02 < hour["wait_time"]["p50"] < 0.04
    assert 1.0 < hour["run_time"]["p99"] < 1.5
    assert [(task["name"], task["failed"]) for task in found["tasks"]] == [("shop.tasks.send", 3)]
    assert found["queue"]["last_day"]["finished"] == 501
    assert [(each["message"], each["count"], each["task_ids"]) for each in found["failures"]] == [
        ("no user #", 1_204, ["newest", "older"])
    ]
    assert (found["cost"]["commands"], found["cost"]["round_trips"]) == (15, 1)
    overview = viewer.get(URL, {"format": "json"}).json()
    assert {queue["name"]: queue["last_hour"]["finished"] for queue in overview["queues"]} == {"mail": 43, "high": 0}


def test_fragment_has_the_regions_of_the_page(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)
    html = viewer.get(url_of("mail")).content.decode()

    fragment = viewer.get(url_of("mail"), {"format": "fragment"}).content.decode()

    regions = re.findall(r'data-drc-live="([\w-]+)"', fragment)
    assert regions == re.findall(r'data-drc-live="([\w-]+)"', html)
    assert regions == [
        *("tabs", "menu", "paused", "figures", "states"),
        *("groups", "throughput", "errors", "minutes", "hours", "footer"),
    ]
    assert "<html" not in fragment


@pytest.mark.parametrize("role", ROLES)
def test_queue_page_requires_the_overview_permission(role: str, redis_server: Store) -> None:
    write_queue(redis_server, "mail")
    response = client_of(role).get(url_of("mail"))

    expected = {"staff": 403, "staff with the permission": 200, "superuser": 200}
    assert response.status_code == expected.get(role, 302)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("", 200),
        ("_add/", 403),
        ("_history/mail/", 302),
        ("_delete/mail/", 403),
        ("%7Bmail%7D/", 404),
        (quote("x" * 201) + "/", 404),
    ],
)
def test_other_urls_of_the_model_redirect_or_fail(path: str, status: int, redis_server: Store, viewer: Client) -> None:
    response = viewer.get(QUEUES + path)

    assert response.status_code == status
    if status == 302:
        assert response["Location"] == QUEUES


def test_queue_page_rejects_post(redis_server: Store) -> None:
    assert client_of("superuser").post(url_of("mail")).status_code == 405


@pytest.mark.parametrize("name", ["a/b", "add", "_add", "x/change", "später", "100%", "a b", "..", "-x"])
def test_any_valid_queue_name_has_a_page(name: str, redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, name, ready=7)
    html = viewer.get(URL).content.decode()
    link = re.search(r'<a href="(/admin/django_redis_components/queues/[^"]+)">', html)[1]

    found = viewer.get(link, {"format": "json"}).json()

    assert (found["queue"]["name"], found["queue"]["ready"]) == (name, 7)


@pytest.mark.parametrize("query", [{}, {"format": "json"}, {"format": "fragment"}])
def test_unknown_queue_is_not_found(query: dict[str, str], redis_server: Store, viewer: Client) -> None:
    assert viewer.get(url_of("mial"), query).status_code == 404
    get_queue("mial").pause()
    assert viewer.get(url_of("mial"), query).status_code == 200, "it waits for its first task"
    assert viewer.get(url_of("default"), query).status_code == 200, "a task of this process uses it"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_and_errors_are_escaped(name: str, redis_server: Store, viewer: Client) -> None:
    queue = name.replace("{", "(").replace("}", ")")
    write_queue(redis_server, "clean")
    clean = Page(viewer.get(url_of("clean")).content.decode())
    write_error(redis_server, queue, **{"class": name, "location": name, "text": name})
    base, minute = f"{home().base}:q:{queue}", now_ms(redis_server) // 60_000
    for ago in (0, 1):
        redis_server.raw.set(f"{base}:minute:{minute - ago}", counters(2, succeeded=1), ex=600)
        redis_server.raw.hset(f"{base}:task_names:{(minute - ago) // 60}", name, 1)

    page = Page(viewer.get(url_of(queue)).content.decode())

    for tag in ("b", "script", "img"):
        assert len(page.all(tag)) == len(clean.all(tag)), tag
    assert not any(word.startswith("on") for _, attributes in page.tags for word in attributes)


def test_links_stay_within_the_admin_site(redis_server: Store, settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.dashboard.sites"
    write_queue(redis_server, "mail")
    viewer = client_of("superuser")

    for site in ("ops", "shop"):
        url = reverse("admin:django_redis_components_overview_changelist", current_app=site)
        for query in ({}, {"format": "fragment"}):
            html = viewer.get(url, query).content.decode()
            assert f'href="/{site}/django_redis_components/queues/mail/"' in html
            assert 'href="/admin/' not in html
        crumbs = viewer.get(f"/{site}/django_redis_components/queues/mail/").content.decode()
        assert f'<a href="/{site}/django_redis_components/overview/">Redis operations</a>' in crumbs


def test_queue_page_returns_503_during_an_outage(settings: Any) -> None:
    viewer = client_of("superuser")
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}

    for query in ({}, {"format": "fragment"}, {"format": "json"}):
        response = viewer.get(url_of("mail"), query)
        assert response.status_code == 503
        assert response["Retry-After"]
    settings.REDIS_COMPONENTS = {"DASHBOARD": {"USING": "nowhere"}}
    assert viewer.get(url_of("mail")).status_code == 503


def test_simplified_chinese(redis_server: Store, viewer: Client) -> None:
    fill(redis_server)
    write_error(redis_server, "mail")

    text = page_text_of(viewer, "mail", headers={"Accept-Language": "zh-hans"})

    assert "队列 mail" in text
    assert "最近一小时" in text
    assert not re.search(r"Finished|Wait|Latest|ETA|Run time", text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "–"),
        (0.0004, "< 1 ms"),
        (0.0234, "23 ms"),
        (0.9996, "1,000 ms"),
        (1.26, "1.3 s"),
        (75.0, "1 min 15 s"),
        (8_388.608, "over 2 h 19 min"),
    ],
)
def test_quantiles_are_formatted(seconds: float | None, words: str) -> None:
    with translation.override("en"):
        assert throughput.quantile_text(seconds) == words


def test_eta_above_30_days_is_capped(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail", ready=3)
    minute = now_ms(redis_server) // 60_000 - 1
    redis_server.raw.set(f"{home().base}:q:mail:minute:{minute}", counters(succeeded=1), ex=600)
    base = f"{home().base}:q:mail:ready"
    for _ in range(50):
        redis_server.raw.rpush(base, *["x"] * 1_000)

    assert "over 30 days" in page_text(viewer)
