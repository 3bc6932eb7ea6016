"""Completion: the ranges of the index that a query reads, usually in one round trip.

A term of an entry starts at a position: the start of its text, the start of a word, or inside a run of Han characters.
The positions are ranges of their own, so that the server sorts the suggestions, and few members are read. The weight
decides among all entries for short prefixes, by the set "top", and among the first members of a position for longer
ones.

The first position alone fills most lists of short prefixes in a large index, and seldom others. So an index remembers
for each prefix length whether it did so in the last query, and then reads that position only; the others follow if
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django_redis_components.autocomplete import entries
from django_redis_components.autocomplete.entries import Suggestion
from django_redis_components.autocomplete.ranking import MATCHES, Candidates
from django_redis_components.autocomplete.scripts import FIND_VARIANTS, MATCH_RECENTS, MATCH_WORDS
from django_redis_components.core.arguments import check_flag
from django_redis_components.core.protocol import Batch, Call, Command, Flow
from django_redis_components.core.text import INSIDE, START, WORD, is_han

#: Members of a position that are read, and among which the weight decides.
WEIGHED_MEMBERS = 50
#: Maximum members of one read. Longer replies delay other clients of the server.
MAX_READ = 3_000
#: Maximum prefix length for which the weight decides among all entries; the same as in `lua/shared/entries.lua`.
WEIGHED_CHARS = 2
#: Bytes of a member of "top" beside the prefix, before the member of "lex": position, mark, nine digits and NUL.
TOP_HEAD = 12
#: Words of a query that may match in any order, and members of the rarest word that are looked at.
MAX_WORDS, MAX_SCAN = 8, 500
#: Characters from which typos are corrected; lookups, and members of each corrected prefix.
TYPO_CHARS, TYPO_LOOKUPS, TYPO_MEMBERS = 4, 300, 10

#: Returns a key of the index by its name in the scripts.
KeyOf = Callable[[str], str]


class Completion:
    """One query.

    Args:
        key_of: returns a key of the index.
        filled: what the index remembers: prefix length -> whether the first position had enough entries.
        prefix: the typed text.
        limit: maximum number of suggestions.
        typos: whether entries whose terms differ by one typo follow if there are too few others.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    def __init__(self, key_of: KeyOf, filled: dict[int, bool], prefix: str, limit: int, *, typos: bool = False) -> None:
        limit = entries.check_limit(limit)
        self._key_of = key_of
        self._filled = filled
        self._typed = entries.folded_prefix(prefix)
        self._start = self._typed.encode("utf-8", "replace")
        self._limit = limit
        self._read = max(limit, WEIGHED_MEMBERS)
        self._typos = check_flag(typos, "typos") and len(self._typed) >= TYPO_CHARS

    def find(self, recents: Call | None = None) -> Flow[tuple[Candidates, list[Suggestion]]]:
        """Return the candidates, and the recent choices that match.

        Args:
            recents: the call from `match_recents`, for the same round trip.
        """
        typed = self._typed
        positions = (START, WORD, INSIDE) if typed and is_han(typed[0]) else (START, WORD)
        ranges = self._ranges(positions[:1] if self._filled.get(len(typed)) else positions)
        requests: list[Call | Command] = [*ranges]
        if words := self._words():
            requests.append(self._match_words(words))
        if recents:
            requests.append(recents)
        replies = (yield Batch(requests)) if len(requests) > 1 else [(yield requests[0])]
        recent_choices = _suggestions(replies.pop()) if recents else []
        by_words = replies.pop() if words else []
        candidates = Candidates(self._start, self._limit + len(recent_choices))
        yield from self._add_positions(candidates, positions, replies)
        if by_words:
            candidates.add(MATCHES.index("words"), by_words)
        if self._typos and candidates.missing:
            candidates.add(MATCHES.index("typo"), (yield self._find_variants()))
        return candidates, recent_choices

    def _add_positions(
        self, candidates: Candidates, positions: Sequence[int], replies: list[list[bytes]]
    ) -> Flow[None]:
        """Add the members of the positions, in their order, until there are enough."""
        is_short = len(self._typed) <= WEIGHED_CHARS
        used = 0
        for position in positions:
            if not replies:
                replies = yield Batch(self._ranges(positions[used:]))
            lex, top = replies.pop(0), replies.pop(0) if is_short else []
            used += 1
            if not top and len(lex) <= WEIGHED_MEMBERS:
                candidates.add_weighed(position, lex)
            else:
                weighed = len(lex) if is_short else WEIGHED_MEMBERS
                skipped = len(self._start) + TOP_HEAD
                candidates.add_weighed(position, [*(member[skipped:] for member in top), *lex[:weighed]])
                candidates.add(position, lex[weighed:])
            if not candidates.missing:
                break
            if len(lex) == self._read:
                yield from self._read_more(candidates, position, lex)
                if not candidates.missing:
                    break
        self._filled[len(self._typed)] = used == 1

    def match_recents(self, lists: Sequence[str], ids: Sequence[str] = ()) -> Call:
        """Return the call that reads matching recent choices.

        Args:
            lists: the key of their list, on the server of the index; none if the ids are passed.
        """
        return MATCH_RECENTS(
            entries=self._key_of("entries"), lists=lists, prefix=self._start, limit=self._limit, ids=list(ids)
        )

    def _read_more(self, candidates: Candidates, position: int, lex: list[bytes]) -> Flow[None]:
        """Read further members of a position while there are too few entries; an entry has at most `MAX_TERMS`."""
        read = len(lex)
        left = entries.MAX_TERMS * self._limit - read
        while candidates.missing and len(lex) == read and left > 0:
            read = min(read * 2, MAX_READ)
            lex = yield self._range(self._key_of("lex"), position, b"\xff", read, after=lex[-1])
            left -= len(lex)
            candidates.add(position, lex)

    def _ranges(self, positions: Sequence[int]) -> list[Command]:
        """Return the reads of positions, one after the other; for a short prefix each with that of its weights."""
        lex_key = self._key_of("lex")
        if len(self._typed) > WEIGHED_CHARS:
            return [self._range(lex_key, position, b"\xff", self._read) for position in positions]
        top_key = self._key_of("top")
        return [
            request
            for position in positions
            for request in (
                self._range(lex_key, position, b"\xff", self._read),
                self._range(top_key, position, b"\2", self._limit),
            )
        ]

    def _range(self, key: str, position: int, end: bytes, count: int, after: bytes = b"") -> Command:
        """Return a read of the members of a position that start with the prefix, before `end` after it.

        UTF-8 never contains the byte 0xFF.
        """
        prefix = b"%d%s" % (position, self._start)
        start = b"(" + after if after else b"[" + prefix
        return Command("ZRANGE", key, start, b"(" + prefix + end, "BYLEX", "LIMIT", "0", str(count), retry=True)

    def _words(self) -> list[bytes]:
        words = list(dict.fromkeys(self._start.split(b" ")))[:MAX_WORDS]
        return words if b" " in self._start else []

    def _match_words(self, words: list[bytes]) -> Call:
        return MATCH_WORDS(
            lex=self._key_of("lex"),
            entries=self._key_of("entries"),
            limit=2 * self._limit,  # as many may have been found by the whole prefix
            max_scan=MAX_SCAN,
            words=words,
        )

    def _find_variants(self) -> Call:
        characters = [character.encode("utf-8", "replace") for character in self._typed]
        return FIND_VARIANTS(
            lex=self._key_of("lex"), limit=TYPO_MEMBERS, max_lookups=TYPO_LOOKUPS, characters=characters
        )


def _suggestions(reply: Sequence[bytes]) -> list[Suggestion]:
    """Return the recent choices of alternating ids and records."""
    texts = ((id_, entries.text_of(record)) for id_, record in zip(reply[::2], reply[1::2], strict=True))
    return [Suggestion(id_.decode(), text, is_recent=True) for id_, text in texts if text is not None]
