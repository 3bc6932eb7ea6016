"""Counters of a few bits each, side by side in one string."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from django_redis_components.core.arguments import check_choice, check_flag, check_int, check_iterable, check_mapping
from django_redis_components.core.component import DeletableComponent
from django_redis_components.core.protocol import Command, Flow, Read

#: Largest string: 64 MiB. Allocating it blocks the server for some 50 ms.
MAX_BITS = 2**29
#: Counters of one call.
MAX_COUNTERS = 1_000


class BitCounters(DeletableComponent):
    """Counters by index: attempts of a user, levels of a lesson, votes for an answer. 16 million of 4 bits take 8 MB.

    Args:
        name: name of the counters.
        bits: of each counter: 1 to 63, or to 64 if signed.
        signed: whether they may be negative.
        overflow: "wrap": from the largest value to the smallest, "sat": stay at the largest or smallest, "fail": change
            nothing.
        using: connection alias.

    The string has no TTL; `delete` deletes it. It is as long as the largest index that was written.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "analytics"
    catalog_kind = "BitCounters"

    def __init__(
        self,
        name: str,
        *,
        bits: int = 4,
        signed: bool = False,
        overflow: Literal["wrap", "sat", "fail"] = "wrap",
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self.bits = check_int(bits, "bits", 1, 64 if check_flag(signed, "signed") else 63)
        check_choice(overflow, "overflow", ("wrap", "sat", "fail"))
        self.signed = signed
        self._type = f"{'i' if signed else 'u'}{bits}"
        self.overflow = overflow
        self.largest_index = MAX_BITS // bits - 1
        self._bounds = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def incr(self, index: int, by: int = 1) -> int | None:
        """Add to a counter and return its value; None if it would overflow and `overflow` is "fail".

        It is sent once: after a lost reply it raises ConnectionError, and may have been added.
        """
        return self._run(self._incr({self._check_index(index): by}))[index]

    async def aincr(self, index: int, by: int = 1) -> int | None:
        """See `incr`."""
        return (await self._arun(self._incr({self._check_index(index): by})))[index]

    def incr_many(self, changes: Mapping[int, int]) -> dict[int, int | None]:
        """Add to several counters in one command, and return their values; see `incr`."""
        return self._run(self._incr(changes))

    async def aincr_many(self, changes: Mapping[int, int]) -> dict[int, int | None]:
        """See `incr_many`."""
        return await self._arun(self._incr(changes))

    def get(self, index: int) -> int:
        """Return a counter; 0 if it was never written."""
        return self._run(self._get([index]))[index]

    async def aget(self, index: int) -> int:
        """See `get`."""
        return (await self._arun(self._get([index])))[index]

    def get_many(self, indexes: Iterable[int]) -> dict[int, int]:
        """Return several counters in one command."""
        return self._run(self._get(indexes))

    async def aget_many(self, indexes: Iterable[int]) -> dict[int, int]:
        """See `get_many`."""
        return await self._arun(self._get(indexes))

    def set(self, index: int, value: int) -> None:
        """Set a counter.

        Raises:
            ValueError: it does not fit.
        """
        self._run(self._set(index, value))

    async def aset(self, index: int, value: int) -> None:
        """See `set`."""
        await self._arun(self._set(index, value))

    def _delete(self) -> Flow[bool]:
        deleted: int = yield Command("UNLINK", self._key("bc"), retry=True)
        return deleted == 1

    def _incr(self, changes: Mapping[int, int]) -> Flow[dict[int, int | None]]:
        self._check_number(len(check_mapping(changes, "changes", "numbers by index")))
        if not changes:
            return {}
        parts: list[str | int] = []
        for index, by in changes.items():
            check_int(by, "by", -(2**63), 2**63 - 1)
            parts += ["INCRBY", self._type, self._position(index), by]
        values = yield Command("BITFIELD", self._key("bc"), "OVERFLOW", self.overflow.upper(), *parts)
        return dict(zip(changes, values, strict=True))

    def _get(self, indexes: Iterable[int]) -> Flow[dict[int, int]]:
        wanted = list(dict.fromkeys(map(self._check_index, check_iterable(indexes, "indexes", "integers"))))
        self._check_number(len(wanted))
        if not wanted:
            return {}
        parts = [part for index in wanted for part in ("GET", self._type, self._position(index))]
        values = yield Read("BITFIELD_RO", self._key("bc"), *parts)
        return dict(zip(wanted, values, strict=True))

    def _set(self, index: int, value: int) -> Flow[None]:
        check_int(value, "value", *self._bounds)
        yield Command("BITFIELD", self._key("bc"), "SET", self._type, self._position(index), value, retry=True)

    def _position(self, index: int) -> str:
        return f"#{self._check_index(index)}"

    def _check_index(self, index: object) -> int:
        return check_int(index, "index", 0, self.largest_index, hint=" (64 MiB)")

    def _catalog_options(self) -> dict[str, Any]:
        return {"bits": self.bits, "signed": self.signed, "overflow": self.overflow}

    @staticmethod
    def _check_number(count: int) -> None:
        if count > MAX_COUNTERS:
            raise ValueError(f"{count} counters: expected at most {MAX_COUNTERS} in one call.")
