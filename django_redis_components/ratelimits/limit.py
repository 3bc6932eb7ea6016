"""The rate limit."""

from __future__ import annotations

import asyncio
from typing import Any

from django_redis_components.core import conf
from django_redis_components.core.client.connections import (
    AsyncClient,
    SyncClient,
    aclient,
    aclient_with_timeout,
    client,
    client_with_timeout,
)
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.rates import Rate, RateLike
from django_redis_components.core.units import Seconds
from django_redis_components.ratelimits import signals
from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.limiter import Limiter, Penalty, VisitorKey
from django_redis_components.ratelimits.registry import Policy, remember


class RateLimit:
    """At most so many hits in a time, for each key: a visitor, a customer, an address.

    All is decided by one script on the server's clock, for all rates together. A denied hit counts in none of
    them. Hits may be repeated after a lost reply: the server knows them again.

    Each method has an asyncio twin with an ``a`` before its name. An object may be shared by threads and tasks.

    Args:
        name: 1 to 200 bytes, without control characters and braces. Limits of one name, algorithm and rate share
            their counts.
        rates: one to eight of "5/m", "100/h", "10/s", "3/2h", (count, seconds or timedelta).
        algorithm: "gcra" paces evenly after a first burst; "sliding" is exact in any window, for up to 10,000
            hits; "fixed" has windows that begin with the first hit.
        penalty: (denials, seconds). Who is denied so many times within any such time is blocked for as long, and
            hits do not lengthen the block.
        on_error: what happens to hits while Redis does not answer: "open" lets them through, "closed" denies them.
            With "open" a hit waits for ``REDIS_COMPONENTS["RATELIMITS"]["TIMEOUT"]`` (0.5 seconds) at most, and slow
            answers take at most a tenth of the time; with "closed" it waits as any other call.
        deny_cache: whether this process denies by itself, without asking, while it knows the answer.
        using: our connection alias.

    Raises:
        TypeError, ValueError: an argument is not of this kind.
    """

    def __init__(
        self,
        name: str,
        *rates: RateLike,
        algorithm: str = "gcra",
        penalty: Penalty | None = None,
        on_error: str = "open",
        deny_cache: bool = True,
        using: str = "default",
    ) -> None:
        self.name = name
        self._limiter = Limiter(name, rates, algorithm, penalty, on_error, deny_cache, using)
        self._using = using
        remember(self)

    def __repr__(self) -> str:
        return f"<RateLimit {self.name!r} of {', '.join(map(str, self.rates))}>"

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates, in the order in which they were given."""
        return self._limiter.rates

    @property
    def policy(self) -> Policy:
        """What it was told to be, as text and numbers."""
        return self._limiter.policy()

    def look_flow(self, key: VisitorKey) -> Flow[Decision]:
        """`peek` as a flow that asks the server in any case, and raises what keeps it from an answer."""
        return self._limiter.look(key)

    def reset_flow(self, key: VisitorKey) -> Flow[None]:
        """`reset` as a flow."""
        return self._limiter.reset(key)

    def check_cost(self, cost: int) -> int:
        """The cost, if a hit may have it.

        Raises:
            TypeError, ValueError: it may not.
        """
        return self._limiter.check_cost(cost)

    def hit(self, key: VisitorKey, cost: int = 1) -> Decision:
        """Count a hit if all rates allow it.

        Args:
            key: whose hit it is: any text, bytes, or a whole number. It is hashed.
            cost: how much it uses; at most the lowest limit.

        Raises:
            TypeError, ValueError: a key or cost that is not of this kind.
        """
        return self.hit_of(None, key, cost)

    async def ahit(self, key: VisitorKey, cost: int = 1) -> Decision:
        """See `hit`."""
        return await self.ahit_of(None, key, cost)

    def hit_of(self, request: Any, key: VisitorKey, cost: int = 1) -> Decision:
        """See `hit`; `rate_limited` tells its receivers the request."""
        decision = run(self._client(), self._limiter.hit(key, cost))
        if not decision.allowed:
            signals.tell(RateLimit, limit=self, key=key, decision=decision, request=request)
        return decision

    async def ahit_of(self, request: Any, key: VisitorKey, cost: int = 1) -> Decision:
        """See `hit_of`."""
        decision = await self._adecide(self._limiter.hit(key, cost))
        if not decision.allowed:
            await signals.atell(RateLimit, limit=self, key=key, decision=decision, request=request)
        return decision

    def peek(self, key: VisitorKey, cost: int = 1) -> Decision:
        """What `hit` would answer now. Nothing is counted, also not as a denial."""
        return run(self._client(), self._limiter.peek(key, cost))

    async def apeek(self, key: VisitorKey, cost: int = 1) -> Decision:
        """See `peek`."""
        return await self._adecide(self._limiter.peek(key, cost))

    def wait(self, key: VisitorKey, timeout: Seconds, cost: int = 1) -> Decision:
        """Count a hit as soon as it is allowed.

        Who waits stands in no line: of several, any may be next. Denials do not count towards a penalty.

        Args:
            timeout: seconds to wait at most. If that cannot be enough, the denial comes at once.
        """
        decision = run(self._client(), self._limiter.wait(key, timeout, cost))
        if not decision.allowed:
            signals.tell(RateLimit, limit=self, key=key, decision=decision, request=None)
        return decision

    async def await_(self, key: VisitorKey, timeout: Seconds, cost: int = 1) -> Decision:  # noqa: ASYNC109
        """The twin of `wait`; its name would be a keyword."""
        decision = await arun(self._aclient(), self._limiter.wait(key, timeout, cost))
        if not decision.allowed:
            await signals.atell(RateLimit, limit=self, key=key, decision=decision, request=None)
        return decision

    def refund(self, key: VisitorKey, cost: int = 1) -> None:
        """Give back what a hit has used; never more than was used.

        It is sent once. After an error of the connection it may have been done: repeating it may give back twice.

        Raises:
            redis.exceptions.RedisError: the server does not answer.
        """
        run(client(self._using), self._limiter.refund(key, cost))

    async def arefund(self, key: VisitorKey, cost: int = 1) -> None:
        """See `refund`."""
        await arun(aclient(self._using), self._limiter.refund(key, cost))

    def reset(self, key: VisitorKey) -> None:
        """Forget all that was counted for the key, and a block.

        Raises:
            redis.exceptions.RedisError: the server does not answer. It may be called again.
        """
        run(client(self._using), self._limiter.reset(key))

    async def areset(self, key: VisitorKey) -> None:
        """See `reset`."""
        await arun(aclient(self._using), self._limiter.reset(key))

    def _client(self) -> SyncClient:
        """The client for hits: an impatient one where a hit may go on without an answer."""
        if not self._limiter.lets_through:
            return client(self._using)
        return client_with_timeout(self._using, conf.settings().ratelimits.timeout_s)

    def _aclient(self) -> AsyncClient:
        """See `_client`."""
        if not self._limiter.lets_through:
            return aclient(self._using)
        return aclient_with_timeout(self._using, conf.settings().ratelimits.timeout_s)

    async def _adecide(self, flow: Flow[Decision]) -> Decision:
        """Drive the flow of a hit; one that may go on without an answer does not wait for a free connection either."""
        if not self._limiter.lets_through:
            return await arun(self._aclient(), flow)
        try:
            async with asyncio.timeout(3 * conf.settings().ratelimits.timeout_s):
                return await arun(self._aclient(), flow)
        except TimeoutError:
            return self._limiter.gave_up()
