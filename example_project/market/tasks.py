"""Tasks of the market. They are idempotent, because a task runs again if its worker crashes."""

from __future__ import annotations

import os
import random
import socket
import time
from datetime import timedelta

from django.db.models import F
from django.utils import timezone

from django_redis_components.taskqueue import every, task
from example_project.market import mails, places, sale_chats
from example_project.market.content import visitors
from example_project.market.locking import item_lock
from example_project.market.models import Item, Member, RushBuyer, RushEvent

#: Attempts to send a mail.
MAIL_ATTEMPTS = 5

#: Backoff before the second attempt in seconds; it grows exponentially.
MAIL_BACKOFF_S = 5

#: Seconds that the answer to a buyer of a rush takes.
ANSWER_S = 0.5

#: A sale is overdue between these durations after its end.
OVERDUE_AFTER, OVERDUE_UNTIL = timedelta(minutes=1), timedelta(days=1)

#: Maximum number of overdue sales per run.
OVERDUE_LIMIT = 100

#: Number of made-up visitors that a press of the button sends.
VISITORS = 40


@task(queue_name="high", max_attempts=MAIL_ATTEMPTS, backoff=MAIL_BACKOFF_S)
def notify_seller(item_id: int) -> str:
    """Notify the seller that the item was sold or that its sale ended. Returns the subject of the mail."""
    item = Item.objects.select_related("seller", "buyer").filter(pk=item_id).first()
    if item is None or item.seller_notified_at is not None or item.state == "open":
        return ""
    if item.buyer:
        sale_chats.open_chat(item)
    subject = mails.notify_sold(item) if item.buyer else mails.notify_unsold(item)
    Item.objects.filter(pk=item_id).update(seller_notified_at=timezone.now())
    return subject


@task(max_attempts=MAIL_ATTEMPTS, backoff=MAIL_BACKOFF_S)
@item_lock
def end_sale(item_id: int) -> str:
    """End the sale of an item; scheduled when the item is listed. Returns the item's state.

    If the item was sold, only enqueue the mail to the seller if it is missing: the site may have crashed
    between the commit of the sale and the enqueueing of the mail.
    """
    now = timezone.now()
    Item.objects.filter(pk=item_id, buyer=None, ended_at=None, sale_ends_at__lte=now).update(ended_at=now)
    item = Item.objects.filter(pk=item_id).first()
    if item is None:
        return "gone"
    if item.seller_notified_at is None and item.state != "open":
        notify_seller.using(queue_name="low").enqueue(item_id)
    return item.state


@every(60, misfire="skip")
@task(queue_name="low")
def end_overdue_sales() -> int:
    """Run every minute: end overdue sales whose task was lost with its Redis server. Returns their number."""
    now = timezone.now()
    overdue = Item.objects.filter(
        seller_notified_at=None, sale_ends_at__range=(now - OVERDUE_UNTIL, now - OVERDUE_AFTER)
    ).values_list("pk", flat=True)
    again = end_sale.using(unique=True).enqueue_many([((pk,), {}) for pk in overdue[:OVERDUE_LIMIT]])
    return len(again)


@every(60, misfire="skip")
@task(queue_name="low")
def aggregate_access_log() -> None:
    """Run every minute: count the new lines of the access log, and rotate it when it is large."""
    places.aggregate()


@task
def send_visitors() -> None:
    """Request the market as made-up visitors do, and count the requests."""
    visitors.browse(random.Random(), VISITORS)
    places.aggregate()


@task(max_attempts=MAIL_ATTEMPTS, backoff=MAIL_BACKOFF_S)
def deliver_letter(sender_id: int, recipient_id: int, text: str) -> str:
    """Deliver a message to a member. Returns the subject of the mail."""
    people = Member.objects.in_bulk([sender_id, recipient_id])
    if sender_id not in people or recipient_id not in people:
        return ""
    return mails.forward_message(people[sender_id], people[recipient_id], text)


@task(queue_name="low", max_attempts=MAIL_ATTEMPTS, backoff=MAIL_BACKOFF_S)
def report_links(sender_id: int, links: list[str]) -> str:
    """Report new links of a letter to the moderators. Returns the subject of the mail."""
    sender = Member.objects.filter(pk=sender_id).first()
    return mails.report_links(sender, links) if sender else ""


@task(max_attempts=MAIL_ATTEMPTS, backoff=MAIL_BACKOFF_S)
def answer_buyer(rush_id: int, number: int) -> str:
    """Send the answer to a buyer of a rush. Returns the outcome; "" if a later rush has replaced this one."""
    buyers = RushBuyer.objects.filter(rush=rush_id, number=number)
    buyers.update(runs=F("runs") + 1, worker=f"{socket.gethostname()}:{os.getpid()}")
    buyer = buyers.first()
    if buyer is None or buyer.finished_at is not None:
        return buyer.outcome if buyer else ""
    if buyer.runs > 1:
        text = f"the answer to buyer {number} runs again after its worker was killed, run {buyer.runs}"
        RushEvent.objects.create(rush_id=rush_id, kind=RushEvent.Kind.REPEATED, text=text)
    time.sleep(ANSWER_S)
    buyers.update(finished_at=timezone.now())
    if not RushBuyer.objects.filter(rush=rush_id, finished_at=None).exists():
        text = {"text": "all buyers were answered"}
        RushEvent.objects.get_or_create(rush_id=rush_id, kind=RushEvent.Kind.FINISHED, defaults=text)
    return buyer.outcome
