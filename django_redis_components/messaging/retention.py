"""How long a chat keeps messages."""

from __future__ import annotations

import dataclasses

from django_redis_components.core.arguments import check_int, short_repr
from django_redis_components.core.units import Seconds, to_ms
from django_redis_components.messaging.arguments import DEFAULT_LOG_BYTES, MAX_LOG_BYTES

#: Most messages of a chat.
MAX_MESSAGES = 1_000_000


@dataclasses.dataclass(frozen=True)
class Retention:
    """How long a chat keeps messages.

    A message is removed when all members have read it and it is neither among the newest `keep_last` nor younger than
    `keep_for`: another device of a member may not have it yet. Absent members do not keep messages for ever: beyond
    `max_messages`, `max_bytes` and `max_age` messages are removed unread, the oldest first, and the next fetch says
    ``truncated``.

    Args:
        keep_last: messages.
        keep_for: seconds, or a timedelta.
        max_messages: messages, at least `keep_last`.
        max_age: seconds, or a timedelta; at least `keep_for`.
        ttl: seconds (or a timedelta) after the last send, ack, join or edit until the chat expires whole.
        max_bytes: bytes of the bodies and their edits, as JSON. The newest message is kept in any case.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    keep_last: int = 100
    keep_for: Seconds = 86_400
    max_messages: int = 10_000
    max_age: Seconds = 90 * 86_400
    ttl: Seconds = 400 * 86_400
    max_bytes: int = DEFAULT_LOG_BYTES

    def __post_init__(self) -> None:
        check_int(self.max_messages, "max_messages", 1, MAX_MESSAGES)
        check_int(self.max_bytes, "max_bytes", 1, MAX_LOG_BYTES)
        check_int(self.keep_last, "keep_last", 0, MAX_MESSAGES)
        times = times_ms(self)
        if self.keep_last > self.max_messages:
            raise ValueError(f"keep_last={self.keep_last}: expected at most max_messages, {self.max_messages}.")
        if times["keep_for_ms"] > times["max_age_ms"]:
            raise ValueError(
                f"keep_for={short_repr(self.keep_for)}: expected at most max_age, {short_repr(self.max_age)}."
            )


def times_ms(retention: Retention) -> dict[str, int]:
    """Return the durations in milliseconds, as the scripts take them."""
    return {
        "keep_for_ms": to_ms(retention.keep_for, "keep_for", zero=True),
        "max_age_ms": to_ms(retention.max_age, "max_age"),
        "ttl_ms": to_ms(retention.ttl, "ttl"),
    }
