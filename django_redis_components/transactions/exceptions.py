"""What transactions raise. Errors of the connection and of the commands are those of `redis.exceptions`."""

from __future__ import annotations

from django_redis_components.core.exceptions import RedisComponentsError


class TransactionError(RedisComponentsError):
    """Root of the errors of transactions.

    Attributes:
        keys: what was watched.
        attempts: how often the function was tried.
        elapsed_s: how long that took, in seconds.
    """

    def __init__(self, keys: tuple[str, ...], attempts: int, elapsed_s: float, message: str) -> None:
        super().__init__(message)
        self.keys = keys
        self.attempts = attempts
        self.elapsed_s = elapsed_s


class TooMuchContention(TransactionError):
    """Others changed the keys each time. Nothing was written."""

    def __init__(self, keys: tuple[str, ...], attempts: int, elapsed_s: float, why: str) -> None:
        tried = f"{attempts} attempt{'' if attempts == 1 else 's'} in {elapsed_s:.3f} s"
        super().__init__(keys, attempts, elapsed_s, f"Transaction on {', '.join(keys)} gave up: {why} ({tried}).")


class OutcomeUnknown(TransactionError):
    """The reply to EXEC was lost, and the server could not be asked in time whether it was run.

    It was run whole or not at all. Do not simply call again: look at the data first.

    Attributes:
        marker: the key that says ``done`` if it was run; it lives a minute.
    """

    def __init__(self, keys: tuple[str, ...], attempts: int, elapsed_s: float, marker: str) -> None:
        text = f"Transaction on {', '.join(keys)}: the reply to EXEC was lost, and so is whether it was run."
        super().__init__(keys, attempts, elapsed_s, text)
        self.marker = marker
