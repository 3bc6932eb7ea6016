"""Incidents: when they begin and end, who is notified, and what an acknowledgment changes. Without Redis."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from django_redis_components.core.client.exceptions import NotConnected
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.problems.incidents import (
    END_AFTER_S,
    MAX_OPEN,
    WARN_AFTER_S,
    Acknowledgment,
    Incident,
    IncidentState,
    acknowledge,
    advance,
)
from django_redis_components.dashboard.problems.problem import Problem, outage_problem

CRITICAL = Problem("no_worker", "Queue mail has no worker.", "Start one:", "runworker", "critical", "mail")
WARNING = Problem("late", "Queue mail is behind.", "Add a worker:", "runworker", "warning", "mail")


class Watched:
    """The state after a number of rounds."""

    def __init__(self) -> None:
        self.state = IncidentState()
        self.resolved: list[Incident] = []

    def round(self, now: float, *problems: Problem, least: str = "warning") -> list[str]:
        """Advance; return the events that are announced in this round."""
        before = set(self.state.pending)
        self.state, resolved = advance(self.state, problems, now, channels=["mail"], least=least)
        self.state = IncidentState.parse(json.loads(json.dumps(self.state.encode())))
        self.resolved += resolved
        return [each.event for each in self.state.pending if each not in before]


def test_critical_problem_is_announced_once_and_its_end_too() -> None:
    watched = Watched()

    assert watched.round(100.0, CRITICAL) == ["started"]
    assert watched.round(115.0, CRITICAL) == []
    assert watched.round(130.0) == []
    assert watched.round(115.0 + END_AFTER_S + 1) == ["resolved"]
    [resolved] = watched.resolved
    assert (resolved.started_at, resolved.resolved_at) == (100.0, 115.0)
    assert watched.state.incidents == {}


def test_problem_that_comes_and_goes_is_one_incident() -> None:
    watched = Watched()
    watched.round(100.0, CRITICAL)
    watched.round(115.0)

    assert watched.round(130.0, CRITICAL) == []
    assert watched.state.incidents[CRITICAL.id].started_at == 100.0
    assert watched.resolved == []


def test_warning_is_announced_when_it_has_lasted() -> None:
    watched = Watched()

    assert watched.round(100.0, WARNING) == []
    assert watched.round(100.0 + WARN_AFTER_S, WARNING) == ["started"]
    assert watched.round(115.0 + WARN_AFTER_S, dataclasses.replace(WARNING, severity="critical")) == ["critical"]
    assert watched.round(130.0 + WARN_AFTER_S, WARNING) == [], "it is less than what was announced"


def test_warning_that_ends_before_it_is_announced_is_never_announced() -> None:
    watched = Watched()
    watched.round(100.0, WARNING)

    assert watched.round(101.0 + END_AFTER_S) == []
    assert [incident.code for incident in watched.resolved] == ["late"], "the history has it"


def test_less_than_the_least_severity_is_not_announced() -> None:
    watched = Watched()

    assert watched.round(100.0, WARNING, least="critical") == []
    assert watched.round(300.0, WARNING, least="critical") == []


def test_acknowledged_problem_sends_no_alarm_until_it_becomes_critical() -> None:
    watched = Watched()
    watched.round(100.0, WARNING)
    watched.state = acknowledge(watched.state, WARNING, Acknowledgment("kim", "known", "warning", 101.0))

    assert watched.round(100.0 + 2 * WARN_AFTER_S, WARNING) == []
    assert watched.state.incidents[WARNING.id].is_acknowledged(1e9)
    assert watched.round(900.0, dataclasses.replace(WARNING, severity="critical")) == ["started"]
    assert not watched.state.incidents[WARNING.id].is_acknowledged(900.0)


def test_acknowledgment_ends_at_its_time() -> None:
    watched = Watched()
    watched.state = acknowledge(watched.state, CRITICAL, Acknowledgment("kim", "", "critical", 100.0, until=200.0))

    assert watched.round(150.0, CRITICAL) == []
    assert watched.round(201.0, CRITICAL) == ["started"]


def test_withdrawn_acknowledgment_alarms_again() -> None:
    watched = Watched()
    watched.state = acknowledge(watched.state, CRITICAL, Acknowledgment("kim", "", "critical", 100.0))
    watched.state = acknowledge(watched.state, CRITICAL, None)

    assert watched.round(150.0, CRITICAL) == ["started"]


def test_number_of_incidents_and_size_of_their_texts_are_bounded() -> None:
    watched = Watched()
    problems = [Problem("late", "x" * 5_000, "", queue=f"queue-{number}") for number in range(MAX_OPEN + 10)]

    watched.round(100.0, *problems)

    assert len(watched.state.incidents) == MAX_OPEN
    assert len(json.dumps(watched.state.encode())) < 300_000


def test_foreign_data_counts_as_nothing() -> None:
    stored: Any
    for stored in (None, 3, [], {}, {"incidents": [{}], "pending": []}, {"incidents": [], "pending": [{}]}):
        assert IncidentState.parse(stored) == IncidentState()


@pytest.mark.parametrize("path", ["incident", "pending", "acknowledged"])
def test_state_with_a_field_of_another_type_counts_as_nothing(path: str) -> None:
    acknowledgment = Acknowledgment("kim", "known", "critical", 100.0, until=50.0)
    watched = Watched()
    watched.state = acknowledge(watched.state, CRITICAL, acknowledgment)
    watched.round(100.0, CRITICAL)
    stored = watched.state.encode()
    assert IncidentState.parse(stored) == watched.state
    assert len(watched.state.pending) == 1

    for name in (
        "at",
        "until",
        "reason",
        "severity",
        "started_at",
        "seen_at",
        "text",
        "queue",
        "made_at",
        "claimed_at",
    ):
        for value in ([3], {}, "x", float("inf"), float("nan"), -1):
            if value == "x" and name in ("reason", "text", "queue"):
                continue
            changed = json.loads(json.dumps(stored))
            part = {
                "incident": changed["incidents"][0],
                "pending": changed["pending"][0],
                "acknowledged": changed["incidents"][0]["acknowledged"],
            }[path]
            if name in part:
                part[name] = value
                assert IncidentState.parse(changed) == IncidentState(), (name, value)


def test_outage_that_an_earlier_release_has_stored_is_the_same_incident() -> None:
    """It stored an incident for each code of an outage."""
    outage = outage_problem(outage_of(NotConnected("refused"), ""), "Connection other: Redis does not answer.")
    outage = dataclasses.replace(outage, subject="other/")
    held = Acknowledgment("ada", "known", "critical", 90.0)
    stored = acknowledge(IncidentState(), dataclasses.replace(outage, kind=""), held)
    assert list(stored.incidents) == ["redis_unreachable:other/"]
    watched = Watched()
    watched.state = IncidentState.parse(json.loads(json.dumps(stored.encode())))

    assert watched.round(100.0, outage) == []
    assert list(watched.state.incidents) == [outage.id]
    assert watched.state.incidents[outage.id].acknowledged == held
    assert watched.round(101.0 + END_AFTER_S, outage) == []
    assert watched.resolved == []
