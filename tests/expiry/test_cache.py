"""`JitteredRedisCache`: Django's cache with jittered timeouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import caches
from django.core.checks import run_checks
from django.utils.functional import SimpleLazyObject

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.expiry.cache import JSON_SERIALIZER
from tests.support import Store, run_async

pytestmark = pytest.mark.integration

BACKEND = "django_redis_components.expiry.cache.JitteredRedisCache"


@pytest.fixture
def cache(redis_server: Store, settings: Any) -> Iterator[Any]:
    configure(settings, redis_server.url, redis_server.prefix, SPREAD=0.5)
    yield caches["jittered"]
    caches["jittered"].close(force=True)


def configure(settings: Any, url: str, prefix: str = "", **options: Any) -> None:
    entry = {"BACKEND": BACKEND, "LOCATION": url, "KEY_PREFIX": prefix, "TIMEOUT": 1_000, "OPTIONS": options}
    settings.CACHES = settings.CACHES | {"jittered": entry}


def jitter_of(cache: Any, keys: Any) -> tuple[float, float]:
    """Return the minimum and maximum TTL in seconds."""
    ttls = [cache.pttl(key) / 1_000 for key in keys]
    return min(ttls), max(ttls)


def assert_jittered(cache: Any, keys: Any, longest: float) -> None:
    low, high = jitter_of(cache, keys)
    assert longest / 2 - 30 < low < longest * 0.7
    assert longest * 0.8 < high <= longest


KEYS = [f"k{number}" for number in range(60)]


def test_set_jitters_the_timeout(cache: Any) -> None:
    for key in KEYS:
        assert cache.set(key, 1, 1_000)

    assert_jittered(cache, KEYS, 1_000)


def test_default_timeout_is_jittered(cache: Any) -> None:
    for key in KEYS:
        cache.set(key, 1)

    assert_jittered(cache, KEYS, 1_000)


def test_add_jitters_the_timeout(cache: Any) -> None:
    assert all(cache.add(key, 1, timeout=1_000) for key in KEYS)
    assert not cache.add("k1", 2)

    assert_jittered(cache, KEYS, 1_000)


def test_set_many_jitters_each_key_separately(cache: Any) -> None:
    assert cache.set_many(dict.fromkeys(KEYS, 1), 1_000) == []

    assert_jittered(cache, KEYS, 1_000)
    assert cache.get_many(KEYS) == dict.fromkeys(KEYS, 1)


def test_touch_jitters_the_timeout(cache: Any) -> None:
    cache.set_many(dict.fromkeys(KEYS, 1), 10)

    assert all(cache.touch(key, 1_000) for key in KEYS)

    assert_jittered(cache, KEYS, 1_000)


def test_get_or_set_jitters_the_timeout(cache: Any) -> None:
    assert [cache.get_or_set(key, lambda: 7, 1_000) for key in KEYS] == [7] * 60

    assert_jittered(cache, KEYS, 1_000)


def test_async_twins_jitter_the_timeout(cache: Any) -> None:
    async def act() -> None:
        for key in KEYS[:20]:
            await cache.aset(key, 1, 1_000)
            await cache.aadd(key + "added", 1, 1_000)
            await cache.aget_or_set(key + "got", 1, 1_000)
            await cache.atouch(key, 1_000)
        await cache.aset_many({key + "many": 1 for key in KEYS[:20]}, 1_000)

    run_async(act)

    for part in ("", "added", "got", "many"):
        low, high = jitter_of(cache, [key + part for key in KEYS[:20]])
        assert 470 < low < high - 50
        assert high <= 1_000


@pytest.mark.parametrize("timeout", [0, -1])
def test_timeout_of_zero_or_less_expires_at_once(cache: Any, timeout: int) -> None:
    cache.set("k", 1)

    cache.set("k", 2, timeout)
    cache.set_many({"j": 1}, timeout)

    assert cache.get("k") is cache.get("j") is None


def test_timeout_of_none_never_expires(cache: Any) -> None:
    cache.set("k", 1, None)
    cache.set_many({"j": 1}, None)
    cache.set("t", 1, 100)
    cache.touch("t", None)

    assert [cache.ttl(key) for key in ("k", "j", "t")] == [None, None, None]


def test_timeout_of_a_hundred_years_is_accepted(cache: Any) -> None:
    cache.set("k", 1, 100 * 365 * 86_400)

    assert cache.ttl("k") > 49 * 365 * 86_400


def test_values_are_json_by_default(cache: Any, redis_server: Store) -> None:
    cache.set("k", {"a": [1, "ü"]})

    assert cache.get("k") == {"a": [1, "ü"]}
    assert redis_server.raw.get(cache.make_key("k")) == b'{"a": [1, "\\u00fc"]}'


def test_unavailable_server_is_ignored_with_ignore_exceptions(settings: Any) -> None:
    configure(settings, "redis://127.0.0.1:1/0", IGNORE_EXCEPTIONS=True)

    assert caches["jittered"].set_many({"a": 1}) is None
    assert caches["jittered"].set("a", 1) is None


def test_set_many_works_with_several_servers(redis_server: Store, settings: Any) -> None:
    configure(settings, redis_server.url, redis_server.prefix, CLIENT_CLASS="django_redis.client.ShardClient")
    settings.CACHES["jittered"]["LOCATION"] = [redis_server.url, redis_server.url]

    assert caches["jittered"].set_many({"a": 1, "b": 2}, 100) == []
    assert all(89 <= caches["jittered"].ttl(key) <= 100 for key in ("a", "b"))
    caches["jittered"].close(force=True)


@pytest.mark.parametrize("spread", [1, -0.1, "much"])
def test_invalid_spread_raises(settings: Any, spread: Any) -> None:
    configure(settings, "redis://127.0.0.1:1/0", SPREAD=spread)

    with pytest.raises(ConfigurationError) as raised:
        caches["jittered"].set("k", 1)
    assert str(raised.value) == f'CACHES, OPTIONS["SPREAD"]: spread={spread!r}: expected a number from 0 to below 1.'


def test_check_reports_a_pickle_serializer(redis_server: Store, settings: Any) -> None:
    serializer = "django_redis.serializers.pickle.PickleSerializer"
    configure(settings, redis_server.url, SERIALIZER=serializer)

    (found,) = [message for message in run_checks() if message.id == "drc.E060"]
    assert found.msg == (
        f'CACHES["jittered"]["OPTIONS"]["SERIALIZER"] = {serializer!r} unpickles values from Redis: '
        "any client that can write to Redis can run code in this process."
    )
    assert found.hint == "Remove it to use django_redis.serializers.json.JSONSerializer."


def test_check_ignores_a_serializer_that_cannot_be_imported(redis_server: Store, settings: Any) -> None:
    configure(settings, redis_server.url, SERIALIZER="nowhere.Serializer")

    assert [message for message in run_checks() if message.id == "drc.E060"] == []


def test_lazy_spread_is_evaluated(settings: Any) -> None:
    configure(settings, "redis://127.0.0.1:1/0", SPREAD=SimpleLazyObject(lambda: 0.2))

    caches["jittered"].close()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            {"CLIENT_CLASS": "django_redis.client.HerdClient"},
            f'OPTIONS["CLIENT_CLASS"]: HerdClient stores Python objects, which {JSON_SERIALIZER} cannot write.',
        ),
        (
            {"CONNECTION_POOL_KWARGS": {"decode_responses": True}},
            'OPTIONS["CONNECTION_POOL_KWARGS"]["decode_responses"]: django-redis reads bytes. Remove it.',
        ),
    ],
    ids=["herd", "decoded"],
)
def test_options_that_django_redis_cannot_use_are_refused(settings: Any, options: dict[str, Any], text: str) -> None:
    configure(settings, "redis://127.0.0.1:1/0", **options)

    with pytest.raises(ConfigurationError) as caught:
        caches["jittered"]

    assert str(caught.value).startswith(f"CACHES, {text}")
