"""Chains in groups, groups in chains, groups in groups: what follows when a part of a flow fails, and the depth."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import InvalidTask, MemberFailure, chain, get_flow, get_queue, group
from django_redis_components.taskqueue.flows.graph import MAX_DEPTH, FlowGraph
from django_redis_components.taskqueue.flows.overview import read_flow
from django_redis_components.taskqueue.shards import home
from django_redis_components.testing import inline
from tests.support import Store
from tests.taskqueue.flows.support import make_lucky, states
from tests.taskqueue.support import work_off
from tests.taskqueue.tasks import echo, fail, note, recorded

BROKEN = chain(note.s("x"), fail.si("no"), note.si("y"))


def nested(levels: int) -> Any:
    """Return groups in groups, this many."""
    flow = group(note.s(0))
    for _ in range(levels - 1):
        flow = group(flow)
    return flow


@pytest.mark.contract
@pytest.mark.parametrize(
    ("action", "passed", "outcome"),
    [("cancel", None, "failed"), ("continue", "was not run", "failed"), ("ignore", [], "successful")],
)
def test_chain_in_a_group_has_an_action(store: Store, action: Any, passed: Any, outcome: str) -> None:
    flow = (
        group(BROKEN.on_failure(action), note.s("z"))
        .then(echo.s())
        .enqueue(on_error=note.s(), on_complete=echo.s(), on_success=note.si("success"))
    )

    work_off()

    flow.refresh()
    assert [each.state for each in flow.results[:3]] == ["successful", "failed", "failed"]
    assert flow.on_complete_result is not None
    assert flow.on_complete_result.get(0)[0][0]["state"] == outcome
    assert ("success" in recorded) == (outcome == "successful")
    assert "y" not in recorded
    if passed is None:
        assert flow.last.state == "failed"
        return
    [values] = flow.last.get(0)[0]
    assert values[-1] == "z"
    if passed:
        assert isinstance(values[0], dict)
        assert (values[0]["task_id"], values[0]["reason"]) == (flow.results[2].id, passed)
        assert flow.results[1].id in values[0]["error"]["message"]
    else:
        assert values == ["z"]


@pytest.mark.parametrize(("action", "length"), [("continue", 3), ("ignore", 2)])
def test_group_in_a_chain_has_an_action_for_each_member(store: Store, action: Any, length: int) -> None:
    flow = chain(note.s("first"), group(note.si(1), fail.si("no"), note.si(2)).on_failure(action), echo.s()).enqueue()

    work_off()

    [values] = flow.get(0)[0]
    assert len(values) == length
    assert (values[0], values[-1]) == (1, 2)


def test_member_with_its_own_action_keeps_it(store: Store) -> None:
    members = group(fail.s("a").on_failure("ignore"), chain(fail.s("b").on_failure("continue")), group(fail.s("c")))

    flow = members.on_failure("continue").then(echo.s()).enqueue()
    work_off()

    [first, second] = flow.get(0)[0][0]
    assert first["error"]["message"] == "b"
    assert second[0]["error"]["message"] == "c"


def test_whole_flow_has_an_action(store: Store) -> None:
    ignored, continued = BROKEN.on_failure("ignore").enqueue(), BROKEN.on_failure("continue").enqueue()

    work_off()

    assert ignored.get(0) is None
    assert isinstance(continued.get(0), MemberFailure)


def test_retry_of_an_ignored_chain_continues_within_it(store: Store) -> None:
    flow = group(BROKEN.on_failure("ignore"), note.s("z")).then(echo.s()).enqueue(on_complete=echo.s())
    work_off()
    make_lucky(store)

    assert get_queue("default").retry_failed() == 1
    work_off()

    assert set(states(flow)) == {"successful"}
    assert recorded.count("y") == 1
    assert flow.last.get(0) == [[["z"]], {}]  # it has run, and does not run again
    assert run(connections.client(), read_flow(home(), flow.id, 9)).unfinished == 0


def test_ignored_steps_of_a_chain_are_shown_as_ignored(store: Store) -> None:
    flow = group(BROKEN.on_failure("ignore"), note.s("z")).enqueue()

    work_off()

    assert run(connections.client(), read_flow(home(), flow.id, 9)).states == {"successful": 2, "ignored": 2}


def test_cancel_ends_all_levels(store: Store) -> None:
    inner = group(note.si(1), chain(note.si(2), note.si(3)))
    flow = chain(note.s(0), group(chain(note.si("x"), fail.si("no"), note.si("y")), inner)).enqueue()

    assert flow.cancel() == 7

    assert work_off() == []
    assert set(states(get_flow(flow.id))) == {"cancelled"}


def test_results_are_passed_on_in_the_shape_of_the_steps(store: Store) -> None:
    inner = group(note.s(1), chain(note.s(2), group(echo.s(), echo.s())))
    flow = group(inner, note.s(3)).then(echo.s()).enqueue()

    work_off()

    two = [[2], {}]
    assert flow.get(0) == [[[[1, [two, two]], 3]], {}]


def test_steps_nest_to_the_stated_depth() -> None:
    assert len(FlowGraph(nested(MAX_DEPTH)).nodes) == 1
    with pytest.raises(InvalidTask, match="nested too deeply: expected 100 levels at most"):
        FlowGraph(nested(MAX_DEPTH + 1))


def test_deep_flow_is_sent_and_read(store: Store) -> None:
    flow = nested(MAX_DEPTH).enqueue()

    work_off()

    value = get_flow(flow.id).get(0)
    for _ in range(MAX_DEPTH):
        [value] = value
    assert value == 0


@pytest.mark.parametrize("step", [chain(note.s(1)), group(note.s(1))])
def test_unknown_action_is_refused(step: Any) -> None:
    with pytest.raises(InvalidTask, match=r'^on_failure\(.stop.\): expected "cancel", "continue" or "ignore"\.$'):
        step.on_failure("stop")


def test_ignored_chain_runs_inline() -> None:
    with inline():
        flow = group(BROKEN.on_failure("ignore"), note.s("z")).then(echo.s()).enqueue()

        assert flow.get(0) == [[["z"]], {}]
