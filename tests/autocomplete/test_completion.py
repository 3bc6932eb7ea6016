"""What a completion finds and in which order: places, words in another order, typos, reasons, and round trips."""

from __future__ import annotations

from typing import Any

import pytest

from django_redis_components.autocomplete import PrefixIndex, RankedSuggestion, RecentList, Suggestion
from django_redis_components.core.client import connections
from tests.support import Store, run_async


def texts(found: list[Suggestion]) -> list[str]:
    return [one.text for one in found]


def filled(*names: str) -> PrefixIndex:
    index = PrefixIndex("contacts")
    index.rebuild(enumerate(names, 1))
    return index


@pytest.mark.contract
def test_start_of_the_text_precedes_start_of_a_word_and_the_inside_of_a_name(store: Store) -> None:
    index = filled("Zoe Anna", "Anna Bell", "O'Annan", "李安娜", "安娜", "Maria 安娜")

    assert texts(index.complete("ann")) == ["Anna Bell", "Zoe Anna", "O'Annan"]
    assert texts(index.complete("安")) == ["安娜", "Maria 安娜", "李安娜"]


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("관악구", "ㄱ 고 과 관"),
        ("닭갈비", "다 달 닭 닭가"),
        ("값진", "갑 값"),
        ("하나", "ㅎ 하 한 하나"),
        ("한국", "한ㄱ 한구"),
        ("کتاب علی", "كت كتاب عل علي على"),
        ("على", "علی"),
        ("شماره ۱۲", "12 ۱۲ ١٢"),
        ("Galaxy S22+", "s22 s22+"),
    ],
)
def test_name_is_found_by_what_is_typed_on_the_way(redis_server: Store, name: str, typed: str) -> None:
    index = filled(name, "램프", "Anna")

    assert [each for each in typed.split() if texts(index.complete(each)) != [name]] == []


def test_names_that_begin_with_han_characters_precede_those_that_contain_them(store: Store) -> None:
    begin = [f"京张小{character}" for character in "一二三四五六七八九十百千万"]
    contain = [f"{character}京张小" for character in "甲乙丙丁戊己庚辛壬癸"]
    index = filled(*contain, *begin)

    found = texts(index.complete("京张小", limit=30))

    assert (set(found[:13]), set(found[13:])) == (set(begin), set(contain))


