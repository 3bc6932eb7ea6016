"""Recurrence of intervals and cron expressions, also over DST changes."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from django_redis_components.taskqueue import InvalidTask
from django_redis_components.taskqueue.schedules.cron_expression import NICKNAMES
from django_redis_components.taskqueue.schedules.recurrence import CronTimes, FixedInterval, Recurrence

#: Zones whose clocks jump: by an hour, half an hour, at midnight, in Ramadan, over a whole day; one does not.
ZONES = ("Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu")
#: Days before jumps of these zones.
DAYS = ("2026-03-27", "2026-10-23", "2026-04-03", "2026-10-02", "2026-04-22", "2026-02-13", "2011-12-28")


def ms(moment: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(moment).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1_000)


def readings(recurrence: Recurrence, zone: str, after: str, count: int) -> list[str]:
    """What the zone's clock shows at the next due times: day, time and offset."""
    found, at_ms = [], ms(after, zone)
    for _ in range(count):
        at_ms = recurrence.following(at_ms) or 0
        found.append(datetime.fromtimestamp(at_ms / 1_000, ZoneInfo(zone)).strftime("%d %H:%M %z"))
    return found


def berlin(expression: str, after: str, count: int) -> list[str]:
    return readings(CronTimes.of(expression, "Europe/Berlin"), "Europe/Berlin", after, count)


def test_interval_times_are_aligned_to_the_epoch() -> None:
    recurrence = FixedInterval.of(300)

    assert recurrence.following(ms("2026-01-01 10:02")) == ms("2026-01-01 10:05")
    assert recurrence.following(ms("2026-01-01 10:05")) == ms("2026-01-01 10:10"), "after a due time comes the next"
    assert recurrence.latest(ms("2026-01-01 10:02"), ms("2026-01-01 10:07")) == ms("2026-01-01 10:05")
    assert recurrence.latest(ms("2026-01-01 10:02"), ms("2026-01-01 10:05")) == ms("2026-01-01 10:05")
    assert recurrence.latest(ms("2026-01-01 10:05"), ms("2026-01-01 10:07")) is None
    assert [FixedInterval.of(value).text for value in (300, 1.5, timedelta(days=1))] == [
        "every 300 s",
        "every 1.5 s",
        "every 86400 s",
    ]


