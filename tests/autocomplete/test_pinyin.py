"""Readings of Chinese names as terms of an entry."""

from __future__ import annotations

import pytest

from django_redis_components.autocomplete import Entry, PrefixIndex, pinyin_terms
from django_redis_components.autocomplete.entries import record_of
from tests.support import Store


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("张三", ["zhangsan", "zs"]),
        ("Anna 王小明", ["wangxiaoming", "wxm"]),
        ("重庆", ["chongqing", "cq", "zhongqing", "zq", "tongqing", "tq"]),
        ("Anna", []),
        ("", []),
    ],
)
def test_terms_are_the_readings_and_their_initials(text: str, terms: list[str]) -> None:
    found = pinyin_terms(text)

    assert found[: len(terms)] == terms
    assert bool(found) == bool(terms)


def test_terms_are_few_enough_for_an_entry() -> None:
    terms = pinyin_terms("重" * 100)

    assert 2 <= len(terms) <= 8
    record_of(Entry(1, "重" * 100, terms=terms))


def test_name_is_found_by_reading_and_initials(redis_server: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "张三", terms=pinyin_terms("张三"))
    index.add(2, "王小明", terms=pinyin_terms("王小明"))

    assert [[one.id for one in index.complete(typed)] for typed in ("zhangs", "wxm", "WANGX")] == [["1"], ["2"], ["2"]]
