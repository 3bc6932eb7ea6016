"""The base class of the objects of components."""

from __future__ import annotations

import asyncio

import pytest

from django_redis_components.core.client.connections import aclose_all
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Command, Flow


class Note(DeletableComponent):
    """A text in Redis."""

    component = "notes"
    name_label = "note name"

    def write(self, text: str) -> None:
        self._run(self._write(text))

    async def awrite(self, text: str) -> None:
        await self._arun(self._write(text))

    @property
    def key(self) -> str:
        return self._key("text")

    def _write(self, text: str) -> Flow[None]:
        yield Command("SET", self.key, text, retry=True)

    def _delete(self) -> Flow[bool]:
        return bool((yield Command("UNLINK", self.key, retry=True)))


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
