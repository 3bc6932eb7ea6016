"""Sign-ins: the days on which users signed in, streaks, and users per day."""

from __future__ import annotations

import secrets
from datetime import date, timedelta

from django_redis_components.analytics import bits
from django_redis_components.analytics.counter import Counter
from django_redis_components.analytics.dates import MAX_RANGE_DAYS, local_date, span, stamp
from django_redis_components.analytics.scripts import EVALUATE, FORGET, SIGN_IN
from django_redis_components.analytics.user_ids import check_user_id
from django_redis_components.core.protocol import Batch, Command, Flow, Read

#: Milliseconds for which a repeated `sign_in` returns the lost result. Retries end after about SOCKET_TIMEOUT.
CLAIM_MS = 60_000
#: Attempts of `forget` while the user signs in concurrently.
FORGET_ATTEMPTS = 5
#: Maximum keys deleted by one command.
CHUNK = 500


class SignIns(Counter):
    """The days on which users signed in: one bitmap for each user, and one for each day.

    One script writes both. They have no TTL: `forget` deletes a user, `prune` deletes old days.

    Args:
        name: the name of the site; all its keys share a Cluster slot.
        using: connection alias.
    """

    def sign_in(self, user_id: int, at: date | None = None) -> bool:
        """Record a sign-in.

        Idempotent: after a lost reply the call is repeated with its token and still returns True if it was the
        first. If it raises, the sign-in may be recorded, and the next call then returns False. Something that must be
        granted exactly once (a reward) needs its own record.

        Args:
            user_id: an integer from 0 to ``MAX_USER_ID``; it is the user's bit in the day's bitmap.
            at: a day or a time; now if None.

        Returns:
            True if this was the user's first sign-in of that day.

        Raises:
            ValueError: the id or the day is out of range.
        """
        return self._run(self._sign_in(user_id, at))

    async def asign_in(self, user_id: int, at: date | None = None) -> bool:
        """See `sign_in`."""
        return await self._arun(self._sign_in(user_id, at))

    def signed_in(self, user_id: int, day: date | None = None) -> bool:
        """Return whether the user signed in on a day; today if None."""
        return self._run(self._signed_in(user_id, day))

    async def asigned_in(self, user_id: int, day: date | None = None) -> bool:
        """See `signed_in`."""
        return await self._arun(self._signed_in(user_id, day))

    def month(self, user_id: int, year: int, month: int) -> list[bool]:
        """Return for each day of a month whether the user signed in; ``[0]`` is the first."""
        return self._run(self._month(user_id, year, month))

    async def amonth(self, user_id: int, year: int, month: int) -> list[bool]:
        """See `month`."""
        return await self._arun(self._month(user_id, year, month))

    def count(self, user_id: int, start: date | None = None, end: date | None = None) -> int:
        """Return the number of days with a sign-in from `start` to `end`, both included; None is unbounded."""
        return self._run(self._count(user_id, start, end))

    async def acount(self, user_id: int, start: date | None = None, end: date | None = None) -> int:
        """See `count`."""
        return await self._arun(self._count(user_id, start, end))

    def first(self, user_id: int) -> date | None:
        """Return the first day on which the user signed in, or None."""
        return self._run(self._first(user_id))

    async def afirst(self, user_id: int) -> date | None:
        """See `first`."""
        return await self._arun(self._first(user_id))

    def last(self, user_id: int) -> date | None:
        """Return the last day on which the user signed in, or None."""
        return self._run(self._last(user_id))

    async def alast(self, user_id: int) -> date | None:
        """See `last`."""
        return await self._arun(self._last(user_id))

    def streak(self, user_id: int, day: date | None = None) -> int:
        """Return the number of consecutive days with a sign-in up to `day` (today if None).

        If there is no sign-in on `day` yet, the streak ends on the day before.
        """
        return self._run(self._streak(user_id, day))

    async def astreak(self, user_id: int, day: date | None = None) -> int:
        """See `streak`."""
        return await self._arun(self._streak(user_id, day))

    def longest_streak(self, user_id: int) -> int:
        """Return the maximum number of consecutive days with a sign-in."""
        return self._run(self._longest_streak(user_id))

    async def alongest_streak(self, user_id: int) -> int:
        """See `longest_streak`."""
        return await self._arun(self._longest_streak(user_id))

    def total(self, day: date | None = None) -> int:
        """Return the number of users that signed in on a day; today if None."""
        return self._run(self._total(day))

    async def atotal(self, day: date | None = None) -> int:
        """See `total`."""
        return await self._arun(self._total(day))

    def series(self, start: date, end: date | None = None) -> dict[date, int]:
        """Return the number of users for each day from `start` to `end`, in order; at most 400 days."""
        return self._run(self._series(start, end))

    async def aseries(self, start: date, end: date | None = None) -> dict[date, int]:
        """See `series`."""
        return await self._arun(self._series(start, end))

    def retention(self, day: date, days: int = 30) -> list[int]:
        """Return how many users of a day signed in on it, on the next day, and so on; `days` + 1 numbers.

        Args:
            days: 1 to 400.
        """
        return self._run(self._retention(day, days))

    async def aretention(self, day: date, days: int = 30) -> list[int]:
        """See `retention`."""
        return await self._arun(self._retention(day, days))

    def forget(self, user_id: int) -> bool:
        """Delete all sign-ins of a user, also from the totals of the days. Return whether there were any."""
        return self._run(self._forget(user_id))

    async def aforget(self, user_id: int) -> bool:
        """See `forget`."""
        return await self._arun(self._forget(user_id))

    def prune(self, before: date) -> int:
        """Delete the totals of days before `before` and return their number; the bitmaps of users are kept."""
        return self._run(self._prune(before))

    async def aprune(self, before: date) -> int:
        """See `prune`."""
        return await self._arun(self._prune(before))

    def _sign_in(self, user_id: int, at: date | None) -> Flow[bool]:
        day = local_date(at)
        user = self._user(user_id)
        reply: int = yield SIGN_IN(
            user=user,
            day=self._day(day),
            claim=self._key("si", "c", str(user_id), stamp(day)),
            id=user_id,
            offset=bits.offset_of(day),
            token=secrets.token_hex(8),
            claim_ms=CLAIM_MS,
        )
        return reply == 1

    def _signed_in(self, user_id: int, day: date | None) -> Flow[bool]:
        offset = bits.offset_of(local_date(day, "day"))
        bit: int = yield Read("GETBIT", self._user(user_id), offset)
        return bit == 1

    def _month(self, user_id: int, year: int, month: int) -> Flow[list[bool]]:
        first, length = bits.month_bits(year, month)
        start, end = first // 8, (first + length - 1) // 8
        text = bits.text_of((yield Read("GETRANGE", self._user(user_id), start, end)))
        skipped = first % 8
        return [bit == "1" for bit in text[skipped : skipped + length].ljust(length, "0")]

    def _count(self, user_id: int, start: date | None, end: date | None) -> Flow[int]:
        sides = [None if side is None else local_date(side, what) for side, what in ((start, "start"), (end, "end"))]
        first, last = bits.window(*sides)
        if last < first:
            return 0
        days: int = yield Read("BITCOUNT", self._user(user_id), first, last, "BIT")
        return days

    def _first(self, user_id: int) -> Flow[date | None]:
        offset: int = yield Read("BITPOS", self._user(user_id), 1)
        return bits.day_of(offset) if offset >= 0 else None

    def _last(self, user_id: int) -> Flow[date | None]:
        offset = (yield from self._bits(user_id)).rfind("1")
        return bits.day_of(offset) if offset >= 0 else None

    def _streak(self, user_id: int, day: date | None) -> Flow[int]:
        offset = bits.offset_of(local_date(day, "day"))
        text = yield from self._bits(user_id)
        return bits.run_up_to(text, offset) or bits.run_up_to(text, offset - 1)

    def _longest_streak(self, user_id: int) -> Flow[int]:
        return bits.longest_run((yield from self._bits(user_id)))

    def _total(self, day: date | None) -> Flow[int]:
        users: int = yield Read("BITCOUNT", self._day(local_date(day, "day")))
        return users

    def _series(self, start: date, end: date | None) -> Flow[dict[date, int]]:
        days = span(start, end)
        counts: list[int] = yield Batch([Read("BITCOUNT", self._day(day)) for day in days])
        return dict(zip(days, counts, strict=True))

    def _retention(self, day: date, days: int) -> Flow[list[int]]:
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MAX_RANGE_DAYS:
            raise ValueError(f"days={days!r}: expected an integer from 1 to {MAX_RANGE_DAYS}.")
        first = local_date(day, "day")
        names = [f"si:d:{stamp(first + timedelta(days=number))}" for number in range(days + 1)]
        programs = [(names[0],), *((names[0], name, "&") for name in names[1:])]
        counts: list[int] = yield Batch([EVALUATE(base=self._key(), program=program) for program in programs])
        return counts

    def _forget(self, user_id: int) -> Flow[bool]:
        user = self._user(user_id)
        found = False
        for _ in range(FORGET_ATTEMPTS):
            seen: bytes | None = yield Read("GET", user)
            if seen is None:
                return found  # True if the reply to the deletion was lost
            found = True
            days = [self._day(bits.day_of(offset)) for offset in bits.days_set(bits.text_of(seen))]
            if (yield FORGET(user=user, days=days, id=user_id, seen=seen)):
                return True
        raise RuntimeError(f"{self!r}: user {user_id} signed in {FORGET_ATTEMPTS} times during forget().")

    def _prune(self, before: date) -> Flow[int]:
        count = max(0, (min(local_date(before, "before"), bits.LAST_DAY) - bits.EPOCH).days)
        days = [self._day(bits.day_of(offset)) for offset in range(count)]
        chunks = [days[first : first + CHUNK] for first in range(0, count, CHUNK)]
        deleted: list[int] = yield Batch([Command("UNLINK", *chunk, retry=True) for chunk in chunks])
        return sum(deleted)

    def _bits(self, user_id: int) -> Flow[str]:
        return bits.text_of((yield Read("GET", self._user(user_id))))

    def _user(self, user_id: int) -> str:
        return self._key("si", "u", str(check_user_id(user_id)))

    def _day(self, day: date) -> str:
        return self._key("si", "d", stamp(day))


def sign_in_flow(sign_ins: SignIns, user_id: int) -> Flow[bool]:
    """Return the flow of `SignIns.sign_in`, to run it on another client."""
    return sign_ins._sign_in(user_id, None)


def series_flow(sign_ins: SignIns, start: date, end: date | None = None) -> Flow[dict[date, int]]:
    """Return the flow of `SignIns.series`, to run it with others."""
    return sign_ins._series(start, end)
