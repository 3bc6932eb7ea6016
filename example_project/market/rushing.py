"""A rush: a hundred concurrent buyers of one item, who are then answered by a task each.

The buyers are threads of the site's process, and use the same ``deals.buy`` as the button "Buy". One of the ways
has no protection, to show what the locks are for.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from contextlib import closing
from datetime import timedelta

from django.db import connection, transaction
from django.utils import timezone

from django_redis_components.locks import Lock, LockNotAcquired
from django_redis_components.transactions import TooMuchContention
from example_project.market import deals, selling, tasks
from example_project.market.content.goods import invented
from example_project.market.content.opening import create_members
from example_project.market.models import Item, Member, Rush, RushBuyer, RushEvent

BUYERS = 100

#: Seconds that the payment takes.
PAYMENT_S = 1.0

#: Seconds after which a buyer without an answer gives up, and between two attempts.
GIVE_UP_S, RETRY_S = 20.0, 0.05

#: Seconds after which a rush with unanswered buyers counts as dead: its site process was stopped.
DEAD_AFTER_S = GIVE_UP_S + 10


class RushIsRunning(Exception):
    """The buyers of another rush have not been answered yet."""


class WorkerDoesNotExist(Exception):
    """No task of the rush runs on this worker, or the worker runs on another host."""


def start(way: str) -> Rush:
    """Start a rush in the background. The last rush of each way is kept.

    Raises:
        RushIsRunning: one at a time.
    """
    with Lock("market:rush", timeout=30, blocking_timeout=5):
        latest = Rush.objects.order_by("-pk").first()
        if latest is not None and is_running(latest):
            raise RushIsRunning
        create_members(BUYERS + 1)
        seller, *members = Member.objects.filter(is_superuser=False).order_by("pk")[: BUYERS + 1]
        listed = deals.list_item(
            seller, **invented(random.Random())._asdict(), sale_ends_at=timezone.now() + timedelta(hours=1)
        )
        with transaction.atomic():
            Rush.objects.filter(way=way).delete()
            rush = Rush.objects.create(way=way, item=listed, started_at=timezone.now())
            RushBuyer.objects.bulk_create(RushBuyer(rush=rush, number=number) for number in range(1, BUYERS + 1))
            text = f"{BUYERS} buyers request {listed.title!r} at once"
            RushEvent.objects.create(rush=rush, kind=RushEvent.Kind.STARTED, text=text)
    threading.Thread(target=_run, args=(rush, members), name="rush", daemon=True).start()
    return rush


def is_running(rush: Rush) -> bool:
    """Return whether buyers wait for an answer."""
    return not is_overdue(rush) and rush.buyers.filter(outcome=RushBuyer.Outcome.WAITING).exists()


def is_overdue(rush: Rush) -> bool:
    """Return whether it started so long ago that buyers who still wait have died with their process."""
    return timezone.now() - rush.started_at > timedelta(seconds=DEAD_AFTER_S)


def kill_worker(rush: Rush, worker: str) -> None:
    """Kill a worker process that runs a task of the rush. Its supervisor starts another.

    Args:
        worker: host and process, as ``RushBuyer.worker``.

    Raises:
        WorkerDoesNotExist: see there.
    """
    running = rush.buyers.filter(runs__gt=0, finished_at=None, worker=worker).order_by("number")
    numbers = list(running.values_list("number", flat=True))
    host, _, pid = worker.rpartition(":")
    if not numbers or host != socket.gethostname() or not pid.isdecimal():
        raise WorkerDoesNotExist
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        raise WorkerDoesNotExist from None
    held = ", ".join(str(number) for number in numbers)
    RushEvent.objects.create(
        rush=rush, kind=RushEvent.Kind.KILLED, text=f"process {pid} (SIGKILL) while it answered buyer {held}"
    )


def _run(rush: Rush, members: list[Member]) -> None:
    barrier = threading.Barrier(len(members) + 1)
    threads = [
        threading.Thread(target=_buy, args=(rush, number, member, barrier), name=f"buyer {number}")
        for number, member in enumerate(members, 1)
    ]
    with closing(connection):
        for thread in threads:
            thread.start()
        Rush.objects.filter(pk=rush.pk).update(started_at=timezone.now())
        barrier.wait()


def _buy(rush: Rush, number: int, member: Member, barrier: threading.Barrier) -> None:
    with closing(connection):
        barrier.wait()
        started_at = time.monotonic()
        attempts, outcome = 0, ""
        while not outcome:
            attempts += 1
            outcome = _try(rush, member)
            if not outcome and time.monotonic() - started_at > GIVE_UP_S:
                outcome = RushBuyer.Outcome.GAVE_UP
            elif not outcome:
                time.sleep(RETRY_S)
        answered_ms = round((time.monotonic() - started_at) * 1_000)
        RushBuyer.objects.filter(rush=rush, number=number).update(
            outcome=outcome, attempts=attempts, answered_ms=answered_ms
        )
        if outcome == RushBuyer.Outcome.BOUGHT:
            text = f"to buyer {number}, {answered_ms} ms after the start"
            RushEvent.objects.create(rush=rush, kind=RushEvent.Kind.SOLD, text=text)
        tasks.answer_buyer.enqueue(rush.pk, number)


def _try(rush: Rush, member: Member) -> str:
    """Return the outcome of one attempt; "" if the buyer has to try again."""
    try:
        if rush.way == selling.UNPROTECTED:
            _buy_unprotected(rush.item_id, member)
        else:
            deals.buy(rush.item_id, member, way=rush.way, payment_s=PAYMENT_S)
    except deals.NotForSale:
        return RushBuyer.Outcome.SOLD_OUT
    except (LockNotAcquired, selling.BeingBought, TooMuchContention):
        return ""
    return RushBuyer.Outcome.BOUGHT


def _buy_unprotected(item_id: int, buyer: Member) -> None:
    """Buy as code without locks does: read, decide, pay, write. All who read before the first write buy."""
    item = Item.objects.get(pk=item_id)
    if item.state != "open":
        raise deals.NotForSale(item)
    time.sleep(PAYMENT_S)
    item.buyer, item.sold_at = buyer, timezone.now()
    item.save(update_fields=["buyer", "sold_at"])
