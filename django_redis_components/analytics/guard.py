"""Counting beside a page or a login: it may fail, and nobody who waits for the page notices."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from django_redis_components.core import conf
from django_redis_components.core.breaker import Breaker
from django_redis_components.core.exceptions import UnsupportedServer
from django_redis_components.core.slots import slot_wait_limit

logger = logging.getLogger("django_redis_components.analytics")

#: Seconds for which nothing is counted after Redis failed, so that not every page waits for its timeout.
PAUSE_S = 5.0
#: Seconds between two lines in the log.
LOG_EVERY_S = 60.0
#: Seconds that counting waits for a Cluster slot that is being moved.
SLOT_WAIT_S = 1.0


class Guard:
    """Lets one try reach a Redis that has failed, while the other requests go on without counting."""

    def __init__(self) -> None:
        self._breaker = Breaker()

    def reset(self) -> None:
        """Forget failures: the settings may point elsewhere now."""
        self._breaker.reset()

    def open(self) -> bool:
        """Whether to try. After a failure, one caller is let through every PAUSE_S."""
        return self._breaker.may_try(PAUSE_S)

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Around the try: whatever fails in it is logged, at most once a minute, and goes no further.

        Args:
            what: what is not counted now ("page views"), for the log.
        """
        try:
            with slot_wait_limit(SLOT_WAIT_S):
                yield
        except (RedisError, UnsupportedServer) as exc:
            self._breaker.failed(PAUSE_S)
            if self._breaker.may_log(LOG_EVERY_S):
                logger.warning("Redis is away, %s are not counted: %s", what, exc)
        except Exception:  # a page and a login matter more than their count
            if self._breaker.may_log(LOG_EVERY_S):
                logger.exception("An error kept %s from being counted.", what)
        else:
            self._breaker.succeeded()


#: The guard of this process: all that counts by itself meets the same Redis.
GUARD = Guard()
conf.on_change(GUARD.reset)
