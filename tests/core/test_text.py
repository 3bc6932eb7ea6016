"""Folding: equivalent spellings, different ones, and idempotence."""

from __future__ import annotations

import random
import unicodedata

import pytest

from django_redis_components.core.text import FOLDING_VERSION, fold, folded_words, match_span, word_starts


@pytest.mark.parametrize(
    ("written", "typed"),
    [
        ("Émile", "emile"),
        ("Łódź", "lodz"),
        ("Ørsted", "orsted"),
        ("İstanbul", "istanbul"),
        ("ISTANBUL", "istanbul"),
        ("ısı", "isi"),
        ("Straße", "strasse"),
        ("STRASSE", "straße"),
        ("Đurđević", "durdevic"),
        ("Þórður Æsir", "thordur aesir"),
        ("Œuvre", "oeuvre"),
        ("Nguyễn", "nguyen"),
        ("Ждёт", "ждет"),
        ("ЁЛКА", "елка"),
        ("Άννα", "αννα"),
        ("ὈΔΥΣΣΕΎΣ", "οδυσσευσ"),
        ("Ὀδυσσεύς", "οδυσσευσ"),
        ("ﬁn", "fin"),
        ("ＡＢＣ", "abc"),
        ("ﾊﾟﾝ", "パン"),
        ("①", "1"),
        ("O’Neil", "o'neil"),
        ("Oʼneil", "o'neil"),
        ("d´Arc", "d'arc"),
        ("Hawaiʻi", "hawai'i"),
        ("Oʻzbekiston", "o'zbekiston"),
        ("ג׳ירפה", "ג'ירפה"),
        ("צה״ל", 'צה"ל'),
        ("„Black“ «Cat» “Dog”", '"black" "cat" "dog"'),
        ("½ cup", "1/2 cup"),
        ("5′ 6″", "5' 6\""),
        ("Anna–Maria", "anna-maria"),
        ("한국", "한국"),
        ("❤️", "❤"),
        ("کتاب یک", "كتاب يك"),
        ("على مكتبة", "علي مكتبه"),
        ("خـــانه\u0654", "خانۀ"),
        ("ہندی ھەر", "هندي ههر"),
        ("۱۴۰۳", "١٤٠٣"),
        ("۱۴۰۳ १२ ๑", "1403 12 1"),
        ("مُحَمَّد", "محمد"),
        ("أَحْمَد", "أحمد"),
        ("מֹשֶׁה שִׂמְחָה", "משה שמחה"),
    ],
)
def test_equivalent_spellings_fold_to_the_same_text(written: str, typed: str) -> None:
    assert fold(written) == fold(typed)


@pytest.mark.parametrize("decomposed", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize("name", ["Émile", "Ждёт", "Йосиф", "がぎぐ", "한국", "Ἀθῆναι", "أحمد", "क़लम", "Ǻ"])
def test_folding_is_independent_of_the_normal_form(name: str, decomposed: str) -> None:
    assert fold(unicodedata.normalize(decomposed, name)) == fold(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [("Й", "И"), ("が", "か"), ("أ", "ا"), ("آ", "ا"), ("إ", "ا"), ("ぱ", "ば"), ("कि", "क"), ("ї", "і")],
)
def test_marks_that_make_another_letter_are_kept(one: str, other: str) -> None:
    assert fold(one) != fold(other)


def test_mark_is_removed_depending_on_its_own_base_letter() -> None:
    assert fold("éй") == "e" + unicodedata.normalize("NFD", "й")


def test_jamo_is_a_prefix_of_its_syllable() -> None:
    assert fold("한국").startswith(fold("하"))
    assert fold("한국").startswith(fold("ㅎ"))
    assert not fold("하").startswith(fold("한"))


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("한국", ["ㅎ", "하", "한", "한ㄱ", "한구", "한국"]),
        ("관", ["ㄱ", "고", "과", "관"]),
        ("닭", ["ㄷ", "다", "달", "닭"]),
        ("값이", ["가", "갑", "값", "값ㅇ"]),
        ("하나", ["하", "한", "하나"]),
        ("달가", ["달", "닭"]),
        ("의사", ["으", "의", "읫", "의사"]),
        ("웬 쇠 뛰어", ["우", "웨", "웬 소", "웬 쇠", "웬 쇠 뚜", "웬 쇠 뛰ㅇ"]),
        ("이써", ["있"]),
        ("읽다", ["일", "읽", "읽ㄷ"]),
        ("읽어", ["읽"]),
        ("몫", ["목", "ㅁㅗㄳ"]),
    ],
)
def test_hangul_that_is_typed_on_the_way_is_a_prefix(text: str, steps: list[str]) -> None:
    assert [step for step in steps if not fold(text).startswith(fold(step))] == []


def test_different_syllables_fold_to_different_texts() -> None:
    syllables = [chr(code) for code in range(0xAC00, 0xD7A4)]
    source = random.Random(2026)
    pairs = ["".join(source.choices(syllables, k=2)) for _ in range(5_000)]

    assert len(set(map(fold, syllables))) == len(syllables)
    assert len(set(map(fold, pairs))) == len(set(pairs))


@pytest.mark.parametrize(
    ("given", "folded"),
    [
        ("  Anna \t\n Lee ", "anna lee"),
        ("Anna\u00a0Lee\u3000Ann", "anna lee ann"),
        ("a\x00b\x1fc\x7fd\x9fe", "a b c d e"),
        ("Anna\u200bLee", "annalee"),
        ("\u202eAnna\u202c", "anna"),
        ("co\u00adoperate", "cooperate"),
        ("", ""),
        (" \t ", ""),
        ("\u0301", "\u0301"),
        ("{a}", "{a}"),
    ],
)
def test_space_control_and_invisible_characters(given: str, folded: str) -> None:
    assert fold(given) == folded


