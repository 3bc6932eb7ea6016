"""States of tasks and outcomes of runs have one word each, wherever they are stored, counted or shown."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from django_redis_components.core.observability.live_events import LiveEvent
from django_redis_components.dashboard.live.page import LABELS
from django_redis_components.dashboard.live.snapshot import KINDS
from django_redis_components.dashboard.task.timeline import outcome_of
from django_redis_components.taskqueue.fields import LEGEND
from django_redis_components.taskqueue.states import Outcome, OutcomeCounter, State, is_final
from django_redis_components.taskqueue.stats.metrics import Counts
from django_redis_components.taskqueue.store.job import Ack
from django_redis_components.taskqueue.worker.run_events import outcome_event

OF_RUNS = [outcome for outcome in Outcome if outcome not in (Outcome.recovered, Outcome.expired)]


def test_counts_have_a_field_for_each_counter_in_its_position() -> None:
    assert [field.name for field in dataclasses.fields(Counts)] == [counter.name for counter in OutcomeCounter]
    assert [counter.value for counter in OutcomeCounter] == list(range(len(OutcomeCounter)))
    assert [outcome.counter for outcome in Outcome if outcome.counter is not None] == list(OutcomeCounter)


@pytest.mark.parametrize("outcome", OF_RUNS)
def test_live_event_of_an_ack_has_the_word_and_the_label_of_its_outcome(outcome: Outcome) -> None:
    event: LiveEvent = outcome_event(Ack("id", "token", outcome), "shop.tasks.export", "mail")

    assert event.kind == outcome.value
    assert event.kind in KINDS
    assert LABELS[event.kind]().text == outcome.label


@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in (Outcome.requeued, Outcome.expired)])
def test_timeline_shows_the_label_of_an_outcome(outcome: Outcome) -> None:
    assert outcome_of(outcome.value)[0] == outcome.label


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        *[(state, state in (State.successful, State.failed, State.cancelled, State.expired)) for state in State],
        (None, False),
        (b"\xff", False),
        ("written by another client", False),
    ],
)
def test_final_states_are_those_that_a_task_does_not_leave(state: Any, expected: bool) -> None:
    assert is_final(state) is expected
    assert is_final(state.encode() if isinstance(state, str) else state) is expected


def test_lua_reads_the_words_and_positions_of_python() -> None:
    assert (LEGEND["S"], LEGEND["O"], LEGEND["C"]) == (State, Outcome, OutcomeCounter)