def test_intervals_one_millisecond_apart_have_different_names() -> None:
    assert [FixedInterval.of(value).text for value in (100_000, 100_000.001, 86_400.25)] == [
        "every 100000 s",
        "every 100000.001 s",
        "every 86400.25 s",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "every=0: expected a number of seconds above 0, or a timedelta."),
        ("5m", "every='5m': expected a number of seconds above 0, or a timedelta."),
        (0.5, "every=0.5: expected at least a second; durations are in seconds."),
    ],
)
def test_invalid_interval_raises_with_its_value(value: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        FixedInterval.of(value)

    assert str(raised.value) == text


def test_skipped_local_time_is_the_moment_of_the_dst_change() -> None:
    assert berlin("30 2 * * *", "2026-03-28", 3) == ["28 02:30 +0100", "29 03:00 +0200", "30 02:30 +0200"]
    assert berlin("0,30 2 * * *", "2026-03-28 12:00", 2) == ["29 03:00 +0200", "30 02:00 +0200"], "two skipped are one"
    assert berlin("0 2,3 * * *", "2026-03-28 12:00", 2) == ["29 03:00 +0200", "30 02:00 +0200"]


def test_repeated_local_time_is_the_first_occurrence() -> None:
    assert berlin("30 2 * * *", "2026-10-24", 3) == ["24 02:30 +0200", "25 02:30 +0200", "26 02:30 +0100"]

    between = ms("2026-10-25 01:10")  # 02:10, the second time
    assert CronTimes.of("30 2 * * *", "Europe/Berlin").following(between) == ms("2026-10-26 02:30", "Europe/Berlin")


def test_wildcard_expression_follows_local_time_over_dst_changes() -> None:
    assert berlin("*/30 * * * *", "2026-03-29 01:00", 3) == ["29 01:30 +0100", "29 03:00 +0200", "29 03:30 +0200"]
    assert berlin("*/30 * * * *", "2026-10-25 01:30", 4) == [
        "25 02:00 +0200",
        "25 02:30 +0200",
        "25 02:00 +0100",
        "25 02:30 +0100",
    ]
    assert berlin("*/30 2 * * *", "2026-03-28 12:00", 2) == ["30 02:00 +0200", "30 02:30 +0200"], "skipped"
    assert berlin("0 */2 * * *", "2026-10-24 23:00", 3) == ["25 00:00 +0200", "25 02:00 +0200", "25 02:00 +0100"]


def test_dst_changes_at_midnight_and_by_half_an_hour() -> None:
    daily, quarters = CronTimes.of("@daily", "Africa/Cairo"), CronTimes.of("*/15 * * * *", "Australia/Lord_Howe")

    assert readings(daily, "Africa/Cairo", "2026-04-23 12:00", 2) == ["24 01:00 +0300", "25 00:00 +0300"]
    assert readings(quarters, "Australia/Lord_Howe", "2026-10-04 01:30", 2) == ["04 01:45 +1030", "04 02:30 +1100"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "expression", ["*/7 * * * *", "*/10 1-3 * * *", "13 */2 * * 0", "*/20 0 * * FRI", "5 */1 L * *"]
)
def test_times_match_every_local_minute_of_the_expression(zone: str, expression: str) -> None:
    recurrence, fields = CronTimes.of(expression, zone), CronSim(expression, datetime.now(UTC))

    for day in DAYS:
        start_s, end_s = ms(day) // 1_000, ms(day) // 1_000 + 2 * 86_400 + 43_200
        wanted = []
        for at_s in range(start_s + 60, end_s, 60):
            shown = datetime.fromtimestamp(at_s, ZoneInfo(zone))
            if shown.minute in fields.minutes and shown.hour in fields.hours and fields.match_day(shown.date()):
                wanted.append(at_s)
        found, at_ms = [], start_s * 1_000
        while (at_ms := recurrence.following(at_ms) or 0) < end_s * 1_000:
            found.append(at_ms // 1_000)
        assert found == wanted, day


def test_latest_slot_is_found_without_iterating_over_all() -> None:
    minutes, leap_days = CronTimes.of("* * * * *", "UTC"), CronTimes.of("0 0 29 2 *", "UTC")

    assert minutes.latest(ms("2020-01-01"), ms("2026-05-05 05:05:59")) == ms("2026-05-05 05:05")
    assert minutes.latest(ms("2026-05-05 05:04:59"), ms("2026-05-05 05:05")) == ms("2026-05-05 05:05")
    assert minutes.latest(ms("2026-05-05 05:05"), ms("2026-05-05 05:05:59")) is None
    assert leap_days.latest(ms("2020-01-01"), ms("2026-01-01")) == ms("2024-02-29")
    assert leap_days.latest(ms("2024-02-29"), ms("2026-01-01")) is None


@pytest.mark.parametrize("expression", ["* * */20 * 1L", "0 0 */20 * 1L"])
def test_expression_may_have_no_further_slot(expression: str) -> None:
    assert CronTimes(expression, ZoneInfo("UTC")).following(ms("2026-01-01")) is None
    assert CronTimes(expression, ZoneInfo("UTC")).latest(0, ms("2026-01-01")) is None


def test_default_time_zone_is_the_setting_of_the_site(settings: Any) -> None:
    recurrence = CronTimes.of("0 3 * * *", None)

    assert recurrence.text == "cron 0 3 * * * (Europe/Berlin)"
    assert recurrence.following(ms("2026-01-01")) == ms("2026-01-01 02:00")
    settings.TIME_ZONE = "America/New_York"
    assert recurrence.text == "cron 0 3 * * * (America/New_York)"
    assert recurrence.following(ms("2026-01-01")) == ms("2026-01-01 08:00")


@pytest.mark.parametrize("nickname", NICKNAMES)
def test_nickname_equals_its_expression(nickname: str) -> None:
    after_ms = ms("2026-05-05 05:05")

    assert CronTimes.of(nickname, "UTC").following(after_ms) == CronTimes.of(NICKNAMES[nickname], "UTC").following(
        after_ms
    )


def test_spacing_and_partial_minutes_do_not_change_times() -> None:
    recurrence = CronTimes.of("  0   3 * * *  ", ZoneInfo("UTC"))

    assert recurrence == CronTimes.of("0 3 * * *", "UTC")
    assert recurrence.following(ms("2026-01-01 02:59:59") + 999) == ms("2026-01-01 03:00")
    assert recurrence.following(ms("2026-01-01 03:00") + 1) == ms("2026-01-02 03:00")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("61 * * * *", "minute accepts 0-59; lists (1,2), ranges (1-5) and steps (*/5) of these."),
        ("0 5-2 * * *", "hour accepts 0-23; lists (1,2), ranges (1-5) and steps (*/5) of these."),
        (
            "0 0 32 1 *",
            (
                "day-of-month accepts 1-31, L (the last) or LW (the last weekday);"
                " lists (1,2), ranges (1-5) and steps (*/5) of these."
            ),
        ),
        ("0 0 1 FOO *", "month accepts 1-12 or JAN-DEC; lists (1,2), ranges (1-5) and steps (*/5) of these."),
        (
            "0 0 1 1 8",
            (
                "day-of-week accepts 0-7 or SUN-SAT, 1#2 (the second Monday) or 5L (the last Friday);"
                " lists (1,2), ranges (1-5) and steps (*/5) of these."
            ),
        ),
        ("0 0 31 2 *", "no such date in the next 50 years."),
        ("* * */20 * 1L", "no such date in the next 50 years."),
        ("@reboot", f"expected five fields, or one of {', '.join(NICKNAMES)}."),
        (5, "expected text, such as '*/5 * * * *'."),
    ],
)
def test_invalid_expression_raises_with_the_accepted_values(expression: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        CronTimes.of(expression, None)

    assert str(raised.value) == f"cron {expression!r}: {text}" if expression != 5 else f"cron 5: {text}"


@pytest.mark.parametrize(("expression", "count"), [("* * * *", 4), ("0 * * * * *", 6), ("", 0)])
def test_expression_requires_five_fields(expression: str, count: int) -> None:
    with pytest.raises(InvalidTask) as raised:
        CronTimes.of(expression, None)

    assert str(raised.value) == (
        f"cron {expression!r} has {count} fields: expected five (minute, hour, day of month, month, day of week), or"
        f" one of {', '.join(NICKNAMES)}. For seconds use @every."
    )


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Berln", "tz='Europe/Berln' is not a time zone. Did you mean 'Europe/Berlin'?"),
        ("Mars", "tz='Mars' is not a time zone. Expected a name such as 'Europe/Berlin'."),
        ("../etc/passwd", "tz='../etc/passwd' is not a time zone. Expected a name such as 'Europe/Berlin'."),
        (UTC, f"tz={UTC!r}: expected the name of a time zone, such as 'Europe/Berlin', or a ZoneInfo."),
    ],
)
def test_invalid_time_zone_raises_with_its_name(zone: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        CronTimes.of("@daily", zone)

    assert str(raised.value) == text


def test_missing_cronsim_raises_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)

    with pytest.raises(InvalidTask) as raised:
        CronTimes.of("@daily", None)

    assert str(raised.value) == (
        "@cron needs the package cronsim: pip install 'django-redis-components[cron]'. @every needs nothing."
    )
    assert FixedInterval.of(60).following(0) == 60_000
