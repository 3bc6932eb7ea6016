"""The safeguard of counting: its errors never fail a request or a login, and its delays are bounded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import ClusterDownError, RedisError

from django_redis_components.core.circuit_breaker import CircuitBreaker, breaker_for
from django_redis_components.core.client.exceptions import SlotMigrating
from django_redis_components.core.client.page_clients import cause_of, is_outage
from django_redis_components.core.exceptions import ConfigurationError, Interruption, UnsupportedServer
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.slot_waits import slot_wait_limit

logger = guarded_logger("django_redis_components.analytics")

#: Seconds for which nothing is counted after an error of Redis, so that requests do not wait for its timeout.
OPEN_S = 5.0
#: Minimum seconds between two log lines.
LOG_EVERY_S = 60.0
#: Seconds that counting waits for a migrating Cluster slot.
SLOT_MIGRATION_WAIT_S = 1.0


class Safeguard:
    """Suppress errors of counting and pause it while Redis is unavailable or slow (see `core.circuit_breaker`)."""

    def __init__(self) -> None:
        #: Limits the log, pauses counting after a wait for a Cluster slot, and is the breaker while the settings are
        #: invalid, so that there is no connection.
        self._own = CircuitBreaker()

    def reset(self) -> None:
        """Log the next error, after a change of settings."""
        self._own.reset()

    def allows_attempt(self) -> bool:
        """Return whether to send a request. After a failure, one caller may try every OPEN_S seconds."""
        breaker = self._breaker
        return self._own.allows_request(OPEN_S) and (breaker is self._own or breaker.allows_request(OPEN_S))

    @contextmanager
    def suppress_errors(self, what: str) -> Iterator[None]:
        """Log and suppress errors of the block, with at most one line a minute.

        Args:
            what: the counted things ("page views"), for the log.
        """
        try:
            with slot_wait_limit(SLOT_MIGRATION_WAIT_S):
                yield
        except Interruption:
            raise
        except Exception as exc:  # noqa: BLE001 - counting must not fail a request
            if is_outage(exc) or isinstance(exc, TimeoutError):
                self._breaker.record_failure(OPEN_S, reason=exc)
            elif isinstance(exc, RedisError):  # a server that refuses a write answers: other components go on
                self._breaker.record_success()
                if isinstance(exc, SlotMigrating | ClusterDownError):  # the next request would wait as long
                    self._own.record_failure(OPEN_S, reason=exc)
            self._log(what, exc)
        else:
            self._own.record_success()
            self._breaker.record_success()
            if self._breaker.retry_after_s() and self._own.should_log(LOG_EVERY_S):
                logger.warning("Redis is slow, some %s are not counted.", what)

    @contextmanager
    def log_errors(self, what: str) -> Iterator[None]:
        """Log and suppress errors of a block that does not use Redis, with at most one line a minute.

        Args:
            what: the counted things ("page views"), for the log.
        """
        try:
            yield
        except Interruption:
            raise
        except Exception as exc:  # noqa: BLE001 - counting must not fail a request
            self._log(what, exc)

    @property
    def _breaker(self) -> CircuitBreaker:
        try:
            return breaker_for(conf.settings().analytics.using)
        except ConfigurationError:
            return self._own

    def _log(self, what: str, error: Exception) -> None:
        if not self._own.should_log(LOG_EVERY_S):
            return
        if isinstance(error, RedisError | UnsupportedServer):
            logger.warning("%s, %s are not counted: %s", cause_of(error), what, error)
        elif isinstance(error, TimeoutError):
            logger.warning("Redis did not answer in time, %s are not counted.", what)
        elif isinstance(error, ConfigurationError):
            logger.error("Invalid settings, %s are not counted: %s", what, error)
        else:
            logger.log_exception(error, "Cannot count %s.", what)


#: The safeguard of this process: the middleware and the receiver share its state.
SAFEGUARD = Safeguard()
conf.on_change(SAFEGUARD.reset)
