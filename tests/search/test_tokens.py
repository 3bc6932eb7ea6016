"""Words of all scripts: what is a word, and that each document is found by its own words."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata

import pytest

from django_redis_components.core.text import MAX_MARKS
from django_redis_components.search import SearchIndex, tokens
from django_redis_components.search.highlighting import highlight
from django_redis_components.search.query import parse
from django_redis_components.search.tokens import CACHED_WORDS, MAX_TERM_CHARS, query_terms, words
from tests.support import Store


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("বাংলা", ["বাংলা"]),
        ("สวัสดีครับ ไทย", ["สวัสดีครับ", "ไทย"]),
        ("שָׁלוֹם", ["שלום"]),
        ("كِتَاب مـرحبا أحمد", ["كتاب", "مرحبا", "احمد"]),
        ("می\u200cخواهم", ["ميخواهم"]),
        ("خانهٔ کتاب ۱۲", ["خانه", "كتاب", "12"]),
        ("が ｶﾞｽ", ["が", "ガス"]),
        ("北京++ C++ snake_case", ["北京", "c++", "snake", "case"]),
        ("a\u0301b c\xado", ["ab", "co"]),
        ("пʼять п'ять п’ять", ["п", "ять"] * 3),
        ("Hawaiʻi", ["hawai", "i"]),
    ],
)
def test_marks_belong_to_their_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_word_is_cut_and_a_run_without_spaces_is_not() -> None:
    assert words("x" * 100) == ["x" * MAX_TERM_CHARS]
    assert len(words("北京大学" * 50)[0]) == 200


def test_long_word_is_folded_no_further_than_it_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []
    fold = tokens.fold_to_syllables
    monkeypatch.setattr(tokens, "fold_to_syllables", lambda text: lengths.append(len(text)) or fold(text))

    [word] = words("\ufdfa" * 100_000)  # a ligature of 18 letters

    assert (len(word), max(lengths)) == (MAX_TERM_CHARS, tokens.MAX_FOLDED_CHARS)


@pytest.mark.parametrize("letter", ["a", "\u0e01"])
@pytest.mark.parametrize("marks", ["\u0315\u0300", "\u0f73", "\u0300\uff9e"])  # the last two become marks
def test_run_of_combining_characters_is_cut(monkeypatch: pytest.MonkeyPatch, letter: str, marks: str) -> None:
    """To bring n of them into their canonical order takes n * n steps."""
    longest = []
    normalize = unicodedata.normalize

    def counting(form: str, text: str) -> str:
        longest.append(max((len(run) for run in re.findall(f"[{marks}]+", text)), default=0))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counting)
    text = letter + marks * (20_000 // len(marks))

    found = words(f"{text} end")
    parts = highlight(text, parse("end"))

    assert found[-1] == "end"
    assert len("".join(part.text for part in parts)) <= 1 + 2 * MAX_MARKS
    assert max(longest) <= MAX_MARKS


@pytest.mark.parametrize("character", ["x", "é", "ж", "字", "𐐨"])
def test_folded_words_are_kept_in_the_memory_of_the_process_unless_they_are_long(character: str) -> None:
    short, long = character * MAX_TERM_CHARS, character * (MAX_TERM_CHARS + 1)

    assert words(short)[0] is words(short)[0]
    assert words(long)[0] is not words(long)[0]
    assert sys.getsizeof(short) * 2 + 200 < 1 << 10
    assert CACHED_WORDS * (1 << 10) <= 16 << 20


def test_import_prepares_no_stop_words() -> None:
    """Those of all languages take 60 ms, which commands without a search would wait for."""
    code = """
import unicodedata
normalize, texts = unicodedata.normalize, []
unicodedata.normalize = lambda form, text: texts.append(text) or normalize(form, text)
from django_redis_components.search import SearchIndex
assert len(texts) < 50, texts
SearchIndex("items", language="ru")
assert len(texts) > 100
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.contract
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Disney+ gift card", "disney"),
        ("Disney+ gift card", "disney+"),
        ("Disney+ gift card", '"disney gift"'),
        ("Disney+ gift card", '"disney+ gift"'),
        ("fix of issue#123", "issue"),
        ("fix of issue#123", "issue#123"),
        ("fix of issue#123", '"issue 123"'),
        ("Galaxy S22+", "s22"),
        ("Canal+Sport", "canal"),
        ("Canal+Sport", "canal sport"),
        ("C++11", "c++"),
        ("کتاب", "كتاب"),
        ("علي", "علی"),
        ("سال ۱۴۰۳", "1403"),
        ("خانهٔ من", "خانه"),
        ("김 선생님", "김"),
        ("が", "が"),
        ("がぎぐ", "ぎ"),
        ("हिन्दी भाषा", "हिन्दी"),
        ("สวัสดีครับ", "ดี"),
        ("שָׁלוֹם עולם", "שלום"),
        ("كِتَاب", "كتاب"),
        ("أَحْمَد", "احمد"),
        ("أَحْمَد", "أحمد"),
        ("آدم", "ادم"),
        ("ЙОД и ёж", "йод еж"),
        ("字" * 100 + "末尾", "末尾"),
        ("人々", "人々"),
    ],
)
def test_document_is_found_by_its_words(store: Store, text: str, query: str) -> None:
    index = SearchIndex("items", language=None)
    index.add(1, text)
    index.add(2, "other lamp")

    assert index.search(query).ids == ["1"]
    assert index.search(query, prefix=True).ids == ["1"]
    assert any(part.is_match for part in index.search(query).highlight(text))


