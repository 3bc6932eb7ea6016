"""An index of names by their beginnings, in one sorted set."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence

from django_redis_components.autocomplete import entries, rebuilding
from django_redis_components.autocomplete.entries import Entry, Id, Suggestion
from django_redis_components.autocomplete.ranking import Candidates
from django_redis_components.autocomplete.rebuilding import Rebuild
from django_redis_components.autocomplete.recents import RecentList
from django_redis_components.autocomplete.scripts import ADD, BUILD, INDEX, REMOVE
from django_redis_components.core import keys
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Command, Flow, Read, arun, run
from django_redis_components.core.text import FOLDING_VERSION, fold

#: Members asked for, for each suggestion wanted: an entry may match by several of its terms.
ASK_FACTOR = 3
#: Most members asked for at once. More would hold up the server's other clients for longer.
MAX_ASK = 3_000
#: Typed characters up to which the weight decides among all entries. `lua/shared/entries.lua` has the same number.
WEIGHED_CHARS = 2
#: Members among which the weight decides for what is longer. It is the same for every limit, so that pages fit.
WEIGHED_MEMBERS = 30

_VERSION = f"v{FOLDING_VERSION}"


class PrefixIndex:
    """Names that are found by what somebody types: the beginning of any of their words.

    Args:
        name: name of the index. One index for each address book, guild or tenant.
        using: connection alias.
    """

    def __init__(self, name: str, *, using: str = "default") -> None:
        self.name = keys.validate_name(name, "index name")
        self.using = using

    def __repr__(self) -> str:
        return f"<PrefixIndex {self.name}>"

    def add(self, id: Id, text: str, terms: Sequence[str] | None = None, weight: int = 0) -> None:
        """Put an entry in, in the place of what its id had. Arguments as for `Entry`."""
        run(connections.client(self.using), self._add(Entry(id, text, terms or (), weight)))

    async def aadd(self, id: Id, text: str, terms: Sequence[str] | None = None, weight: int = 0) -> None:
        """See `add`."""
        await arun(connections.aclient(self.using), self._add(Entry(id, text, terms or (), weight)))

    def remove(self, id: Id) -> None:
        """Take an entry out; an id that is not there is no error."""
        run(connections.client(self.using), self._remove(id))

    async def aremove(self, id: Id) -> None:
        """See `remove`."""
        await arun(connections.aclient(self.using), self._remove(id))

    def complete(self, prefix: str, limit: int = 10, recents: RecentList | None = None) -> list[Suggestion]:
        """The entries of which a term begins with `prefix`.

        Order: recents (at most five once something is typed), exact matches, weight, the matched term.
        The weight decides among all entries for prefixes of one or two characters, and among the first thirty
        matching terms for longer ones. The order does not depend on `limit`. A recent that the index does not
        hold is left out.

        Args:
            prefix: what was typed; its spelling is folded, and its first 1,000 characters count. Empty finds
                everything.
            limit: how many at most, 1 to 1,000.
            recents: whose recent choices come first.
        """
        chosen = recents.ids() if recents else []
        return run(connections.client(self.using), self._complete(prefix, limit, chosen))

    async def acomplete(self, prefix: str, limit: int = 10, recents: RecentList | None = None) -> list[Suggestion]:
        """See `complete`."""
        chosen = await recents.aids() if recents else []
        return await arun(connections.aclient(self.using), self._complete(prefix, limit, chosen))

    def get_many(self, ids: Iterable[Id]) -> dict[str, Suggestion]:
        """The entries of these ids, by id; those that are not there are left out."""
        return run(connections.client(self.using), self._get_many(ids))

    async def aget_many(self, ids: Iterable[Id]) -> dict[str, Suggestion]:
        """See `get_many`."""
        return await arun(connections.aclient(self.using), self._get_many(ids))

    def named(self, text: str, limit: int = 10) -> list[Suggestion]:
        """The entries that somebody means who typed the whole of `text`.

        Those whose text it is (spelling folded); if there are none, those that have it as a term.
        """
        return run(connections.client(self.using), self._named(text, limit))

    async def anamed(self, text: str, limit: int = 10) -> list[Suggestion]:
        """See `named`."""
        return await arun(connections.aclient(self.using), self._named(text, limit))

    def count(self) -> int:
        """How many entries there are."""
        return run(connections.client(self.using), self._count())

    async def acount(self) -> int:
        """See `count`."""
        return await arun(connections.aclient(self.using), self._count())

    def clear(self) -> None:
        """Remove the whole index, and a rebuild of it."""
        run(connections.client(self.using), self._clear())

    async def aclear(self) -> None:
        """See `clear`."""
        await arun(connections.aclient(self.using), self._clear())

    def rebuild(self, iterable: Iterable[Entry | tuple[Id, str]]) -> int:
        """Replace the whole index, and return how many entries it then has.

        The new one is loaded beside the old one in chunks and put in its place at once: readers see the
        old or the new. `add` and `remove` meanwhile are kept: they win over what the iterable brings. So
        the data must be read when the iterable is, not before: pass a generator function's result, or
        `((c.pk, c.name) for c in queryset.iterator())`. An error of the iterable leaves the index as it is.

        Raises:
            RebuildSuperseded: a later rebuild of the same index began.
        """
        return rebuilding.rebuild(self._new_rebuild(), connections.client(self.using), iterable)

    async def arebuild(self, iterable: Iterable[Entry | tuple[Id, str]] | AsyncIterable[Entry | tuple[Id, str]]) -> int:
        """`rebuild`, on the event loop; the iterable may be an asynchronous one."""
        return await rebuilding.arebuild(self._new_rebuild(), connections.aclient(self.using), iterable)

    def _keys(self) -> dict[str, str]:
        """The keys by the names that the scripts use."""
        return {part: self._key(part) for part in (*INDEX, *BUILD)}

    def _key(self, part: str) -> str:
        """One key. The folding's version keeps other foldings apart."""
        return keys.key("autocomplete", self.name, _VERSION, part)

    def _new_rebuild(self) -> Rebuild:
        return Rebuild(self.name, self._keys(), self._key("built"))

    def _add(self, entry: Entry) -> Flow[None]:
        yield ADD(**self._keys(), id=entries.check_id(entry.id), record=entry.record())

    def _remove(self, id: Id) -> Flow[None]:
        yield REMOVE(**self._keys(), id=entries.check_id(id))

    def _complete(self, prefix: str, limit: int, chosen: Sequence[str]) -> Flow[list[Suggestion]]:
        entries.check_limit(limit)
        typed = entries.folded_prefix(prefix)
        start = typed.encode("utf-8", "replace")
        short = len(typed) <= WEIGHED_CHARS
        ask = min(max(limit * ASK_FACTOR, WEIGHED_MEMBERS), MAX_ASK)
        requests = [_range(self._key("lex"), b"[" + start, start, ask)]
        if short:
            # An entry stands once in each of the two: as an exact match, and as any.
            requests += [
                _range(self._key("top"), b"[" + start + b"\1", start + b"\1", limit),
                _range(self._key("top"), b"[" + start + b"\0", start + b"\0", limit * 2),
            ]
        if chosen:
            requests.append(Read("HMGET", self._key("entries"), *chosen))
        replies = [(yield requests[0])] if len(requests) == 1 else (yield Batch(requests))
        recents = _recents(chosen, replies.pop(), start) if chosen else []
        candidates = Candidates(typed, limit, None if short else WEIGHED_MEMBERS)
        candidates.add_terms(replies[0])
        for members in replies[1:]:
            candidates.add_weighed(members)
        yield from self._read_on(candidates, replies[0], start, ask, limit)
        return candidates.ranked(recents)

    def _read_on(self, candidates: Candidates, lex: list[bytes], start: bytes, ask: int, limit: int) -> Flow[None]:
        """Ask for further members while those read belong to too few entries; none has more than MAX_TERMS."""
        left = entries.MAX_TERMS * limit - len(lex)
        while len(candidates) < limit and len(lex) == ask and left > 0:
            ask = min(ask * 2, MAX_ASK)
            lex = yield _range(self._key("lex"), b"(" + lex[-1], start, ask)
            left -= len(lex)
            candidates.add_terms(lex)

    def _get_many(self, ids: Iterable[Id]) -> Flow[dict[str, Suggestion]]:
        wanted = [entries.check_id(id_) for id_ in ids]
        if not wanted:
            return {}
        records = yield Read("HMGET", self._key("entries"), *wanted)
        return {
            id_: Suggestion(id_, text)
            for id_, record in zip(wanted, records, strict=True)
            if record is not None and (text := entries.text_of(record)) is not None
        }

    def _named(self, text: str, limit: int) -> Flow[list[Suggestion]]:
        entries.check_limit(limit)
        typed = entries.folded_prefix(text)
        if not typed:
            return []
        start = typed.encode("utf-8", "replace") + b"\0"
        members = yield _range(self._key("lex"), b"[" + start, start, entries.MAX_SUGGESTIONS)
        texts = {parts[3]: parts[1] for parts in map(entries.member_parts, members) if parts is not None}
        found = [Suggestion(*one) for one in texts.items()]
        whole = fold(text[: entries.MAX_QUERY_CHARS])
        return ([one for one in found if fold(one.text) == whole] or found)[:limit]

    def _count(self) -> Flow[int]:
        number: int = yield Read("HLEN", self._key("entries"))
        return number

    def _clear(self) -> Flow[None]:
        yield Command("UNLINK", *self._keys().values(), retry=True)


def _range(key: str, start: bytes, prefix: bytes, limit: int) -> Command:
    """Members from `start` on that begin with the prefix. In bytes: 0xFF stands in no UTF-8 text."""
    return Read("ZRANGE", key, start, b"(" + prefix + b"\xff", "BYLEX", "LIMIT", 0, limit)


def _recents(chosen: Sequence[str], records: Sequence[bytes | None], start: bytes) -> list[Suggestion]:
    """Those of the recent ids that the index has and that match, with the index's text."""
    return [
        Suggestion(id_, text, recent=True)
        for id_, record in zip(chosen, records, strict=True)
        if record is not None
        and entries.record_matches(record, start)
        and (text := entries.text_of(record)) is not None
    ]
