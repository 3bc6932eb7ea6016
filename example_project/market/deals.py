"""Listing and buying. Two buyers at once: one wins, by one of the three ways of ``selling``.

What is decided there is decided again by the database (``buyer=None`` in the update): should a lease ever run
out, the second update finds nothing to change.
"""

from __future__ import annotations

import time
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from example_project.market import selling, tasks
from example_project.market.models import Item, Member


class NotForSale(Exception):
    """The item was sold, its sale is over, or it is the buyer's own.

    Attributes:
        item: as it is now.
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
        # Before the commit on purpose: without its task the sale would never end, so no task, no item.
        # Should the commit fail, the task finds no item and does nothing.
        tasks.end_sale.using(run_after=sale_ends_at).enqueue(item.pk)
    return item


def buy(item_id: int, buyer: Member, at: datetime | None = None, way: str | None = None) -> Item:
    """Buy a thing, and have the seller told. ``way`` is one of ``selling.WAYS``; None is the site's.

    Raises:
        Item.DoesNotExist: there is none with this id.
        NotForSale: too late, or one's own.
        LockNotAcquired: others were buying it for as long as anybody waits.
        BeingBought, TooMuchContention: others are buying it right now.
    """
    now = at or timezone.now()
    try:
        with selling.one_buyer(item_id, buyer.pk, way):
            return _sell(item_id, buyer, now)
    except selling.BeingBought:
        item = Item.objects.select_related("seller", "buyer").get(pk=item_id)
        if item.state == "open":
            raise
        raise NotForSale(item) from None


def _sell(item_id: int, buyer: Member, now: datetime) -> Item:
    open_sale = Item.objects.filter(pk=item_id, buyer=None, ended_at=None, sale_ends_at__gt=now).exclude(seller=buyer)
    if settings.TILL_S and open_sale.exists():
        time.sleep(settings.TILL_S)  # simulates the payment
    with transaction.atomic():
        done = open_sale.update(buyer=buyer, sold_at=now)
        item = Item.objects.select_related("seller", "buyer").get(pk=item_id)
        if not done:
            raise NotForSale(item)
        tasks.tell_seller.enqueue_on_commit(item_id)
    return item
