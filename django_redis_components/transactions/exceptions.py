"""Exceptions of transactions. Errors of connections and commands are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class TransactionError(RedisComponentsError):
    """Base class of the exceptions of transactions.

    Attributes:
        keys: the watched keys.
        attempts: the number of attempts.
        elapsed: their duration in seconds.
    """

    def __init__(self, keys: tuple[str, ...], attempts: int, elapsed: float, message: str) -> None:
        super().__init__(message)
        self.keys = keys
        self.attempts = attempts
        self.elapsed = elapsed


class TooMuchContention(TransactionError):
    """Other clients changed the keys in every attempt. Nothing was written."""

    def __init__(self, keys: tuple[str, ...], attempts: int, elapsed: float, why: str) -> None:
        tried = f"{attempts} attempt{'' if attempts == 1 else 's'} in {elapsed:.3f} s"
        super().__init__(keys, attempts, elapsed, f"Transaction on {', '.join(keys)} gave up: {why} ({tried}).")


class OutcomeUnknown(TransactionError):
    """The reply to EXEC was lost, and the server did not answer in time whether it was executed.

    It was executed completely or not at all. Check the data before calling again.

    Attributes:
        marker: a key that contains ``done`` if it was executed; its TTL is a minute.
    """

    def __init__(self, keys: tuple[str, ...], attempts: int, elapsed: float, marker: str) -> None:
        text = (
            f"Transaction on {', '.join(keys)}: the reply to EXEC was lost, so it may have been executed. "
            "Check the data before calling again."
        )
        super().__init__(keys, attempts, elapsed, text)
        self.marker = marker
