"""Checking and encoding the arguments of an index. Without Redis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django_redis_components.core import keys
from django_redis_components.core.arguments import (
    check_choice,
    check_iterable,
    check_mapping,
    check_number,
    check_sequence,
    id_text,
    is_int,
    short_repr,
)
from django_redis_components.core.text import fold_to_syllables
from django_redis_components.search.query import ParsedQuery
from django_redis_components.search.tokens import is_spaceless, open_terms, query_terms, stored_term, without_suffix

#: Sort values and values of facets of a document; facets that one search counts.
MAX_SORTS, MAX_FACETS, MAX_COUNTED = 16, 64, 16
#: Bytes of a text by which documents are sorted. The score is a number below 2^53.
SORTED_BYTES = 6
#: Characters of such a text that are folded: marks and invisible characters are left out.
FOLDED_CHARS = 64

#: A number, or a text whose first six bytes are compared.
SortValue = int | float | str
#: Longitude and latitude in degrees, in this order, as in GEOADD.
Point = tuple[float, float]
#: Largest absolute values of a place, of GEOADD, and of a distance in kilometers.
MAX_LONGITUDE, MAX_LATITUDE, MAX_KILOMETERS = 180, 85, 20_000
#: Names of orders that are no sort values.
RESERVED = ("relevance", "distance")
#: The order of documents: a name, with "-" for the largest first; or weights by name.
Order = str | Mapping[str, float]


def sort_score(value: SortValue, name: str = "value") -> float:
    """Return the score of a sort value: a number, or that of the first six bytes of a text, which keeps their order.

    Raises:
        TypeError, ValueError: it is neither, or not finite.
    """
    if isinstance(value, str):
        score = 0
        start = fold_to_syllables(value.strip()[:FOLDED_CHARS]).encode("utf-8", "replace")[:SORTED_BYTES]
        for index in range(SORTED_BYTES):
            score = score * 257 + (start[index] + 1 if index < len(start) else 0)
        return float(score)
    return check_number(value, name, hint=", or a string")


def check_id(value: object) -> str:
    """Return an id as a string.

    Raises:
        TypeError, ValueError: it is not accepted.
    """
    return keys.validate_name(id_text(value, "id"), "id")


def sections_of(parsed: ParsedQuery, filters: list[str], orders: list[str], counted: list[str]) -> list[Any]:
    """Return the counted lists that the script reads."""
    groups = list(_groups_of_terms(parsed))
    sections: list[Any] = [len(groups)]
    for group in groups:
        sections.append(len(group))
        for terms in group:
            sections += [len(terms), *map(stored_term, terms)]
    sections.append(len(parsed.excluded))
    for kept, phrase in zip(parsed.excluded, parsed.excluded_phrases, strict=True):
        terms = query_terms(" ".join(kept))
        sections += [len(terms) + 1, _bounded(phrase), *map(stored_term, terms)]
    for items in (filters, list(map(_bounded, parsed.phrases)), orders, counted):
        sections += [len(items), *items]
    return sections


def open_count(parsed: ParsedQuery) -> int:
    """Return how many texts of the last group of terms end with the beginning of a term."""
    return len(open_terms(parsed.groups[-1][0])) if parsed.prefix else 0


def _groups_of_terms(parsed: ParsedQuery) -> Iterator[list[list[str]]]:
    """Yield the groups, each as lists of terms; the terms of a group with one text are groups of their own."""
    for number, group in enumerate(parsed.groups, 1):
        is_open = parsed.prefix and number == len(parsed.groups)
        texts = [*(open_terms(group[0]) if is_open else [query_terms(group[0])]), *map(query_terms, group[1:])]
        if len(group) == 1:
            yield from ([[term]] for term in texts[0][:-1])
            texts = [terms[len(texts[0]) - 1 :] for terms in texts]
        yield texts


def _bounded(phrase: str) -> str:
    """Return how a phrase is looked for in a text: its words are whole, but runs without spaces may be longer."""
    phrase = " ".join(map(without_suffix, phrase.split(" ")))
    first, last = (is_spaceless(word) for word in (phrase, phrase.rpartition(" ")[2]))
    return f"{'' if first else ' '}{phrase}{'' if last else ' '}" if phrase else ""


def orders_of(order_by: Order, *, has_place: bool = False) -> list[str]:
    """Return names and weights, alternating; the largest weighted sum comes first."""
    if isinstance(order_by, str):
        name = order_by.removeprefix("-")
        sign = 1 if order_by == "relevance" or order_by.startswith("-") else -1
        weights: Mapping[str, float] = {name: sign}
    elif isinstance(order_by, Mapping) and order_by:
        weights = order_by
    else:
        raise TypeError(f"order_by={short_repr(order_by)}: expected a name, or weights by name.")
    if "distance" in weights and not has_place:
        raise ValueError(
            f"order_by={short_repr(order_by)}: expected near=(longitude, latitude), for the distance from there."
        )
    return [
        part
        for name, weight in weights.items()
        for part in (keys.validate_name(name, "name of a sort value"), repr(sort_score(weight, f"weight of {name}")))
    ]


def is_ascending(order_by: Order) -> bool:
    """Return whether the smallest value comes first."""
    return isinstance(order_by, str) and order_by != "relevance" and not order_by.startswith("-")


def sort_name(name: str) -> str:
    """Return the name of a sort value."""
    if name in RESERVED:
        raise ValueError(f"sort value {name!r}: the name means an order of search; choose another.")
    return keys.validate_name(name, "name of a sort value")


def check_point(place: object, what: str) -> Point:
    """Return longitude and latitude.

    Raises:
        TypeError, ValueError: they are not accepted.
    """
    expected = f"expected (longitude, latitude) in degrees, at most {MAX_LONGITUDE} and {MAX_LATITUDE}"
    numbers = list(place) if isinstance(place, tuple | list) else []
    if len(numbers) != 2 or not all(is_int(each) or issubclass(type(each), float) for each in numbers):
        raise TypeError(f"{what}={short_repr(place)}: {expected}.")
    longitude, latitude = numbers
    if not (abs(longitude) <= MAX_LONGITUDE and abs(latitude) <= MAX_LATITUDE):
        raise ValueError(f"{what}={short_repr(place)}: {expected}.")
    return float(longitude), float(latitude)


def check_kilometers(value: object) -> float:
    """Return the radius of a search."""
    return check_number(value, "within", above=0, high=MAX_KILOMETERS, hint=" (kilometers)")


def facet_values(facets: Mapping[str, str | Iterable[str]]) -> list[str]:
    """Return the values of facets as they are stored: name=value."""
    found = [
        facet_of(name, value)
        for name, values in check_mapping(facets, "facets").items()
        for value in ([values] if isinstance(values, str) else check_iterable(values, f"facets[{name!r}]", "strings"))
    ]
    if len(found) > MAX_FACETS:
        raise ValueError(f"{len(found)} values of facets: at most {MAX_FACETS} are accepted.")
    return list(dict.fromkeys(found))


def facet_of(name: str, value: object) -> str:
    """Return a value of a facet as it is stored: name=value."""
    if "=" in (name := keys.validate_name(name, "facet")):
        raise ValueError(f"facet {name!r}: '=' is not accepted.")
    return f"{name}={keys.validate_name(value, f'value of the facet {name}')}"


def counted_facets(names: Sequence[str]) -> list[str]:
    """Return the names of facets that are counted."""
    if len(check_sequence(names, "facets")) > MAX_COUNTED:
        raise ValueError(f"facets={short_repr(names)}: expected a list of at most {MAX_COUNTED} names.")
    return list(dict.fromkeys(keys.validate_name(name, "facet") for name in names))


def check_field_queries(names: Iterable[str], fields: Mapping[str, float]) -> tuple[str, ...]:
    """Return the fields in which a query can look for a word alone.

    Raises:
        TypeError, ValueError: one is not a field of the index, or cannot be written in a query.
    """
    checked = tuple(dict.fromkeys(check_iterable(names, "field_queries", "names of fields")))
    for name in checked:
        check_choice(name, "a field in field_queries", fields)
        if not name.isidentifier():
            raise ValueError(f"field_queries={short_repr(name)}: expected a name of letters, digits and underscores.")
    return checked


def check_weight(value: object, field: str) -> float:
    """Return the weight of a field."""
    return check_number(value, f"fields[{field!r}]", above=0, high=1_000)
