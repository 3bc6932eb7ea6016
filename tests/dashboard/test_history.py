"""The history on the overview: ranges, charts, tables, JSON, and its cost."""

from __future__ import annotations

import re
import struct

import pytest
from django.test import Client
from django.utils import translation

from django_redis_components.core.arguments import short_repr
from django_redis_components.dashboard.bounded_client import MAX_COMMANDS
from django_redis_components.dashboard.charts import Plot, Point, bar_chart, duration_tick, line_chart
from django_redis_components.dashboard.formats import axis_duration
from django_redis_components.dashboard.overview.snapshot import read_overview_snapshot
from django_redis_components.taskqueue.shards import home
from tests.dashboard.failure_pages import FAILURES
from tests.dashboard.support import (
    URL,
    client_of,
    fail_with,
    group_of,
    now_ms,
    page_text,
    settle_tasks,
    text_of,
    write_queue,
)
from tests.support import Store
from tests.taskqueue.tasks import note

#: The ranges, with the length of an interval in seconds and the number of intervals.
RANGES = [("1h", 60, 60), ("24h", 600, 144), ("7d", 3_600, 168), ("90d", 86_400, 90)]

pytestmark = pytest.mark.django_db


@pytest.fixture
def viewer() -> Client:
    return client_of("staff with the permission")


def write_bucket(store: Store, minutes: int, ago: int, *, finished: int, failed: int = 0, run: int = 20) -> None:
    """Write a bucket of the history, as the poller does; all waits and runs are in one bucket of the histogram."""
    numbers = [finished - failed, failed, *[0] * 102]
    numbers[8 + 10] = numbers[56 + run] = finished
    bucket = now_ms(store) // 60_000 // minutes - ago
    store.raw.set(f"{home().base}:history:{minutes}:{bucket}", struct.pack(">104I", *numbers), ex=600)


def run_tasks() -> None:
    note.using(queue_name="mail").enqueue_many([((number,), {}) for number in range(5)])
    settle_tasks("failed", 2, queue="mail")
    settle_tasks("succeeded", 3, queue="mail")


def figures(client: Client, **query: str) -> dict:
    return client.get(URL, {"format": "json", **query}).json()


def test_finished_and_failed_tasks_are_shown_at_once(redis_server: Store, viewer: Client) -> None:
    run_tasks()

    text = page_text(viewer)

    assert "Throughput and failures 1 h 24 h 7 d 90 d Finished per minute" in text
    assert re.search(
        r"Finished: 5 · 2 failed \(40.00 %\) · Peak: \d \(\d\d:\d\d\) · Most failures: \d \(\d\d:\d\d\)", text
    )
    assert "Wait p95: not measured · Run time p95: not measured" in text, "these tasks were settled without a run"


