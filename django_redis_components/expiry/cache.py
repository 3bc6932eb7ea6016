"""django-redis' cache with timeouts that differ a little: what was cached together does not expire together.

    CACHES = {
        "default": {
            "BACKEND": "django_redis_components.expiry.cache.JitteredRedisCache",
            "LOCATION": "redis://127.0.0.1:6379/1",
            "OPTIONS": {"SPREAD": 0.1},
        }
    }

``OPTIONS["SPREAD"]`` is the share by which a timeout may be shorter, 0.1 unless given. Values are JSON unless
``OPTIONS["SERIALIZER"]`` says otherwise; a pickle serializer is the check error drc.E060.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django_redis.cache import RedisCache, omit_exception
from django_redis.exceptions import ConnectionInterrupted
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.expiry.jitter import checked_spread, shortened

#: What makes bytes of values when the site does not say; django-redis itself would take pickle.
JSON_SERIALIZER = "django_redis.serializers.json.JSONSerializer"


class JitteredRedisCache(RedisCache):  # type: ignore[misc, unused-ignore]
    """`django_redis.cache.RedisCache`, but each timeout is shortened by a random share.

    That goes for `set`, `add`, `set_many`, `touch` and `get_or_set` and their asyncio twins, and for the
    default timeout; not for `expire` and `pexpire`, which are asked for by somebody who wants it exactly.
    """

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {"SERIALIZER": JSON_SERIALIZER} | params.get("OPTIONS", {})
        super().__init__(server, params | {"OPTIONS": options})
        try:
            self._spread = checked_spread(options.get("SPREAD", 0.1))
        except (TypeError, ValueError) as exc:
            raise ConfigurationError(f'CACHES, OPTIONS["SPREAD"]: {exc}') from None

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, *args: Any, **kwargs: Any) -> Any:
        """See Django."""
        return super().set(key, value, self._jittered(timeout), *args, **kwargs)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, *args: Any, **kwargs: Any) -> Any:
        """See Django; `get_or_set` comes by here."""
        return super().add(key, value, self._jittered(timeout), *args, **kwargs)

    @omit_exception  # type: ignore[untyped-decorator, unused-ignore]
    def set_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None, client: Any = None
    ) -> list[Any]:
        """See Django. Each key has a timeout of its own, and all go in one round trip as with django-redis."""
        try:
            pipe = (client or self.client.get_client(write=True)).pipeline()
        except NotImplementedError:  # ShardClient, whose keys go to many servers
            for key, value in data.items():
                self.set(key, value, timeout, version=version)
            return []
        try:
            for key, value in data.items():
                self.client.set(key, value, self._jittered(timeout), version=version, client=pipe)
            pipe.execute()
        except (RedisConnectionError, ResponseError, RedisTimeoutError) as exc:
            raise ConnectionInterrupted(connection=client) from exc
        return []

    def touch(self, key: Any, timeout: Any = DEFAULT_TIMEOUT, *args: Any, **kwargs: Any) -> Any:
        """See Django."""
        return super().touch(key, self._jittered(timeout), *args, **kwargs)

    def _jittered(self, timeout: Any) -> Any:
        """Numbers above 0 are shortened; None (for ever), 0 and below (not at all) mean what they mean."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        if timeout is None or timeout <= 0:
            return timeout
        return max(0.001, shortened(timeout, self._spread))
