"""List and buy items. Of two concurrent buyers one wins, by one of the three strategies of ``selling``.

The database checks again (``buyer=None`` in the update), so a second sale after an expired lease changes nothing.
"""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial

from django.db import transaction
from django.utils import timezone

from example_project.market import counting, known_items, sale_chats, selling, tasks
from example_project.market.models import Item, Member


class NotForSale(Exception):
    """The item was sold, its sale is over, or it is the buyer's own.

    Attributes:
        item: its current state.
    """

    def __init__(self, item: Item) -> None:
        super().__init__(f"{item} is not for sale.")
        self.item = item


def list_item(
    seller: Member,
    *,
    title: str,
    price: int,
    sale_ends_at: datetime,
    kind: str,
    description: str = "",
    listed_at: datetime | None = None,
) -> Item:
    """List an item, and schedule the end of its sale."""
    with transaction.atomic():
        item = Item.objects.create(
            seller=seller,
            title=title,
            price=price,
            kind=kind,
            description=description,
            listed_at=listed_at or timezone.now(),
            sale_ends_at=sale_ends_at,
        )
        # Enqueued before the commit on purpose: if enqueueing fails, no item without a task is created.
        # If the commit fails, the task finds no item and does nothing.
        tasks.end_sale.using(run_after=sale_ends_at).enqueue(item.pk)
        known_items.add(item.pk)
    counting.mark("list item", seller.pk, item.listed_at)
    return item


def buy(item_id: int, buyer: Member, at: datetime | None = None, way: str | None = None, payment_s: float = 0) -> Item:
    """Buy an item, open the chat of the sale and notify the seller.

    Args:
        way: one of ``selling.WAYS``; None selects the configured one.
        payment_s: seconds that the simulated payment takes, while other buyers are excluded.

    Raises:
        Item.DoesNotExist: no item has this id.
        NotForSale: the sale is over, or the buyer is the seller.
        LockNotAcquired: other buyers held the lock until the wait timed out.
        BeingBought, TooMuchContention: another buyer is buying it.
    """
    now = at or timezone.now()
    try:
        with selling.one_buyer(item_id, buyer.pk, way):
            return _sell(item_id, buyer, now, payment_s)
    except selling.BeingBought:
        item = Item.objects.select_related("seller", "buyer").get(pk=item_id)
        if item.state == "open":
            raise
        raise NotForSale(item) from None


def _sell(item_id: int, buyer: Member, now: datetime, payment_s: float) -> Item:
    open_sale = Item.objects.filter(pk=item_id, buyer=None, ended_at=None, sale_ends_at__gt=now).exclude(seller=buyer)
    if payment_s and open_sale.exists():
        time.sleep(payment_s)
    with transaction.atomic():
        done = open_sale.update(buyer=buyer, sold_at=now)
        item = Item.objects.select_related("seller", "buyer").get(pk=item_id)
        if not done:
            raise NotForSale(item)
        # If this fails, it is logged, and the task below creates the chat.
        transaction.on_commit(partial(sale_chats.open_chat, item), robust=True)
        tasks.notify_seller.enqueue_on_commit(item_id)
    counting.mark("buy item", buyer.pk, now)
    counting.add_sale(item)
    return item
