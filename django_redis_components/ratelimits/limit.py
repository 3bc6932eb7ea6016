"""The rate limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from django_redis_components.core.client.connections import (
    AsyncClient,
    SyncClient,
    aclient,
    aclient_with_timeout,
    client,
    client_with_timeout,
)
from django_redis_components.core.component import Component
from django_redis_components.core.observability.catalog import CatalogEntry, entries_flow, objects
from django_redis_components.core.protocol import Flow, arun, run
from django_redis_components.core.rates import ParsedRate, RateLike
from django_redis_components.core.settings import conf
from django_redis_components.core.units import Seconds
from django_redis_components.ratelimits import signals
from django_redis_components.ratelimits.algorithms import AlgorithmName
from django_redis_components.ratelimits.decision import Decision
from django_redis_components.ratelimits.hit_counts import COUNTER, HitTally
from django_redis_components.ratelimits.limiter import HashedKey, Limiter, LimitKey, OnError, Penalty, RateLimitPolicy

if TYPE_CHECKING:
    from django.http import HttpRequest


class RateLimit(Component):
    """Allow a number of hits in a period for each key: a visitor, a customer, an address.

    One script decides on the server's clock, for all rates together. A denied hit counts in no rate. A hit is repeated
    after a lost reply and counted once: the server recognizes it by its id.

    Each method has an asyncio twin with an ``a`` before its name. Threads and tasks may share an object.

    Args:
        name: 1 to 200 bytes, without control characters and braces. Limits of one name, algorithm and rate share
            their counts.
        rates: one to eight of "5/m", "100/h", "10/s", "3/2h", (count, seconds or timedelta).
        algorithm: "gcra" paces hits evenly after a first burst; "sliding" is exact in any window, for limits up to
            10,000; "fixed" has windows that start with the first hit.
        penalty: (denials, seconds). A key that is denied this often within this time is blocked for the same time.
            Hits do not extend the block.
        on_error: the decision while Redis does not answer or is slow: with "open" each process counts its own hits,
            by the same rates but without the penalty; "closed" denies hits. With "open" a hit waits for at most
            ``REDIS_COMPONENTS["RATELIMITS"]["TIMEOUT"]`` (0.5 seconds), and slow answers take at most a tenth of the
            time; with "closed" it waits as long as any other call.
        deny_cache: whether this process caches denials and repeats them without a request.
        using: connection alias.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """

    component = "ratelimits"
    name_label = "rate limit name"
    catalog_kind = "RateLimit"

    def __init__(
        self,
        name: str,
        *rates: RateLike,
        algorithm: AlgorithmName = "gcra",
        penalty: Penalty | None = None,
        on_error: OnError = "open",
        deny_cache: bool = True,
        using: str = "default",
    ) -> None:
        super().__init__(name, using=using)
        self._limiter = Limiter(name, rates, algorithm, penalty, on_error, deny_cache, using)
        #: Counts the hits for the dashboard, from the first one.
        self._tally: HitTally | None = None
        self._tallies: object = None

    @property
    def rates(self) -> tuple[ParsedRate, ...]:
        """The rates, in the given order."""
        return self._limiter.rates

    @property
    def policy(self) -> RateLimitPolicy:
        """The configuration, as text and numbers."""
        return self._limiter.policy()

    def hit(
        self, key: LimitKey, cost: int = 1, *, timeout: Seconds = 0, request: HttpRequest | None = None
    ) -> Decision:
        """Count a hit if all rates allow it; with a timeout, as soon as they do.

        Waiting hits are not queued: any of several may be next. Their denials do not count towards a penalty.

        Args:
            key: identifies the caller: any text, bytes, or an integer. It is hashed.
            cost: how much the hit uses; at most the lowest limit.
            timeout: maximum seconds to wait. If that is too short, the denial is returned at once.
            request: passed to receivers of `rate_limited`.

        Raises:
            TypeError, ValueError: the key, the cost or the timeout is not accepted.
        """
        if self._use is None or self._use.due_at <= monotonic():
            self._record_use()
        settings = conf.settings().ratelimits
        decision = run(self._client(settings.timeout_s), self._limiter.hit(key, cost, timeout))
        if settings.count_hits:
            self._count(key, decision)
        if not decision.is_allowed:
            signals.send(RateLimit, limit=self, key=key, decision=decision, request=request)
        return decision

    async def ahit(
        self,
        key: LimitKey,
        cost: int = 1,
        *,
        timeout: Seconds = 0,  # noqa: ASYNC109 - the twin of hit()
        request: HttpRequest | None = None,
    ) -> Decision:
        """See `hit`."""
        if self._use is None or self._use.due_at <= monotonic():
            self._record_use()
        settings = conf.settings().ratelimits
        decision = await arun(self._aclient(settings.timeout_s), self._limiter.hit(key, cost, timeout))
        if settings.count_hits:
            self._count(key, decision)
        if not decision.is_allowed:
            await signals.asend(RateLimit, limit=self, key=key, decision=decision, request=request)
        return decision

    def peek(self, key: LimitKey, cost: int = 1) -> Decision:
        """Return what `hit` would return now. Neither a hit nor a denial is counted."""
        self._record_use()
        return run(self._client(conf.settings().ratelimits.timeout_s), self._limiter.peek(key, cost))

    async def apeek(self, key: LimitKey, cost: int = 1) -> Decision:
        """See `peek`."""
        self._record_use()
        return await arun(self._aclient(conf.settings().ratelimits.timeout_s), self._limiter.peek(key, cost))

    def refund(self, key: LimitKey, cost: int = 1) -> None:
        """Refund a hit; never more than was used. While the key is blocked by an operator, nothing is refunded.

        The refund is sent once. After a connection error it may have been executed; a second call may refund twice.

        Raises:
            redis.exceptions.RedisError: the server does not answer.
        """
        self._run(self._limiter.refund(key, cost))

    async def arefund(self, key: LimitKey, cost: int = 1) -> None:
        """See `refund`."""
        await self._arun(self._limiter.refund(key, cost))

    def reset(self, key: LimitKey | HashedKey) -> None:
        """Delete all counts and the blocks of a key.

        Raises:
            redis.exceptions.RedisError: the server does not answer. The call may be repeated.
        """
        self._run(self._limiter.reset(key))

    async def areset(self, key: LimitKey | HashedKey) -> None:
        """See `reset`."""
        await self._arun(self._limiter.reset(key))

    def block(self, key: LimitKey | HashedKey, seconds: Seconds | None, *, author: str = "") -> None:
        """Deny all hits of a key for a time, regardless of the rates.

        The block is a part of the counts, which continue when it ends: a hit costs nothing more. Hits neither shorten
        nor extend it. A second call replaces the block. `unblock` and `reset` end it.

        Args:
            seconds: at most a year; None: until `unblock`.
            author: the operator, named by `Decision.blocked_by`; its first 100 bytes are kept.

        Raises:
            TypeError, ValueError: an argument is not accepted.
            redis.exceptions.RedisError: the server does not answer. The call may be repeated.
        """
        self._run(self._limiter.block(key, seconds, author))

    async def ablock(self, key: LimitKey | HashedKey, seconds: Seconds | None, *, author: str = "") -> None:
        """See `block`."""
        await self._arun(self._limiter.block(key, seconds, author))

    def unblock(self, key: LimitKey | HashedKey) -> bool:
        """End the block of a key, and return whether there was one. The counts and a penalty remain.

        Processes that have cached the block deny hits for up to five seconds more.

        Raises:
            redis.exceptions.RedisError: the server does not answer. The call may be repeated.
        """
        return self._run(self._limiter.unblock(key))

    async def aunblock(self, key: LimitKey | HashedKey) -> bool:
        """See `unblock`."""
        return await self._arun(self._limiter.unblock(key))

    def _shares_counts(self, other: RateLimit) -> bool:
        """Return whether a hit of the same key counts in both, or a denial in the penalties of both."""
        one, two = self.policy, other.policy
        if (one.name, one.using) != (two.name, two.using):
            return False
        has_rate_in_common = one.algorithm == two.algorithm and not set(self.rates).isdisjoint(other.rates)
        return has_rate_in_common or None not in (one.penalty, two.penalty)

    def _count(self, key: LimitKey, decision: Decision) -> None:
        """Count the hit for the dashboard."""
        tally = self._tally
        if tally is None or self._tallies is not COUNTER.tallies:  # new after a fork or a change of the settings
            self._tallies = COUNTER.tallies
            tally = self._tally = COUNTER.tally(self.using, self.policy.id)
        tally.record(key, decision)

    def _client(self, timeout_s: float) -> SyncClient:
        """Return the client for hits; one with a short timeout if hits are allowed without an answer."""
        if not self._limiter.fails_open:
            return client(self.using)
        return client_with_timeout(self.using, timeout_s)

    def _aclient(self, timeout_s: float) -> AsyncClient:
        """See `_client`."""
        if not self._limiter.fails_open:
            return aclient(self.using)
        return aclient_with_timeout(self.using, timeout_s)

    def _catalog_id(self) -> str:
        return self.policy.id  # limits of one name may have other rates

    def _catalog_options(self) -> dict[str, Any]:
        policy = self.policy
        return {
            "rates": [(rate.limit, rate.period_us / 1_000_000) for rate in self.rates],
            "algorithm": policy.algorithm,
            "penalty": policy.penalty,
            "on_error": policy.on_error,
        }


def read_flow(limit: RateLimit, key: LimitKey | HashedKey) -> Flow[Decision]:
    """Return the flow of a `peek` that always asks the server and raises its errors."""
    return limit._limiter.read(key)


def reset_flow(limit: RateLimit, key: LimitKey | HashedKey) -> Flow[None]:
    """Return the flow of `reset`."""
    return limit._limiter.reset(key)


def block_flow(limit: RateLimit, key: LimitKey | HashedKey, seconds: Seconds | None, author: str) -> Flow[None]:
    """Return the flow of `block`."""
    return limit._limiter.block(key, seconds, author)


def unblock_flow(limit: RateLimit, key: LimitKey | HashedKey) -> Flow[bool]:
    """Return the flow of `unblock`."""
    return limit._limiter.unblock(key)


def check_cost(limit: RateLimit, cost: int) -> None:
    """Raise TypeError or ValueError if no hit of the limit can have this cost."""
    limit._limiter.check_cost(cost)


def limits_flow() -> Flow[dict[str, RateLimit]]:
    """Return the flow that reads the limits that the site has used, by the id of their policy, ordered by name."""
    return limits_of((yield from entries_flow(RateLimit.catalog_kind)))


def limits_of(entries: Iterable[CatalogEntry]) -> dict[str, RateLimit]:
    """Return the limits of entries of the catalogue; see `limits_flow`."""
    found = {limit.policy.id: limit for limit in objects(entries, _from_catalog)}
    return dict(sorted(found.items(), key=lambda item: (item[1].name, item[0])))


def _from_catalog(name: str, *, rates: Sequence[RateLike], **options: Any) -> RateLimit:
    return RateLimit(name, *rates, **options)
