"""A cache backend of django-redis with jittered timeouts, so that values cached together do not expire together.

    CACHES = {
        "default": {
            "BACKEND": "django_redis_components.expiry.cache.JitteredRedisCache",
            "LOCATION": "redis://127.0.0.1:6379/1",
            "OPTIONS": {"SPREAD": 0.1},
        }
    }

``OPTIONS["SPREAD"]`` is the share by which a timeout may be shortened (0.1). Values are JSON unless
``OPTIONS["SERIALIZER"]`` names another serializer; a pickle serializer is the check error drc.E060.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT
from django_redis.cache import RedisCache, omit_exception
from django_redis.client import HerdClient
from django_redis.exceptions import ConnectionInterrupted
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings.lazy_values import evaluated
from django_redis_components.expiry.jitter import check_spread, shorten

#: The default serializer. The default of django-redis is pickle.
JSON_SERIALIZER = "django_redis.serializers.json.JSONSerializer"

#: Serializers that write no objects of classes.
_PLAIN_SERIALIZERS = (JSON_SERIALIZER, "django_redis.serializers.msgpack.MSGPackSerializer")


class JitteredRedisCache(RedisCache):  # type: ignore[misc, unused-ignore]
    """`django_redis.cache.RedisCache` with timeouts shortened by a random share.

    This applies to `set`, `add`, `set_many`, `touch` and `get_or_set`, their asyncio twins, and the default timeout;
    not to `expire` and `pexpire`, whose callers need an exact time.
    """

    def __init__(self, server: str, params: dict[str, Any]) -> None:
        options = {"SERIALIZER": JSON_SERIALIZER} | params.get("OPTIONS", {})
        super().__init__(server, params | {"OPTIONS": options})
        self._refuse_unusable(options)
        try:
            self._spread = check_spread(evaluated(options.get("SPREAD", 0.1)))
        except (TypeError, ValueError) as exc:
            raise ConfigurationError(f'CACHES, OPTIONS["SPREAD"]: {exc}') from None

    def set(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, *args: Any, **kwargs: Any) -> Any:
        """See Django."""
        return super().set(key, value, self._jittered(timeout), *args, **kwargs)

    def add(self, key: Any, value: Any, timeout: Any = DEFAULT_TIMEOUT, *args: Any, **kwargs: Any) -> Any:
        """See Django; `get_or_set` calls this."""
        return super().add(key, value, self._jittered(timeout), *args, **kwargs)

    @omit_exception  # type: ignore[untyped-decorator, unused-ignore]
    def set_many(
        self, data: Mapping[Any, Any], timeout: Any = DEFAULT_TIMEOUT, version: int | None = None, client: Any = None
    ) -> list[Any]:
        """See Django. Each key gets its own timeout; all are sent in one round trip."""
        try:
            pipe = (client or self.client.get_client(write=True)).pipeline()
        except NotImplementedError:  # ShardClient: its keys are on several servers
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

    def _refuse_unusable(self, options: Mapping[str, Any]) -> None:
        """Refuse options with which `set` or `get` of django-redis raises a TypeError or an AttributeError."""
        if issubclass(self._client_cls, HerdClient) and options["SERIALIZER"] in _PLAIN_SERIALIZERS:
            text = f"stores Python objects, which {options['SERIALIZER']} cannot write. Use DefaultClient, or @cached."
            raise ConfigurationError(f'CACHES, OPTIONS["CLIENT_CLASS"]: {self._client_cls.__name__} {text}')
        if (options.get("CONNECTION_POOL_KWARGS") or {}).get("decode_responses"):
            text = "django-redis reads bytes. Remove it."
            raise ConfigurationError(f'CACHES, OPTIONS["CONNECTION_POOL_KWARGS"]["decode_responses"]: {text}')

    def _jittered(self, timeout: Any) -> Any:
        """Shorten positive numbers; None (no expiry) and 0 or less (expire at once) have Django's meaning."""
        if timeout is DEFAULT_TIMEOUT:
            timeout = self.default_timeout
        if timeout is None or timeout <= 0:
            return timeout
        return max(0.001, shorten(timeout, self._spread))
