"""The prefix index: entries by the folded prefixes of their words, in sorted sets."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, Iterable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from django_redis_components.autocomplete import entries
from django_redis_components.autocomplete.completion import Completion
from django_redis_components.autocomplete.entries import Entry, Id, Suggestion
from django_redis_components.autocomplete.ranking import Candidates, RankedSuggestion
from django_redis_components.autocomplete.rebuilding import IndexRebuild
from django_redis_components.autocomplete.recents import RecentList, list_key
from django_redis_components.autocomplete.scripts import ADD, BUILD, CHECK_ENTRIES, INDEX, REMOVE
from django_redis_components.core import keys
from django_redis_components.core.arguments import check_instance, check_iterable
from django_redis_components.core.client import connections
from django_redis_components.core.client.endpoint import Endpoint
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Batch, Call, Command, Flow, Read, arun, run
from django_redis_components.core.text import FOLDING_VERSION, INSIDE, START, WORD, fold

#: Members of each key that MEMORY USAGE samples to estimate its size: the server's default.
SAMPLES = 5

#: Version of the encoding of entries. A change needs a new number, as a change of the folding does.
ENTRIES_VERSION = 2

#: Part of the keys of an index.
VERSION = f"v{FOLDING_VERSION}.{ENTRIES_VERSION}"


@dataclasses.dataclass(frozen=True, slots=True)
class IndexInfo:
    """The state of an index.

    Attributes:
        entries: ids in the index.
        terms: searchable terms; an entry has one for each of its words.
        bytes: estimated memory of its keys; None if the Redis user may not run MEMORY USAGE.
        is_rebuilding: whether a rebuild is running.
    """

    entries: int
    terms: int
    bytes: int | None
    is_rebuilding: bool


class PrefixIndex(DeletableComponent):
    """An index of texts by the prefixes of their words.

    Args:
        name: name of the index; use one index per address book, guild or tenant.
        using: connection alias.
    """

    component = "autocomplete"
    name_label = "index name"

    def __init__(self, name: str, *, using: str = "default") -> None:
        super().__init__(name, using=using)
        #: See `completion`.
        self._filled: dict[int, bool] = {}

    def add(self, id: Id, text: str, *, terms: Sequence[str] | None = None, weight: int = 0) -> None:
        """Add or replace the entry of an id. See `Entry` for the arguments."""
        self._run(self._add(Entry(id, text, terms or (), weight)))

    async def aadd(self, id: Id, text: str, *, terms: Sequence[str] | None = None, weight: int = 0) -> None:
        """See `add`."""
        await self._arun(self._add(Entry(id, text, terms or (), weight)))

    def remove(self, id: Id) -> None:
        """Remove an entry. An unknown id is ignored."""
        self._run(self._remove(id))

    async def aremove(self, id: Id) -> None:
        """See `remove`."""
        await self._arun(self._remove(id))

    def complete(
        self, prefix: str, *, limit: int = 10, recents: RecentList | None = None, typos: bool = False
    ) -> list[Suggestion]:
        """Return the entries with a term that starts with `prefix`, usually in one round trip.

        Order: recent choices (at most five unless the prefix is empty); entries whose text starts with the prefix;
        those with a word or a further term that does; those with a run of Han characters that has it inside; those
        with all words of the prefix in another order. Within these: exact matches, weight, the matched term. The
        weight decides among all entries for prefixes of one or two characters, and among the first fifty matching
        terms for longer ones. The order does not depend on `limit`. A recent choice that is not in the index is left
        out.

        If enough texts started with the last prefix of the same length, words are read only when they are needed, in a
        second round trip.

        Words in another order are searched among the first 500 terms of the rarest word.

        Args:
            prefix: the typed text; it is folded, and characters after the first 1,000 are ignored. An empty prefix
                matches all entries.
            limit: maximum number of suggestions, 1 to 1,000.
            recents: recent choices to list first. A list on another server, and each list on a Cluster, is read
                before, in a separate round trip.
            typos: append entries whose terms start with the prefix after one correction: a character is missing,
                superfluous, different or exchanged with its neighbor, but not the first. For prefixes of four
                characters or more that have fewer than `limit` entries: a second round trip of at most 300 lookups.
        """
        client = connections.page_client(self.using)
        query = Completion(self._part_key, self._filled, prefix, limit, typos=typos)
        candidates, chosen = run(client, query.find(self._match(query, recents, client.endpoint)))
        return candidates.ranked(chosen, limit)

    async def acomplete(
        self, prefix: str, *, limit: int = 10, recents: RecentList | None = None, typos: bool = False
    ) -> list[Suggestion]:
        """See `complete`."""
        client = connections.apage_client(self.using)
        query = Completion(self._part_key, self._filled, prefix, limit, typos=typos)
        candidates, chosen = await arun(client, query.find(await self._amatch(query, recents, client.endpoint)))
        return candidates.ranked(chosen, limit)

    def explain(
        self, prefix: str, *, limit: int = 10, recents: RecentList | None = None, typos: bool = False
    ) -> list[RankedSuggestion]:
        """Return what `complete` returns, each with the reason for its position."""
        client = connections.page_client(self.using)
        query = Completion(self._part_key, self._filled, prefix, limit, typos=typos)
        candidates, chosen = run(client, query.find(self._match(query, recents, client.endpoint)))
        return candidates.explained(chosen, limit)

    async def aexplain(
        self, prefix: str, *, limit: int = 10, recents: RecentList | None = None, typos: bool = False
    ) -> list[RankedSuggestion]:
        """See `explain`."""
        client = connections.apage_client(self.using)
        query = Completion(self._part_key, self._filled, prefix, limit, typos=typos)
        candidates, chosen = await arun(client, query.find(await self._amatch(query, recents, client.endpoint)))
        return candidates.explained(chosen, limit)

    def get_many(self, ids: Iterable[Id]) -> dict[str, Suggestion]:
        """Return the entries of these ids, by id. Unknown ids are left out."""
        return run(connections.page_client(self.using), self._get_many(ids))

    async def aget_many(self, ids: Iterable[Id]) -> dict[str, Suggestion]:
        """See `get_many`."""
        return await arun(connections.apage_client(self.using), self._get_many(ids))

    def find_by_text(self, text: str, *, limit: int = 10) -> list[Suggestion]:
        """Return the entries whose text is `text`, spelling folded; if there are none, those with it as a term."""
        return run(connections.page_client(self.using), self._find_by_text(text, limit))

    async def afind_by_text(self, text: str, *, limit: int = 10) -> list[Suggestion]:
        """See `find_by_text`."""
        return await arun(connections.apage_client(self.using), self._find_by_text(text, limit))

    def count(self) -> int:
        """Return the number of entries."""
        return self._run(self._count())

    async def acount(self) -> int:
        """See `count`."""
        return await self._arun(self._count())

    def info(self) -> IndexInfo:
        """Return the number of entries and terms, the memory, and whether a rebuild is running."""
        return self._run(self._info())

    async def ainfo(self) -> IndexInfo:
        """See `info`."""
        return await self._arun(self._info())

    def rebuild(self, items: Iterable[Entry | tuple[Id, str]]) -> int:
        """Replace the whole index and return its number of entries.

        The new index is loaded in chunks next to the old one, which it replaces in one step: readers see the old
        or the new index. Changes by `add` and `remove` during the rebuild are kept and override the items. So
        read the data while iterating, not before: pass a generator, such as
        `((c.pk, c.name) for c in queryset.iterator())`. If the iterable raises, the index is unchanged.

        Raises:
            RebuildSuperseded: a later rebuild of the index started.
        """
        return self._new_rebuild().run(connections.client(self.using), items)

    async def arebuild(self, items: Iterable[Entry | tuple[Id, str]] | AsyncIterable[Entry | tuple[Id, str]]) -> int:
        """See `rebuild`; the iterable may be asynchronous."""
        return await self._new_rebuild().arun(connections.aclient(self.using), items)

    def _part_key(self, part: str) -> str:
        """Return a key by its name in the scripts. It has the versions of the folding rules and of the entries."""
        return keys.key("autocomplete", self.name, VERSION, part)

    def _new_rebuild(self) -> IndexRebuild:
        return IndexRebuild(self.name, index_keys(self), self._part_key("built"))

    def _add(self, entry: Entry) -> Flow[None]:
        yield add_call(self, entry)

    def _remove(self, id: Id) -> Flow[None]:
        yield remove_call(self, id)

    def _match(self, query: Completion, recents: RecentList | None, endpoint: Endpoint) -> Call | None:
        if recents is None:
            return None
        if self._is_beside(recents, endpoint):
            return query.match_recents([list_key(recents)])
        return query.match_recents([], recents.ids())

    async def _amatch(self, query: Completion, recents: RecentList | None, endpoint: Endpoint) -> Call | None:
        if recents is None:
            return None
        if self._is_beside(recents, endpoint):
            return query.match_recents([list_key(recents)])
        return query.match_recents([], await recents.aids())

    def _is_beside(self, recents: RecentList, endpoint: Endpoint) -> bool:
        """Return whether a script can read both. On a Cluster their keys are in different slots."""
        check_instance(recents, "recents", RecentList, "a RecentList or None")
        return recents.using == self.using and endpoint.kind != "cluster"

    def _get_many(self, ids: Iterable[Id]) -> Flow[dict[str, Suggestion]]:
        wanted = [entries.check_id(id_) for id_ in check_iterable(ids, "ids")]
        if not wanted:
            return {}
        records = yield Read("HMGET", self._part_key("entries"), *wanted)
        return {
            id_: Suggestion(id_, text)
            for id_, record in zip(wanted, records, strict=True)
            if record is not None and (text := entries.text_of(record)) is not None
        }

    def _find_by_text(self, text: str, limit: int) -> Flow[list[Suggestion]]:
        limit = entries.check_limit(limit)
        typed = entries.folded_prefix(text)
        if not typed:
            return []
        start = typed.encode("utf-8", "replace") + b"\0"
        requests = [
            _range(self._part_key("lex"), b"%d%s" % (position, start), entries.MAX_SUGGESTIONS)
            for position in (START, WORD, INSIDE)
        ]
        candidates = Candidates(start, entries.MAX_SUGGESTIONS)
        for position, members in enumerate((yield Batch(requests))):
            candidates.add(position, members)
        ranked = candidates.ranked([], entries.MAX_SUGGESTIONS)
        whole = fold(text[: entries.MAX_QUERY_CHARS])
        return ([one for one in ranked if fold(one.text) == whole] or ranked)[:limit]

    def _count(self) -> Flow[int]:
        number: int = yield Read("HLEN", self._part_key("entries"))
        return number

    def _info(self) -> Flow[IndexInfo]:
        memory = [
            Read("MEMORY", "USAGE", key, "SAMPLES", SAMPLES, key=key)
            for key in (self._part_key(part) for part in INDEX)
        ]
        lengths = [
            Read("HLEN", self._part_key("entries")),
            Read("ZCARD", self._part_key("lex")),
            Read("PTTL", self._part_key("build")),
        ]
        replies = yield Batch([*lengths, *memory], return_exceptions=True)
        entry_count, terms, left_ms = map(_unwrap, replies[:3])
        return IndexInfo(entry_count, terms, _sum_bytes(replies[3:]), left_ms > 0)

    def _delete(self) -> Flow[bool]:
        return bool((yield Command("UNLINK", *index_keys(self).values(), self._part_key("built"), retry=True)))


def part_key(index: PrefixIndex, part: str) -> str:
    """Return a key by its name in the scripts."""
    return index._part_key(part)


def index_keys(index: PrefixIndex) -> dict[str, str]:
    """Return the keys of an index and of a rebuild of it, by their names in the scripts."""
    return {part: part_key(index, part) for part in (*INDEX, *BUILD)}


def add_call(index: PrefixIndex, entry: Entry) -> Call:
    """Return the call that adds an entry, for a batch."""
    return ADD(**index_keys(index), id=entries.check_id(entry.id), record=entries.record_of(entry))


def remove_call(index: PrefixIndex, id: Id) -> Call:
    """Return the call that removes an entry, for a batch."""
    return REMOVE(**index_keys(index), id=entries.check_id(id))


def check_call(index: PrefixIndex, ids: Sequence[Id]) -> Call:
    """Return the call that reads the records of ids, and whether the sets have their members, for a batch."""
    return CHECK_ENTRIES(**{part: part_key(index, part) for part in INDEX}, ids=[entries.check_id(id_) for id_ in ids])


def info_flow(index: PrefixIndex) -> Flow[IndexInfo]:
    """Return the flow of `PrefixIndex.info`: one round trip of 6 commands."""
    return index._info()


def _unwrap(reply: Any) -> Any:
    if isinstance(reply, Exception):
        raise reply
    return reply


def _sum_bytes(replies: Sequence[Any]) -> int | None:
    """Return the sum of sizes, without those of missing keys; None if the server rejected the command."""
    if any(isinstance(reply, ResponseError) for reply in replies):
        return None
    return sum(_unwrap(reply) or 0 for reply in replies)


def _range(key: str, prefix: bytes, limit: int) -> Command:
    """Read members that start with the prefix. UTF-8 never contains the byte 0xFF."""
    return Read("ZRANGE", key, b"[" + prefix, b"(" + prefix + b"\xff", "BYLEX", "LIMIT", 0, limit)
