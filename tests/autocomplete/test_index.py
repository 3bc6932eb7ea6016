"""PrefixIndex on every store."""

from __future__ import annotations

import re

import pytest

from django_redis_components.autocomplete import Entry, PrefixIndex, RecentList, Suggestion
from tests.support import Store, run_async


def texts(found: list[Suggestion]) -> list[str]:
    return [one.text for one in found]


def filled(*names: str) -> PrefixIndex:
    index = PrefixIndex("contacts")
    for id_, name in enumerate(names, 1):
        index.add(id_, name)
    return index


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("Émile Zola", "émi"),
        ("Émile Zola", "EMILE Z"),
        ("Émile Zola", "zol"),
        ("Łukasz", "luk"),
        ("Ørsted", "ors"),
        ("İsmail", "ism"),
        ("Straße", "strasse"),
        ("Ждан", "жд"),
        ("Ёлкин", "елк"),
        ("张三", "张"),
        ("张三", "三"),
        ("王小明", "小明"),
        ("北野 愛", "愛"),
        ("한국", "하"),
        ("👩‍🚀 Astra", "👩"),
        ("𝔘nicode", "uni"),
        ("𠮷野家", "𠮷"),
        ("{braces}", "{b"),
        ("O'Neil", "neil"),
        ("100% sure", "100%"),
        ("\u05d0\u05d1", "\u05d0"),
    ],
)
def test_complete_finds_a_name_by_its_prefix(redis_server: Store, name: str, typed: str) -> None:
    index = filled("Other", name, "Zzz")

    assert texts(index.complete(typed)) == [name]


@pytest.mark.parametrize("typed", ["x", "张三x", "ü", "й", "anna\x00b", "a\ud800", "{", "\xff", "*", "[anna"])
def test_complete_returns_nothing_without_a_match(store: Store, typed: str) -> None:
    index = filled("émile", "anton", "иван")

    assert index.complete(typed) == []


def test_typed_control_characters_count_as_space(store: Store) -> None:
    index = filled("Anna Bell", "Annabell")

    assert texts(index.complete("anna\x00b")) == ["Anna Bell"]


def test_names_in_every_writing_system_are_found_by_each_prefix(store: Store) -> None:
    names = ["Anna", "Ждан", "Ωμέγα", "北京", "𠮷野", "कमल", "🎉 fest", "עברית", "ไทย"]
    index = filled(*names)

    for name in names:
        for length in range(1, len(name) + 1):
            assert name in texts(index.complete(name[:length], limit=50)), (name, length)


def test_exact_match_precedes_longer_names(store: Store) -> None:
    index = filled("Annabel", "Anna Maria", "Anna", "Ann")

    assert texts(index.complete("anna")) == ["Anna", "Anna Maria", "Annabel"]


def test_heavier_entry_precedes_a_lighter_one(store: Store) -> None:
    index = PrefixIndex("contacts")
    for id_, (text, weight) in enumerate([("Anna", 1), ("Anton", 5), ("Andrea", 0), ("Bert", 9)]):
        index.add(id_, text, weight=weight)

    assert texts(index.complete("an")) == ["Anton", "Anna", "Andrea"]
    assert texts(index.complete("")) == ["Bert", "Anton", "Anna", "Andrea"]


