"""Sign-ins: the days on which users signed in, streaks, and users per day."""

from __future__ import annotations

import secrets
from datetime import date, timedelta
from typing import Any

from django_redis_components.analytics import bits
from django_redis_components.analytics.audit import SignInChange, entry_of, parse_entry
from django_redis_components.analytics.counter import SiteCounter
from django_redis_components.analytics.dates import local_date, span
from django_redis_components.analytics.scripts import EVALUATE, FORGET, SIGN_IN, UNDO_SIGN_IN
from django_redis_components.analytics.user_ids import UserId, check_number, user_text
from django_redis_components.core.arguments import check_flag, check_int
from django_redis_components.core.chunks import chunks
from django_redis_components.core.day_ranges import MAX_RANGE_DAYS
from django_redis_components.core.keys import day_stamp
from django_redis_components.core.protocol import Batch, Command, Flow, Read
from django_redis_components.core.settings import conf

#: Milliseconds for which a repeated `sign_in` returns the lost result. Retries end after about SOCKET_TIMEOUT.
REPEAT_MS = 60_000
#: Attempts of `forget` while the user signs in concurrently.
FORGET_ATTEMPTS = 5
#: Maximum keys deleted by one command.
CHUNK = 500
#: Entries of a user's audit that are kept; the same as in lua/shared/audit.lua.
MAX_AUDIT = 100


