"""The history on the overview: ranges, charts, tables, JSON, and its cost."""

from __future__ import annotations

import itertools
import re
import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone, translation

from django_redis_components.core.arguments import short_repr
from django_redis_components.dashboard.bounded_client import MAX_COMMANDS
from django_redis_components.dashboard.charts import Plot, Point, bar_chart, duration_tick, line_chart
from django_redis_components.dashboard.formats import axis_duration
from django_redis_components.dashboard.overview.history import history_page, with_deploys
from django_redis_components.dashboard.overview.snapshot import read_overview_snapshot
from django_redis_components.taskqueue.shards import home
from django_redis_components.taskqueue.stats.deploys import Deploy
from django_redis_components.taskqueue.stats.histogram import BUCKETS, Histogram
from django_redis_components.taskqueue.stats.history import History, HistoryInterval
from django_redis_components.taskqueue.stats.metrics import Counts
from tests.dashboard.failure_pages import FAILURES
from tests.dashboard.support import (
    URL,
    client_of,
    fail_with,
    group_of,
    now_ms,
    page_text,
    reason_of,
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


def recorded(name: str, newest: datetime, count: int, *, zone: str = "Europe/Berlin") -> dict[str, Any]:
    """Return the page of a range of `count` intervals until `newest`.

    The tasks of the interval `n` before the newest are `n` + 1; one of them failed. They took 0.7 s in every other one,
    else 11 s to 16 s.
    """
    step_s = {name: step for name, step, _ in RANGES}[name]
    intervals = [
        HistoryInterval(newest - timedelta(seconds=step_s * ago), Counts(ago, 1), lasting(0, 1), lasting(ago + 1, ago))
        for ago in range(count - 1, -1, -1)
    ]
    totals = Counts(count * (count - 1) // 2, count)
    with timezone.override(zone), translation.override("en"):
        history = History(name, newest, step_s, intervals, totals, lasting(0, 1), lasting(0, 1), None)
        return history_page(history, lambda start, end: f"{start:%d %H:%M} to {end:%d %H:%M}")


def lasting(count: int, number: int) -> Histogram:
    buckets = [0] * BUCKETS
    buckets[28 if number % 2 else 20] = count
    return Histogram(tuple(buckets))


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

    assert reason_of(response) == f"range={short_repr(wanted)}: expected one of '1h', '24h', '7d', '90d'."


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


def write_two_hours(store: Store, *, last: int, last_failed: int, before: int, before_failed: int) -> None:
    """Write the two last hours of the history by ten minutes, of which a poller has added all minutes that ended."""
    for ago in range(1, 13):
        finished, failed = (last, last_failed) if ago <= 6 else (before, before_failed)
        write_bucket(store, 10, ago, finished=finished, failed=failed)
    store.raw.set(f"{home().base}:rollup", now_ms(store) // 60_000 - 1)


def test_cards_compare_the_last_hour_with_the_one_before(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")
    write_two_hours(redis_server, last=150, last_failed=15, before=100, before_failed=5)

    html = viewer.get(URL).content.decode()

    assert '<bdi class="drc-change-up">+50 %</bdi> <bdi>against the hour before</bdi>' in html
    assert '<bdi class="drc-change-down">+5.0 points</bdi> <bdi>against the hour before</bdi>' in html


def test_cards_compare_nothing_if_the_history_is_late(redis_server: Store, viewer: Client) -> None:
    write_queue(redis_server, "mail")
    write_two_hours(redis_server, last=150, last_failed=15, before=100, before_failed=5)
    redis_server.raw.set(f"{home().base}:rollup", now_ms(redis_server) // 60_000 - 15)

    assert "against the hour before" not in viewer.get(URL).content.decode()


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
    assert "1 found in all " in listed
    fail_with("no stock", queue="default")
    [link, *_] = re.findall(
        r'<a href="(/admin/\S+failure/\?begin=[^"]+)" tabindex="-1"', viewer.get(URL).content.decode()
    )
    page = text_of(viewer.get(link.replace("&amp;", "&")).content.decode())
    assert re.search(r"1 error · 2 failed tasks Filters Errors that failed from .+ to .+ All errors", page)


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
    assert "1 found in " in text_of(viewer.get(url.replace("&amp;", "&")).content.decode())


@pytest.mark.parametrize(
    ("name", "zone", "bars", "note", "newest", "second"),
    [
        ("24h", "Europe/Berlin", 72, "per 20 minutes", "Nov 27, 13:40", "Nov 26, 14:20"),
        ("7d", "Europe/Berlin", 84, "per 2 hours", "Nov 27, 12:00", "Nov 20, 16:00"),
        ("7d", "Europe/London", 85, "per 2 hours", "Nov 27, 12:00", "Nov 20, 14:00"),
        ("7d", "Asia/Kolkata", 84, "per 2 hours", "Nov 27, 16:30", "Nov 20, 20:30"),
    ],
)
def test_bars_too_narrow_for_a_phone_are_merged_along_the_local_clock(
    name: str, zone: str, bars: int, note: str, newest: str, second: str
) -> None:
    at = datetime(2026, 11, 27, 12, 50, tzinfo=UTC) if name == "24h" else datetime(2026, 11, 27, 12, tzinfo=UTC)

    page = recorded(name, at, {"24h": 144, "7d": 168}[name], zone=zone)

    finished, failed = page["panels"][0].charts
    rows = page["panels"][0].rows
    assert (finished.bars.count, failed.bars.count, finished.note, failed.note) == (bars, bars, note, note)
    assert {chart.lines.count for chart in page["panels"][1].charts if chart.lines} == {bars}
    assert (rows[0].start, rows[-2].start) == (newest, second)
    assert finished.bars.bars[-1].title.startswith(f"{newest}: ")


def test_merged_bars_have_the_sums_and_the_percentiles_of_their_tasks() -> None:
    page = recorded("24h", datetime(2026, 11, 27, 12, 50, tzinfo=UTC), 144)

    [throughput, durations] = page["panels"]
    assert [row.cells for row in throughput.rows[:2]] == [["3", "2"], ["7", "2"]]
    assert sum(int(row.cells[0]) for row in throughput.rows) == sum(range(1, 145))
    latest = durations.rows[0].cells[2:]
    assert latest == ["12 s", "16 s"], "of one task of 0.7 s and two of 11 s to 16 s"


def test_link_of_a_merged_bar_covers_its_whole_span() -> None:
    page = recorded("24h", datetime(2026, 11, 27, 12, 40, tzinfo=UTC), 144)

    urls = [row.url for row in reversed(page["panels"][0].rows)]
    spans = [url.split(" to ") for url in urls]
    assert (urls[0], urls[1]) == ("26 12:50 to 26 13:00", "26 13:00 to 26 13:20"), "the first bar has ten minutes"
    assert urls[-1] == "27 12:40 to 27 13:00"
    assert all(end == start for (_, end), (start, _) in itertools.pairwise(spans))


def test_hours_merged_across_a_change_of_the_clock_stay_pairs() -> None:
    page = recorded("7d", datetime(2026, 10, 27, 12, tzinfo=UTC), 168)

    starts = [datetime.fromisoformat(row.iso) for row in reversed(page["panels"][0].rows)]
    assert {end - start for start, end in itertools.pairwise(starts[1:])} == {timedelta(hours=2)}


def test_few_intervals_of_a_long_range_are_not_merged() -> None:
    page = recorded("24h", datetime(2026, 11, 27, 12, 50, tzinfo=UTC), 100)

    assert (page["panels"][0].charts[0].note, page["panels"][0].charts[0].bars.count) == ("per 10 minutes", 100)


def test_axis_of_merged_bars_has_labels_at_the_same_distances_of_time() -> None:
    at = datetime(2026, 11, 27, 12, 50, tzinfo=UTC)

    hours, days = (
        recorded(name, at, count)["panels"][0].charts[1].bars.days for name, count in (("24h", 144), ("7d", 168))
    )

    assert [label.text for label in hours] == ["17:40", "21:40", "01:40", "05:40", "09:40", "13:40"]
    assert [label.text for label in days] == ["Nov 21", "Nov 23", "Nov 25", "Nov 27"]


def test_deploy_is_marked_at_its_time_between_merged_bars() -> None:
    newest = datetime(2026, 11, 27, 12, 40, tzinfo=UTC)

    page = with_deploys(recorded("24h", newest, 144), [Deploy("1.1", newest)])

    [mark] = page["panels"][0].marks
    assert (mark.x, page["panels"][0].charts[0].bars.count) == (f"{7_200 / 73:.2f}%", 73)


def test_merged_bars_leave_the_json_as_it_is(redis_server: Store, viewer: Client) -> None:
    for ago in range(144):
        write_bucket(redis_server, 10, ago, finished=7, failed=1)

    html = viewer.get(URL, {"range": "24h"}).content.decode()
    found = figures(viewer, range="24h")["history"]

    assert "per 20 minutes" in html
    [count] = set(re.findall(r'data-drc-count="(\d+)"', html.partition('data-drc-live="queues"')[0]))
    assert count in ("72", "73")
    assert (found["step"], len(found["intervals"])) == (600, 144)
    assert {each["succeeded"] for each in found["intervals"]} >= {6}
