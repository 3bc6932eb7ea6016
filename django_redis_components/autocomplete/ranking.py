"""The order of suggestions: recents, exact matches, weight, then the matched term by the alphabet. Pure.

Without weights this is the order of the index itself, so that the first ten of twenty are the first ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_redis_components.autocomplete.entries import Suggestion

#: Recents that stand before everything else once something is typed.
RECENTS_SHOWN = 5

#: Sorts as the suggestions do: not exact, minus weight, term, text, id.
_Order = tuple[bool, int, str, str, str]


class Candidates:
    """What the ranges brought, each id once with its best match. The hot loop of a completion.

    A range brings members in the order of suggestions without a weight. So after `limit` entries, only
    those with a weight can still come before others, and the rest is not looked at.
    """

    def __init__(self, prefix: str, limit: int) -> None:
        self._prefix = prefix
        self._limit = limit
        self._best: dict[str, _Order] = {}

    def __len__(self) -> int:
        return len(self._best)

    def add(self, members: Iterable[bytes]) -> None:
        """Take in members of the set of terms, or of the set by weight, whose ends are the same."""
        best, prefix, limit = self._best, self._prefix, self._limit
        for member in members:
            if len(best) >= limit and member.rsplit(b"\0", 2)[1] == b"0":
                continue
            term, text, weight, id_ = member.decode().split("\0")[-4:]
            order = (term != prefix, -int(weight), term, text, id_)
            known = best.get(id_)
            if known is None or order < known:
                best[id_] = order

    def ranked(self, recents: Sequence[Suggestion]) -> list[Suggestion]:
        """The first `limit`, with the recents that match before the others."""
        limit = self._limit
        shown = list(recents[: min(limit, RECENTS_SHOWN) if self._prefix else limit])
        for one in shown:
            self._best.pop(one.id, None)
        ordered = sorted(self._best.values())[: limit - len(shown)]
        return shown + [Suggestion(id_, text) for _, _, _, text, id_ in ordered]
