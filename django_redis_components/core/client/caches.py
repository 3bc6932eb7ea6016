"""Endpoints of the Redis caches in `CACHES`, of django-redis and of Django."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from django.conf import settings as django_settings
from django.core.cache import caches
from django.utils.module_loading import import_string
from redis.connection import SSLConnection, UnixDomainSocketConnection

from django_redis_components.core.client.endpoint import Endpoint, Node, known_options, own_options
from django_redis_components.core.client.urls import REDIS_PORT, from_url
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings.secrets import mask_credentials
from django_redis_components.core.settings.sections import ConnectionSettings

#: Django's Redis cache. Its `clear()` sends FLUSHDB, as django-redis does.
_DJANGO_CACHE = "django.core.cache.backends.redis.RedisCache"


def from_cache(alias: str, name: str, settings: ConnectionSettings) -> Endpoint:
    """Return the endpoint of a django-redis cache: its primary, with credentials and TLS options.

    Raises:
        ConfigurationError: the cache does not exist or is not a django-redis cache.
    """
    where = f'REDIS_COMPONENTS["CONNECTIONS"]["{alias}"]["CACHE"] = {mask_credentials(repr(str(name)))}'
    known = _caches()
    if name not in known:
        if "://" in name:
            raise ConfigurationError(f'{where}: expected an alias in CACHES. The key of a URL is "URL".')
        raise ConfigurationError(f"{where}: no such cache. Caches in CACHES: {', '.join(sorted(known))}.")
    if not _is_django_redis(name):
        backend = known[name].get("BACKEND")
        raise ConfigurationError(
            f'{where} is a {backend}: expected django_redis.cache.RedisCache, or a "URL" instead of "CACHE".'
        )
    try:
        endpoint = _from_pool(alias, _pool(name), settings)
        endpoint.validate()
    except ConfigurationError as exc:
        raise ConfigurationError(f"{where}: {mask_credentials(str(exc))}") from None
    except Exception as exc:  # noqa: BLE001 - the classes that CACHES names are the site's
        # The error about the port may contain a password with an unescaped /.
        text = "the port in LOCATION is not a number" if str(exc).startswith("Port ") else mask_credentials(str(exc))
        raise ConfigurationError(f"{where}: {text}") from None
    return endpoint


def caches_on(endpoint: Endpoint) -> list[str]:
    """Return the names of the caches in the endpoint's database, whose `clear()` would empty it."""
    found = []
    for name in _caches():
        cache = _endpoint_of(name, endpoint.settings)
        if cache is not None and cache.same_database(endpoint):
            found.append(name)
    return found


def _endpoint_of(name: str, settings: ConnectionSettings) -> Endpoint | None:
    """Return the endpoint of a cache; None if it is not on Redis, or invalid: then Django reports it."""
    try:
        if _is_django_redis(name):
            return from_cache("cache", name, settings)
        if _is_subclass(name, _DJANGO_CACHE):
            return _from_django_cache(name)
    except (ConfigurationError, AttributeError, TypeError, LookupError):  # such as a LOCATION that is no text
        pass
    return None


def _from_django_cache(name: str) -> Endpoint:
    given = _caches()[name]
    location = given.get("LOCATION", "")
    first = re.split("[;,]", location)[0] if isinstance(location, str) else location[0]
    endpoint = from_url("cache", first, ConnectionSettings())
    return dataclasses.replace(endpoint, options={"db": given.get("OPTIONS", {}).get("db")} | endpoint.options)


def _is_django_redis(name: str) -> bool:
    return _is_subclass(name, "django_redis.cache.RedisCache")


def _is_subclass(name: str, parent: str) -> bool:
    try:
        backend = import_string(_caches()[name]["BACKEND"])
        return isinstance(backend, type) and issubclass(backend, import_string(parent))
    except (ImportError, KeyError):
        return False


def _caches() -> dict[str, dict[str, Any]]:
    return getattr(django_settings, "CACHES", {})


def _pool(name: str) -> Any:
    """Return the pool of the cache's primary."""
    cache: Any = caches[name]
    try:
        return cache.client.get_client(write=True).connection_pool
    except NotImplementedError as exc:  # ShardClient
        kind = type(cache.client).__name__
        raise ConfigurationError(f'{kind} has no single primary: give a "URL"') from exc


def _from_pool(alias: str, pool: Any, settings: ConnectionSettings) -> Endpoint:
    kind = pool.connection_class
    options = own_options(dict(pool.connection_kwargs))
    if issubclass(kind, UnixDomainSocketConnection):
        path = options.pop("path")
        return Endpoint("standalone", (Node(path, 0),), _accepted(options, "unix"), settings, alias, "unix")
    transport = "tls" if issubclass(kind, SSLConnection) else "tcp"
    node = Node(options.pop("host", "localhost"), int(options.pop("port", REDIS_PORT)))
    options = _accepted(options, transport)
    manager = getattr(pool, "sentinel_manager", None)
    if manager is None:
        return Endpoint("standalone", (node,), options, settings, alias, transport)
    pools = [sentinel.connection_pool for sentinel in manager.sentinels]
    sentinels = [own_options(each.connection_kwargs) for each in pools]
    seeds = tuple(Node(each["host"], int(each["port"])) for each in sentinels)
    theirs = {name: value for name, value in sentinels[0].items() if name.startswith(("username", "password", "ssl_"))}
    by = "tls" if issubclass(pools[0].connection_class, SSLConnection) else "tcp"
    theirs = _accepted(theirs, by)
    return Endpoint("sentinel", seeds, options, settings, alias, transport, pool.service_name, by, theirs)


def _accepted(options: dict[str, Any], transport: str) -> dict[str, Any]:
    """Drop the options of a custom connection class."""
    known = known_options(transport)
    return {name: value for name, value in options.items() if name in known}
