"""What this room tells receivers in this process. Nobody listening costs one look at a list.

`rate_limited` is sent for each denial, also for one that the process knew without asking. `sender` is `RateLimit`;
`limit` the object, `key` what was limited, `decision` the answer, `request` the request or None. Errors of receivers
are logged (`django.dispatch`), and the denial stands.
"""

from __future__ import annotations

import logging
from typing import Any

from django.dispatch import Signal

from django_redis_components.core.exceptions import Interruption, raise_interruption

logger = logging.getLogger("django_redis_components.ratelimits")

rate_limited = Signal()


def tell(sender: type, **facts: Any) -> None:
    """Send the signal, if anybody listens; whatever happens is logged."""
    if rate_limited.receivers:
        try:
            raise_interruption(rate_limited.send_robust(sender, **facts))
        except Interruption:
            raise
        except Exception:
            logger.exception("The signal of a denial could not be sent.")


async def atell(sender: type, **facts: Any) -> None:
    """See `tell`."""
    if rate_limited.receivers:
        try:
            raise_interruption(await rate_limited.asend_robust(sender, **facts))
        except Interruption:
            raise
        except Exception:
            logger.exception("The signal of a denial could not be sent.")
