"""Many concurrent buyers, in each of the three ways of selling."""

from __future__ import annotations

import random
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from django_redis_components.locks import LockNotAcquired
from django_redis_components.transactions import TooMuchContention
from example_project.market import deals, selling
from example_project.market.content.goods import invented
from example_project.market.content.opening import create_members
from example_project.market.models import Member


@dataclass
class Result:
    """The result of one rush."""

    way: str
    items: int
    seconds: float = 0.0
    sold: int = 0
    too_late: int = 0
    busy: int = 0
    waits_ms: list[float] = field(default_factory=list)
    sold_items: set[int] = field(default_factory=set)

    @property
    def attempts(self) -> int:
        """Number of calls of ``deals.buy``."""
        return len(self.waits_ms)

    @property
    def oversold(self) -> int:
        """Number of sales beyond the first of each item."""
        return self.sold - len(self.sold_items)

    @property
    def unsold(self) -> int:
        """Number of items that no buyer received."""
        return self.items - len(self.sold_items)

    @property
    def is_correct(self) -> bool:
        """Whether each item was sold exactly once."""
        return not self.oversold and not self.unsold

    @property
    def cost(self) -> str:
        """Duration, and the attempts that were rejected, which a buyer has to repeat."""
        return f"{self.way} ({self.seconds:.2f} s, {self.busy} of {self.attempts} attempts to be retried)"

    @property
    def row(self) -> str:
        """The values of the columns in ``HEADER``."""
        middle, longest = statistics.median(self.waits_ms), max(self.waits_ms)
        rate = self.sold / self.seconds
        figures = f"{self.way:<6} {rate:>8.0f} {middle:>10.1f} {longest:>11.1f}"
        outcomes = f"{self.sold:>6} {self.too_late:>9} {self.busy:>6}"
        return f"{figures} {outcomes} {self.attempts:>9} {self.oversold:>9} {self.seconds:>8.2f}"


#: Columns of a result. A busy attempt is one that the buyer has to retry.
HEADER = (
    f"{'way':<6} {'sold/s':>8} {'median ms':>10} {'longest ms':>11} {'sold':>6} {'too late':>9} {'busy':>6} "
    f"{'attempts':>9} {'oversold':>9} {'seconds':>8}"
)


class WrongSales(Exception):
    """An item was sold more than once or not at all; the message names the strategies."""


def verdict(results: Sequence[Result]) -> str:
    """Return a sentence about the cost of the fastest and of the slowest strategy.

    Raises:
        WrongSales: with some strategy an item was sold more than once or not at all.
    """
    if wrong := [result for result in results if not result.is_correct]:
        faults = "; ".join(f"{result.way}: {result.oversold} oversold, {result.unsold} unsold" for result in wrong)
        raise WrongSales(f"Verdict: not every item was sold exactly once. {faults}.")
    by_time = sorted(results, key=lambda result: result.seconds)
    return (
        "Verdict: every strategy sold each item exactly once, 0 oversold; "
        f"fastest: {by_time[0].cost}, slowest: {by_time[-1].cost}."
    )


def rush(buyers: int, items: int, payment_s: float, seed: int) -> Iterator[Result]:
    """Sell a number of items to a number of concurrent buyers, in each way."""
    create_members(buyers + 1)
    seller, *rushing = Member.objects.filter(is_superuser=False).order_by("pk")[: buyers + 1]
    rng = random.Random(seed)
    for way in selling.WAYS:
        yield _rush(way, rushing, [_listed(seller, rng) for _ in range(items)], payment_s, seed)


def _listed(seller: Member, rng: random.Random) -> int:
    good = invented(rng)._asdict()
    return deals.list_item(seller, **good, sale_ends_at=timezone.now() + timedelta(days=1)).pk


def _rush(way: str, buyers: list[Member], items: list[int], payment_s: float, seed: int) -> Result:
    result, guard = Result(way, len(items)), threading.Lock()
    start = threading.Barrier(len(buyers) + 1)

    def buy_all(buyer: Member) -> None:
        wanted = random.Random(f"{seed} {buyer.pk}").sample(items, len(items))
        start.wait()
        for item in wanted:
            started_at = time.perf_counter()
            outcome = _try(item, buyer, way, payment_s)
            with guard:
                setattr(result, outcome, getattr(result, outcome) + 1)
                result.waits_ms.append((time.perf_counter() - started_at) * 1_000)
                if outcome == "sold":
                    result.sold_items.add(item)
        connection.close()

    threads = [threading.Thread(target=buy_all, args=(buyer,)) for buyer in buyers]
    for thread in threads:
        thread.start()
    start.wait()
    started_at = time.perf_counter()
    for thread in threads:
        thread.join()
    result.seconds = time.perf_counter() - started_at
    return result


def _try(item: int, buyer: Member, way: str, payment_s: float) -> str:
    try:
        deals.buy(item, buyer, way=way, payment_s=payment_s)
    except deals.NotForSale:
        return "too_late"
    except (LockNotAcquired, selling.BeingBought, TooMuchContention):
        return "busy"
    return "sold"
