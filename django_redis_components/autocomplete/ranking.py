"""The order of suggestions: recent choices, exact matches, weight, then the matched term. Without Redis.

The order does not depend on the limit, so that pages have no gaps and no repetitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django_redis_components.autocomplete.entries import Suggestion, member_parts

#: Maximum recent choices for a prefix that is not empty.
RECENTS_SHOWN = 5

#: Sort key of a suggestion: beyond the weighed members, not exact, minus weight (or position), term, text, id.
_Order = tuple[bool, bool, int, str, str, str]


class Candidates:
    """Candidates of one query: each id once, with its best match. The hot loop of a completion.

    The range of terms has the order of suggestions without a weight. So it is added first, and after `limit`
    entries only members with a weight are examined.

    Args:
        prefix: the folded prefix.
        limit: maximum number of suggestions.
        weighed: number of members of the range of terms among which the weight decides; None for all.
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
        """Add the next members of the range of terms."""
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
        """Add members among which the weight decides, of either sorted set."""
        best, prefix, limit = self._best, self._prefix, self._limit
        for member in members:
            if len(best) >= limit and member.rsplit(b"\0", 2)[-2:-1] == [b"0"]:
                continue
            try:  # inlined `member_parts`: saves a call per member
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
        """Return the first `limit` suggestions, matching recent choices first."""
        limit = self._limit
        shown = list(recents[: min(limit, RECENTS_SHOWN) if self._prefix else limit])
        for one in shown:
            self._best.pop(one.id, None)
        ordered = sorted(self._best.values())[: limit - len(shown)]
        return shown + [Suggestion(id_, text) for *_, text, id_ in ordered]
