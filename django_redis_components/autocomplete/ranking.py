"""The order of suggestions: recent choices, the position of the match, exact matches, weight, the matched term.

Without Redis. The order does not depend on the limit, so that pages have no gaps and no repetitions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

from django_redis_components.autocomplete.entries import Suggestion, log_corrupt, split_head

#: Maximum recent choices for a prefix that is not empty.
RECENTS_SHOWN = 5

#: How a suggestion was found, in the order of suggestions: recently chosen; the text starts with the prefix; a word or
#: a further term does; the rest of a run of Han characters does; words in another order; after correction of a typo.
Match = Literal["recent", "start", "word", "inside", "words", "typo"]
MATCHES: tuple[Match, ...] = ("start", "word", "inside", "words", "typo")


@dataclasses.dataclass(frozen=True, slots=True)
class RankedSuggestion:
    """A suggestion and why it has its position.

    Attributes:
        id, text: as in `Suggestion`.
        match: how it was found.
        term: the folded term that matched; "" for a recent choice.
        is_exact: whether the prefix is this whole term.
        weight: the weight of the entry.
    """

    id: str
    text: str
    match: Match
    term: str = ""
    is_exact: bool = False
    weight: int = 0


#: A found entry: match, position and term, text, weight and id.
_Candidate = tuple[int, str, str, int, str]


class Candidates:
    """The entries found by one query, each id once with its best match. The hot loop of a completion.

    Members are added match by match, in the order of `MATCHES`. Those of one match have the order of suggestions,
    unless some have a weight.

    Args:
        prefix: the folded prefix.
        limit: number of entries after which members without a weight are skipped.
    """

    def __init__(self, prefix: bytes, limit: int) -> None:
        self._prefix = prefix.decode()
        self._limit = limit
        self._candidates: dict[str, _Candidate] = {}

    @property
    def missing(self) -> int:
        """How many entries are missing to `limit`."""
        return max(0, self._limit - len(self._candidates))

    def add(self, match: int, members: Sequence[bytes]) -> None:
        """Add the next members of a match, in their order."""
        candidates, limit = self._candidates, self._limit
        if len(candidates) >= limit:
            return
        for entry in _parse(match, members):
            if entry[4] not in candidates:
                candidates[entry[4]] = entry
                if len(candidates) >= limit:  # here, so that no further member is parsed
                    return

    def add_weighed(self, match: int, members: Sequence[bytes]) -> None:
        """Add the first members of a match, which the weight orders."""
        if b"\1" not in b"".join(members):
            self.add(match, members)
            return
        best: dict[str, tuple[tuple[bool, int, str, str, str], _Candidate]] = {}
        for entry in _parse(match, members):
            _match, placed, text, weight, id_ = entry
            if id_ in self._candidates:
                continue
            order = (placed[1:] != self._prefix, -weight, placed, text, id_)
            if id_ not in best or order < best[id_][0]:
                best[id_] = (order, entry)
        for _order, entry in sorted(best.values()):
            self._candidates[entry[4]] = entry

    def ranked(self, recents: Sequence[Suggestion], limit: int) -> list[Suggestion]:
        """Return the first `limit` suggestions, matching recent choices first."""
        shown, others = self._split(recents, limit)
        return shown + [Suggestion(candidate[4], candidate[2]) for candidate in others]

    def explained(self, recents: Sequence[Suggestion], limit: int) -> list[RankedSuggestion]:
        """Return the same with the reasons."""
        shown, others = self._split(recents, limit)
        return [RankedSuggestion(one.id, one.text, "recent") for one in shown] + [
            RankedSuggestion(id_, text, MATCHES[match], placed[1:], placed[1:] == self._prefix, weight)
            for match, placed, text, weight, id_ in others
        ]

    def _split(self, recents: Sequence[Suggestion], limit: int) -> tuple[list[Suggestion], list[_Candidate]]:
        first_recents = list(recents[: min(limit, RECENTS_SHOWN) if self._prefix else limit])
        for one in first_recents:
            self._candidates.pop(one.id, None)
        return first_recents, list(self._candidates.values())[: limit - len(first_recents)]


def _parse(match: int, members: Sequence[bytes]) -> Iterator[_Candidate]:
    """Yield the parts of members. Those that another program has written are logged and left out."""
    for member in members:
        try:
            placed, text, id_ = member.decode().split("\0")
            weight = 0
            if "\1" in text:
                text, weight = split_head(text)
            if placed and text and id_:
                yield match, placed, text, weight, id_
                continue
        except ValueError:
            pass
        log_corrupt("member", member)
