"""The most recently chosen ids of a user."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from django_redis_components.autocomplete import entries
from django_redis_components.autocomplete.entries import Id, Suggestion
from django_redis_components.autocomplete.scripts import RECENT_REMOVE, RECENT_TOUCH
from django_redis_components.core.arguments import check_int
from django_redis_components.core.client import connections
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Command, Flow, Read, arun, run
from django_redis_components.core.text import folded_words
from django_redis_components.core.units import Seconds, to_ms

T = TypeVar("T")

#: Maximum length of a list; a completion reads all of it. The same as in `lua/shared/recents.lua`.
MAX_LIMIT = 1_000


class RecentList(DeletableComponent):
    """The `limit` most recently chosen ids, latest first.

    Args:
        name: name of the list, such as ``f"user:{user.pk}"``.
        limit: maximum length, 1 to 1,000.
        ttl: seconds (or timedelta) after the last touch until the list expires; 400 days by default.
        using: connection alias.
    """

    component = "autocomplete"
    name_label = "name of a recent list"
    catalog_kind = "RecentList"

    def __init__(
        self,
        name: str,
        *,
        limit: int = 100,
        ttl: Seconds = timedelta(days=400),
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self.limit = check_int(limit, "limit", 1, MAX_LIMIT)
        self._ttl_ms = to_ms(ttl, "ttl")

    def _run(self, flow: Flow[T]) -> T:
        self._record_use()
        return run(connections.page_client(self.using), flow)

    async def _arun(self, flow: Flow[T]) -> T:
        self._record_use()
        return await arun(connections.apage_client(self.using), flow)

    def touch(self, id: Id, text: str | None = None) -> None:
        """Move an id to the head of the list.

        Args:
            id: the chosen id.
            text: its text, for lists that are completed without an index; None keeps the stored one.
        """
        self._run(self._touch(id, text))

    async def atouch(self, id: Id, text: str | None = None) -> None:
        """See `touch`."""
        await self._arun(self._touch(id, text))

    def remove(self, id: Id) -> None:
        """Remove an id. An unknown id is ignored."""
        self._run(self._remove(id))

    async def aremove(self, id: Id) -> None:
        """See `remove`."""
        await self._arun(self._remove(id))

    def all(self) -> list[Suggestion]:
        """Return all choices, latest first. A choice without a stored text has its id as text."""
        return self._run(self._all())

    async def aall(self) -> list[Suggestion]:
        """See `all`."""
        return await self._arun(self._all())

    def complete(self, prefix: str, *, limit: int = 10) -> list[Suggestion]:
        """Return the choices with a word that starts with `prefix`, latest first; an empty prefix matches all."""
        return self._run(self._complete(prefix, limit))

    async def acomplete(self, prefix: str, *, limit: int = 10) -> list[Suggestion]:
        """See `complete`."""
        return await self._arun(self._complete(prefix, limit))

    def ids(self) -> list[str]:
        """Return the ids, latest first."""
        return self._run(self._ids())

    async def aids(self) -> list[str]:
        """See `ids`."""
        return await self._arun(self._ids())

    def _list_key(self) -> str:
        return self._key("recent")

    def _touch(self, id: Id, text: str | None) -> Flow[None]:
        checked_text = "" if text is None else entries.check_text(text)
        yield RECENT_TOUCH(
            recents=self._list_key(), id=entries.check_id(id), text=checked_text, limit=self.limit, ttl_ms=self._ttl_ms
        )

    def _remove(self, id: Id) -> Flow[None]:
        yield RECENT_REMOVE(recents=self._list_key(), id=entries.check_id(id))

    def _delete(self) -> Flow[bool]:
        return bool((yield Command("UNLINK", self._list_key(), retry=True)))

    def _ids(self) -> Flow[list[str]]:
        elements = yield Read("LRANGE", self._list_key(), 0, self.limit - 1)
        return [parts[0] for parts in map(entries.recent_parts, elements) if parts is not None]

    def _all(self) -> Flow[list[Suggestion]]:
        elements = yield Read("LRANGE", self._list_key(), 0, self.limit - 1)
        found = [parts for parts in map(entries.recent_parts, elements) if parts is not None]
        return [Suggestion(id_, text or id_, is_recent=True) for id_, text in found]

    def _complete(self, prefix: str, limit: int) -> Flow[list[Suggestion]]:
        limit = entries.check_limit(limit)
        typed = entries.folded_prefix(prefix)
        known = yield from self._all()
        if typed:
            known = [one for one in known if _matches(one.text, typed)]
        return known[:limit]


def list_key(recents: RecentList) -> str:
    """Return the key of a list in Redis."""
    return recents._list_key()


def _matches(text: str, typed: str) -> bool:
    return any(words.startswith(typed) for words in folded_words(text, entries.MAX_TEXT_TERMS))