@pytest.mark.contract
def test_word_with_a_suffix_does_not_find_the_word_without(store: Store) -> None:
    index = SearchIndex("items")
    index.add(1, "C and Disney and grade a")
    index.add(2, "C++ and C# and grade A+")

    assert index.search("c++").ids == index.search("c#").ids == index.search("a+").ids == ["2"]
    assert sorted(index.search("c").ids) == ["1", "2"]
    assert index.search("disney+").ids == []
    assert index.search("a").ids == []  # a stop word


@pytest.mark.contract
@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("한국", ["ㅎ", "하", "한", "한ㄱ", "한구", "한국"]),
        ("서울특별시 관악구", ["서우", "서울ㅌ", "서울특별시 고", "서울특별시 과", "서울특별시 관아"]),
        ("닭갈비", ["달", "닭", "닭가", "닭갈ㅂ"]),
        ("값", ["갑"]),
        ("하나로", ["한", "하나", "하날", "하나로"]),
        ("서울하나로", ["서울한", "울하날", "서울하나로"]),
        ("통닭이", ["통달", "통닭", "통닭ㅇ"]),
        ("통달가", ["통닭"]),
        ("北한산", ["北ㅎ", "北한ㅅ", "北한산"]),
    ],
)
def test_hangul_is_found_while_it_is_typed(store: Store, text: str, steps: list[str]) -> None:
    index = SearchIndex("items", language=None)
    index.add(1, text)
    index.add(2, "램프")

    assert [step for step in steps if index.search(step, prefix=True).ids != ["1"]] == []


def test_syllable_with_a_mark_is_searched_while_it_is_typed(redis_server: Store) -> None:
    index = SearchIndex("items", language=None)
    index.add(1, "한국\u302e어")

    for typed in ("한", "한국\u302e", "한국\u302e어"):
        assert index.search(typed, prefix=True).ids == ["1"]
    assert index.search("한국\u0301", prefix=True).ids == []


@pytest.mark.contract
def test_hangul_is_found_while_it_is_typed_beside_synonyms(store: Store) -> None:
    index = SearchIndex("items", language=None, synonyms={"서울하나": ["seoul"], "서울한": ["hana"]})
    for number, text in enumerate(["서울하나로", "서울", "하나", "hana", "seoul"]):
        index.add(number, text)

    assert sorted(index.search("서울한", prefix=True).ids) == ["0", "3"]
    assert index.search("서울한").ids == ["3"]


@pytest.mark.contract
def test_words_without_spaces_are_synonyms_as_a_whole(store: Store) -> None:
    index = SearchIndex("items", synonyms={"kitten": ["小猫咪", "young cat"], "清华大学": ["北大"]})
    index.add("peking", "北京大学")
    index.add("tsinghua", "清华大学")
    index.add("other", "浙江大学")
    index.add("kitten", "小猫咪")
    index.add("cat", "a cat that is young")
    index.add("short", "北大")

    assert sorted(index.search("北京大学 +清华大学").ids) == ["peking", "short", "tsinghua"]
    assert sorted(index.search("kitten").ids) == ["cat", "kitten"]
    assert sorted(index.search("大学 -北京大学").ids) == ["other", "tsinghua"]


@pytest.mark.contract
def test_quoted_run_is_found_whole(store: Store) -> None:
    index = SearchIndex("items", language="zh")
    index.add(1, "我在北京大学读书")
    index.add(2, "京大学北京")

    assert sorted(index.search("京大学北京").ids) == ["2"]
    assert sorted(index.search("北京 京大 大学").ids) == ["1", "2"]
    assert index.search('"北京大学"').ids == ["1"]
    assert index.search('北京 -"北京大学"').ids == ["2"]


def test_stop_words_of_russian_and_chinese_are_left_out(redis_server: Store) -> None:
    russian, chinese = SearchIndex("ru", language="ru"), SearchIndex("zh", language="zh")
    russian.add(1, "это лампа и стол")
    chinese.add(1, "我的书和灯")

    assert russian.parse("и это").groups == ()
    assert russian.search("лампа и стол").ids == ["1"]
    assert chinese.parse("的 和").groups == ()
    assert chinese.search("书").ids == chinese.search("我的书").ids == ["1"]


def test_terms_of_a_query_are_its_words_and_pairs() -> None:
    assert query_terms("北京大学 map") == ["北京", "京大", "大学", "map"]
    assert query_terms("京") == ["京"]
