"""`allow_hits()` and `deny_hits()`: decide about the hits of rate limits without Redis."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from django_redis_components.core import keys
from django_redis_components.core.units import Seconds, to_seconds
from django_redis_components.ratelimits import Decision, RateLimit, signals
from django_redis_components.ratelimits.limit import check_cost
from django_redis_components.testing.block_decorator import BlockDecorator


class _HitOverride(BlockDecorator):
    """Replaces `RateLimit.hit` and `ahit` of all limits, or of those with the given names, while it is active."""

    def __init__(self, *names: str) -> None:
        self._names = {keys.validate_name(name, "rate limit name") for name in names}
        self._originals: list[tuple[Any, Any]] = []

    def __enter__(self) -> Self:
        hit, ahit = RateLimit.hit, RateLimit.ahit
        self._originals.append((hit, ahit))

        def override(limit: RateLimit, key: Any, cost: int = 1, **options: Any) -> Decision:
            if not self._applies(limit):
                return hit(limit, key, cost, **options)
            decision = self._decide(limit, cost)
            if not decision:
                signals.send(RateLimit, limit=limit, key=key, decision=decision, request=options.get("request"))
            return decision

        async def aoverride(limit: RateLimit, key: Any, cost: int = 1, **options: Any) -> Decision:
            if not self._applies(limit):
                return await ahit(limit, key, cost, **options)
            decision = self._decide(limit, cost)
            if not decision:
                await signals.asend(RateLimit, limit=limit, key=key, decision=decision, request=options.get("request"))
            return decision

        self._patch(override, aoverride)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patch(*self._originals.pop())

    @staticmethod
    def _patch(hit: Any, ahit: Any) -> None:
        patched: Any = RateLimit
        patched.hit, patched.ahit = hit, ahit

    def _applies(self, limit: RateLimit) -> bool:
        return not self._names or limit.name in self._names

    def _decide(self, limit: RateLimit, cost: int) -> Decision:
        check_cost(limit, cost)
        return self._decision(limit, cost)

    @abstractmethod
    def _decision(self, limit: RateLimit, cost: int) -> Decision: ...


class allow_hits(_HitOverride):  # noqa: N801 - used as a function is
    """Allow each hit, and count none. No request is sent to Redis.

    A context manager, and a decorator for functions and coroutine functions. It applies to all threads of the process.

    Args:
        names: of limits; without names, all limits.

    Raises:
        TypeError, ValueError: no limit can have such a name.
    """

    def _decision(self, limit: RateLimit, cost: int) -> Decision:
        tightest = min(limit.rates, key=lambda rate: rate.limit)
        return Decision(True, tightest.limit, tightest.limit - cost, 0.0, 0.0)

    def _copy(self) -> allow_hits:
        return allow_hits(*self._names)


class deny_hits(_HitOverride):  # noqa: N801 - used as a function is
    """Deny each hit, and send the signal `rate_limited`. No request is sent to Redis.

    A context manager, and a decorator for functions and coroutine functions. It applies to all threads of the process.

    Args:
        names: of limits; without names, all limits.
        retry_after: of the decision, in seconds.

    Raises:
        TypeError, ValueError: no limit can have such a name, or the duration is not accepted.
    """

    def __init__(self, *names: str, retry_after: Seconds = 60) -> None:
        super().__init__(*names)
        self._retry_after_s = to_seconds(retry_after, "retry_after")

    def _decision(self, limit: RateLimit, cost: int) -> Decision:
        tightest = min(limit.rates, key=lambda rate: rate.limit)
        return Decision(False, tightest.limit, 0, self._retry_after_s, self._retry_after_s)

    def _copy(self) -> deny_hits:
        return deny_hits(*self._names, retry_after=self._retry_after_s)
