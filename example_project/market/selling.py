"""Three ways to let one of several buyers win. ``SALES`` in the settings (``DEMO_SALES`` outside) chooses.

========  ==================================================================================================
``item``  a lock for each thing: nobody waits for a sale of something else
``one``   one lock for the whole market: simple, and everybody waits for everybody
``watch`` no lock: a buyer claims the thing (WATCH, MULTI, EXEC); who comes second is told at once
========  ==================================================================================================

None of them is the last word: the database decides once more (see ``deals``). ``manage.py rush`` measures them.
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
from example_project.market.locking import LEASE_S, PATIENCE_S, item_lock_name

#: What the pages say of each way.
WAYS = {
    "item": _("Two buyers, one item: a per-item lock picks the winner."),
    "one": _("Two buyers, one item: one lock for the whole market picks the winner."),
    "watch": _("Two buyers, one item: an optimistic claim picks the winner, without a lock."),
}


class BeingBought(Exception):
    """Another buyer has reserved the item."""


def chosen() -> str:
    """Return the way that the settings select."""
    if settings.SALES not in WAYS:
        raise ImproperlyConfigured(f"DEMO_SALES={settings.SALES!r}: expected one of {', '.join(WAYS)}.")
    return settings.SALES


def one_buyer(item_id: int, buyer_id: int, way: str | None = None) -> AbstractContextManager[Any]:
    """Within it nobody else buys this thing.

    Raises:
        LockNotAcquired: others were at it for as long as anybody waits.
        BeingBought, TooMuchContention: others are at it right now.
    """
    way = way or chosen()
    if way == "watch":
        return _claimed(f"market:claim:{item_id}", buyer_id)
    name = "market:all" if way == "one" else item_lock_name(item_id)
    return Lock(name, timeout=LEASE_S, blocking_timeout=PATIENCE_S)


@contextmanager
def _claimed(key: str, buyer_id: int) -> Iterator[None]:
    def claim(pipe: Any) -> None:
        if pipe.exists(key):
            raise BeingBought
        pipe.multi()
        pipe.set(key, buyer_id, px=LEASE_S * 1_000)

    def give_up(pipe: Any) -> None:
        is_ours = pipe.get(key) == str(buyer_id).encode()
        pipe.multi()
        if is_ours:
            pipe.delete(key)

    atomic_update(claim, key)
    try:
        yield
    finally:
        atomic_update(give_up, key)
