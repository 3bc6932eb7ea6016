"""Items in chunks of a bounded number."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from django_redis_components.core.chunks import chunks, pairs_of


@pytest.mark.parametrize("items", [range(5), iter(range(5)), dict.fromkeys(range(5))])
def test_each_chunk_but_the_last_has_the_size(items: Iterable[int]) -> None:
    assert list(chunks(items, 2)) == [[0, 1], [2, 3], [4]]


def test_no_items_are_no_chunk() -> None:
    assert list(chunks([], 2)) == []


def test_names_and_values_in_turn_become_pairs() -> None:
    assert dict(pairs_of([b"name", b"a", b"size", 3])) == {b"name": b"a", b"size": 3}


def test_name_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        list(pairs_of([b"name", b"a", b"size"]))
