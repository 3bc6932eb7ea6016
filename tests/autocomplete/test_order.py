"""The order of suggestions against a model in plain Python: complete, the same for every limit, and so for pages."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache

import pytest
from django.http import HttpRequest
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st

from django_redis_components.autocomplete import Entry, PrefixIndex, RecentList, register
from django_redis_components.core.text import INSIDE, START, WORD, fold, folded_positions
from tests.support import Store, run_async

ALPHABET = "abА王"
TYPED = [*"ab王Аx", "", "aa", "ab", "王a", "aab", "abab", "b王", "ba b", "a b", "b a", "b ab a"]
#: Random prefixes that are completed while others write; 10,000 take two minutes.
PREFIXES = int(os.environ.get("PREFIXES", "500"))
#: As documented: the weight decides among all entries for short prefixes, else among the first terms of each place.
WEIGHED_CHARS, WEIGHED_MEMBERS = 2, 50
#: Terms of the rarest word that are looked at.
MAX_SCAN = 500


def anybody(request: HttpRequest, scope: str) -> bool:
    return True


def random_entries(source: random.Random, count: int) -> list[Entry]:
    """Short words over few letters, so that terms, beginnings and weights coincide often."""

    def word() -> str:
        return "".join(source.choice(ALPHABET) for _ in range(source.randint(1, 4)))

    return [
        Entry(
            id_,
            " ".join(word() for _ in range(source.randint(1, 3))),
            terms=[word() for _ in range(source.randint(0, 12))],
            weight=source.choice([0, 0, 1, 2, 2, 30]),
        )
        for id_ in range(count)
    ]


def expected(given: Sequence[Entry], typed: str) -> list[str]:
    """Return the ids in the order that the documentation promises, of all that match."""
    prefix = fold(typed)
    order: dict[str, None] = {}
    for place in (START, WORD, INSIDE):
        order |= dict.fromkeys(of_one_place(given, prefix, place))
    words = prefix.split(" ")
    if len(words) > 1:
        order |= dict.fromkeys(in_any_order(given, words))
    return list(order)


def places(fields: Entry) -> dict[str, int]:
    """The folded terms of an entry with their places."""
    found = {fold(term): WORD for term in fields.terms}
    for term, place in folded_positions(fields.text, 16).items():
        found[term] = min(place, found.get(term, place))
    return found


def of_one_place(given: Iterable[Entry], prefix: str, place: int) -> list[str]:
    """Return the ids whose terms start with the prefix at a place, in their order."""
    matches = sorted(
        ((term, fields.text, fields.weight, str(fields.id)), fields.weight)
        for fields in given
        for term, at in places(fields).items()
        if term.startswith(prefix) and at == place
    )
    weighed = len(matches) if len(prefix) <= WEIGHED_CHARS else WEIGHED_MEMBERS
    order: dict[str, tuple[object, ...]] = {}
    for at, ((term, text, _, id_), weight) in enumerate(matches):
        among = (0, term != prefix, -weight, term, text, id_) if at < weighed else (1, at)
        order[id_] = min(order.get(id_, among), among)
    return sorted(order, key=lambda id_: order[id_])


def in_any_order(given: Sequence[Entry], words: list[str]) -> list[str]:
    """Return the ids with a term for each word, in the order of the terms of the rarest word, by place."""
    by_word = {
        word: [
            (place, term, fields.text, fields.weight, str(fields.id), fields)
            for fields in given
            for term, place in places(fields).items()
            if term.startswith(word)
        ]
        for word in words
    }
    rarest = min(by_word, key=lambda word: len(by_word[word]))
    found = sorted(by_word[rarest], key=lambda one: one[:5])[:MAX_SCAN]
    return [one[4] for one in found if all(any(term.startswith(word) for term in places(one[5])) for word in by_word)]


@pytest.mark.parametrize("seed", range(8))
def test_every_limit_returns_the_first_suggestions_of_one_order(redis_server: Store, seed: int) -> None:
    source = random.Random(seed)
    given = random_entries(source, source.choice([5, 40, 300]))
    index = PrefixIndex("contacts")
    index.rebuild(given)

    for typed in TYPED:
        whole = expected(given, typed)
        for limit in (1, 2, 3, 10, 31, 100, 1_000):
            assert [one.id for one in index.complete(typed, limit=limit)] == whole[:limit], (typed, limit)


def test_entries_added_one_by_one_have_the_order_of_a_rebuild(store: Store) -> None:
    given = random_entries(random.Random(7), 30)
    index = PrefixIndex("contacts")
    for fields in [*given[:15], *given]:
        index.add(fields.id, fields.text, terms=fields.terms, weight=fields.weight)
    for fields in given[:5]:
        index.remove(fields.id)

    for typed in ("", "a", "ab", "王", "aab"):
        assert [one.id for one in index.complete(typed, limit=50)] == expected(given[5:], typed)


@pytest.mark.parametrize("limit", [10, 50, 100])
def test_as_many_suggestions_as_exist_are_returned_for_entries_with_many_terms(redis_server: Store, limit: int) -> None:
    index = PrefixIndex("contacts")
    index.rebuild(Entry(n, f"name{n:03d}", terms=[f"name{n:03d}x{m:02d}" for m in range(31)]) for n in range(100))

    async def acomplete() -> list[str]:
        return [one.id for one in await index.acomplete("name", limit=limit)]

    assert (
        [one.id for one in index.complete("name", limit=limit)]
        == [str(n) for n in range(limit)]
        == run_async(acomplete)
    )


@pytest.mark.parametrize("typed", ["n", "name", "name 1", ""])
@pytest.mark.parametrize("limit", [1, 7, 10])
def test_pages_show_each_entry_once_and_none_is_missing(
    client: Client, redis_server: Store, typed: str, limit: int
) -> None:
    source = random.Random(limit)
    given = [Entry(n, f"Name {n % 10}{n} Nab", weight=source.choice([0, 0, 0, 5, n])) for n in range(64)]
    PrefixIndex("contacts").rebuild(given)
    register("contacts", permission=anybody, limit=limit, min_length=0, recents=lambda request: recents)
    recents = RecentList("user:7")
    for id_ in (3, 40, 11, 12, 13, 14, 15):
        recents.touch(id_)

    shown, page, more = [], 1, True
    while more and page <= 10:
        answer = client.get("/redis/autocomplete/contacts/", {"term": typed, "page": page}).json()
        shown += [row["id"] for row in answer["results"]]
        more, page = answer["pagination"]["more"], page + 1

    assert len(shown) == len(set(shown)) == min(len(expected(given, typed)), 10 * limit)
    assert [one.id for one in PrefixIndex("contacts").complete(typed, limit=len(shown), recents=recents)] == shown


def test_exact_match_precedes_any_number_of_heavier_entries(redis_server: Store) -> None:
    index = PrefixIndex("contacts")
    index.rebuild(
        [
            *(Entry(f"heavy{n:03d}", f"王{n:03d}", weight=900) for n in range(200)),
            *(Entry(f"namesake{n:03d}", "王", weight=n) for n in range(200)),
        ]
    )

    assert [one.id for one in index.complete("王", limit=2)] == ["namesake199", "namesake198"]


@pytest.mark.unmeasured
def test_random_prefixes_have_the_order_of_the_model_while_others_write(redis_server: Store) -> None:
    entries = random_entries(random.Random(11), 60)
    index = PrefixIndex("contacts")
    index.rebuild(entries)
    wanted = lru_cache(None)(lambda typed: expected(entries, typed))
    checked = threading.Event()

    def write(writer: int) -> None:
        own = random.Random(writer)
        while not checked.is_set():
            entry = random_entries(own, 1)[0]
            index.add(f"w{writer}-{own.randrange(5)}", entry.text, terms=entry.terms, weight=entry.weight)
            index.remove(f"w{writer}-{own.randrange(5)}")

    @settings(max_examples=PREFIXES, deadline=None, database=None)
    @given(st.text(ALPHABET + " ", max_size=6))
    def check(typed: str) -> None:
        found = [one.id for one in index.complete(typed, limit=1_000) if not one.id.startswith("w")]
        if " " in typed.strip():  # which word is the rarest, and so the order, depends on the others' entries
            assert sorted(found) == sorted(wanted(typed))
        else:
            assert found == wanted(typed)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    try:
        check()
    finally:
        checked.set()
        for writer in writers:
            writer.join()
