"""How an index makes terms of texts and of queries. Without Redis."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from django_redis_components.core.arguments import check_iterable, check_mapping, check_string, short_repr
from django_redis_components.search.arguments import check_field_queries, check_weight
from django_redis_components.search.counting import CountedWords, count_words
from django_redis_components.search.documents import Text
from django_redis_components.search.query import ParsedQuery, parse
from django_redis_components.search.stemming import check_stemmer, stem
from django_redis_components.search.tokens import stop_words_of, words


class Analyzer:
    """The words that an index leaves out, stems, and replaces by others; see `SearchIndex`.

    Attributes:
        fields: weights of the fields of a document.
        stemmer: name of the stemmer; "" for none.
    """

    def __init__(
        self,
        fields: Mapping[str, float],
        language: str | None,
        stop_words: Iterable[str],
        synonyms: Mapping[str, Sequence[str]],
        stemmer: str | None,
        field_queries: Iterable[str],
    ) -> None:
        weights = check_mapping(fields, "fields", "weights by name")
        self.fields = {field: check_weight(weight, field) for field, weight in weights.items()}
        self.stemmer = check_stemmer(stemmer)
        self._field_queries = check_field_queries(field_queries, self.fields)
        given = frozenset[str]() if language is None else stop_words_of(language)
        further = [
            check_string(each, "a word in stop_words") for each in check_iterable(stop_words, "stop_words", "words")
        ]
        self._stop_words = given | {word for each in further for word in words(each)}
        self._synonyms: dict[str, list[str]] = {}
        for word, others in check_mapping(synonyms, "synonyms", "lists of words by word").items():
            texts = [self._normal(each) for each in check_iterable(others, f"synonyms[{word!r}]", "words")]
            self._synonyms.setdefault(self._searched_word(word), []).extend(filter(None, texts))

    def parse(self, query: str, *, prefix: bool) -> ParsedQuery:
        """Return what a query means."""
        return parse(
            query,
            self._stop_words,
            self._synonyms,
            prefix=prefix,
            stemmer=self.stemmer,
            field_queries=self._field_queries,
        )

    def count(self, text: Text) -> CountedWords:
        """Return the counted words of the text of a document.

        Raises:
            TypeError, ValueError: it is no text, or has an unknown field.
        """
        return count_words(
            self._parts(text),
            self.fields,
            self._stop_words,
            stemmer=self.stemmer,
            field_queries=self._field_queries,
        )

    def _parts(self, text: Text) -> Mapping[str, str]:
        parts = {"": text} if isinstance(text, str) else text
        if not isinstance(parts, Mapping) or not all(isinstance(part, str) for part in parts.values()):
            raise TypeError(f"text={short_repr(text)}: expected a string, or a mapping of fields to strings.")
        if not isinstance(text, str) and (unknown := [field for field in parts if field not in self.fields]):
            field_names = ", ".join(self.fields) or "none"
            raise ValueError(f"text has the unknown field {unknown[0]!r}: fields of the index are {field_names}.")
        return parts

    def _searched_word(self, word: str) -> str:
        """Return the word of a query that has synonyms.

        Raises:
            ValueError: it is not one word, or is left out: its synonyms would never be searched.
        """
        normal = self._normal(word)
        if not normal or " " in normal:
            found = f"the words {', '.join(normal.split(' '))}" if normal else "none, or a stop word"
            raise ValueError(f"synonyms[{word!r}]: expected one word that queries may have, got {found}.")
        return normal

    def _normal(self, text: str) -> str:
        """Return the words of a text without stop words, separated by spaces."""
        return " ".join(
            stem(word, self.stemmer, self._stop_words)
            for word in words(check_string(text, "a word in synonyms"))
            if word not in self._stop_words
        )
