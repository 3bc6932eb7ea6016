"""Pinyin of Chinese names, as further terms of an entry. Needs the extra `pinyin`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from django_redis_components.core.text import is_han

#: Most readings of a text that are returned, each in full and as initials.
MAX_READINGS = 4
#: Han characters that are read: their readings are longer than the part of a term that is compared.
MAX_CHARACTERS = 32


def pinyin_terms(text: str) -> list[str]:
    """Return the readings of the Han characters of a text without tones, in full and as initials.

    ``pinyin_terms("张三") == ["zhangsan", "zs"]``. Pass them as `terms` of an entry. Of several readings the first four
    are returned, the one that the dictionary has for the whole phrase first. Characters after the first 32 are ignored.

    Raises:
        ImportError: the extra `pinyin` is not installed.
    """
    pypinyin = _pypinyin()
    characters = "".join(itertools.islice(filter(is_han, text), MAX_CHARACTERS))
    if not characters:
        return []
    terms: dict[str, None] = {}
    for reading in itertools.islice(_readings(pypinyin, characters), MAX_READINGS):
        terms["".join(reading)] = None
        terms["".join(syllable[0] for syllable in reading)] = None
    return list(terms)


def _readings(pypinyin: Any, characters: str) -> Iterator[tuple[str, ...]]:
    """Yield the different readings: that of the phrase, then the combinations of those of each character."""
    options = {"style": pypinyin.Style.NORMAL, "errors": "ignore"}
    phrase = tuple(syllable for (syllable,) in pypinyin.pinyin(characters, **options))
    by_character = [
        [syllable for each in pypinyin.pinyin(character, heteronym=True, **options) for syllable in each]
        for character in characters
    ]
    combinations = itertools.product(*filter(None, by_character))
    yield from dict.fromkeys(itertools.islice(itertools.chain([phrase], combinations), 2 * MAX_READINGS))


def _pypinyin() -> Any:
    try:
        import pypinyin
    except ImportError as exc:
        raise ImportError(
            "pinyin_terms needs the package pypinyin: pip install 'django-redis-components[pinyin]'."
        ) from exc
    return pypinyin
