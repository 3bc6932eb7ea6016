"""The database's side of fencing: rows that refuse whoever holds a lock no more.

A lease can end while its holder is paused, and nothing that the holder asks can tell it afterwards; only
what it writes to can. A row that keeps the fencing token of its last writer refuses lower ones, in the same
UPDATE that writes, so no time passes between the check and the write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from django.db import models

from django_redis_components.locks.exceptions import StaleFence

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: Largest fencing token: what a BigIntegerField holds.
MAX_FENCE = 2**63 - 1

M = TypeVar("M", bound=models.Model)


def fenced_update(queryset: QuerySet[M], fence: int | None, **values: Any) -> int:
    """Update those rows of a queryset that were not written under a later fencing token.

    One UPDATE checks, writes, and stores the token in the rows' field ``fence``. Rows under the same token
    are written again: a holder may write as often as it likes.

    Args:
        queryset: rows of a model with a field ``fence``, such as a `FencedModel`.
        fence: the writer's `Lock.fencing_token`.
        values: as for `QuerySet.update`.

    Returns:
        How many rows were written, at least 1. Of several rows, those that are under a later token stay as
        they are: compare the number when that matters.

    Raises:
        StaleFence: none was written, because all are under a later token, or there are none.
        TypeError, ValueError: `fence` is no fencing token.
    """
    token = checked(fence)
    written = queryset.filter(fence__lte=token).update(fence=token, **values)
    if not written:
        raise _stale(queryset, token, queryset.aggregate(latest=models.Max("fence"))["latest"])
    return written


async def afenced_update(queryset: QuerySet[M], fence: int | None, **values: Any) -> int:
    """See `fenced_update`. Asks the database as Django's own `aupdate` does."""
    token = checked(fence)
    written = await queryset.filter(fence__lte=token).aupdate(fence=token, **values)
    if not written:
        raise _stale(queryset, token, (await queryset.aaggregate(latest=models.Max("fence")))["latest"])
    return written


def _stale(queryset: QuerySet[M], token: int, latest: int | None) -> StaleFence:
    what = "there is no such row" if latest is None else f"a later holder has written it under {latest}"
    return StaleFence(queryset.model.__name__, token, what)


def checked(fence: object) -> int:
    """A fencing token, as a grant gives it.

    Raises:
        TypeError: not a whole number; None says that the lock is not held.
        ValueError: not positive, or larger than the field.
    """
    if fence is None:
        raise TypeError("fence=None: expected a fencing token; the lock is not held, or its kind has none.")
    if not isinstance(fence, int) or isinstance(fence, bool):
        raise TypeError(f"fence={fence!r}: expected a fencing token, which is a whole number.")
    if not 1 <= fence <= MAX_FENCE:
        raise ValueError(f"fence={fence!r}: expected a fencing token, from 1 to {MAX_FENCE}.")
    return fence
