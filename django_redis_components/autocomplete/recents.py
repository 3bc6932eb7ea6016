"""The most recently chosen ids of a user."""

from __future__ import annotations

from datetime import timedelta

from django_redis_components.autocomplete import entries
from django_redis_components.autocomplete.entries import Id, Suggestion
from django_redis_components.autocomplete.scripts import RECENT_REMOVE, RECENT_TOUCH
from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Command, Flow, Read, arun, run
from django_redis_components.core.text import folded_words
from django_redis_components.core.units import Seconds, to_ms

#: Maximum length of a list; a completion reads all of it. The same as in `lua/shared/recents.lua`.
MAX_LIMIT = 1_000

_Suggestions = list[Suggestion]
_Ids = list[str]


class RecentList:
    """The `limit` most recently chosen ids, latest first.

    Args:
        name: name of the list, such as ``f"user:{user.pk}"``.
        limit: maximum length, 1 to 1,000.
        ttl: seconds (or timedelta) after the last touch until the list expires; 400 days by default.
        using: connection alias.
    """

    def __init__(
        self,
        name: str,
        limit: int = 100,
        *,
        ttl: Seconds = timedelta(days=400),
        using: str = "default",
    ) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            raise ValueError(f"limit={limit!r}: expected an integer from 1 to {MAX_LIMIT}.")
        self.name = keys.validate_name(name, "name of a recent list")
        self.limit = limit
        self.using = using
        self._ttl_ms = to_ms(ttl, "ttl")

    def __repr__(self) -> str:
        return f"<RecentList {self.name}>"

    def touch(self, id: Id, text: str | None = None) -> None:
        """Move an id to the head of the list.

        Args:
            id: the chosen id.
            text: its text, for lists that are completed without an index; None keeps the stored one.
        """
        run(connections.page_client(self.using), self._touch(id, text))

    async def atouch(self, id: Id, text: str | None = None) -> None:
        """See `touch`."""
        await arun(connections.apage_client(self.using), self._touch(id, text))

    def remove(self, id: Id) -> None:
        """Remove an id. An unknown id is ignored."""
        run(connections.page_client(self.using), self._remove(id))

    async def aremove(self, id: Id) -> None:
        """See `remove`."""
        await arun(connections.apage_client(self.using), self._remove(id))

    def clear(self) -> None:
        """Delete the list."""
        run(connections.page_client(self.using), self._clear())

    async def aclear(self) -> None:
        """See `clear`."""
        await arun(connections.apage_client(self.using), self._clear())

    def list(self) -> _Suggestions:
        """Return all choices, latest first. A choice without a stored text has its id as text."""
        return run(connections.page_client(self.using), self._list())

    async def alist(self) -> _Suggestions:
        """See `list`."""
        return await arun(connections.apage_client(self.using), self._list())

    def complete(self, prefix: str, limit: int = 10) -> _Suggestions:
        """Return the choices with a word that starts with `prefix`, latest first; an empty prefix matches all."""
        return run(connections.page_client(self.using), self._complete(prefix, limit))

    async def acomplete(self, prefix: str, limit: int = 10) -> _Suggestions:
        """See `complete`."""
        return await arun(connections.apage_client(self.using), self._complete(prefix, limit))

    def ids(self) -> _Ids:
        """Return the ids, latest first."""
        return run(connections.page_client(self.using), self._ids())

    async def aids(self) -> _Ids:
        """See `ids`."""
        return await arun(connections.apage_client(self.using), self._ids())

    @property
    def key(self) -> str:
        """The key of the list in Redis."""
        return keys.key("autocomplete", self.name, "recent")

    def _touch(self, id: Id, text: str | None) -> Flow[None]:
        shown = "" if text is None else entries.check_text(text)
        yield RECENT_TOUCH(recents=self.key, id=entries.check_id(id), text=shown, limit=self.limit, ttl_ms=self._ttl_ms)

    def _remove(self, id: Id) -> Flow[None]:
        yield RECENT_REMOVE(recents=self.key, id=entries.check_id(id))

    def _clear(self) -> Flow[None]:
        yield Command("UNLINK", self.key, retry=True)

    def _ids(self) -> Flow[_Ids]:
        elements = yield Read("LRANGE", self.key, 0, self.limit - 1)
        return [parts[0] for parts in map(entries.recent_parts, elements) if parts is not None]

    def _list(self) -> Flow[_Suggestions]:
        elements = yield Read("LRANGE", self.key, 0, self.limit - 1)
        found = [parts for parts in map(entries.recent_parts, elements) if parts is not None]
        return [Suggestion(id_, text or id_, recent=True) for id_, text in found]

    def _complete(self, prefix: str, limit: int) -> Flow[_Suggestions]:
        entries.check_limit(limit)
        typed = entries.folded_prefix(prefix)
        known = yield from self._list()
        if typed:
            known = [one for one in known if _matches(one.text, typed)]
        return known[:limit]


def _matches(text: str, typed: str) -> bool:
    return any(words.startswith(typed) for words in folded_words(text, entries.MAX_TEXT_TERMS))
