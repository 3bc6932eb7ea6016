"""Sending when the surrounding transaction commits."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, transaction

from django_redis_components.taskqueue.exceptions import InvalidTask


def in_transaction(send: Callable[[], object], database: str | None = None) -> bool:
    """Have it sent on commit if there is a transaction; False if there is none, or no database.

    Args:
        database: alias of the one whose commit is waited for. None: the default one if it is in a transaction, else
            the one that is.

    Raises:
        InvalidTask: several are, and it is not said which one is meant.
        django.utils.connection.ConnectionDoesNotExist: there is no such database.
    """
    alias = _in_atomic_block() if database is None else database
    if alias is None or not transaction.get_connection(alias).in_atomic_block:
        return False
    transaction.on_commit(send, using=alias)
    return True


def _in_atomic_block() -> str | None:
    """The database of this thread that is in a transaction."""
    try:
        found = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
    except ImproperlyConfigured:  # a site without a database
        return None
    if DEFAULT_DB_ALIAS in found:
        return DEFAULT_DB_ALIAS
    if len(found) > 1:
        named = ", ".join(map(repr, sorted(found)))
        raise InvalidTask(
            f"Several databases are in a transaction ({named}): say whose commit is waited for, as in"
            f" using(database={min(found)!r})."
        )
    return found[0] if found else None
