"""An outage is spoken of when it begins, once in a while, and when it is over."""

from __future__ import annotations

import re

import pytest

from django_redis_components.core import outage_log as outages
from django_redis_components.core.outage_log import Outage
from tests.support import run_together


def test_what_was_just_said_is_not_said_again() -> None:
    said: list[str] = []
    outage = Outage(said.append, said.append, "Poller: ")

    run_together(8, lambda number: [outage.tell("away") for _ in range(100)])
    run_together(8, lambda number: outage.over())

    assert said[0] == "away"
    assert re.fullmatch(r"Poller: Redis answers again, after \d+\.\d s\.", said[1])
    assert len(said) == 2


def test_an_outage_that_goes_on_is_spoken_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outages, "SAY_AGAIN_S", 0.0)
    said: list[str] = []
    outage = Outage(said.append, said.append)

    for number in range(3):
        outage.tell(f"away {number}")

    assert said == ["away 0", "away 1", "away 2"]


def test_the_next_outage_is_said_at_once_and_no_outage_not_at_all() -> None:
    said: list[str] = []
    outage = Outage(said.append, lambda text: None)

    outage.over()
    outage.tell("first")
    outage.over()
    outage.tell("second")

    assert said == ["first", "second"]
    assert outage.is_on
