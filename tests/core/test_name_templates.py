"""Names of calls: different texts of the fields give different names."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from django_redis_components.core.name_templates import NameTemplate

TEMPLATES = [
    "page:{a}:{b}",
    "{a}:{b}",
    "{a}{b}",
    "{a}, {b}",
    "{a}%{b}",
    "{a}%,{b}",
    "{a}%~{b}",
    "{a}2{b}",
    "{a}A{b}",
    "{a}-in-{b}",
    "{a}–{b}",
    "{a}{b}:{c}",
    "{a}:{b}{c}",
    "{a},{b}{c}!",
    "{a[0]}:{a[1]}:{b!r}",
]
#: Text that looks like separators, escapes and what they stand for, and any text.
TEXTS = st.lists(st.sampled_from([*":,-%~{}2CA3 \n\x00–é", "%3A", "%2C", "%25", "%~", "%,"])).map("".join) | st.text(
    alphabet=st.characters()
)


def function(a: Any, b: Any = "", c: Any = "") -> None: ...


@functools.cache
def template_of(text: str) -> NameTemplate:
    return NameTemplate(text, function, "lock name")


def name(template: str, *args: object) -> str:
    return template_of(template).format(args, {})


@pytest.mark.parametrize("template", TEMPLATES)
@given(first=st.tuples(TEXTS, TEXTS, TEXTS), second=st.tuples(TEXTS, TEXTS, TEXTS))
@example(first=("a", "b:c", ""), second=("a:b", "c", ""))
@example(first=("a", "bc", ""), second=("ab", "c", ""))
@example(first=("x%", "3A", ""), second=("x:", "", ""))
def test_different_arguments_have_different_names(
    template: str, first: tuple[str, str, str], second: tuple[str, str, str]
) -> None:
    values = [
        ((call[0], call[1]), call[2]) if "a[0]" in template else call[: 2 + ("{c}" in template)]
        for call in (first, second)
    ]

    names = [name(template, *call) for call in values]

    assert (names[0] == names[1]) is (values[0] == values[1])


@pytest.mark.parametrize("value", ["ada@example.org", "50%", "%7B", "a:b", "Zürich", 7, None, ("a", 1)])
def test_ordinary_value_of_the_only_field_stays_as_it_is(value: object) -> None:
    assert name("page:{a}", value) == f"page:{value}"


@pytest.mark.parametrize(
    ("template", "args", "expected"),
    [
        ("page:{a}:{b}", ("a", "b:c"), "page:a:b%3Ac"),
        ("page:{a}:{b}", ("a:b", "c"), "page:a%3Ab:c"),
        ("page:{a}:{b}", ("50%", "x"), "page:50%25:x"),
        ("page:{a}:{b}", (7, None), "page:7:None"),
        ("{a}{b}", ("ab", "c"), "ab%,c"),
        ("{a}0{b}", ("1", "2"), "1%,02"),
        ("{a}{b:02d}", (2026, 7), "2026%,07"),
        ("{a}-in-{b}", ("in", "x-y"), "in-in-x%2Dy"),
    ],
)
def test_what_could_be_mistaken_is_escaped(template: str, args: tuple[object, ...], expected: str) -> None:
    assert name(template, *args) == expected


def test_equal_text_is_the_same_name() -> None:
    assert name("page:{a}:{b}", 7, None) == name("page:{a}:{b}", "7", "None")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a:{a!x}", "Unknown conversion specifier"),
        ("a:{a.}", "Empty attribute in format string"),
        ("a:{a[0]b}", "Only '.' or '[' may follow ']' in format field specifier"),
        ("a:{a!r:d}", "Unknown format code 'd' for object of type 'str'"),
    ],
)
def test_template_that_no_call_could_fill_is_refused_where_it_is_declared(template: str, text: str) -> None:
    with pytest.raises(ValueError, match=rf"^lock name {re.escape(repr(template))} of .*: {re.escape(text)}.*\.$"):
        NameTemplate(template, lambda a: None, "lock name")
