"""Arguments and return values of other types, by the site's codec."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from django_redis_components.taskqueue import chain
from django_redis_components.taskqueue.json_codec import ExtendedJSON
from django_redis_components.testing import captured
from tests.support import Store
from tests.taskqueue.support import taskqueue_settings, work_off
from tests.taskqueue.tasks import note, recorded

EXTENDED = "django_redis_components.taskqueue.json_codec.ExtendedJSON"
VALUES = [
    date(2026, 11, 22),
    datetime(2026, 11, 22, 18, 15, 1, 7, tzinfo=UTC),
    datetime(2026, 11, 22, 18, 15, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2026, 11, 22),  # noqa: DTZ001 - naive datetimes are supported
    time(18, 15),
    timedelta(days=-1, microseconds=3),
    uuid.UUID("12345678-1234-5678-1234-567812345678"),
    Decimal("1.10"),
]


class RoundingCodec(ExtendedJSON):
    """Loses the digits of decimals."""

    def encode(self, value: Any) -> Any:
        return float(value) if isinstance(value, Decimal) else super().encode(value)


@pytest.fixture
def extended(settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC=EXTENDED)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_value_is_equal_after_decoding(redis_server: Store, extended: None, value: Any) -> None:
    result = note.enqueue({"list": [value, 1], "text": "a"})

    work_off()

    for found in (result.get(0), result.args[0], recorded[-1]):
        assert found == {"list": [value, 1], "text": "a"}
        assert type(found["list"][0]) is type(value)


def test_keyword_arguments_are_encoded_too(redis_server: Store, extended: None) -> None:
    result = note.enqueue(what=Decimal("1.10"))

    work_off()

    assert (result.get(0), result.kwargs) == (Decimal("1.10"), {"what": Decimal("1.10")})


def test_result_of_an_earlier_task_is_decoded(redis_server: Store, extended: None) -> None:
    flow = chain(note.s(date(2026, 11, 22)), note.s()).enqueue()

    work_off()

    assert flow.get(0) == date(2026, 11, 22)


def test_captured_tasks_show_decoded_values(extended: None) -> None:
    with captured() as sent:
        note.enqueue(Decimal("1.10"))

    assert sent[0].args == [Decimal("1.10")]


def test_without_a_codec_other_types_are_refused(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^args\[0\] is a decimal\.Decimal: expected JSON"):
        note.enqueue(Decimal("1.10"))


def test_unsupported_type_is_refused_with_its_path(extended: None) -> None:
    with pytest.raises(TypeError, match=r"^args\[0\]\['a'\] is a builtins\.set: expected JSON"):
        note.enqueue({"a": {1}})


@pytest.mark.parametrize("value", [{"__type__": "date", "value": "2026-11-22"}, Decimal("NaN")], ids=repr)
def test_value_that_decodes_differently_is_refused(extended: None, value: Any) -> None:
    with pytest.raises(ValueError, match="the codec in JSON_CODEC does not decode it to an equal value"):
        note.enqueue(value)


def test_codec_that_loses_the_type_is_refused(settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC=f"{__name__}.RoundingCodec")

    with pytest.raises(ValueError, match="does not decode it to an equal value"):
        note.enqueue(Decimal("0.5"))


def test_stored_values_stay_readable_without_the_codec(redis_server: Store, settings: Any) -> None:
    taskqueue_settings(settings, JSON_CODEC=EXTENDED)
    result = note.enqueue(Decimal("1.10"))
    taskqueue_settings(settings)

    work_off()

    result.refresh()
    assert (result.state, result.args) == ("successful", [{"__type__": "decimal", "value": "1.10"}])
