"""Changes of sign-ins by hand, as they are stored: "<milliseconds> <action> <offset of the day> <by>"."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime
from typing import Literal, cast

from django_redis_components.analytics import bits
from django_redis_components.core import keys
from django_redis_components.core.arguments import id_text
from django_redis_components.core.units import moment_of_ms

#: What was done.
Action = Literal["backfill", "remove"]


@dataclasses.dataclass(frozen=True, slots=True)
class SignInChange:
    """A sign-in that was added or removed by hand.

    Attributes:
        at: when, by the server's clock, in UTC.
        action: "backfill" or "remove".
        day: of the sign-in.
        by: who did it.
    """

    at: datetime
    action: Action
    day: date
    by: str


def entry_of(action: Action, offset: int, by: object) -> str:
    """Return an entry without its time, which the server adds.

    Raises:
        TypeError, ValueError: `by` is not accepted.
    """
    return f"{action} {offset} {keys.validate_name(id_text(by, 'by'), 'by')}"


def parse_entry(stored: bytes) -> SignInChange:
    """Return a stored entry."""
    at_ms, action, offset, by = stored.decode(errors="replace").split(" ", 3)
    at = moment_of_ms(at_ms)
    return SignInChange(at, cast(Action, action), bits.day_of(int(offset)), by)
