"""The database side of fencing: rows that refuse the writes of earlier lock holders.

A lease can expire while its holder is paused, and no request to Redis can protect what it writes afterwards. Only the
database can refuse the stale write. A row stores the fencing token of its last writer; a write under a lower token
is refused. The check must hold at the moment of the write, not before it:

- When one UPDATE of one table writes everything, its WHERE contains the check. A database that makes this UPDATE
  wait for another one evaluates the WHERE again on the new row.
- Else (joins, multi-table inheritance) Django sends a sub-query or several statements, and a check in them looks
  at an old row. There the rows that store the token are locked first, and checked under the lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from asgiref.sync import sync_to_async
from django.db import NotSupportedError, connections, models, transaction

from django_redis_components.core.arguments import check_int
from django_redis_components.core.chunks import chunks
from django_redis_components.locks.exceptions import StaleFence

if TYPE_CHECKING:
    from django.db.models import QuerySet

#: Largest fencing token: what a BigIntegerField holds.
MAX_FENCE = 2**63 - 1
#: Primary keys in one statement. SQLite may be built for 999 parameters at most, and a key can have several columns.
_CHUNK = 250

M = TypeVar("M", bound=models.Model)


def fenced_update(queryset: QuerySet[M], fence: int | None, **values: Any) -> int:
    """Update those rows of a queryset that were not written under a later fencing token.

    The token is stored in the rows' field ``fence``. Rows under the same token are written again: a holder may
    write as often as it likes. Everything is written in one transaction, or nothing.

    Args:
        queryset: rows of a model with a field ``fence``, such as a `FencedModel`. It may join other tables, and
            the model may inherit the field (multi-table inheritance, proxies).
        fence: the writer's `Lock.fencing_token`.
        values: as for `QuerySet.update`.

    Returns:
        How many rows were written, at least 1. Of several rows, those that are under a later token stay as
        they are: compare the number when that matters.

    Raises:
        StaleFence: none was written, because all are under a later token, or there are none.
        TypeError: `fence` is no fencing token; or the queryset is sliced or distinct on fields.
        NotSupportedError: the queryset is a union, an intersection or a difference.
        ValueError: `fence` is not positive, or too large.
    """
    token = checked(fence)
    rows = _on_its_primary(_guardable(queryset.all()))
    allowed = rows.filter(fence__lte=token)
    if _is_one_statement(allowed, values):
        written = allowed.update(fence=token, **values)
    else:
        written = _update_under_lock(rows, allowed, token, values)
    if not written:
        raise _stale(rows, token)
    return written


async def afenced_update(queryset: QuerySet[M], fence: int | None, **values: Any) -> int:
    """See `fenced_update`. It runs in Django's database thread, as `aupdate` does."""
    return await sync_to_async(fenced_update)(queryset, fence, **values)


def _guardable(queryset: QuerySet[M]) -> QuerySet[M]:
    """Return the queryset if its rows can be selected again while they are locked.

    Raises:
        NotSupportedError, TypeError: they cannot.
    """
    query: Any = queryset.query
    if query.combinator:
        raise NotSupportedError(
            f"fenced_update() cannot guard a {query.combinator}() of querysets: the database cannot update it. "
            "Call it for each queryset, or filter by primary keys."
        )
    if query.is_sliced:
        raise TypeError(
            "fenced_update() cannot guard a sliced queryset: which rows are in the slice may change while the update "
            "waits for a lock. Filter by primary keys: filter(pk__in=list(queryset.values_list('pk', flat=True)))."
        )
    if query.distinct_fields:
        raise TypeError(
            "fenced_update() cannot guard a queryset with distinct(*fields): an UPDATE ignores it and would write "
            "all rows. Filter by primary keys."
        )
    return queryset


def _on_its_primary(queryset: QuerySet[M]) -> QuerySet[M]:
    """The queryset on the database that is written: a replica may not have the latest token yet."""
    return queryset.using(queryset.select_for_update().db)


def _is_one_statement(allowed: QuerySet[M], values: dict[str, Any]) -> bool:
    """Whether Django sends one UPDATE of one table, with the filters in its own WHERE."""
    query: Any = allowed.query
    model = allowed.model._meta.concrete_model
    written = (_model_of(allowed.model, name) for name in ("fence", *values))
    return query.count_active_tables() == 1 and all(each is model for each in written)


def _update_under_lock(rows: QuerySet[M], allowed: QuerySet[M], token: int, values: dict[str, Any]) -> int:
    """Lock the rows that store the token, check it, and update with the queryset's other filters checked again."""
    holder = _model_of(rows.model, "fence")
    to_holder = _lookup_of(rows.model, holder)
    with transaction.atomic(using=rows.db):
        chosen = holder._base_manager.using(rows.db).filter(pk__in=allowed.values(to_holder))
        current = [pk for pk, fence in _locked(chosen) if fence <= token]
        return sum(
            rows.filter(**{f"{to_holder}__in": chunk}).update(fence=token, **values)
            for chunk in chunks(current, _CHUNK)
        )


def _locked(rows: QuerySet[Any]) -> list[tuple[Any, int]]:
    """Primary keys and tokens, as they are once no other transaction can change them."""
    features = connections[rows.db].features
    if not features.has_select_for_update:
        # SQLite has one lock for the whole database. A transaction that begins with a write waits for it; one that
        # begins with a read fails when it writes after another one.
        rows.update(fence=models.F("fence"))
    # The weaker lock, as that of an UPDATE: rows that refer to these can be inserted meanwhile.
    locking = rows.select_for_update(no_key=features.has_select_for_no_key_update)
    # All in one order, so that two updates of the same rows cannot wait for each other.
    return list(locking.order_by("pk").values_list("pk", "fence"))


def _model_of(model: type[models.Model], field: str) -> Any:
    """The model whose table has the column."""
    options: Any = model._meta
    return (options.pk if field == "pk" else options.get_field(field)).model._meta.concrete_model


def _lookup_of(model: Any, ancestor: Any) -> str:
    """How a queryset of the model names the primary key of an ancestor: ``account_ptr__pk``."""
    names = []
    while (model := model._meta.concrete_model) is not ancestor:
        link = model._meta.get_ancestor_link(ancestor)
        names.append(link.name)
        model = link.remote_field.model
    return "__".join([*names, "pk"])


def _stale(rows: QuerySet[Any], token: int) -> StaleFence:
    latest = rows.aggregate(latest=models.Max("fence"))["latest"]
    is_gone = latest is None or latest <= token
    what = "there is no such row" if is_gone else f"a later holder has written it under {latest}"
    return StaleFence(rows.model.__name__, token, what)


def checked(fence: object) -> int:
    """A fencing token, as a grant gives it.

    Raises:
        TypeError: not an integer; None says that the lock is not held.
        ValueError: not positive, or larger than the field.
    """
    if fence is None:
        raise TypeError("fence=None: expected a fencing token; the lock is not held, or its kind has none.")
    return check_int(fence, "fence", 1, MAX_FENCE, hint=", a fencing token")
