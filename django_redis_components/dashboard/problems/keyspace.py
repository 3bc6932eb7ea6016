"""The keys of the problems of a connection."""

from __future__ import annotations

from django_redis_components.core import keys
from django_redis_components.core.settings import conf


def key(part: str, using: str = "") -> str:
    """Return a key of a connection, by default that of the dashboard. See the package."""
    return keys.key("problems", using or conf.settings().dashboard.using, part)
