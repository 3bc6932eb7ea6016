"""Sets of users that are combined by ``&``, ``|`` and ``~``, and counted by the server.

Any expression is either a set of users or the complement of one: ``~a & ~b`` is ``~(a | b)``. So the server needs three
operations on bitmaps only, and a complement is counted within something: ``active & ~paid``.
"""

from __future__ import annotations

from collections.abc import Sequence

from django_redis_components.analytics.scripts import EVALUATE
from django_redis_components.core.client import connections
from django_redis_components.core.protocol import Batch, Call, Flow, arun, run

#: Bitmaps of an expression.
MAX_BITMAPS = 500


class UserSet:
    """A set of users: those of an event in a period, or a combination.

    Combine sets with ``&``, ``|`` and ``~``; count them with `count`. All must be of one site and connection.
    """

    def __init__(self, base: str, using: str, program: tuple[str, ...], *, is_complement: bool = False) -> None:
        self._base = base
        self.using = using
        self._program = program
        self._is_complement = is_complement

    def __repr__(self) -> str:
        return f"<UserSet {'not ' if self._is_complement else ''}{' '.join(self._program)}>"

    def __and__(self, other: UserSet) -> UserSet:
        if not isinstance(other, UserSet):
            return NotImplemented
        if self._is_complement and other._is_complement:
            return self._join(other, "|", is_complement=True)
        if self._is_complement:
            return other._join(self, "-")
        return self._join(other, "-" if other._is_complement else "&")

    def __or__(self, other: UserSet) -> UserSet:
        if not isinstance(other, UserSet):
            return NotImplemented
        return ~(~self & ~other)

    def __invert__(self) -> UserSet:
        return UserSet(self._base, self.using, self._program, is_complement=not self._is_complement)

    def count(self) -> int:
        """Return the number of users.

        Raises:
            ValueError: it is the complement of a set: combine it, as in ``active & ~paid``.
        """
        return run(connections.client(self.using), self._count())

    async def acount(self) -> int:
        """See `count`."""
        return await arun(connections.aclient(self.using), self._count())

    def _call(self) -> Call:
        """Return the call that counts."""
        if self._is_complement:
            raise ValueError(f"{self!r} has no end: combine it with a set of users, as in active & ~paid.")
        if sum(part[0] not in "&|-" for part in self._program) > MAX_BITMAPS:
            raise ValueError(f"The expression has more than {MAX_BITMAPS} bitmaps.")
        return EVALUATE(base=self._base, program=self._program)

    def _join(self, other: UserSet, operation: str, *, is_complement: bool = False) -> UserSet:
        if (self._base, self.using) != (other._base, other.using):
            raise ValueError("Both sets of users must be of one site and connection.")
        if operation == "|":
            (first, count), (second, other_count) = _union_parts(self._program), _union_parts(other._program)
            program = (*first, *second, f"|{count + other_count}")
        else:
            program = (*self._program, *other._program, operation)
        return UserSet(self._base, self.using, program, is_complement=is_complement)

    def _count(self) -> Flow[int]:
        users: int = yield self._call()
        return users


def _union_parts(program: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Return the operands of a union and their number; an expression that is no union is one operand.

    A union of many is one operation of the server, which needs the memory of one bitmap.
    """
    operation = program[-1]
    return (program[:-1], int(operation[1:])) if operation.startswith("|") else (program, 1)


def count_all(sets: Sequence[UserSet]) -> Flow[list[int]]:
    """Return the number of users of several sets, in one round trip."""
    counts: list[int] = (yield Batch([each._call() for each in sets])) if sets else []
    return counts
