"""Results that a step receives as references."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.taskqueue import InvalidTask, ParentsLost, ResultReference, chain, group, task
from django_redis_components.testing import inline
from tests.support import Store, run_async
from tests.taskqueue.support import base_key, work_off
from tests.taskqueue.tasks import add, fail, note, recorded


@task
def make_text(size: int) -> str:
    """Return a text of this many characters."""
    return "x" * size


@task
def read_all(results: Any, *rest: Any) -> list[Any]:
    """Record what it received, and return the sizes of the texts."""
    recorded.append(results)
    listed = results if isinstance(results, list) else [results]
    return [len(each.get() if isinstance(each, ResultReference) else each) for each in listed]


@task
async def read_in_coroutine(result: ResultReference) -> int:
    """Return the size of the text."""
    return len(await result.aget())


@pytest.mark.contract
def test_results_above_a_size_are_passed_as_references(store: Store) -> None:
    flow = group(make_text.s(10), make_text.s(1_000)).then(read_all.s("own").by_reference(above=100)).enqueue()

    work_off()

    assert flow.get(0) == [10, 1_000]
    [[small, large]] = recorded
    assert small == "x" * 10
    assert (large.id, large.size) == (flow.results[1].id, 1_002)
    assert repr(large) == f"ResultReference(id='{large.id}', size=1002)"


@pytest.mark.parametrize(("above", "is_reference"), [(101, True), (102, False), (0, True)])
def test_size_is_that_of_the_json(redis_server: Store, above: int, is_reference: bool) -> None:
    chain(make_text.s(100), read_all.s().by_reference(above)).enqueue()

    work_off()

    assert isinstance(recorded[0], ResultReference) is is_reference


def test_default_is_64_kib(redis_server: Store) -> None:
    group(make_text.s(65_534), make_text.s(65_535)).then(read_all.s().by_reference()).enqueue()

    work_off()

    assert [isinstance(each, ResultReference) for each in recorded[0]] == [False, True]


def test_reference_is_read_in_a_coroutine(redis_server: Store) -> None:
    flow = chain(make_text.s(9), read_in_coroutine.s().by_reference(above=0)).enqueue()

    work_off()

    assert flow.get(0) == 9


def test_failures_and_added_results_keep_their_places(store: Store) -> None:
    members = [make_text.s(50), fail.s("no").on_failure("continue"), fail.s("no").on_failure("ignore")]
    group(*members).then(note.s().by_reference(above=10)).enqueue()

    work_off()

    [[reference, failure]] = recorded
    assert (reference.size, failure["reason"]) == (52, "failed")


def test_group_of_more_than_one_read_is_passed_whole(redis_server: Store) -> None:
    flow = group(make_text.s(number % 3) for number in range(1_100)).then(read_all.s().by_reference(above=3)).enqueue()

    work_off()

    assert flow.get(0) == [number % 3 for number in range(1_100)]
    assert sum(isinstance(each, ResultReference) for each in recorded[0]) == 366


def test_reference_to_an_evicted_result_raises(redis_server: Store) -> None:
    flow = chain(make_text.s(9), note.s().by_reference(above=0)).enqueue()
    work_off()
    redis_server.raw.delete(base_key(redis_server, "t", flow.results[0].id))
    [reference] = recorded

    with pytest.raises(ParentsLost, match=f"^The result of parent task {reference.id} is no longer in Redis"):
        reference.get()
    with pytest.raises(ParentsLost):
        run_async(reference.aget)


def test_inline_passes_references() -> None:
    with inline():
        flow = group(make_text.s(10), make_text.s(1_000)).then(read_all.s().by_reference(above=100)).enqueue()
        assert flow.get() == [10, 1_000]


def test_invalid_size_raises() -> None:
    with pytest.raises(ValueError, match=r"^above=-1: expected an integer"):
        add.s(1).by_reference(above=-1)
    with pytest.raises(TypeError, match=r"^above='1': expected an integer"):
        add.s(1).by_reference(above="1")  # type: ignore[arg-type]
    with pytest.raises(
        InvalidTask, match=r"add: a call of si\(\) receives no result\. Use s\(…\)\.by_reference\(\)\.$"
    ):
        add.si(1, 2).by_reference()
