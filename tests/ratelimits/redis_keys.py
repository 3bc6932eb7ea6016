"""The Redis keys of rate limits, as docs/components/ratelimits.md documents them."""

from __future__ import annotations

from django_redis_components.core import keys


def base_key(name: str, key: str) -> str:
    """Return the prefix of all keys of one limit key."""
    return keys.key("ratelimits", f"{name}:{keys.digest(key)}")


def gcra_key(name: str, key: str, limit: int, period_s: int) -> str:
    """Return the key of one rate."""
    return f"{base_key(name, key)}:gcra:{limit}/{period_s * 1_000_000}"
