"""Writing rows of the outbox, and what they say about the backlog."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db import connections, models, router, transaction
from django.utils import timezone

from django_redis_components.contrib.outbox.models import OutboxEntry
from django_redis_components.taskqueue.outbox import FORMAT, OutboxRow

#: Most rows of a database that are read for figures: the oldest ones, of all connections.
MAX_COUNTED = 10_000
#: The fields that are written, in the order of the model.
_FIELDS = [field for field in OutboxEntry._meta.local_concrete_fields if not field.primary_key]


class DatabaseOutbox:
    """The rows of the site's databases."""

    def add(self, rows: Sequence[OutboxRow], using: str, database: str) -> None:
        """See `taskqueue.outbox.OutboxStorage`. It is SQL, because the ORM takes most of the time of a commit."""
        connection, now = connections[database], timezone.now()
        parameters = [_parameters(row, using, now, connection) for row in rows]
        quote = connection.ops.quote_name
        columns = ", ".join(quote(str(field.column)) for field in _FIELDS)
        places = ", ".join(["%s"] * len(_FIELDS))
        sql = f"INSERT INTO {quote(OutboxEntry._meta.db_table)} ({columns}) VALUES ({places})"  # noqa: S608
        if len(parameters) == 1:
            with connection.cursor() as cursor:
                cursor.execute(sql, parameters[0])
        elif parameters:
            with transaction.atomic(database, savepoint=False), connection.cursor() as cursor:
                cursor.executemany(sql, parameters)


def _parameters(row: OutboxRow, using: str, now: datetime, connection: Any) -> list[Any]:
    values = (using, row.token, FORMAT, row.message, len(row.message), now)
    return [field.get_db_prep_save(value, connection) for field, value in zip(_FIELDS, values, strict=True)]


@dataclasses.dataclass(frozen=True, slots=True)
class Backlog:
    """The rows of a connection in all databases. Rows of the last seconds may have been sent.

    Attributes:
        count: their number among the oldest `MAX_COUNTED` of each database.
        is_cut: whether a database in which it has some has more rows, of any connection.
        oldest_at: when the oldest one was written; None without rows.
        missing: aliases of databases without the table.
    """

    count: int
    is_cut: bool
    oldest_at: datetime | None
    missing: tuple[str, ...] = ()


def databases() -> list[str]:
    """Return the aliases of the databases that may have the table: those that the routers let it be migrated to."""
    return [alias for alias in connections if router.allow_migrate_model(alias, OutboxEntry)]


def has_table(database: str) -> bool:
    """Return whether the table was created in a database."""
    connection = connections[database]
    with connection.cursor() as cursor:
        return OutboxEntry._meta.db_table in connection.introspection.table_names(cursor)


@contextlib.contextmanager
def databases_closed_again() -> Iterator[None]:
    """Close the connections that the block opens: the thread of an exporter ends after a scrape without doing so."""
    opened = [connections[alias] for alias in databases() if connections[alias].connection is None]
    try:
        yield
    finally:
        for connection in opened:
            connection.close()


def read_backlog(using: str) -> Backlog:
    """Return the backlog of a connection, at a cost that does not grow with the number of rows.

    Raises:
        django.db.Error: a database cannot be read.
    """
    missing = [alias for alias in databases() if not has_table(alias)]
    found = [read_database(alias).get(using) for alias in databases() if alias not in missing]
    backlogs = [backlog for backlog in found if backlog is not None]
    oldest = min((each.oldest_at for each in backlogs if each.oldest_at), default=None)
    count, is_cut = sum(each.count for each in backlogs), any(each.is_cut for each in backlogs)
    return Backlog(count, is_cut, oldest, tuple(missing))


def read_database(database: str) -> dict[str, Backlog]:
    """Return the backlogs in one database, by the connections of its oldest `MAX_COUNTED` rows.

    Raises:
        django.db.Error: it cannot be read.
    """
    rows = OutboxEntry._base_manager.using(database)
    next_row = rows.order_by("pk").values_list("pk", flat=True)[MAX_COUNTED : MAX_COUNTED + 1].first()
    if next_row is not None:
        rows = rows.filter(pk__lt=next_row)
    found = rows.order_by("using").values_list("using").annotate(models.Count("pk"), models.Min("created_at"))
    return {using: Backlog(count, next_row is not None, oldest) for using, count, oldest in found}


def find_tokens(database: str, tokens: Sequence[str]) -> list[str]:
    """Return those of the tokens whose rows a database has.

    Raises:
        django.db.Error: it cannot be read.
    """
    return list(OutboxEntry._base_manager.using(database).filter(token__in=tokens).values_list("token", flat=True))