def test_folding_is_idempotent_for_every_character() -> None:
    """All but one of a thousand of those that have neither case nor decomposition: ideographs and private use."""
    uniform = [*range(0x3400, 0xA000), *range(0xE000, 0xF900), *range(0x20000, 0x2F800), *range(0x30000, 0xE0000)]
    uniform += range(0xF0000, 0x110000)
    codes = set(range(0x110000)).difference(uniform).union(uniform[::1000])
    assigned = (c for c in map(chr, sorted(codes)) if unicodedata.category(c) not in ("Cn", "Cs"))

    changed = [f"U+{ord(c):04X}" for c in assigned if (folded := fold(c)) != c and fold(folded) != folded]

    assert changed == []


def test_canonically_equivalent_characters_fold_to_the_same_text() -> None:
    decomposable = [c for c in map(chr, range(0x110000)) if not unicodedata.is_normalized("NFD", c)]

    differing = [
        f"U+{ord(c):04X}"
        for c in decomposable
        if {fold(unicodedata.normalize(form, c)) for form in ("NFC", "NFD")} != {fold(c)}
    ]

    assert len(decomposable) > 13_000
    assert differing == []
    assert fold("O\u1ffdNeil") == fold("O\u00b4Neil") == "o'neil"


def test_folding_is_idempotent_for_random_text() -> None:
    source = random.Random(2026)
    letters = [chr(code) for code in (*range(0x3100), *range(0xAC00, 0xAD00), *range(0x1F300, 0x1F400))]
    marks = [c for c in letters if unicodedata.category(c) in ("Mn", "Cf", "Cc")]

    for _ in range(4_000):
        mixed = "".join(source.choice(source.choice((letters, marks))) for _ in range(6))
        assert fold(fold(mixed)) == fold(mixed), ascii(mixed)


def test_folded_text_has_no_control_characters() -> None:
    """They separate the parts of an index entry."""
    folded = fold("".join(chr(code) for code in range(0x100)) + "\u2028\u2029\u0085")

    assert [c for c in folded if unicodedata.category(c) in ("Cc", "Zl", "Zp")] == []


def test_lone_surrogate_can_be_folded() -> None:
    assert fold("A\ud800") == "a\ud800"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Anna Maria", ["anna maria", "maria"]),
        ("Anna-Maria de la Cruz", ["anna-maria de la cruz", "maria de la cruz", "de la cruz", "la cruz", "cruz"]),
        ("O'Neil", ["o'neil", "neil"]),
        ("O\u02bcNeil", ["o'neil", "neil"]),
        ("\u02bbOhana", ["'ohana", "ohana"]),
        ("d’Artagnan", ["d'artagnan", "artagnan"]),
        ("Anna's", ["anna's"]),
        ("you're", ["you're"]),
        ("(Anna)", ["(anna)", "anna)"]),
        ("anna.meyer@example.org", ["anna.meyer@example.org", "meyer@example.org", "example.org", "org"]),
        ("王小明", ["王小明", "小明", "明"]),
        ("北野 愛", [fold(x) for x in ("北野 愛", "野 愛", "愛")]),
        ("佐々木", ["佐々木", "々木", "木"]),
        ("東京タワー", [fold(x) for x in ("東京タワー", "京タワー", "タワー")]),
        ("北京KFC餐厅", ["北京kfc餐厅", "京kfc餐厅", "kfc餐厅", "餐厅", "厅"]),
        ("हिन्दी भाषा", [fold(x) for x in ("हिन्दी भाषा", "भाषा")]),
        ("e\u0301mile zola", ["emile zola", "zola"]),
        ("Anna Anna", ["anna anna", "anna"]),
        ("42 Ave. 7", ["42 ave. 7", "ave. 7", "7"]),
        ("🎉 party", ["🎉 party", "party"]),
        ("", []),
        ("\x00", []),
    ],
)
def test_folded_words_are_the_suffixes_at_each_word(text: str, words: list[str]) -> None:
    assert folded_words(text, 16) == words


def test_folded_words_are_limited_and_start_with_the_whole_text() -> None:
    assert folded_words("a b c d e", 3) == ["a b c d e", "b c d e", "c d e"]


def test_word_starts_are_offsets_into_the_text() -> None:
    text = "Straße ﬁn"

    assert [text[start:] for start in word_starts(text)] == ["Straße ﬁn", "ﬁn"]


def test_folding_version_is_an_integer() -> None:
    """It is part of keys: a change of the steps needs a new one."""
    assert FOLDING_VERSION == 5


@pytest.mark.parametrize(
    ("text", "typed", "span"),
    [
        ("Émile Zola", "emi", (0, 3)),
        ("Émile Zola", "zo", (6, 8)),
        ("Straße", "strass", (0, 5)),
        ("Straße", "stras", (0, 5)),
        ("E\u0301mile", "e", (0, 1)),
        ("李安娜", "安", (1, 2)),
        ("한국", fold("하"), (0, 1)),
        ("👩‍🚀 Astra", "as", (4, 6)),
        ("O'Neil", "neil", (2, 6)),
        ("Anna", "x", None),
        ("Anna", "nna", None),
        ("Anna", "", None),
        ("", "a", None),
    ],
)
def test_match_span_is_where_a_place_of_the_text_starts_with_the_prefix(
    text: str, typed: str, span: tuple[int, int] | None
) -> None:
    assert match_span(text, typed) == span
