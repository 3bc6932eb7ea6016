"""The database connections of the watching thread, and of those that deliver."""

from __future__ import annotations

from django.db import connections

from django_redis_components.core.guarded_logger import guarded_logger

logger = guarded_logger("django_redis_components.dashboard")


def close_databases() -> None:
    """Close the database connections of this thread: a check of the site, or its mail backend, may have opened some."""
    try:
        connections.close_all()
    except BaseException:  # the thread must not end
        logger.exception("The database connections of a thread were not closed.")
