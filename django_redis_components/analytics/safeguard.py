"""Counting beside a page or a login: it may fail or be slow, and nobody who waits for the page notices."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from django_redis_components.core import conf
from django_redis_components.core.circuit_breaker import CircuitBreaker
from django_redis_components.core.client.slot_migration import slot_wait_limit
from django_redis_components.core.exceptions import ConfigurationError, Interruption, UnsupportedServer

logger = logging.getLogger("django_redis_components.analytics")

#: Seconds for which nothing is counted after Redis failed, so that not every page waits for its timeout.
PAUSE_S = 5.0
#: Seconds between two lines in the log.
LOG_EVERY_S = 60.0
#: Seconds that counting waits for a Cluster slot that is being moved.
SLOT_WAIT_S = 1.0


class Guard:
    """Lets one try reach a Redis that has failed, while the other requests go on without counting.

    A Redis that answers slowly is asked less often: see `core.breaker`.
    """

    def __init__(self) -> None:
        self._breaker = CircuitBreaker()

    def reset(self) -> None:
        """Forget failures: the settings may point elsewhere now."""
        self._breaker.reset()

    def open(self) -> bool:
        """Whether to try. After a failure, one caller is let through every PAUSE_S."""
        return self._breaker.allows_request(PAUSE_S)

    def wants(self, what: str, condition: Callable[[], bool]) -> bool:
        """Whether something is to be counted, and may be tried now.

        Args:
            what: what would be counted, for the log.
            condition: whether it counts, by the settings; False if it fails, which is logged.
        """
        try:
            return condition() and self.open()
        except Interruption:
            raise
        except Exception as exc:  # noqa: BLE001 - as in `attempt`
            self._log(what, exc)
            return False

    @contextmanager
    def attempt(self, what: str) -> Iterator[None]:
        """Around the try: whatever fails in it is logged, at most once a minute, and goes no further.

        Args:
            what: what is not counted now ("page views"), for the log.
        """
        begun = time.monotonic()
        try:
            with slot_wait_limit(SLOT_WAIT_S):
                yield
        except Interruption:
            raise
        except Exception as exc:  # noqa: BLE001 - a page and a login matter more than their count
            if isinstance(exc, RedisError | UnsupportedServer | TimeoutError):
                self._breaker.record_failure(PAUSE_S)
            self._log(what, exc)
        else:
            self._breaker.record_success(time.monotonic() - begun)
            if self._breaker.retry_after_s() and self._breaker.should_log(LOG_EVERY_S):
                logger.warning("Redis is slow, some %s are not counted.", what)

    def _log(self, what: str, error: Exception) -> None:
        if not self._breaker.should_log(LOG_EVERY_S):
            return
        if isinstance(error, RedisError | UnsupportedServer):
            logger.warning("Redis is away, %s are not counted: %s", what, error)
        elif isinstance(error, TimeoutError):
            logger.warning("Redis did not answer in time, %s are not counted.", what)
        elif isinstance(error, ConfigurationError):
            logger.error("The settings are wrong, %s are not counted: %s", what, error)
        else:
            logger.error("An error kept %s from being counted.", what, exc_info=error)


#: The guard of this process: all that counts by itself meets the same Redis.
GUARD = Guard()
conf.on_change(GUARD.reset)