def test_weight_decides_within_a_place_only(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Zoe Anna", weight=9)
    index.add(2, "Anna Bell")
    index.add(3, "Anna Crane", weight=5)

    for typed in ("a", "an", "anna"):
        assert [one.id for one in index.complete(typed)] == ["3", "2", "1"], typed


@pytest.mark.contract
@pytest.mark.parametrize("typed", ["maria ann", "ann mar", "schmidt ann maria", "ann@ schm", "mar  ann"])
def test_words_match_in_any_order(store: Store, typed: str) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna Maria Schmidt", terms=["ann@example.org"])
    index.add(2, "Maria Weiss")
    index.add(3, "Anna Schmidt")

    assert "1" in [one.id for one in index.complete(typed)]
    assert "2" not in [one.id for one in index.complete(typed)]


def test_whole_prefix_precedes_words_in_another_order(store: Store) -> None:
    index = filled("Maria Anna", "Anna Maria", "Zoe Anna Maria")

    found = index.explain("anna mar")

    assert [(one.text, one.match) for one in found] == [
        ("Anna Maria", "start"),
        ("Zoe Anna Maria", "word"),
        ("Maria Anna", "words"),
    ]


def test_words_in_another_order_are_found_among_many_entries(redis_server: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild([*((n, f"Anna Name{n}") for n in range(3_000)), ("x", "Quill Anna")])

    assert [one.id for one in index.complete("anna qu")] == ["x"]
    assert [one.id for one in index.complete("anna name2999")] == ["2999"]
    assert [one.id for one in index.complete("name2999 anna")] == ["2999"]


@pytest.mark.contract
@pytest.mark.parametrize("typed", ["joahnsen", "johansen", "johannnsen", "jobannsen", "johnansen"])
def test_one_typo_is_corrected_if_there_are_too_few_other_entries(store: Store, typed: str) -> None:
    index = filled("Johannsen", "Meyer", "Jonas")

    expected = ["Johannsen"] if typed != "joahnsen" else []  # two edits

    assert texts(index.complete(typed, typos=True)) == expected
    assert index.complete(typed) == []


@pytest.mark.parametrize(
    ("typed", "name"),
    [("ждно", "Ждано"), ("meeyr", "Meyer"), ("mxyer", "Anna Meyer"), ("meyers", "Meyer"), ("王小蜜儿", "王小明儿")],
)
def test_typos_are_corrected_in_the_typed_prefix_of_any_word(redis_server: Store, typed: str, name: str) -> None:
    index = filled("Unrelated", name)

    assert texts(index.complete(typed, typos=True)) == [name]


@pytest.mark.parametrize("typed", ["zla", "ola", "xohannsen", "zollla"])
def test_short_prefixes_the_first_character_and_two_typos_are_not_corrected(redis_server: Store, typed: str) -> None:
    assert filled("Zola", "Johannsen").complete(typed, typos=True) == []


def test_corrected_entries_follow_the_others(redis_server: Store) -> None:
    index = filled("Meyer", "Mayer", "Meier", "Maier")

    found = index.explain("meyer", typos=True)

    assert [(one.text, one.match) for one in found] == [("Meyer", "start"), ("Meier", "typo"), ("Mayer", "typo")]
    assert texts(index.complete("meyer", limit=1, typos=True)) == ["Meyer"]


def test_reasons_name_match_term_weight_and_exactness(store: Store) -> None:
    index, recents = PrefixIndex("contacts"), RecentList("user:7")
    index.add(1, "Anna Bell", terms=["ann"], weight=4)
    index.add(2, "Zoe Ann")
    index.add(3, "Anna")
    recents.touch(3)

    found = index.explain("ann", recents=recents)

    assert found == [
        RankedSuggestion("3", "Anna", "recent"),
        RankedSuggestion("1", "Anna Bell", "start", "anna bell", False, 4),
        RankedSuggestion("2", "Zoe Ann", "word", "ann", True, 0),
    ]
    assert [Suggestion(one.id, one.text) for one in found] == index.complete("ann", recents=recents)
    assert run_async(lambda: index.aexplain("ann", recents=recents)) == found


def test_recents_and_index_are_read_in_one_round_trip(redis_server: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    index, recents = filled("Anna", "Anton"), RecentList("user:7")
    recents.touch(2)
    client, trips = connections.page_client(), []
    for name in ("execute", "execute_many"):
        send = getattr(client, name)
        monkeypatch.setattr(client, name, lambda requests, send=send: (trips.append(requests), send(requests))[1])

    assert texts(index.complete("an", recents=recents)) == ["Anton", "Anna"]
    assert texts(index.complete("anna b", recents=recents)) == []

    assert len(trips) == 2


def test_recents_of_another_connection_are_read_from_there(redis_server: Store, settings: Any) -> None:
    known = settings.REDIS_COMPONENTS["CONNECTIONS"]
    settings.REDIS_COMPONENTS = settings.REDIS_COMPONENTS | {"CONNECTIONS": known | {"other": known["default"]}}
    index, recents = filled("Anna", "Anton"), RecentList("user:7", using="other")
    recents.touch(2)

    assert texts(index.complete("an", recents=recents)) == ["Anton", "Anna"]


def test_recents_match_any_term_and_keep_their_order(store: Store) -> None:
    index, recents = PrefixIndex("contacts"), RecentList("user:7")
    index.add(1, "Anna", terms=["zs"])
    index.add(2, "李张三")
    index.add(3, "Bell")
    for id_ in (1, 2, 3, 404):
        recents.touch(id_)

    assert [[one.id for one in index.complete(typed, recents=recents)] for typed in ("zs", "张", "b", "x")] == [
        ["1"],
        ["2"],
        ["3"],
        [],
    ]
    assert [one.id for one in index.complete("", limit=2, recents=recents)] == ["3", "2"]


def test_words_are_read_only_if_too_few_texts_start_with_the_prefix(
    redis_server: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled("Anna", "Anna Bell", "Anna Cole", "Zoe Anna")
    client, trips = connections.page_client(), []
    for name in ("execute", "execute_many"):
        send = getattr(client, name)
        monkeypatch.setattr(client, name, lambda requests, send=send: (trips.append(requests), send(requests))[1])

    def commands_of(limit: int) -> list[int]:
        """The number of commands in each round trip of a completion, which finds as many as there are."""
        trips.clear()
        assert texts(index.complete("anna", limit=limit)) == ["Anna", "Anna Bell", "Anna Cole", "Zoe Anna"][:limit]
        return [len(trip) if isinstance(trip, list) else 1 for trip in trips]

    assert [commands_of(limit) for limit in (3, 3, 4, 4)] == [[2], [1], [1, 1], [2]]
