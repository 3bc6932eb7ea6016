"""The base class of the objects of components."""

from __future__ import annotations

import asyncio

import pytest

from django_redis_components.core.client.connections import aclose_all
from tests.core.notes import Note


def test_repr_is_the_class_and_the_name() -> None:
    assert repr(Note("a'b")) == """<Note "a'b">"""


def test_name_is_validated_under_its_label() -> None:
    with pytest.raises(ValueError, match=r"^note name is empty: expected 1 to 200 bytes of text\.$"):
        Note("")


def test_keys_have_the_component_and_the_name() -> None:
    assert Note("x").key.endswith(":notes:{x}:text")


@pytest.mark.usefixtures("store")
def test_delete_returns_whether_there_was_anything() -> None:
    note = Note("x")
    note.write("a")

    assert note.delete() is True
    assert note.delete() is False


@pytest.mark.usefixtures("store")
def test_async_methods_do_the_same() -> None:
    async def steps() -> list[bool]:
        note = Note("x")
        await note.awrite("a")
        deleted = [await note.adelete(), await note.adelete()]
        await aclose_all()
        return deleted

    assert asyncio.run(steps()) == [True, False]
