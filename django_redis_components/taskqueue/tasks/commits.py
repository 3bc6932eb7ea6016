"""Sending when the surrounding transaction commits."""

from __future__ import annotations

from collections.abc import Callable

from django.core.exceptions import ImproperlyConfigured
from django.db import transaction


def in_transaction(send: Callable[[], None]) -> bool:
    """Have it sent on commit if there is a transaction; False if there is none, or no database."""
    try:
        if not transaction.get_connection().in_atomic_block:
            return False
        transaction.on_commit(send)
    except ImproperlyConfigured:
        return False
    return True
