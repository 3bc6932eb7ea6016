"""The release of a lease by an operator, and how its former holder learns of it.

The script of a forced release stores the operator and the time beside the holder's description, for an hour. When the
server refuses to extend or release a lease, the former holder reads them for its error.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime

from django.utils import timezone

from django_redis_components.core.leasing.holder import clean, parse_fields
from django_redis_components.core.units import moment_of_ms

#: Longest name of an operator, in bytes.
MAX_AUTHOR = 100


@dataclasses.dataclass(frozen=True, slots=True)
class ForcedRelease:
    """A release by an operator.

    Attributes:
        author: name of the operator; "" if not given.
        at: when, by the server's clock.
    """

    author: str
    at: datetime

    def __str__(self) -> str:
        name = f" ({self.author})" if self.author else ""
        at = timezone.localtime(self.at) if timezone.is_aware(self.at) else self.at
        return f"released by an operator{name} at {at:%H:%M:%S}"


def describe_author(author: str) -> str:
    """Return the line that the script of a forced release stores."""
    return f"released_by={clean(author, MAX_AUTHOR)}"


def parse_release(value: bytes | None) -> ForcedRelease | None:
    """Return the forced release from a stored value; None if there was none."""
    fields = parse_fields(value)
    at_ms = fields.get("released_ms", "")
    if not (at_ms.isascii() and at_ms.isdigit() and len(at_ms) <= 14):
        return None
    return ForcedRelease(fields.get("released_by", ""), moment_of_ms(at_ms))
