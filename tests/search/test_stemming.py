"""Words that are found by their stems."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_redis_components.core.client.connections import client
from django_redis_components.core.observability.catalog import CatalogEntry, names_flow, objects
from django_redis_components.core.protocol import run
from django_redis_components.search import Document, SearchIndex
from django_redis_components.search.stemming import STEMMERS, stem
from tests.support import Store

pytestmark = pytest.mark.usefixtures("redis_server")


@pytest.fixture
def runners(redis_server: Store) -> SearchIndex:
    index = SearchIndex("runners", stemmer="english", synonyms={"sprint": ["running"]})
    index.add(1, "She runs fast.")
    index.add(2, "Running shoes")
    index.add(3, "The ran result")
    index.add(4, "A human being sprinting")
    return index


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("run", ["1", "2"]),
        ("running", ["1", "2"]),
        ("RUNS", ["1", "2"]),
        ("ran", ["3"]),
        ("running -shoe", ["1"]),
        ("shoes", ["2"]),
        ("being", ["4"]),
        ("sprints", ["1", "2", "4"]),
        ("run +sprint", ["1", "2", "4"]),
    ],
)
def test_forms_of_a_word_find_each_other(runners: SearchIndex, query: str, found: list[str]) -> None:
    assert sorted(runners.search(query).ids) == found


def test_words_in_quotes_are_found_as_they_are(runners: SearchIndex) -> None:
    assert runners.search('"running shoes"').ids == ["2"]
    assert runners.search('"run shoes"').ids == []


def test_beginning_finds_words_and_what_has_the_stem(runners: SearchIndex) -> None:
    assert sorted(runners.search("runni", prefix=True).ids) == ["2"]
    assert sorted(runners.search("running", prefix=True).ids) == ["1", "2"]


def test_frequency_of_a_stem_counts_all_forms(redis_server: Store) -> None:
    index = SearchIndex("runners", stemmer="english")
    index.add(1, "run one two three")
    index.add(2, "run running runs one")

    assert index.search("run").ids == ["2", "1"]


def test_forms_are_marked(runners: SearchIndex) -> None:
    page = runners.search("running")

    assert [part.text for part in page.highlight("He runs, running late, ran") if part.is_match] == ["runs", "running"]


def test_stem_that_is_a_stop_word_is_not_used() -> None:
    assert stem("being", "english") == "be"
    assert stem("being", "english", {"be"}) == "being"


@pytest.mark.parametrize("word", ["c++", "x11", "北京大学", "running+"])
def test_words_with_signs_and_runs_without_spaces_have_no_stem(word: str) -> None:
    assert stem(word, "english") == word


@pytest.mark.parametrize(
    ("stemmer", "one", "other"),
    [
        ("danish", "bøger", "bøgerne"),
        ("dutch", "huizen", "huis"),
        ("french", "chevaux", "cheval"),
        ("german", "Häuser", "Haus"),
        ("italian", "gatti", "gatto"),
        ("norwegian", "husene", "huset"),
        ("spanish", "canciones", "canción"),
        ("swedish", "böckerna", "böcker"),
    ],
)
def test_folded_words_of_each_language_have_stems(redis_server: Store, stemmer: str, one: str, other: str) -> None:
    index = SearchIndex(stemmer, language=None, stemmer=stemmer)
    index.add(1, one)

    assert index.search(other).ids == ["1"]
    assert SearchIndex(stemmer, language=None).search(other).ids == []


@pytest.mark.parametrize("stemmer", ["english", "german", None])
def test_index_with_another_stemmer_has_other_documents(runners: SearchIndex, stemmer: str | None) -> None:
    same = stemmer == "english"
    other = SearchIndex("runners", stemmer=stemmer)

    assert other.count() == (4 if same else 0)
    other.rebuild([(9, Document("runs"))])
    assert runners.count() == (1 if same else 4)


@pytest.mark.parametrize(
    ("stemmer", "kind"), [("russian", ValueError), ("portuguese", ValueError), ("en", ValueError), (5, TypeError)]
)
def test_unknown_stemmers_are_refused(stemmer: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=r"stemmer=.+: expected one of 'danish', 'dutch', 'english'"):
        SearchIndex("runners", stemmer=stemmer)


def test_dashboard_knows_the_stemmer_of_an_index(catalogued: None, runners: SearchIndex) -> None:
    runners.search("run")

    [known] = objects(run(client(), names_flow("SearchIndex")), SearchIndex)

    assert (known.name, known.count()) == ("runners", 4)


def test_entry_whose_stemmer_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snowballstemmer", None)
    entry = CatalogEntry("SearchIndex", "runners", "default", {"stemmer": "english"})

    with ThreadPoolExecutor(1) as pool:  # each thread has its own stemmers
        assert pool.submit(objects, [entry], SearchIndex).result() == []


def test_threads_stem_at_the_same_time() -> None:
    forms = [f"{start}running" for start in "abcdefghijklmnopqrstuvwxyz"] * 40

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda form: stem(form, "english"), forms, chunksize=1))

    assert found == [form.removesuffix("ning") for form in forms]


def test_all_stemmers_are_those_of_the_library() -> None:
    import snowballstemmer

    assert set(STEMMERS) <= set(snowballstemmer.algorithms())