@pytest.mark.parametrize(("name", "step", "count"), RANGES)
def test_each_range_has_its_intervals(name: str, step: int, count: int, redis_server: Store, viewer: Client) -> None:
    write_bucket(redis_server, step // 60, 3, finished=700, failed=30)
    write_bucket(redis_server, step // 60, 0, finished=70)
    write_bucket(redis_server, step // 60, count, finished=9_999)

    found = figures(viewer, range=name)["history"]

    assert (found["range"], found["step"], len(found["intervals"])) == (name, step, count)
    assert (found["succeeded"], found["failed"], found["missing"]) == (740, 30, None)
    assert [(each["succeeded"], each["failed"]) for each in found["intervals"] if each["succeeded"]] == [
        (670, 30),
        (70, 0),
    ]
    assert found["run_time"]["p50"] == pytest.approx(0.85, rel=0.3)


@pytest.mark.parametrize(("name", "step", "count"), RANGES)
def test_each_range_has_charts_tables_and_a_current_link(
    name: str, step: int, count: int, redis_server: Store, viewer: Client
) -> None:
    write_bucket(redis_server, step // 60, 3, finished=700, failed=30)
    write_bucket(redis_server, step // 60, 0, finished=70)

    html = viewer.get(URL, {"range": name}).content.decode()

    panel = html.partition('data-drc-live="history"')[2].partition('data-drc-live="queues"')[0]
    assert f'<a href="?range={name}" aria-current="true">' in panel
    assert panel.count("aria-current") == 1
    assert panel.count('<svg class="drc-chart"') == panel.count("<desc ") == 4
    assert panel.count('<rect class="drc-bar"') == 1
    assert panel.count('<rect class="drc-bar drc-bar-open"') == 1
    assert panel.count('<rect class="drc-bar drc-bar-bad"') == 1
    assert panel.count('class="drc-line drc-line-second" d="M') == 4  # two lines, and two keys
    assert len(re.findall(r'<tr data-drc-at="\d+"><th scope="row">', panel)) == 4
    assert panel.count("(so far)") == 2
    assert ("Days are in UTC." in panel) == (name == "90d")
    assert re.search(r"Wait p95: latest 32 ms, peak 32 ms \([^)]+\) · Run time p95: latest [\d.]+ (ms|s), peak ", panel)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(each in ids for labels in re.findall(r'aria-labelledby="([^"]+)"', panel) for each in labels.split())


@pytest.mark.parametrize("wanted", ["2h", "", "1H", "<script>", "x" * 100])
@pytest.mark.parametrize("format_", ["html", "fragment", "json"])
def test_unknown_range_is_a_bad_request(wanted: str, format_: str, redis_server: Store, viewer: Client) -> None:
    response = viewer.get(URL, {"range": wanted, "format": format_})

    assert (response.status_code, response["Content-Type"]) == (400, "text/plain")
    assert response.content.decode() == f"range={short_repr(wanted)}: expected one of '1h', '24h', '7d', '90d'."


def test_range_is_kept_by_the_refresh_and_the_links(redis_server: Store, viewer: Client) -> None:
    write_bucket(redis_server, 60, 1, finished=70)

    html = viewer.get(URL, {"range": "7d"}).content.decode()
    fragment = viewer.get(URL, {"range": "7d", "format": "fragment"}).content.decode()

    assert f'href="{URL}?range=7d">Refresh' in html
    assert 'href="?range=7d&amp;format=json"' in html
    assert '<a href="?range=7d" aria-current="true">' in fragment


def test_range_without_finished_tasks_says_so(redis_server: Store, viewer: Client) -> None:
    text = page_text(viewer, range="24h")

    assert "Throughput and failures 1 h 24 h 7 d 90 d No task has finished in this range." in text


def test_time_that_no_poller_has_added_is_stated(redis_server: Store, viewer: Client) -> None:
    for number in range(100):
        write_queue(redis_server, f"queue-{number}")
    redis_server.raw.set(f"{home().base}:rollup", now_ms(redis_server) // 60_000 - 50, ex=600)

    assert re.search(
        r"Not contained: .*\d\d:00 to .*\d\d:00\. The active poller adds this time within the next minutes\.",
        page_text(viewer, range="24h"),
    )
    assert len(figures(viewer, range="24h")["history"]["missing"]) == 2


def test_unreadable_history_does_not_fail_the_page(redis_server: Store, viewer: Client) -> None:
    redis_server.raw.rpush(f"{home().base}:rollup", "not a number")

    text = page_text(viewer)

    assert "Cannot read history: " in text
    assert "Throughput and failures Unavailable: see the message above." in text
    assert list(figures(viewer)["errors"]) == ["history"]


@pytest.mark.contract
@pytest.mark.parametrize("name", [name for name, _, _ in RANGES])
def test_overview_of_forty_queues_stays_within_its_budget(name: str, store: Store) -> None:
    for number in range(40):
        write_queue(store, f"queue-{number}", ready=2, scheduled=2, running=1, failed=1, unregistered=1)

    snapshot = read_overview_snapshot(range_name=name)

    assert snapshot.errors == {}
    assert snapshot.history is not None
    assert snapshot.history.missing is None
    assert snapshot.cost.commands <= MAX_COMMANDS
    assert snapshot.cost.round_trips == 2


def test_page_without_history_does_not_write(redis_server: Store, viewer: Client) -> None:
    run_tasks()
    before = sorted(redis_server.keys())

    for name, _, _ in RANGES:
        assert viewer.get(URL, {"range": name}).status_code == 200

    assert sorted(redis_server.keys()) == before


@pytest.mark.parametrize(
    ("highest", "distance"),
    [
        (0.0, 0.001),
        (0.004, 0.001),
        (0.3, 0.1),
        (1.2, 0.5),
        (12, 5),
        (24, 10),
        (1_320, 600),
        (8_388, 3_600),
        (9e4, 22_500),
    ],
)
def test_grid_lines_of_durations_are_round(highest: float, distance: float) -> None:
    assert duration_tick(highest) == distance


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0"), (0.02, "20 ms"), (5, "5 s"), (600, "10 min"), (7_200, "2 h"), (22_500, "6.3 h")]
)
def test_labels_of_durations_have_one_unit(seconds: float, text: str) -> None:
    with translation.override("en"):
        assert axis_duration(seconds) in (text, text.replace("6.3", "6.2"))


def test_lines_are_interrupted_where_there_is_no_value() -> None:
    chart = line_chart([[1.0, 2.0, None, 4.0], [None] * 4], ["a", "b", "c", "d"], "", 1)

    first, second = chart.paths
    assert (first, second) == ("M125.0 750.0L375.0 500.0M875.0 0.0", "")
    assert chart.points == []
    assert len(chart.open_points) == 1
    assert [line.text for line in chart.lines] == ["4 s", "3 s", "2 s", "1 s", "0"]


def test_bars_without_any_value_have_a_scale_and_no_bar() -> None:
    chart = bar_chart([Point("", "", "", 0)] * 3, "", 1, Plot("lower"))

    assert (chart.bars, [line.text for line in chart.lines]) == ([], ["1", "0"])
    assert chart.size == "lower"


def test_charts_begin_with_the_first_finished_task_and_say_since_when(redis_server: Store, viewer: Client) -> None:
    write_bucket(redis_server, 60, 5, finished=70)
    write_bucket(redis_server, 60, 2, finished=7)

    html = viewer.get(URL, {"range": "7d"}).content.decode()

    panel = html.partition('data-drc-live="history"')[2].partition('data-drc-live="queues"')[0]
    assert set(re.findall(r'data-drc-count="(\d+)"', panel)) == {"6"}
    assert len(re.findall(r"Since Nov|Since [A-Z][a-z]+ \d+, \d\d:\d\d\.", panel)) == 2
    assert "No task failed." in panel
    assert panel.count('<svg class="drc-chart"') == 3, "no axis without failures"
    assert len(figures(viewer, range="7d")["history"]["intervals"]) == 168


def test_bar_of_failures_leads_to_what_failed_in_its_time(redis_server: Store) -> None:
    fail_with("no stock", queue="mail")
    viewer = client_of("superuser")

    html = viewer.get(URL).content.decode()

    [(chart, begin, end)] = re.findall(
        r'<a href="(/admin/\S+queues/mail/\?state=failed&amp;begin=(\S+)&amp;end=([^"]+))" tabindex="-1"', html
    )
    assert html.count(chart) == 2, "by the keyboard it is in the table"
    assert (begin[-2:], end[-2:]) == (begin[-2:], f"{(int(begin[-2:]) + 1) % 60:02}")
    listed = viewer.get(chart.replace("&amp;", "&")).content.decode()
    assert "1 match here" in listed or "1 matches here" in listed
    fail_with("no stock", queue="default")
    [link, *_] = re.findall(
        r'<a href="(/admin/\S+failure/\?begin=[^"]+)" tabindex="-1"', viewer.get(URL).content.decode()
    )
    page = text_of(viewer.get(link.replace("&amp;", "&")).content.decode())
    assert re.search(r"1 error · 2 failed tasks Errors that failed from .+ to .+ All errors", page)


def test_failures_of_another_time_are_not_listed(redis_server: Store) -> None:
    fail_with("no stock", queue="mail")
    viewer = client_of("superuser")

    page = text_of(viewer.get(FAILURES, {"begin": "2026-01-01T10:00", "end": "2026-01-01T10:10"}).content.decode())

    assert "0 errors" in page
    assert viewer.get(FAILURES, {"begin": "noon"}).status_code == 400


def test_bar_of_an_error_leads_to_the_tasks_that_failed_with_it_in_a_minute(redis_server: Store) -> None:
    fail_with("no stock", "no user", queue="mail")
    viewer, group = client_of("superuser"), group_of("no stock")

    html = viewer.get(FAILURES, {"group": group}).content.decode()

    [url] = re.findall(
        rf'<a href="(/admin/\S+queues/mail/\?state=failed&amp;error={group}&amp;begin=[^"]+)" tabi', html
    )
    assert html.count(url) == 2, "by the keyboard it is in the table"
    assert "1 matches here" in text_of(viewer.get(url.replace("&amp;", "&")).content.decode())
