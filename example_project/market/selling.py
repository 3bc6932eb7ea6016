"""Three strategies to select one of several concurrent buyers, chosen by ``SALES`` (environment: ``DEMO_SALES``).

========  ==================================================================================================
``item``  one lock per item: sales of different items run concurrently
``one``   one lock for the whole market: simple, but all sales are serialized
``watch`` no lock: a buyer claims the item (WATCH, MULTI, EXEC); other buyers are rejected at once
========  ==================================================================================================

The database checks each sale again (see ``deals``). ``manage.py rush`` measures the strategies.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from django_redis_components.locks import Lock
from django_redis_components.transactions import atomic_update
from example_project.market.locking import LEASE_S, WAIT_TIMEOUT_S, item_lock_name

#: Description of each strategy, as shown on the pages.
WAYS = {
    "item": _("Two buyers, one item: a per-item lock picks the winner."),
    "one": _("Two buyers, one item: one lock for the whole market picks the winner."),
    "watch": _("Two buyers, one item: an optimistic claim picks the winner, without a lock."),
}

#: The way of a rush without protection. The shop does not offer it.
UNPROTECTED = "none"


class BeingBought(Exception):
    """Another buyer has reserved the item."""


def chosen() -> str:
    """Return the strategy that the settings select."""
    if settings.SALES not in WAYS:
        raise ImproperlyConfigured(f"DEMO_SALES={settings.SALES!r}: expected one of {', '.join(WAYS)}.")
    return settings.SALES


def one_buyer(item_id: int, buyer_id: int, way: str | None = None) -> AbstractContextManager[Any]:
    """Return a context manager that excludes other buyers of the item.

    Raises:
        LockNotAcquired: other buyers held the lock until the wait timed out.
        BeingBought, TooMuchContention: another buyer is buying it.
    """
    way = way or chosen()
    if way == "watch":
        return _claimed(f"market:claim:{item_id}", buyer_id)
    name = "market:all" if way == "one" else item_lock_name(item_id)
    return Lock(name, timeout=LEASE_S, blocking_timeout=WAIT_TIMEOUT_S)


@contextmanager
def _claimed(key: str, buyer_id: int) -> Iterator[None]:
    def claim(pipe: Any) -> None:
        if pipe.exists(key):
            raise BeingBought
        pipe.multi()
        pipe.set(key, buyer_id, px=LEASE_S * 1_000)

    def release_claim(pipe: Any) -> None:
        is_ours = pipe.get(key) == str(buyer_id).encode()
        pipe.multi()
        if is_ours:
            pipe.delete(key)

    atomic_update(claim, key)
    try:
        yield
    finally:
        atomic_update(release_claim, key)
