"""A component of the tests: a text in Redis, known to the catalogue."""

from __future__ import annotations

from typing import Any

from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.observability.catalog import RECORDER
from django_redis_components.core.protocol import Command, Flow


class Note(DeletableComponent):
    """A text in Redis."""

    component = "notes"
    name_label = "note name"
    catalog_kind = "Note"

    def __init__(self, name: str, *, color: str = "", using: str = "default") -> None:
        super().__init__(name, using=using)
        self.color = color

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

    def _catalog_options(self) -> dict[str, Any]:
        return {"color": self.color} if self.color else {}


def write(name: str) -> None:
    """Write a note in a separate process, which ends without another transfer of the thread."""
    Note(name).write("a")
    RECORDER.flush()
