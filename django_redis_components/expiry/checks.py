"""System checks of this room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string

from django_redis_components.expiry.cache import JSON_SERIALIZER, JitteredRedisCache

#: What unpickles, and so runs whatever somebody has written into Redis.
_PICKLE = "django_redis.serializers.pickle.PickleSerializer"


def check_serializers() -> Iterator[CheckMessage]:
    """Our caches with a pickle serializer (drc.E060)."""
    caches: dict[str, Any] = settings.CACHES
    for name, given in caches.items():
        serializer = given.get("OPTIONS", {}).get("SERIALIZER", JSON_SERIALIZER)
        if _is_a(given.get("BACKEND"), JitteredRedisCache) and _is_a(serializer, import_string(_PICKLE)):
            yield Error(
                f'CACHES["{name}"]["OPTIONS"]["SERIALIZER"] = {serializer!r} unpickles what stands in Redis: '
                "whoever can write there can run code here.",
                hint=f"Leave it out, which means {JSON_SERIALIZER}.",
                id="drc.E060",
            )


def _is_a(path: object, parent: type) -> bool:
    """Whether a dotted path leads to the class or one made of it; what cannot be imported, Django tells."""
    try:
        found = import_string(path) if isinstance(path, str) else path
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, parent)
