"""Names and keys."""

from __future__ import annotations

from datetime import date
from functools import partial
from typing import Any

import pytest
from redis.crc import key_slot

from django_redis_components.core import keys
from django_redis_components.core.names import dotted_path, stored_name


def test_key_has_prefix_component_and_name_in_braces(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "shop", "CONNECTIONS": {"default": {"URL": "redis://h"}}}

    assert keys.key("locks", "order:1") == "shop:locks:{order:1}"
    assert keys.key("locks", "order:1", "wakeup", "7") == "shop:locks:{order:1}:wakeup:7"


def test_keys_of_one_object_share_a_slot() -> None:
    made = [
        keys.key("locks", "order:1"),
        keys.key("locks", "order:1", "wakeup"),
        keys.key("locks", "order:1", "q", "2"),
    ]

    assert len({key_slot(key.encode()) for key in made}) == 1


@pytest.mark.parametrize("name", ["a", "x" * 200, "é" * 100, "order:{}".replace("{}", "7"), "張三", "a b", "😀"])
def test_valid_name_is_returned_unchanged(name: str) -> None:
    assert keys.validate_name(name) is name


def test_empty_name_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^lock name is empty: expected 1 to 200 bytes of text\.$"):
        keys.validate_name("", "lock name")


@pytest.mark.parametrize(("name", "size"), [("x" * 201, 201), ("é" * 101, 202), ("😀" * 51, 204)])
def test_long_name_is_rejected_and_shortened_in_the_error(name: str, size: int) -> None:
    with pytest.raises(ValueError, match=rf"… has {size} bytes: expected at most 200\.$") as caught:
        keys.validate_name(name)

    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("character", ["\n", "\r", "\0", "\t", "\x1f", "\x7f", "\x9f"])
def test_control_character_is_rejected_and_escaped_in_the_error(character: str) -> None:
    with pytest.raises(ValueError, match="control character") as caught:
        keys.validate_name(f"a{character}b", "queue name")

    assert str(caught.value) == f"queue name {f'a{character}b'!r}: control character {character!r} is not accepted."


@pytest.mark.parametrize("name", ["{", "a}", "a{b}c"])
def test_braces_are_rejected(name: str) -> None:
    with pytest.raises(ValueError, match=r"braces are not accepted; they mark the Cluster slot in keys\.$"):
        keys.validate_name(name)


def test_lone_surrogate_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"^name 'a\\udc80': expected text that UTF-8 can encode\.$"):
        keys.validate_name("a\udc80")


@pytest.mark.parametrize("name", [b"bytes", 7, None])
def test_name_must_be_a_string(name: object) -> None:
    with pytest.raises(TypeError, match=rf"^name .*: expected a string, got {type(name).__name__}\.$"):
        keys.validate_name(name)


def test_digest_is_short_stable_and_accepts_any_text() -> None:
    assert keys.digest("visitor") == keys.digest(b"visitor")
    assert len(keys.digest("\udc80" + "x" * 10_000)) == 32
    assert keys.digest("a") != keys.digest("b")


def test_stamps_of_days_sort_like_days() -> None:
    assert keys.day_stamp(date(2026, 3, 9)) == "20260309"


@pytest.mark.parametrize(
    ("named", "path"),
    [(keys.key, "django_redis_components.core.keys.key"), (date, "datetime.date"), (partial(int), "functools.partial")],
)
def test_dotted_path_names_functions_classes_and_the_class_of_other_objects(named: Any, path: str) -> None:
    assert dotted_path(named) == path


@pytest.mark.parametrize(
    ("data", "name"), [("Größe".encode(), "Größe"), (b"", None), (b"\xff", None), (b"a{b}", None), (b"x" * 201, None)]
)
def test_stored_name_is_none_for_bytes_that_are_no_name(data: bytes, name: str | None) -> None:
    assert stored_name(data) == name
