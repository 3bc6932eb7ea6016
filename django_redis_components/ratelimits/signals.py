"""Signals that rate limits send in this process.

`rate_limited` is sent for each denial, cached ones included. `sender` is `RateLimit`; `limit` the object, `key` the key
of the hit, `decision` the decision, `request` the request or None. Exceptions of receivers are logged
(`django.dispatch`) and do not change the decision.
"""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal

from django_redis_components.core.exceptions import Interruption, raise_interruption
from django_redis_components.core.guarded_logger import guarded_logger

logger = guarded_logger("django_redis_components.ratelimits")

rate_limited = Signal()


def send(sender: type, **arguments: Any) -> None:
    """Send `rate_limited` if it has receivers; log exceptions."""
    if rate_limited.receivers:
        try:
            raise_interruption(rate_limited.send_robust(sender, **arguments))
        except Interruption:
            raise
        except Exception:
            logger.exception("Cannot send the signal rate_limited.")


async def asend(sender: type, **arguments: Any) -> None:
    """See `send`."""
    if rate_limited.receivers:
        try:
            raise_interruption(await rate_limited.asend_robust(sender, **arguments))
        except Interruption:
            raise
        except Exception:
            logger.exception("Cannot send the signal rate_limited.")
