"""`assert_found()`."""

from __future__ import annotations

import pytest

from django_redis_components.search import SearchIndex
from django_redis_components.testing import assert_found

pytestmark = pytest.mark.usefixtures("redis_server")


@pytest.fixture
def index() -> SearchIndex:
    found = SearchIndex("shoes")
    found.add(1, "red shoe", sort_values={"price": 9})
    found.add(2, "blue shoe", sort_values={"price": 5})
    return found


def test_compares_ids_in_any_order(index: SearchIndex) -> None:
    assert_found(index, "shoe", [2, "1"])
    assert_found(index, "shoe -red", [2])
    assert_found(index, "boot", [])


def test_compares_the_order_if_it_is_given(index: SearchIndex) -> None:
    assert_found(index, "shoe", [2, 1], order_by="price")
    with pytest.raises(AssertionError):
        assert_found(index, "shoe", [1, 2], order_by="price")


def test_failure_names_what_differs_and_what_was_searched(index: SearchIndex) -> None:
    with pytest.raises(AssertionError) as caught:
        assert_found(index, "the red shoe", [2])

    lines = str(caught.value).splitlines()
    assert lines[:3] == ["'the red shoe' found 1 in 'shoes', not 2.", "  missing: 2", "  not expected: 1"]
    assert lines[3].startswith("  searched: ParsedQuery(groups=(('red',), ('shoe',))")