def test_weight_decides_among_all_for_a_short_prefix(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild([*((n, f"a{n:04d}") for n in range(200)), Entry("late", "azzz", weight=1)])

    assert texts(index.complete("a", limit=2)) == ["azzz", "a0000"]


def test_further_terms_match_by_their_prefix_only(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "张三", terms=["zhangsan", "zs", "zhang.san@example.org"])

    assert [texts(index.complete(typed)) for typed in ("zhang", "zs", "zhang.s")] == [["张三"]] * 3
    assert index.complete("san") == index.complete("example") == []


def test_entry_is_suggested_once_if_several_terms_match(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Ann Ann-Marie Annabel", terms=["anna"])
    index.add(2, "Anton")

    assert index.complete("an") == [Suggestion("1", "Ann Ann-Marie Annabel"), Suggestion("2", "Anton")]


def test_entries_with_many_matching_terms_do_not_crowd_out_the_others(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild(
        [*(Entry(n, f"aa{n}", terms=[f"aa{n}{letter}" for letter in "bcdefghijklmnop"]) for n in range(12)), (99, "ab")]
    )

    assert len(index.complete("a", limit=13)) == 13
    assert texts(index.complete("a", limit=13))[-1] == "ab"


def test_adding_an_id_again_replaces_its_entry(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna", terms=["annie"], weight=3)

    index.add(1, "Bertha", weight=4)

    assert index.complete("an") == index.complete("annie") == []
    assert index.complete("") == [Suggestion("1", "Bertha")]
    assert index.count() == 1


@pytest.mark.contract
def test_adding_the_same_twice_changes_nothing(store: Store) -> None:
    index = filled("Anna")
    before = [(key, store.raw.dump(key)) for key in sorted(store.keys())]

    index.add(1, "Anna")

    assert [(key, store.raw.dump(key)) for key in sorted(store.keys())] == before


@pytest.mark.contract
def test_removing_the_last_entry_leaves_no_key(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Anna", terms=["x"], weight=5)

    index.remove(1)
    index.remove(1)

    assert index.complete("") == []
    assert store.keys() == []


def test_entries_with_equal_text_are_distinct(store: Store) -> None:
    index = filled("Anna", "Anna")

    index.remove(1)

    assert index.complete("anna") == [Suggestion("2", "Anna")]


def test_id_is_not_confused_with_a_prefix_of_another(store: Store) -> None:
    index = PrefixIndex("contacts")
    for id_ in (1, 11, 111):
        index.add(id_, "Anna")

    index.remove(11)

    assert [one.id for one in index.complete("anna")] == ["1", "111"]


def test_limit_does_not_change_the_order(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild((n, f"Ann{n:03d} Zoe{n % 7}") for n in range(100))

    for typed in ("ann", "a", "zo", ""):
        assert index.complete(typed, limit=20)[:10] == index.complete(typed, limit=10)
    assert len(index.complete("ann", limit=1)) == 1


@pytest.mark.contract
def test_recents_come_first_in_their_order_with_the_texts_of_the_index(store: Store) -> None:
    index = filled("Anna", "Anton", "Andrea", "Bert")
    recents = RecentList("user:7")
    for id_, text in ((4, None), (2, "Old name"), (3, None), (77, "Anonymous, not in the index")):
        recents.touch(id_, text)

    found = index.complete("an", recents=recents)

    assert found == [Suggestion("3", "Andrea"), Suggestion("2", "Anton"), Suggestion("1", "Anna")]
    assert [one.is_recent for one in found] == [True, True, False]


def test_empty_prefix_shows_recents_and_then_the_rest(store: Store) -> None:
    index = filled("Anna", "Anton", "Bert")
    recents = RecentList("user:7")
    recents.touch(3)

    assert texts(index.complete("", recents=recents)) == ["Bert", "Anna", "Anton"]
    assert texts(index.complete("", limit=1, recents=recents)) == ["Bert"]


@pytest.mark.contract
def test_recent_beyond_the_first_range_is_found(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild((n, f"Ann{n:04d}") for n in range(300))
    recents = RecentList("user:7")
    recents.touch(299)

    assert texts(index.complete("ann", limit=2, recents=recents)) == ["Ann0299", "Ann0000"]


def test_entries_are_read_by_their_ids(store: Store) -> None:
    index = filled("Anna", "Bert")

    assert index.get_many([2, "1", 9]) == {"2": Suggestion("2", "Bert"), "1": Suggestion("1", "Anna")}
    assert index.get_many([]) == {}


def test_whole_name_is_looked_up_by_text_and_otherwise_by_term(store: Store) -> None:
    index = PrefixIndex("contacts")
    index.add(1, "Émile Zola", terms=["emile@example.org"])
    index.add(2, "Emile", terms=["zola"])
    index.add(3, "Anna Meyer")
    index.add(4, "anna  méyer")

    assert index.find_by_text("emile zola") == [Suggestion("1", "Émile Zola")]
    assert index.find_by_text("EMILE@example.org") == [Suggestion("1", "Émile Zola")]
    assert {one.id for one in index.find_by_text("zola")} == {"1", "2"}
    assert {one.id for one in index.find_by_text("Anna Meyer")} == {"3", "4"}
    assert len(index.find_by_text("Anna Meyer", limit=1)) == 1
    assert index.find_by_text("emil") == index.find_by_text(" ") == []


def test_names_with_an_equal_compared_prefix_are_distinguished(store: Store) -> None:
    index = filled("x" * 120 + "1", "x" * 120 + "2")

    assert [one.id for one in index.find_by_text("x" * 120 + "2")] == ["2"]
    assert len(index.complete("x" * 150)) == 2


def test_indexes_are_independent(store: Store) -> None:
    PrefixIndex("guild:1").add(1, "Anna")
    PrefixIndex("guild:2").add(1, "Bert")

    assert texts(PrefixIndex("guild:1").complete("")) == ["Anna"]


def test_keys_carry_one_hash_tag_and_the_version_of_the_folding(store: Store) -> None:
    index = PrefixIndex("contacts")

    index.add(1, "Anna", weight=1)

    base = f"{store.prefix}:autocomplete:{{contacts}}:v5.2".encode()
    keys = store.keys()
    assert keys == [base + b":entries", base + b":lex", base + b":top"]
    assert [store.raw.ttl(key) for key in keys] == [-1, -1, -1]


def test_clearing_removes_every_key(store: Store) -> None:
    index = filled("Anna", "Bert")

    index.delete()

    assert store.keys() == []
    assert index.count() == 0


def test_async_methods_behave_like_the_sync_ones(store: Store) -> None:
    index, recents = PrefixIndex("contacts"), RecentList("user:7")

    async def scene() -> list[object]:
        await index.aadd(1, "Anna", terms=["x"], weight=1)
        await index.aadd(2, "Anton")
        await index.aadd(3, "Gone")
        await index.aremove(3)
        await recents.atouch(2)
        return [
            await index.acomplete("an", recents=recents),
            await index.aget_many([1]),
            await index.afind_by_text("anna"),
            await index.acount(),
            await index.adelete(),
            await index.acomplete(""),
        ]

    completed, got, named, count, _, cleared = run_async(scene)

    assert completed == [Suggestion("2", "Anton"), Suggestion("1", "Anna")]
    assert got == {"1": Suggestion("1", "Anna")}
    assert named == [Suggestion("1", "Anna")]
    assert (count, cleared) == (2, [])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "index name is empty: expected 1 to 200 bytes of text."),
        ("a{b}", "index name 'a{b}': braces are not accepted; they mark the Cluster slot in keys."),
        ("a\nb", "index name 'a\\nb': control character '\\n' is not accepted."),
        ("x" * 201, f"index name '{'x' * 40}'… has 201 bytes: expected at most 200."),
    ],
)
def test_invalid_name_raises_with_the_reason(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        PrefixIndex(name)


def test_invalid_entry_raises_before_any_write(store: Store) -> None:
    index = PrefixIndex("contacts")

    with pytest.raises(ValueError, match=r"text='a\\x00b': character '\\x00' is not accepted"):
        index.add(1, "a\x00b")

    assert store.keys() == []


def test_repr_contains_the_name() -> None:
    assert repr(PrefixIndex("contacts")) == "<PrefixIndex 'contacts'>"


def test_what_was_typed_is_text(redis_server: Store) -> None:
    with pytest.raises(TypeError, match=r"^prefix=None: expected a string\.$"):
        PrefixIndex("contacts").complete(None)  # type: ignore[arg-type]
