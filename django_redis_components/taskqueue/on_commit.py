"""Which database's commit a task waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from django_redis_components.taskqueue.exceptions import InvalidTask


def call_on_commit(send: Callable[[], object], database: str | None = None) -> bool:
    """Call `send` when the surrounding transaction commits; False without a transaction or database.

    Args:
        database: alias of the database whose commit is awaited. None: the default database if it is in a
            transaction, else the one that is.

    Raises:
        InvalidTask: several databases are in a transaction, and `database` is None.
        django.db.transaction.TransactionManagementError: autocommit is off, and the transaction is without `atomic`.
        django.utils.connection.ConnectionDoesNotExist: there is no such database.
    """
    alias = alias_in_transaction(database)
    if alias is not None:
        transaction.on_commit(send, using=alias)
    return alias is not None


def alias_in_transaction(database: str | None) -> str | None:
    """Return the alias of the database whose commit is awaited; None if it is not in a transaction."""
    alias = _database_in_transaction() if database is None else database
    if alias is None or not _is_in_transaction(transaction.get_connection(alias)):
        return None
    return alias


def _is_in_transaction(connection: Any) -> bool:
    """Return whether a database is in a transaction, also in one without `atomic`, for which Django refuses hooks."""
    return connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)


def _database_in_transaction() -> str | None:
    """Alias of the database that is in a transaction in this thread."""
    try:
        aliases = [each.alias for each in connections.all(initialized_only=True) if _is_in_transaction(each)]
    except ImproperlyConfigured:  # a site without a database
        return None
    if DEFAULT_DB_ALIAS in aliases:
        return DEFAULT_DB_ALIAS
    if len(aliases) > 1:
        names = ", ".join(map(repr, sorted(aliases)))
        raise InvalidTask(
            f"Several databases are in a transaction ({names}). Choose the one whose commit sends the task:"
            f" using(database={min(aliases)!r})."
        )
    return aliases[0] if aliases else None
