"""The tree of a flow's steps: kept if they are nested, in a bounded text."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from django_redis_components.core.client import connections
from django_redis_components.core.protocol import run
from django_redis_components.taskqueue import chain, get_flow, group
from django_redis_components.taskqueue.flows.graph import MAX_DEPTH, FlowGraph
from django_redis_components.taskqueue.flows.overview import read_flow, tree_of
from django_redis_components.taskqueue.flows.tree import MAX_BYTES, Branch, count_shown, encode_tree, parse_tree
from django_redis_components.taskqueue.shards import home
from django_redis_components.testing import inline
from tests.support import Store
from tests.taskqueue.flows.support import poll
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import echo, note

ONE = note.si(1)


def shape(node: Branch | int) -> Any:
    """Return a tree as kind, number of steps, number of tasks, and children."""
    if isinstance(node, int):
        return node
    return node.kind, node.steps, node.tasks, [shape(child) for child in node.children]


def tree(step: Any, limit: int = 500) -> Any:
    found = parse_tree(encode_tree(step).encode(), limit)
    assert found is not None
    return shape(found)


def random_step(chance: random.Random, depth: int) -> Any:
    if depth == 0 or chance.random() < 0.4:
        return ONE
    steps = [random_step(chance, depth - 1) for _ in range(chance.randint(1, 6))]
    return group(steps) if chance.random() < 0.5 else chain(*steps)


@pytest.mark.contract
def test_tree_of_nested_steps_is_stored(store: Store) -> None:
    flow = chain(ONE, group(chain(ONE, ONE), group(ONE, ONE, ONE), ONE), ONE).enqueue()

    found = run(connections.client(), read_flow(home(), flow.id, 100)).tree

    assert found is not None
    inner = [("chain", 2, 2, [1, 2]), ("group", 3, 3, [3, 4, 5]), 6]
    assert shape(found) == ("chain", 3, 8, [0, ("group", 3, 6, inner), 7])
    assert tree_of(get_flow(flow.id)) == found
    work_off()
    flow.refresh()
    assert {result.state for result in flow.results} == {"successful"}
    assert "tree" not in store.raw.hgetall(base_key(store, "t", flow.results[0].id))


@pytest.mark.parametrize("steps", [chain(ONE, ONE, ONE), group(ONE, ONE), chain(chain(ONE, ONE), ONE)])
def test_flow_of_tasks_alone_stores_no_tree(redis_server: Store, steps: Any) -> None:
    flow = steps.enqueue()

    assert FlowGraph(steps).tree == ""
    assert not redis_server.raw.hexists(base_key(redis_server, "flow", flow.id), "tree")
    assert run(connections.client(), read_flow(home(), flow.id, 100)).tree is None


def test_tree_of_a_flow_in_parts_is_stored(redis_server: Store) -> None:
    flow = group(chain(ONE, ONE, ONE) for _ in range(150)).then(echo.s()).enqueue()
    poll(redis_server)

    found = run(connections.client(), read_flow(home(), flow.id, 9)).tree

    assert found is not None
    [branch] = found.children
    assert isinstance(branch, Branch)
    assert (found.steps, found.tasks, branch.steps, branch.tasks, count_shown(found)) == (2, 451, 150, 450, 148)
    assert redis_server.raw.hget(base_key(redis_server, "flow", flow.id), "tree") == b'["c",["g",[150,["c",3]]],1]'


def test_text_is_short_for_equal_steps_and_bounded_for_others() -> None:
    chance = random.Random(7)
    flows = [random_step(chance, 9) for _ in range(200)]
    irregular = group(chain(*[ONE] * chance.randint(1, 9)) for _ in range(2_000))

    assert all(len(encode_tree(flow)) <= MAX_BYTES for flow in [*flows, irregular])
    [kind, steps, tasks, children] = tree(irregular)
    assert (kind, steps, tasks) == ("group", 2_000, sum(len(each.steps) for each in irregular.steps))
    assert len(children) > 80


@pytest.mark.parametrize("seed", range(20))
def test_cut_tree_has_the_first_tasks_and_all_numbers(seed: int) -> None:
    step = group(random_step(random.Random(f"{seed} {number}"), 6) for number in range(40))

    found = parse_tree(encode_tree(step).encode(), 10_000)

    assert found is not None
    assert (found.tasks, found.steps) == (count_tasks(step), 40)
    numbers = list(leaves(found))
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 0
    assert all(matches(child, each) for child, each in zip(found.children, step.steps, strict=False))


def count_tasks(step: Any) -> int:
    return 1 if step.kind == "task" else sum(map(count_tasks, step.steps))


def leaves(branch: Branch) -> Any:
    for child in branch.children:
        if isinstance(child, Branch):
            yield from leaves(child)
        else:
            yield child


def matches(node: Branch | int, step: Any) -> bool:
    """Return whether a node is that of a step, as far as it goes."""
    if isinstance(node, int) or step.kind == "task":
        return isinstance(node, int) and step.kind == "task"
    children = zip(node.children, step.steps, strict=False)
    return (node.kind, node.steps) == (step.kind, len(step.steps)) and all(matches(*each) for each in children)


def test_deepest_tree_is_stored_and_read() -> None:
    step = group(ONE, ONE)
    for _ in range(MAX_DEPTH - 1):
        step = group(step, ONE)

    text = FlowGraph(step).tree

    assert len(text) <= MAX_BYTES
    assert tree(step)[2] == MAX_DEPTH + 1


def test_nodes_are_limited() -> None:
    step = group(group(group(ONE, ONE), ONE) for _ in range(100))

    [_, steps, tasks, children] = tree(step, 6)

    assert (steps, tasks) == (100, 300)
    assert children == [("group", 2, 3, [("group", 2, 2, [0, 1]), 2])]


@pytest.mark.parametrize(
    "text", ["", "x", "7", "[]", "[7]", '["x",1]', '["c",["g"', '["c",[3,7]]', '["c",null]', "{}", "[" * 4_000]
)
def test_corrupt_text_is_no_tree(text: str) -> None:
    assert parse_tree(text.encode(), 100) is None


def test_hostile_numbers_are_limited() -> None:
    found = parse_tree(json.dumps(["c", [10**15, ["g", 10**15]], -5]).encode(), 50)

    assert found is not None
    assert count_shown(found) == 48


def test_nested_flow_runs_inline() -> None:
    with inline():
        assert chain(group(chain(note.s(1), echo.s()), note.s(2)), echo.s()).enqueue().get(0) == [[[[[1], {}], 2]], {}]
