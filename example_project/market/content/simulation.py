"""Some weeks of market life, written through the public API: views, visitors, sign-ins, sales, letters. The views are
also written to the access log.

The same numbers and seed give the same life, counted back from today.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from django_redis_components.analytics import PageViews, SignIns, UniqueVisitors
from example_project import access_log
from example_project.market import contacts, counting, deals, tasks
from example_project.market.content import visitors
from example_project.market.content.goods import invented
from example_project.market.content.opening import create_members
from example_project.market.models import Item, Member

#: Share of those present who sign in.
SIGN_IN_SHARE = 0.7

#: Visitors without an account for each one with.
GUESTS_PER_MEMBER = 0.6

#: Share of Saturday's and Sunday's visitors that the other days have.
WEEKDAY_SHARE = 0.7

#: Pages that one visitor looks at in a day, at most.
PAGES_AT_MOST = 7

#: Share of the listed items that are sold.
SOLD_SHARE = 0.75

#: Requests of browsers on the last day, through the middleware.
REQUESTS = 40

LINES = (
    "Is the thing still to be had? I could come by on Thursday.",
    "Thank you, it arrived in one piece. Almost.",
    "Would you take a little less for it?",
    "My cousin looks for the same one. Do you have another?",
)


@dataclass(frozen=True)
class Plan:
    """The parameters of a simulation."""

    days: int
    users: int
    seed: int
    sales_per_day: int


@dataclass
class Totals:
    """The result of a simulation."""

    views: int = 0
    visits: int = 0
    sign_ins: int = 0
    listed: int = 0
    sold: int = 0
    letters: int = 0
    new_members: int = 0

    def __str__(self) -> str:
        return (
            f"{self.views} page views, {self.visits} daily visitors, {self.sign_ins} sign-ins, {self.listed} items "
            f"listed, {self.sold} sold, {self.letters} messages; {self.new_members} members created"
        )


@dataclass
class Simulation:
    """One run. ``on_day`` is called after each day."""

    plan: Plan
    on_day: Callable[[], None] = lambda: None
    totals: Totals = field(default_factory=Totals)

    def run(self) -> Totals:
        """Simulate all days, the oldest first."""
        self._rng, self._network = random.Random(self.plan.seed), random.Random(self.plan.seed)
        self.totals.new_members = create_members(self.plan.users)
        if self.totals.new_members:
            contacts.rebuild()
        self._members = list(Member.objects.filter(is_superuser=False).order_by("pk")[: self.plan.users])
        self._eagerness = [self._rng.betavariate(1.2, 2.5) for _ in self._members]
        for day in self._days():
            self._live(day)
            self.on_day()
        self._browse()
        counting.roll_up()
        return self.totals

    def _days(self) -> Iterator[date]:
        today = timezone.localdate()
        for ago in reversed(range(self.plan.days)):
            yield today - timedelta(days=ago)

    def _live(self, day: date) -> None:
        present = self._present(day)
        self._sign_in(present, day)
        guests = [f"guest-{self._rng.randrange(10**9)}" for _ in range(int(len(present) * GUESTS_PER_MEMBER))]
        for visitor in (*(f"member-{member.pk}" for member in present), *guests):
            UniqueVisitors(_site()).add(visitor, at=self._some_time(day))
        self.totals.visits += len(present) + len(guests)
        self._look_around(len(present) + len(guests), day)
        for _ in range(self.plan.sales_per_day if len(present) > 1 else 0):
            self._trade(present, day)
        self._write(present)

    def _present(self, day: date) -> list[Member]:
        share = 1.0 if day.weekday() >= 5 else WEEKDAY_SHARE
        pairs = zip(self._members, self._eagerness, strict=True)
        return [member for member, eager in pairs if self._rng.random() < eager * share]

    def _sign_in(self, present: list[Member], day: date) -> None:
        sign_ins = SignIns("default")
        for member in present:
            if self._rng.random() < SIGN_IN_SHARE:
                sign_ins.sign_in(member.pk, at=day)
                self.totals.sign_ins += 1

    def _look_around(self, count: int, day: date) -> None:
        pages, weights = self._pages()
        views = PageViews(_site())
        for _ in range(count):
            address = visitors.address(self._network)
            for page in self._rng.choices(pages, weights, k=self._rng.randint(1, PAGES_AT_MOST)):
                at = self._some_time(day)
                views.hit(page, at=at)
                access_log.write(address, at, f"GET {page} HTTP/1.1", status=200, size="-")
                self.totals.views += 1

    def _browse(self) -> None:
        """Request the market as browsers do, so that the middleware counts devices and sources."""
        visitors.browse(self._rng, REQUESTS)
        self.totals.views += REQUESTS
        self.totals.visits += REQUESTS

    def _some_time(self, day: date) -> datetime:
        """Return a time of a day that has passed."""
        now = timezone.localtime()
        last = now.hour if day == now.date() else 23
        return _moment(day, self._rng.randint(0, last))

    def _pages(self) -> tuple[list[str], list[int]]:
        fixed = {reverse("market"): 40, reverse("mine"): 8, reverse("write"): 6, reverse("sell"): 4}
        items = [item.get_absolute_url() for item in Item.objects.order_by("pk")[:24]]
        return [*fixed, *items], [*fixed.values(), *[2] * len(items)]

    def _trade(self, present: list[Member], day: date) -> None:
        """List one item in the morning; it may be sold during the day."""
        seller, buyer = self._rng.sample(present, 2)
        morning, noon = _moment(day, self._rng.randrange(6, 9)), _moment(day, self._rng.randrange(9, 13))
        sold = self._rng.random() < SOLD_SHARE
        lasts = timedelta(days=self._rng.randrange(1, 14))
        good = invented(self._rng)
        # What is sold was sold in time; the end of its sale is still to come, so that its task waits.
        ends_at = timezone.now() + lasts if sold else morning + lasts
        item = deals.list_item(seller, **good._asdict(), listed_at=morning, sale_ends_at=ends_at)
        self.totals.listed += 1
        if sold:
            deals.buy(item.pk, buyer, at=noon)
            self.totals.sold += 1

    def _write(self, present: list[Member]) -> None:
        for _ in range(2 if len(present) > 1 else 0):
            sender, recipient = self._rng.sample(present, 2)
            tasks.deliver_letter.enqueue(sender.pk, recipient.pk, self._rng.choice(LINES))
            contacts.remember(sender, recipient)
            self.totals.letters += 1


def _site() -> str:
    """The site whose visitors the middleware counts."""
    return settings.REDIS_COMPONENTS.get("ANALYTICS", {}).get("SITE", "default")


def _moment(day: date, hour: int) -> datetime:
    """An hour of a day, but never one to come."""
    moment = timezone.make_aware(datetime.combine(day, time(hour)))
    return min(moment, timezone.now() - timedelta(minutes=1))
