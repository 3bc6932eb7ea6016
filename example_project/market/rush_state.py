"""What the page of the rush shows: figures of the latest rush, and a verdict on each way of selling."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_redis_components.locks import Lock
from example_project.market import rushing, selling
from example_project.market.locking import item_lock_name
from example_project.market.models import Rush, RushBuyer, RushEvent

#: The ways of a rush, as the form and the verdicts name them.
WAYS: dict[str, Promise] = {
    "item": gettext_lazy("Lock per item"),
    "watch": gettext_lazy("WATCH and retry"),
    selling.UNPROTECTED: gettext_lazy("No protection"),
}

#: Tasks in each list, and events.
TASKS, EVENTS = 5, 8

#: Buyers in a row of the picture, and the size of a buyer in it.
ROW, SIZE = 20, 20


@dataclass(frozen=True)
class Picture:
    """A buyer in the picture, with the position of its middle."""

    buyer: RushBuyer
    x: int
    y: int


@dataclass(frozen=True)
class Worker:
    """A worker process that runs tasks of the rush."""

    id: str
    pid: str
    buyers: list[int]


@dataclass(frozen=True)
class Verdict:
    """What a way of selling cost in its last rush."""

    way: Promise
    sold: int
    answered_s: float | None
    attempts: float
    level: str
    word: str
    text: str

    @property
    def oversold(self) -> int:
        """Sales beyond the first."""
        return max(0, self.sold - 1)


@dataclass(frozen=True)
class State:
    """The latest rush."""

    rush: Rush
    buyers: list[RushBuyer]
    events: list[RushEvent]
    lock: str

    @property
    def counts(self) -> dict[str, int]:
        """Buyers by outcome."""
        found = Counter(buyer.outcome for buyer in self.buyers)
        return {outcome.value: found[outcome] for outcome in RushBuyer.Outcome}

    @property
    def answered(self) -> int:
        """Buyers who know the outcome."""
        return len(self.buyers) - self.counts["waiting"]

    @property
    def oversold(self) -> int:
        """Sales beyond the first."""
        return max(0, self.counts["bought"] - 1)

    @property
    def stock(self) -> int:
        """Items that are left."""
        return max(0, 1 - self.counts["bought"])

    @property
    def first_ms(self) -> int | None:
        """Time to the first sale in milliseconds."""
        return min((b.answered_ms or 0 for b in self.buyers if b.outcome == "bought"), default=None)

    @property
    def ready(self) -> list[RushBuyer]:
        """Buyers whose task waits for a worker, in the order of the queue."""
        waiting = [b for b in self.buyers if b.answered_ms is not None and not b.runs]
        return sorted(waiting, key=lambda buyer: buyer.answered_ms or 0)

    @property
    def finished(self) -> list[RushBuyer]:
        """Buyers whose task has finished, the latest first."""
        done = [b for b in self.buyers if b.finished_at is not None]
        return sorted(done, key=lambda buyer: buyer.finished_at or timezone.now(), reverse=True)

    @property
    def repeated(self) -> int:
        """Tasks that ran more than once."""
        return sum(buyer.runs > 1 for buyer in self.buyers)

    @property
    def workers(self) -> list[Worker]:
        """Worker processes that run tasks, by process."""
        held: dict[str, list[int]] = {}
        for buyer in self.buyers:
            if buyer.runs and buyer.finished_at is None:
                held.setdefault(buyer.worker, []).append(buyer.number)
        return [Worker(worker, worker.rpartition(":")[2], numbers) for worker, numbers in sorted(held.items())]

    @property
    def is_running(self) -> bool:
        """Whether the page has to be refreshed."""
        return len(self.finished) < len(self.buyers) and not self.is_dead

    @property
    def is_dead(self) -> bool:
        """Whether the site was stopped before all buyers were answered."""
        return self.answered < len(self.buyers) and rushing.is_overdue(self.rush)

    @property
    def pictures(self) -> list[Picture]:
        """The buyers in rows."""
        half = SIZE // 2
        return [
            Picture(buyer, index % ROW * SIZE + half, index // ROW * SIZE + half)
            for index, buyer in enumerate(self.buyers)
        ]

    @property
    def summary(self) -> str:
        """The picture in one sentence."""
        counts = self.counts
        return _("%(bought)d bought the item, %(waiting)d wait, %(sold_out)d were told that it is sold out.") % counts


def read() -> State | None:
    """Return the state of the latest rush; None before the first."""
    rush = Rush.objects.select_related("item").order_by("-pk").first()
    if rush is None:
        return None
    buyers, events = list(rush.buyers.order_by("number")), list(rush.events.all()[:EVENTS])
    return State(rush, buyers, events, _lock_text(rush) if rushing.is_running(rush) else "")


def verdicts() -> list[Verdict]:
    """Return what each way cost in its last rush, in the order of the form."""
    found = {rush.way: rush for rush in Rush.objects.prefetch_related("buyers") if not rushing.is_running(rush)}
    return [_verdict(way, found[way]) for way in WAYS if way in found]


def _lock_text(rush: Rush) -> str:
    if rush.way != "item":
        return ""
    state = Lock(item_lock_name(rush.item_id)).inspect()
    if state.held_by is None:
        return ""
    values = {"thread": state.held_by.thread, "waiting": state.waiting, "name": item_lock_name(rush.item_id)}
    return _("The lock %(name)s is held by %(thread)s; %(waiting)d wait in the order of arrival.") % values


def _verdict(way: str, rush: Rush) -> Verdict:
    buyers = list(rush.buyers.all())
    sold = sum(buyer.outcome == "bought" for buyer in buyers)
    attempts = sum(buyer.attempts for buyer in buyers) / len(buyers)
    answers = [buyer.answered_ms for buyer in buyers if buyer.answered_ms is not None]
    if sold > 1:
        text = ngettext("%d buyer paid for one item.", "%d buyers paid for one item.", sold) % sold
        found = ("bad", _("Wrong"), text)
    elif sold == 0 or any(buyer.outcome in ("waiting", "gave_up") for buyer in buyers):
        found = ("bad", _("Incomplete"), _("Not every buyer was answered."))
    elif attempts > 1.5:
        found = ("warn", _("Wasteful"), _("Correct, but buyers had to try again until the sale was over."))
    else:
        found = ("good", _("Correct"), _("One buyer won; the others were answered in the order of arrival."))
    answered_s = max(answers) / 1_000 if answers else None
    return Verdict(WAYS[way], sold, answered_s, attempts, *found)
