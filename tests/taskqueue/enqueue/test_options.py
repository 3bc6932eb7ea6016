"""Options are checked when they are given; errors list the accepted values."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from enum import Enum
from typing import Any

import pytest

from django_redis_components.taskqueue import (
    Concurrency,
    FairShare,
    InvalidTask,
    Rate,
    Unique,
    UnknownQueue,
    exponential,
    get_queue,
    task,
)
from django_redis_components.taskqueue.options import TaskOptions
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings, work_off
from tests.taskqueue.tasks import add, fail_with_jitter

DURATION = '"finished", "started", or a duration in seconds or as a timedelta'
NO_ORDER = "unique key '{order}' of add(): the function takes no argument 'order'; it has a, b."
OPTIONS = f"Options: {', '.join(sorted(field.name for field in fields(TaskOptions)))}."


class Color(str, Enum):  # noqa: UP042 - the other kind
    RED = "red"


class Number(int, Enum):
    TWO = 2


WRONG = [
    ({"priority": 101}, "priority=101: expected an integer from -100 to 100."),
    ({"priority": 1.5}, "priority=1.5: expected an integer from -100 to 100."),
    ({"priority": True}, "priority=True: expected an integer from -100 to 100."),
    ({"max_attempts": 0}, "max_attempts=0: expected an integer from 1 to 1000000."),
    ({"max_deliveries": "3"}, "max_deliveries='3': expected an integer from 1 to 1000."),
    ({"result_ttl": 0}, "result_ttl=0: expected a number of seconds above 0, or a timedelta."),
    ({"backoff": "soon"}, "backoff='soon': expected seconds, a list of seconds, or a callable."),
    ({"backoff": []}, "backoff=[]: expected at least one number of seconds."),
    ({"backoff": [1, -1]}, "backoff[1]=-1: expected a number of seconds of at least 0, or a timedelta."),
    ({"backoff": -2}, "backoff=-2: expected a number of seconds of at least 0, or a timedelta."),
    ({"unique": "ended"}, f"unique='ended': expected {DURATION}."),
    ({"unique": 0}, "unique=0: expected a number of seconds above 0, or a timedelta."),
    ({"unique": -1}, "unique=-1: expected a number of seconds above 0, or a timedelta."),
    ({"unique": [1]}, f"unique=[1]: expected True, {DURATION}, or a Unique."),
    ({"unique": Unique(key="{order}")}, NO_ORDER),
    ({"unique": Unique(key="a{b")}, "unique key 'a{b' of add(): expected '}' before end of string."),
    ({"expires": 0}, "expires=0: expected a number of seconds above 0, or a timedelta."),
    ({"expires": "soon"}, "expires='soon': expected a datetime, or a number of seconds or a timedelta from now."),
    ({"queue_name": ""}, "queue_name is empty: expected 1 to 200 bytes of text."),
    ({"queue_name": 7}, "queue_name 7: expected a string, got int."),
    ({"queue_name": "a\x07b"}, r"queue_name 'a\x07b': control character '\x07' is not accepted."),
    ({"queue_name": "a{b}"}, "queue_name 'a{b}': braces are not accepted; they mark the Cluster slot in keys."),
    ({"queue_name": "ü" * 101}, f"queue_name {'ü' * 40!r}… has 202 bytes: expected at most 200."),
    ({"colour": 3}, f"Unknown option: colour. {OPTIONS}"),
    ({"max_atempts": 3}, f"Unknown option: max_atempts. Did you mean 'max_attempts'? {OPTIONS}"),
    ({"retries": 3}, f"Unknown option: retries. Did you mean 'max_attempts'? {OPTIONS}"),
    ({"countdown": 3}, f"Unknown option: countdown. Did you mean 'run_after'? {OPTIONS}"),
    ({"bind": True}, f"Unknown option: bind. Did you mean 'takes_context'? {OPTIONS}"),
]
WRONG_TIMES = [
    (-1, "run_after=-1: expected a number of seconds of at least 0, or a timedelta."),
    ("noon", "run_after='noon': expected a datetime, or a number of seconds or a timedelta from now."),
    (True, "run_after=True: expected a datetime, or a number of seconds or a timedelta from now."),
    (timedelta(days=9_000), "expected at most ten years; durations are in seconds."),
    (
        datetime(2030, 1, 1),  # noqa: DTZ001 - naive on purpose
        "run_after=2030-01-01 00:00:00: expected an aware datetime, since USE_TZ is on.",
    ),
    (datetime.max.replace(tzinfo=UTC), "expected a date up to December 30, 9999."),
]
#: The last date that is accepted, and the first that is not.
LAST = datetime(9999, 12, 30, tzinfo=UTC)
TOO_LATE = LAST + timedelta(milliseconds=1)


def top_level() -> None: ...


top_level.__qualname__, top_level.__signature__ = "add", inspect.signature(add.func)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_invalid_option_raises_in_using_and_in_the_decorator(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTask) as using:
        add.using(**options)
    with pytest.raises(InvalidTask) as decorating:
        task(**options)(top_level)

    assert str(using.value) == str(decorating.value) == text


@pytest.mark.parametrize(("run_after", "text"), WRONG_TIMES, ids=lambda value: str(value)[:30])
def test_invalid_run_after_raises(run_after: Any, text: str) -> None:
    with pytest.raises(InvalidTask) as raised:
        add.using(run_after=run_after)

    assert text in str(raised.value)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))], ids=str)
@pytest.mark.parametrize("option", ["run_after", "expires"])
def test_date_that_cannot_be_shown_is_refused(option: str, zone: tzinfo) -> None:
    with pytest.raises(InvalidTask, match=rf"^{option}=.*: expected a date up to December 30, 9999\.$"):
        add.using(**{option: TOO_LATE.astimezone(zone)})


def test_naive_date_that_cannot_be_shown_is_refused_without_time_zones(settings: Any) -> None:
    settings.USE_TZ = False

    with pytest.raises(InvalidTask, match="expected a date up to December 30, 9999"):
        add.using(run_after=datetime.max)  # noqa: DTZ901 - naive on purpose


def test_expiry_that_counts_from_run_after_must_be_a_date_that_can_be_shown() -> None:
    with pytest.raises(
        InvalidTask, match=r"^expires=86400 after run_after=.*: expected a date up to December 30, 9999"
    ):
        add.using(run_after=LAST, expires=86_400)


def test_last_date_that_is_accepted_can_be_listed_in_every_time_zone(redis_server: Store) -> None:
    result = add.using(run_after=LAST, expires=LAST).enqueue(1, 2)

    [listed] = get_queue("default").tasks("scheduled")
    found = [result.run_after, get_queue("default").info().next_due_at, listed.run_after, listed.expires_at]
    assert found == [LAST] * 4
    for hours in (-12, 14):
        assert LAST.astimezone(timezone(timedelta(hours=hours))) == LAST


@pytest.mark.parametrize("early", [datetime.min.replace(tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC)], ids=str)
def test_date_before_the_epoch_is_due_at_once(redis_server: Store, early: datetime) -> None:
    assert add.using(run_after=early).enqueue(1, 2).state == "ready"


def test_run_after_is_refused_by_the_decorator() -> None:
    with pytest.raises(InvalidTask, match=re.escape("task.using(run_after=…).enqueue(…).")):
        task(run_after=5)


def test_callable_backoff_is_refused_by_using() -> None:
    with pytest.raises(InvalidTask, match=r"using\(\) takes seconds or a list; @task takes a callable\."):
        add.using(backoff=exponential())


def test_using_returns_a_copy() -> None:
    urgent = add.using(priority=5).using(queue_name="mail")

    assert (urgent.options.priority, urgent.options.queue_name) == (5, "mail")
    assert (add.options.priority, add.options.queue_name) == (0, "default")
    assert urgent.overrides == {"priority", "queue_name"}
    assert urgent.name == add.name == "tests.taskqueue.tasks.add"


def test_using_keeps_the_backoff_of_the_task() -> None:
    changed = fail_with_jitter.using(queue_name="mail")

    assert changed.options.backoff is fail_with_jitter.options.backoff


def test_undeclared_queue_raises(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    with pytest.raises(UnknownQueue) as near:
        add.using(queue_name="mails").enqueue(1, 2)
    with pytest.raises(UnknownQueue) as far:
        get_queue("xyz")

    assert str(near.value) == (
        'Queue \'mails\' is not in REDIS_COMPONENTS["TASKQUEUE"]["QUEUES"].'
        " Declared queues: default, mail. Did you mean 'mail'?"
    )
    assert str(far.value).endswith("Declared queues: default, mail.")
    assert near.value.name == "mails"
    assert redis_server.keys() == []


def test_a_declared_queue_is_accepted(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, QUEUES=["default", "mail"])

    add.using(queue_name="mail").enqueue(1, 2)

    assert get_queue("mail").info().ready == 1


def test_invalid_queue_name_raises() -> None:
    with pytest.raises(ValueError, match="queue name 'a\\\\nb': control character '\\\\n' is not accepted"):
        get_queue("a\nb")
    with pytest.raises(ValueError, match=r"queue name 'xxx.*… has 201 bytes: expected at most 200\."):
        get_queue("x" * 201)


def test_naive_run_after_is_local_time_without_time_zones(redis_server: Store, settings: Any) -> None:
    settings.USE_TZ = False
    settings.TIME_ZONE = "Europe/Berlin"
    noon = datetime(2030, 7, 1, 12, 0)  # noqa: DTZ001 - naive on purpose

    result = add.using(run_after=noon).enqueue(1, 2)
    result.refresh()

    assert result.run_after == noon
    assert redis_server.raw.hget(f"{redis_server.prefix}:taskqueue:{{default}}:t:{result.id}", "d") == (
        str(int(datetime(2030, 7, 1, 10, 0, tzinfo=UTC).timestamp() * 1_000)).encode()
    )
    assert result.enqueued_at is not None
    assert result.enqueued_at.tzinfo is None


@pytest.mark.parametrize(
    "options",
    [
        {"id": Color.RED, "queue_name": Color.RED, "priority": Number.TWO, "max_deliveries": Number.TWO},
        {"concurrency": Concurrency(Number.TWO, group=Color.RED, key=lambda a, b: Color.RED)},
        {"rate": Rate((Number.TWO, 60), burst=Number.TWO, group=Color.RED)},
        {"fair": FairShare(lambda a, b: Color.RED, weight=Number.TWO)},
    ],
    ids=["id", "concurrency", "rate", "fair"],
)
def test_members_of_enumerations_are_what_they_equal(redis_server: Store, options: dict[str, Any]) -> None:
    result = add.using(**options).enqueue(1, 2)
    work_off(options.get("queue_name", "default"))
    result.refresh()

    stored = redis_server.keys()
    assert result.state == "successful"
    assert not [key for key in stored if b"Color" in key or b"Number" in key]
