"""The order of suggestions: recents, exact matches, weight, then the matched term by the alphabet. Pure.

The order never depends on how many suggestions are wanted, so that the first ten of twenty are the first
ten, and pages follow each other without gap or repetition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_redis_components.autocomplete.entries import Suggestion, member_parts

#: Recents that stand before everything else once something is typed.
RECENTS_SHOWN = 5

#: Sorts as the suggestions do: beyond the weighed members, not exact, minus weight (or position), term, text, id.
_Order = tuple[bool, bool, int, str, str, str]


class Candidates:
    """What the ranges brought, each id once with its best match. The hot loop of a completion.

    A range of terms brings members in the order of suggestions without a weight. So after `limit` entries, only
    those with a weight can still come before others, and the rest is not looked at. So the terms are added first.

    Args:
        prefix: what was typed, folded.
        limit: how many suggestions are wanted.
        weighed: the weight decides among so many of the first members of the range of terms; None: among all.
    """

    def __init__(self, prefix: str, limit: int, weighed: int | None) -> None:
        self._prefix = prefix
        self._limit = limit
        self._weighed = weighed
        self._read = 0
        self._best: dict[str, _Order] = {}

    def __len__(self) -> int:
        return len(self._best)

    def add_terms(self, members: Sequence[bytes]) -> None:
        """Take in the next members of the range of terms."""
        start, self._read = self._read, self._read + len(members)
        among = len(members) if self._weighed is None else max(0, self._weighed - start)
        self.add_weighed(members[:among])
        best = self._best
        for at, member in enumerate(members[among:], start + among):
            if len(best) >= self._limit:
                return
            parts = member_parts(member)
            if parts is not None:
                term, text, _, id_ = parts
                best.setdefault(id_, (True, False, at, term, text, id_))

    def add_weighed(self, members: Iterable[bytes]) -> None:
        """Take in members among which the weight decides; those of the set by weight end like those of terms."""
        best, prefix, limit = self._best, self._prefix, self._limit
        for member in members:
            if len(best) >= limit and member.rsplit(b"\0", 2)[-2:-1] == [b"0"]:
                continue
            try:  # as `member_parts` does it, without a call for each member
                term, text, weight, id_ = member.decode().split("\0")[-4:]
                order = (False, term != prefix, -int(weight[:10]), term, text, id_)
            except ValueError:
                id_ = ""
            if not id_:
                member_parts(member)  # logs it
                continue
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
        return shown + [Suggestion(id_, text) for *_, text, id_ in ordered]
