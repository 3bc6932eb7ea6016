"""System checks of expiry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.utils.module_loading import import_string

from django_redis_components.expiry.cache import JSON_SERIALIZER, JitteredRedisCache

#: Unpickling executes code that any writer to Redis can provide.
_PICKLE = "django_redis.serializers.pickle.PickleSerializer"


def check_serializers() -> Iterator[CheckMessage]:
    """Report caches of this package with a pickle serializer (drc.E060)."""
    caches: dict[str, Any] = settings.CACHES
    for name, config in caches.items():
        serializer = config.get("OPTIONS", {}).get("SERIALIZER", JSON_SERIALIZER)
        if _is_a(config.get("BACKEND"), JitteredRedisCache) and _is_a(serializer, import_string(_PICKLE)):
            yield Error(
                f'CACHES["{name}"]["OPTIONS"]["SERIALIZER"] = {serializer!r} unpickles values from Redis: '
                "any client that can write to Redis can run code in this process.",
                hint=f"Remove it to use {JSON_SERIALIZER}.",
                id="drc.E060",
            )


def _is_a(path: object, parent: type) -> bool:
    """Return whether a dotted path names the class or a subclass. Django reports import errors."""
    try:
        found = import_string(path) if isinstance(path, str) else path
    except ImportError:
        return False
    return isinstance(found, type) and issubclass(found, parent)