class SignIns(SiteCounter):
    """The days on which users signed in: one bitmap for each user, and one for each day.

    One script writes both. They have no TTL: `forget` deletes a user, `prune` deletes old days.

    Args:
        site: the name of the site; all its keys share a Cluster slot.
        mapped: whether ids are strings, UUIDs or large integers. Each gets a number, which takes some 80 bytes. All
            sign-ins and `Events` of the site must agree; they share the numbers.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    catalog_kind = "SignIns"

    def __init__(self, site: str = "default", *, mapped: bool = False, using: str = "default") -> None:
        super().__init__(site, using=using)
        self.mapped = check_flag(mapped, "mapped")

    def sign_in(self, user_id: UserId, *, at: date | None = None) -> bool:
        """Record a sign-in.

        Idempotent: after a lost reply the call is repeated with its token and still returns True if it was the
        first. If it raises, the sign-in may be recorded, and the next call then returns False. Something that must be
        granted exactly once (a reward) needs its own record.

        Args:
            user_id: an integer from 0 to ``MAX_USER_ID``, the user's bit in the day's bitmap; any id if mapped.
            at: a local date, or a time; today if None.

        Returns:
            True if this was the user's first sign-in of that day.

        Raises:
            ValueError: the id or the day is out of range.
        """
        return self._run(self._sign_in(user_id, at))

    async def asign_in(self, user_id: UserId, *, at: date | None = None) -> bool:
        """See `sign_in`."""
        return await self._arun(self._sign_in(user_id, at))

    def backfill(self, user_id: UserId, *, at: date, by: UserId) -> bool:
        """Record a sign-in of an earlier day, and who did it; see `changes`. Idempotent.

        Args:
            at: today or earlier.
            by: the user, program or rule that added it.

        Returns:
            True if there was none on that day. Otherwise nothing is recorded.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        return self._run(self._backfill(user_id, at, by))

    async def abackfill(self, user_id: UserId, *, at: date, by: UserId) -> bool:
        """See `backfill`."""
        return await self._arun(self._backfill(user_id, at, by))

    def remove(self, user_id: UserId, *, at: date, by: UserId) -> bool:
        """Remove the sign-in of a day, and record who did it; see `changes`. Idempotent.

        Returns:
            True if there was one. A later `sign_in` of that day returns True again.

        Raises:
            TypeError, ValueError: an argument is not accepted.
        """
        return self._run(self._remove(user_id, at, by))

    async def aremove(self, user_id: UserId, *, at: date, by: UserId) -> bool:
        """See `remove`."""
        return await self._arun(self._remove(user_id, at, by))

    def changes(self, user_id: UserId) -> list[SignInChange]:
        """Return the changes by `backfill` and `remove`, the latest first; the last 100 are kept until `forget`."""
        return self._run(self._changes(user_id))

    async def achanges(self, user_id: UserId) -> list[SignInChange]:
        """See `changes`."""
        return await self._arun(self._changes(user_id))

    def has_signed_in(self, user_id: UserId, *, at: date | None = None) -> bool:
        """Return whether the user signed in on a day; today if None."""
        return self._run(self._signed_in(user_id, at))

    async def ahas_signed_in(self, user_id: UserId, *, at: date | None = None) -> bool:
        """See `has_signed_in`."""
        return await self._arun(self._signed_in(user_id, at))

    def month(self, user_id: UserId, year: int, month: int) -> list[bool]:
        """Return for each day of a month whether the user signed in; ``[0]`` is the first."""
        return self._run(self._month(user_id, year, month))

    async def amonth(self, user_id: UserId, year: int, month: int) -> list[bool]:
        """See `month`."""
        return await self._arun(self._month(user_id, year, month))

    def year(self, user_id: UserId, year: int) -> list[bool]:
        """Return for each day of a year whether the user signed in; ``[0]`` is January 1."""
        return self._run(self._year(user_id, year))

    async def ayear(self, user_id: UserId, year: int) -> list[bool]:
        """See `year`."""
        return await self._arun(self._year(user_id, year))

    def count(self, user_id: UserId, start: date | None = None, end: date | None = None) -> int:
        """Return the number of days with a sign-in from `start` to `end`, both included; None is unbounded."""
        return self._run(self._count(user_id, start, end))

    async def acount(self, user_id: UserId, start: date | None = None, end: date | None = None) -> int:
        """See `count`."""
        return await self._arun(self._count(user_id, start, end))

    def first(self, user_id: UserId) -> date | None:
        """Return the first day on which the user signed in, or None."""
        return self._run(self._first(user_id))

    async def afirst(self, user_id: UserId) -> date | None:
        """See `first`."""
        return await self._arun(self._first(user_id))

    def last(self, user_id: UserId) -> date | None:
        """Return the last day on which the user signed in, or None."""
        return self._run(self._last(user_id))

    async def alast(self, user_id: UserId) -> date | None:
        """See `last`."""
        return await self._arun(self._last(user_id))

    def streak(self, user_id: UserId, *, at: date | None = None) -> int:
        """Return the number of consecutive days with a sign-in up to `at` (today if None).

        If there is no sign-in on that day yet, the streak ends on the day before.
        """
        return self._run(self._streak(user_id, at))

    async def astreak(self, user_id: UserId, *, at: date | None = None) -> int:
        """See `streak`."""
        return await self._arun(self._streak(user_id, at))

    def longest_streak(self, user_id: UserId) -> int:
        """Return the maximum number of consecutive days with a sign-in."""
        return self._run(self._longest_streak(user_id))

    async def alongest_streak(self, user_id: UserId) -> int:
        """See `longest_streak`."""
        return await self._arun(self._longest_streak(user_id))

    def total(self, *, at: date | None = None) -> int:
        """Return the number of users that signed in on a day; today if None."""
        return self._run(self._total(at))

    async def atotal(self, *, at: date | None = None) -> int:
        """See `total`."""
        return await self._arun(self._total(at))

    def series(self, start: date, end: date | None = None) -> dict[date, int]:
        """Return the number of users for each day from `start` to `end`, in order; at most 400 days."""
        return self._run(self._series(start, end))

    async def aseries(self, start: date, end: date | None = None) -> dict[date, int]:
        """See `series`."""
        return await self._arun(self._series(start, end))

    def retention(self, days: int = 30, *, at: date) -> list[int]:
        """Return how many users of a day signed in on it, on the next day, and so on; `days` + 1 numbers.

        Args:
            days: 1 to 400.
            at: the day, or a time of it.
        """
        return self._run(self._retention(at, days))

    async def aretention(self, days: int = 30, *, at: date) -> list[int]:
        """See `retention`."""
        return await self._arun(self._retention(at, days))

    def forget(self, user_id: UserId) -> int:
        """Delete all sign-ins of a user, also from the totals of the days. Return their number."""
        return self._run(self._forget(user_id))

    async def aforget(self, user_id: UserId) -> int:
        """See `forget`."""
        return await self._arun(self._forget(user_id))

    def prune(self, before: date) -> int:
        """Delete the totals of days before `before` and return their number; the bitmaps of users are kept."""
        return self._run(self._prune(before))

    async def aprune(self, before: date) -> int:
        """See `prune`."""
        return await self._arun(self._prune(before))

    def _sign_in(self, user_id: UserId, at: date | None, entry: str = "") -> Flow[bool]:
        arguments = self._arguments(user_id, local_date(at), entry)
        reply: int = yield SIGN_IN(**arguments, max_number=conf.settings().analytics.max_user_id)
        return check_number(reply, self) == 1

    def _backfill(self, user_id: UserId, at: date, by: UserId) -> Flow[bool]:
        day, today = local_date(at), local_date()
        if day > today:
            raise ValueError(f"at={day}: expected today, {today}, or an earlier day.")
        return (yield from self._sign_in(user_id, day, entry_of("backfill", bits.offset_of(day), by)))

    def _remove(self, user_id: UserId, at: date, by: UserId) -> Flow[bool]:
        day = local_date(at)
        entry = entry_of("remove", bits.offset_of(day), by)
        reply: int = yield UNDO_SIGN_IN(**self._arguments(user_id, day, entry))
        return reply == 1

    def _arguments(self, user_id: UserId, day: date, entry: str) -> dict[str, Any]:
        """Return what both scripts that change a day of a user get."""
        offset, user = bits.offset_of(day), self._stored_id(user_id)
        return {
            "base": self._key(),
            "user": self._user(user),
            "day": self._day(day),
            "last_call": self._key("si", "c", user, day_stamp(day)),
            "audit": self._key("si", "a", user),
            "id": user,
            "is_mapped": int(self.mapped),
            "offset": offset,
            "token": secrets.token_hex(8),
            "repeat_ms": REPEAT_MS,
            "entry": entry,
        }

    def _changes(self, user_id: UserId) -> Flow[list[SignInChange]]:
        entries: list[bytes] = yield Read("LRANGE", self._key("si", "a", self._stored_id(user_id)), 0, MAX_AUDIT - 1)
        return [parse_entry(entry) for entry in entries]

    def _signed_in(self, user_id: UserId, at: date | None) -> Flow[bool]:
        offset = bits.offset_of(local_date(at))
        bit: int = yield Read("GETBIT", self._user(self._stored_id(user_id)), offset)
        return bit == 1

    def _month(self, user_id: UserId, year: int, month: int) -> Flow[list[bool]]:
        return (yield from self._range(user_id, *bits.month_bits(year, month)))

    def _year(self, user_id: UserId, year: int) -> Flow[list[bool]]:
        return (yield from self._range(user_id, *bits.year_bits(year)))

    def _range(self, user_id: UserId, first: int, length: int) -> Flow[list[bool]]:
        start, end = first // 8, (first + length - 1) // 8
        text = bits.text_of((yield Read("GETRANGE", self._user(self._stored_id(user_id)), start, end)))
        skipped = first % 8
        return [bit == "1" for bit in text[skipped : skipped + length].ljust(length, "0")]

    def _count(self, user_id: UserId, start: date | None, end: date | None) -> Flow[int]:
        sides = [None if side is None else local_date(side, what) for side, what in ((start, "start"), (end, "end"))]
        first, last = bits.window(*sides)
        if last < first:
            return 0
        days: int = yield Read("BITCOUNT", self._user(self._stored_id(user_id)), first, last, "BIT")
        return days

    def _first(self, user_id: UserId) -> Flow[date | None]:
        offset: int = yield Read("BITPOS", self._user(self._stored_id(user_id)), 1)
        return bits.day_of(offset) if offset >= 0 else None

    def _last(self, user_id: UserId) -> Flow[date | None]:
        offset = (yield from self._bits(user_id)).rfind("1")
        return bits.day_of(offset) if offset >= 0 else None

    def _streak(self, user_id: UserId, at: date | None) -> Flow[int]:
        offset = bits.offset_of(local_date(at))
        text = yield from self._bits(user_id)
        return bits.run_up_to(text, offset) or bits.run_up_to(text, offset - 1)

    def _longest_streak(self, user_id: UserId) -> Flow[int]:
        return bits.longest_run((yield from self._bits(user_id)))

    def _total(self, at: date | None) -> Flow[int]:
        users: int = yield Read("BITCOUNT", self._day(local_date(at)))
        return users

    def _series(self, start: date, end: date | None) -> Flow[dict[date, int]]:
        days = span(start, end)
        counts: list[int] = yield Batch([Read("BITCOUNT", self._day(day)) for day in days])
        return dict(zip(days, counts, strict=True))

    def _retention(self, at: date, days: int) -> Flow[list[int]]:
        check_int(days, "days", 1, MAX_RANGE_DAYS)
        first = bits.day_of(bits.offset_of(local_date(at)))
        names = [f"si:d:{day_stamp(first + timedelta(days=number))}" for number in range(days + 1)]
        programs = [(names[0],), *((names[0], name, "&") for name in names[1:])]
        counts: list[int] = yield Batch([EVALUATE(base=self._key(), program=program) for program in programs])
        return counts

    def _forget(self, user_id: UserId) -> Flow[int]:
        stored_id = self._stored_id(user_id)
        user, day_count = self._user(stored_id), 0
        for _ in range(FORGET_ATTEMPTS):
            seen: bytes | None = yield Read("GET", user)
            if seen is None:
                return day_count  # above 0 if the reply to the deletion was lost
            offsets = bits.days_set(bits.text_of(seen))
            day_count = len(offsets)
            days = [part for offset in offsets for part in (day_stamp(bits.day_of(offset)), offset)]
            deleted = yield FORGET(
                base=self._key(),
                user=user,
                audit=self._key("si", "a", stored_id),
                id=stored_id,
                is_mapped=int(self.mapped),
                seen=seen,
                days=days,
            )
            if deleted:
                return day_count
        raise RuntimeError(f"{self!r}: user {user_id} signed in {FORGET_ATTEMPTS} times during forget().")

    def _prune(self, before: date) -> Flow[int]:
        count = max(0, (min(local_date(before, "before"), bits.LAST_DAY) - bits.EPOCH).days)
        days = [self._day(bits.day_of(offset)) for offset in range(count)]
        deleted: list[int] = yield Batch([Command("UNLINK", *chunk, retry=True) for chunk in chunks(days, CHUNK)])
        return sum(deleted)

    def _bits(self, user_id: UserId) -> Flow[str]:
        return bits.text_of((yield Read("GET", self._user(self._stored_id(user_id)))))

    def _catalog_options(self) -> dict[str, Any]:
        return {"mapped": self.mapped}

    def _stored_id(self, user_id: UserId) -> str:
        return user_text(user_id, mapped=self.mapped)

    def _user(self, stored_id: str) -> str:
        return self._key("si", "u", stored_id)

    def _day(self, day: date) -> str:
        return self._key("si", "d", day_stamp(day))


def sign_in_flow(sign_ins: SignIns, user_id: UserId, at: date | None = None) -> Flow[bool]:
    """Return the flow of `SignIns.sign_in`, to run it on another client."""
    return sign_ins._sign_in(user_id, at)


def sign_in_series_flow(sign_ins: SignIns, start: date, end: date | None = None) -> Flow[dict[date, int]]:
    """Return the flow of `SignIns.series`, to run it with others."""
    return sign_ins._series(start, end)


def year_flow(sign_ins: SignIns, user_id: UserId, year: int) -> Flow[list[bool]]:
    """Return the flow of `SignIns.year`, to run it with others."""
    return sign_ins._year(user_id, year)
