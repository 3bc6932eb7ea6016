"""What `TaskContext.iterate` goes through, and the cursor at which the next run continues.

A queryset is read in pages, each by one query: the rows whose key is above that of the last row, in the order of the
key, at most `chunk_size`. There is no OFFSET and no cursor of the database, so a page costs the same at any depth, and
nothing is open between two items. Any other iterable is continued at its position.

A cursor names the last item that is done. The items after it run again if the worker dies before the next cursor is
written.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django.core.exceptions import FieldDoesNotExist
from django.db import connections
from django.db.models import Field, QuerySet

from django_redis_components.core import serialization
from django_redis_components.core.arguments import (
    check_choice,
    check_int,
    check_number,
    check_string,
    is_int,
    is_text,
    plain_int,
    plain_text,
    short_repr,
)

#: Rows that one query of `iterate` reads by default, and at most.
CHUNK_SIZE, MAX_CHUNK_SIZE = 100, 10_000
#: Seconds between two cursors that are written, if `save_every` is None.
SAVE_S = 1.0
#: Bytes of a value that a cursor stores.
MAX_CURSOR_BYTES = 1_024
#: What a retry after an error does.
ON_RETRY = ("continue", "restart")
_ACCEPTED = "a cursor stores an int, str, UUID, Decimal, date or datetime"


class Cursor(NamedTuple):
    """Where a task continues.

    Attributes:
        loop: which call of `iterate` in the function, from 0.
        key: field by which a queryset is read; None for another iterable.
        after: value of the field of the last row that is done, or the number of items that are; None: none is.
        done: number of items that are done.
    """

    loop: int
    key: str | None
    after: int | str | None
    done: int


def encode_cursor(cursor: Cursor) -> bytes:
    """Return a cursor as the record stores it."""
    return serialization.encode(list(cursor))


def decode_cursor(stored: bytes) -> Cursor:
    """Return a cursor from the record. One of a later release may have more parts."""
    return Cursor(*serialization.decode(stored)[:4])


class Source(Protocol):
    """What is iterated over: yields the position of each item and the item, those after a position."""

    key: str | None

    def items(self, after: Any) -> Iterator[tuple[int | str, Any]]: ...

    def aitems(self, after: Any) -> AsyncIterator[tuple[int | str, Any]]: ...


class Rows:
    """The rows of a queryset, in the order of a unique field."""

    def __init__(self, queryset: QuerySet[Any], key: str, chunk_size: int) -> None:
        check_queryset(queryset)
        self.key: str | None = key
        self._name = "pk" if key == "pk" else unique_field(queryset.model, key).attname
        self._queryset = queryset.order_by(self._name)
        self._label = f"{queryset.model._meta.label}.{key}"
        self._chunk_size = chunk_size

    def items(self, after: Any) -> Iterator[tuple[int | str, Any]]:
        """Yield the rows after this value of the field."""
        while True:
            rows = list(self._page(after))
            for row in rows:
                after = self._position(row)
                yield after, row
            if len(rows) < self._chunk_size:
                return

    async def aitems(self, after: Any) -> AsyncIterator[tuple[int | str, Any]]:
        """See `items`."""
        while True:
            rows = [row async for row in self._page(after)]
            for row in rows:
                after = self._position(row)
                yield after, row
            if len(rows) < self._chunk_size:
                return

    def _page(self, after: Any) -> QuerySet[Any]:
        rest = self._queryset if after is None else self._queryset.filter(**{f"{self._name}__gt": after})
        return rest[: self._chunk_size]

    def _position(self, row: Any) -> int | str:
        return cursor_value(getattr(row, self._name), self._label)


class Items:
    """The items of an iterable, by their position."""

    key: str | None = None

    def __init__(self, source: Any, *, is_async: bool) -> None:
        if isinstance(source, set | frozenset):
            raise TypeError(f"source={short_repr(source)}: a set has no stable order. Pass sorted(…).")
        if isinstance(source, AsyncIterable):
            if not is_async:
                raise TypeError(f"source={short_repr(source)} is an async iterable: use aiterate().")
        elif not isinstance(source, Iterable):
            hint = " Add .all()." if hasattr(source, "get_queryset") else ""
            raise TypeError(f"source={short_repr(source)}: expected a queryset or an iterable.{hint}")
        self._source = source

    def items(self, after: Any) -> Iterator[tuple[int, Any]]:
        """Yield the items behind the first `after` ones."""
        first = after or 0
        yield from enumerate(islice(self._source, first, None), first + 1)

    async def aitems(self, after: Any) -> AsyncIterator[tuple[int, Any]]:
        """See `items`."""
        if not isinstance(self._source, AsyncIterable):
            for position, item in self.items(after):
                yield position, item
            return
        position = 0
        async for item in self._source:
            position += 1
            if position > (after or 0):
                yield position, item


class Loop:
    """One call of `iterate` in a run: its options, and the items that are done.

    Attributes:
        number: which call in the function, from 0.
        source: what it iterates over.
        restarts: whether a retry after an error starts with the first item.
        total: number of items, for the progress; None if unknown.
        after, done: as in `Cursor`.
    """

    def __init__(self, number: int, source: Source, total: float | None, save_every: int | None, on_retry: str) -> None:
        self.number = number
        self.source = source
        self.total = total
        self.restarts = check_choice(on_retry, "on_retry", ON_RETRY) == "restart"
        self.after: int | str | None = None
        self.done = 0
        self._save_every = save_every
        self._saved_at = time.monotonic()

    @property
    def cursor(self) -> Cursor:
        """Its cursor now."""
        return Cursor(self.number, self.source.key, self.after, self.done)

    def continue_at(self, cursor: Cursor, task_id: str) -> None:
        """Continue where an earlier run has stopped."""
        if cursor.key != self.source.key:
            raise ValueError(
                f"iterate(key={self.source.key!r}) cannot continue task {task_id}: its cursor is of"
                f' key={cursor.key!r}. Enqueue the task anew, or retry it with on_retry="restart".'
            )
        self.after, self.done = cursor.after, cursor.done

    def finish_item(self, after: int | str) -> bool:
        """Count an item that is done; return whether the cursor is to be written now."""
        self.after = after
        self.done += 1
        if self._save_every is not None:
            return self.done % self._save_every == 0
        now = time.monotonic()
        if now - self._saved_at < SAVE_S:
            return False
        self._saved_at = now
        return True


def new_loop(
    number: int,
    source: object,
    key: str | None,
    total: float | None,
    chunk_size: int,
    save_every: int | None,
    on_retry: str,
    *,
    is_async: bool,
) -> Loop:
    """Validate the arguments of `iterate`.

    Raises:
        TypeError, ValueError: an argument is not accepted.
    """
    check_int(chunk_size, "chunk_size", 1, MAX_CHUNK_SIZE)
    if save_every is not None:
        check_int(save_every, "save_every", 1)
    if isinstance(source, QuerySet):
        found: Source = Rows(source, "pk" if key is None else check_string(key, "key"), chunk_size)
    elif key is not None:
        raise TypeError(f"key={short_repr(key)}: only querysets have a key; other iterables go by position.")
    else:
        found = Items(source, is_async=is_async)
        if total is None and hasattr(source, "__len__"):
            total = len(source) or None
    if total is not None:
        check_number(total, "total", above=0)
    return Loop(number, found, total, save_every, on_retry)


def check_queryset(queryset: QuerySet[Any]) -> None:
    """Refuse a queryset that cannot be read in pages by a key.

    Raises:
        TypeError: it does not return objects of its model.
        ValueError: it is ordered or sliced, or combines others.
    """
    query, about = queryset.query, f"source is a queryset of {queryset.model._meta.label}"
    if queryset._fields is not None:  # type: ignore[attr-defined]
        raise TypeError(f"{about} with values(): expected one of objects. Use only() to read few columns.")
    if query.order_by or query.extra_order_by or not query.standard_ordering:
        raise ValueError(f"{about} with order_by() or reverse(): iterate() reads it in the order of key. Remove it.")
    if query.is_sliced:
        raise ValueError(f"{about} that is sliced: iterate() reads all rows in pages. Use filter().")
    if query.combinator:
        raise ValueError(f"{about} made by {query.combinator}(), which cannot be filtered. Use | or filter().")


def unique_field(model: Any, key: str) -> Field[Any, Any]:
    """Return the field of this name, whose values order all rows without ties.

    Raises:
        ValueError: there is none, it is not unique, or it may be NULL.
    """
    options = model._meta
    text = f"key={short_repr(key)}: expected a unique field of {options.label} that is never NULL, such as 'pk'"
    try:
        field: Field[Any, Any] = options.get_field(key)
    except FieldDoesNotExist:
        raise ValueError(f"{text}. There is no such field.") from None
    constraints = field.model._meta.total_unique_constraints  # an inherited field has those of its model
    is_unique = getattr(field, "unique", False) or any(each.fields == (key,) for each in constraints)
    if not is_unique or field.null or not field.concrete:
        raise ValueError(f"{text}. Rows with equal values would be left out.")
    return field


def cursor_value(value: object, name: str) -> int | str:
    """Return the value of a field as a cursor stores it. A filter of the field accepts it.

    Raises:
        TypeError, ValueError: its type is not accepted, or it is too large.
    """
    if is_int(value):
        if value.bit_length() <= 64:  # what databases store
            return plain_int(value)
    elif is_text(value) or isinstance(value, UUID | Decimal):
        text = plain_text(value) if is_text(value) else str(value)
        if len(text.encode()) <= MAX_CURSOR_BYTES:
            return text
    elif isinstance(value, date):
        return value.isoformat()
    else:
        raise TypeError(f"{name}={short_repr(value)}: {_ACCEPTED}.")
    raise ValueError(f"{name}={short_repr(value)}: {_ACCEPTED}, of at most {MAX_CURSOR_BYTES:,} bytes.")


def refuse_transaction() -> None:
    """Refuse to iterate within a transaction: a rollback would undo items that the cursor counts as done.

    Raises:
        RuntimeError: a transaction is open, and it is not that of a test case.
    """
    for connection in connections.all(initialized_only=True):
        blocks = connection.atomic_blocks
        if blocks and not blocks[-1]._from_testcase:  # type: ignore[attr-defined]
            raise RuntimeError(
                f'iterate() within transaction.atomic() of the database "{connection.alias}": a rollback would undo'
                " items that the cursor counts as done. Put atomic() inside the loop."
            )
