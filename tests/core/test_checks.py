"""System checks report invalid settings with a stable id, without using the network."""

from __future__ import annotations

import socket
import threading
from functools import partial
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import CheckMessage, run_checks

from django_redis_components import checks
from django_redis_components.taskqueue import registry, task
from django_redis_components.taskqueue.schedules import schedule

pytestmark = pytest.mark.integration

DJANGO_REDIS = "django_redis.cache.RedisCache"
DJANGOS_OWN = "django.core.cache.backends.redis.RedisCache"


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What this thread did on the network during the test. Threads of earlier tests may renew a lease at any time.

    No audit hook: it cannot be removed, and Python 3.11 fails to start traced threads of later tests beside one.
    """
    events: list[str] = []
    mine = threading.get_ident()

    def refuse(name: str, *_: Any) -> None:
        if threading.get_ident() == mine:
            events.append(name)
        raise OSError(f"{name} in a test without a network")

    monkeypatch.setattr(socket.socket, "connect", partial(refuse, "connect"))
    monkeypatch.setattr(socket.socket, "connect_ex", partial(refuse, "connect_ex"))
    for name in ("getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, partial(refuse, name))
    return events


@pytest.fixture(autouse=True)
def no_schedules_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "schedules", {})


def found() -> list[tuple[str, str]]:
    """Id and text of what our checks say."""
    return [(message.id or "", message.msg) for message in run_checks(tags=[checks.TAG])]


def components(settings: Any, url: str | None = None, cache: str | None = None, **more: Any) -> None:
    entry = {"URL": url} if url else {"CACHE": cache}
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": entry}, **more}


def test_app_config_has_a_translatable_name_and_a_key_type() -> None:
    config = apps.get_app_config("django_redis_components")

    assert (config.name, config.label) == ("django_redis_components", "django_redis_components")
    assert str(config.verbose_name) == "Redis components"
    assert type(config.verbose_name).__name__ == "__proxy__"
    assert config.default_auto_field == "django.db.models.BigAutoField"


def test_valid_setting_has_no_messages(settings: Any) -> None:
    components(settings, url="redis://127.0.0.1:1/3")

    assert found() == []


def test_each_invalid_setting_is_a_separate_error(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"PREFIX": "", "THREADS": {}, "TASKQUEUE": {"LEASE": "soon"}}

    assert found() == [
        (
            "drc.E001",
            (
                'REDIS_COMPONENTS["THREADS"] is unknown. '
                "Known are AGGREGATION, ANALYTICS, AUTOCOMPLETE, CATALOG, CONNECTIONS, DASHBOARD, GEOIP, LIVE_EVENTS, "
                "MESSAGING, MONITORING, NOTIFICATIONS, PREFIX, RATELIMITS, TASKQUEUE, TRUSTED_PROXIES."
            ),
        ),
        (
            "drc.E001",
            "REDIS_COMPONENTS[\"PREFIX\"] = '': expected 1 to 64 printable characters without spaces and braces.",
        ),
        (
            "drc.E001",
            (
                'REDIS_COMPONENTS["TASKQUEUE"]["LEASE"] = \'soon\': '
                "expected a number of seconds above 0 (ten years at most), or a timedelta."
            ),
        ),
    ]


def test_connection_with_an_unknown_cache_is_an_error(settings: Any) -> None:
    components(settings, cache="redis")

    assert found() == [
        (
            "drc.E002",
            (
                'REDIS_COMPONENTS["CONNECTIONS"]["default"]["CACHE"] = \'redis\': '
                "no such cache. Caches in CACHES: default."
            ),
        )
    ]


def test_default_cache_must_be_django_redis(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {}  # to delete it sends no signal
    del settings.REDIS_COMPONENTS

    assert found() == [
        (
            "drc.E002",
            (
                'REDIS_COMPONENTS["CONNECTIONS"]["default"]["CACHE"] = \'default\' is a '
                "django.core.cache.backends.locmem.LocMemCache: "
                'expected django_redis.cache.RedisCache, or a "URL" instead of "CACHE".'
            ),
        )
    ]


def test_error_without_a_connection_shows_an_example(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {}  # to delete it sends no signal
    del settings.REDIS_COMPONENTS

    [message] = run_checks(tags=[checks.TAG])

    assert message.hint == (
        'For example: REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://localhost:6379/1"}}}, '
        'or {"CACHE": "NAME"} for a cache of django-redis.'
    )


def test_url_with_an_unknown_scheme_is_an_error(settings: Any) -> None:
    components(settings, url="amqp://user:secret@host")

    assert found() == [
        (
            "drc.E002",
            (
                'REDIS_COMPONENTS["CONNECTIONS"]["default"]["URL"] starts with \'amqp\': '
                "expected one of redis://, rediss://, unix://, redis+sentinel://, redis+cluster://."
            ),
        )
    ]


def test_every_connection_is_checked(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"default": {"URL": "redis://h/x"}, "good": {"URL": "redis://h/1"}, "bad": {"CACHE": "nowhere"}}
    }

    assert [(code, text[:44]) for code, text in found()] == [
        ("drc.E002", 'REDIS_COMPONENTS["CONNECTIONS"]["default"]["'),
        ("drc.E002", 'REDIS_COMPONENTS["CONNECTIONS"]["bad"]["CACH'),
    ]


def test_dashboard_with_an_unknown_connection_is_an_error(settings: Any) -> None:
    components(settings, url="redis://h/1", DASHBOARD={"USING": "defualt"})

    assert found() == [
        (
            "drc.E002",
            (
                'REDIS_COMPONENTS["DASHBOARD"]["USING"] = \'defualt\': '
                "REDIS_COMPONENTS[\"CONNECTIONS\"] has no such alias. Did you mean 'default'?"
            ),
        )
    ]


@pytest.mark.parametrize("section", ["ANALYTICS", "RATELIMITS", "DASHBOARD", "GEOIP"])
def test_section_with_an_unknown_connection_is_an_error(settings: Any, section: str) -> None:
    components(settings, url="redis://h/1", **{section: {"USING": "numbers"}})

    assert found() == [
        (
            "drc.E002",
            (
                f'REDIS_COMPONENTS["{section}"]["USING"] = \'numbers\': '
                'REDIS_COMPONENTS["CONNECTIONS"] has no such alias. Known aliases: default.'
            ),
        )
    ]


def test_rate_limits_without_rates_need_no_connection(settings: Any) -> None:
    numbers = {"USING": "tasks"}
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {"tasks": {"URL": "redis://h/1"}}, "ANALYTICS": numbers, "DASHBOARD": numbers
    }  # fmt: skip

    assert found() == []


@pytest.mark.parametrize(
    ("backend", "location", "url"),
    [
        (DJANGO_REDIS, "redis://127.0.0.1:6379/1", "redis://127.0.0.1:6379/1"),
        (DJANGO_REDIS, "redis://localhost/1", "redis://:pw@127.0.0.1:6379?db=1"),
        (DJANGO_REDIS, ["redis://Primary:6379/0", "redis://replica:6379/0"], "redis://primary"),
        (DJANGO_REDIS, "redis://primary:6379,redis://replica:6379", "rediss://primary"),
        (DJANGO_REDIS, "unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"),
        (DJANGO_REDIS, "redis://node2:6379/0", "redis+cluster://node1:6379,node2:6379"),
        (DJANGOS_OWN, "redis://h:7000/2", "redis://h:7000/2"),
        (DJANGOS_OWN, "redis://h:7000/2;redis://replica:7000/2", "redis://h:7000/2"),
        (DJANGOS_OWN, ["redis://h:7000", "redis://replica:7000"], "redis://h:7000"),
    ],
)
def test_tasks_in_the_database_of_a_cache_are_a_warning(
    settings: Any, backend: str, location: str | list[str], url: str
) -> None:
    settings.CACHES = {**settings.CACHES, "pages": {"BACKEND": backend, "LOCATION": location}}
    components(settings, url=url)

    messages = run_checks(tags=[checks.TAG])

    assert [(message.id, message.msg) for message in messages] == [
        (
            "drc.W001",
            (
                'REDIS_COMPONENTS["CONNECTIONS"]["default"] stores tasks in the same database as the cache '
                "'pages': cache.clear() runs FLUSHDB, which deletes all tasks."
            ),
        )
    ]
    assert messages[0].hint == (
        'Set "URL" of the connection to another database or server, or silence drc.W001 if the cache is never cleared.'
    )


def clean_up() -> None:
    """A function that a test makes a task of."""


def test_connections_of_all_tasks_are_checked(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "tasks", {})
    settings.CACHES = {**settings.CACHES, "pages": {"BACKEND": DJANGO_REDIS, "LOCATION": "redis://h:6379/1"}}
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {name: {"URL": f"redis://h/{at}"} for at, name in enumerate(("default", "jobs", "locks"))}
    }
    assert found() == []

    task(using="jobs")(clean_up)

    [(code, text)] = found()
    assert code == "drc.W001"
    assert text.startswith('REDIS_COMPONENTS["CONNECTIONS"]["jobs"] stores tasks in the same database as the cache')


def test_task_with_an_unknown_connection_does_not_stop_the_checks(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "tasks", {})
    components(settings, url="redis://h/1")
    task(using="nowhere")(clean_up)

    assert found() == []


def test_one_cache_for_everything_is_a_warning(settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": DJANGO_REDIS, "LOCATION": "redis://shared:6379/0"}}
    settings.REDIS_COMPONENTS = {}

    assert [code for code, _ in found()] == ["drc.W001"]


def test_database_of_djangos_cache_may_be_in_its_options(settings: Any) -> None:
    options = {"db": "4"}
    settings.CACHES = {"default": {"BACKEND": DJANGOS_OWN, "LOCATION": "redis://h", "OPTIONS": options}}

    components(settings, url="redis://h/4")
    assert [code for code, _ in found()] == ["drc.W001"]

    components(settings, url="redis://h/0")
    assert found() == []


@pytest.mark.parametrize(
    ("backend", "location"),
    [
        (DJANGO_REDIS, "redis://h:6379/2"),
        (DJANGO_REDIS, "redis://other:6379/1"),
        (DJANGO_REDIS, "redis://h:6380/1"),
        (DJANGO_REDIS, "memcached://h:6379/1"),
        (DJANGO_REDIS, ["redis://replica:6379/1", "redis://h:6379/1"]),
        (DJANGOS_OWN, "nonsense"),
        ("no.such.Backend", "redis://h:6379/1"),
        ("django.core.cache.backends.base.BaseCache", "redis://h:6379/1"),
        ("django.core.cache.caches", "redis://h:6379/1"),
    ],
)
def test_cache_in_another_database_is_no_warning(settings: Any, backend: str, location: str | list[str]) -> None:
    settings.CACHES = {**settings.CACHES, "pages": {"BACKEND": backend, "LOCATION": location}}
    components(settings, url="redis://h:6379/1")

    assert found() == []


def test_connection_of_the_dashboard_is_checked_for_caches_and_unused_ones_are_not(settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": DJANGO_REDIS, "LOCATION": "redis://h/0"}}
    settings.REDIS_COMPONENTS = {
        "CONNECTIONS": {
            "default": {"URL": "redis://h/1"},
            "tasks": {"URL": "redis://h/0"},
            "numbers": {"CACHE": "default"},
        },
        "DASHBOARD": {"USING": "tasks"},
    }

    assert [text[:58] for _, text in found()] == ['REDIS_COMPONENTS["CONNECTIONS"]["tasks"] stores tasks in t']


def test_dashboard_settings_without_the_admin_are_a_warning(settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://h/1"}}, "DASHBOARD": {"USING": "default"}}
    with_admin = settings.INSTALLED_APPS

    settings.INSTALLED_APPS = [app for app in with_admin if app != "django.contrib.admin"]

    messages: list[CheckMessage] = checks.check_admin()
    assert [(message.id, message.msg, message.hint) for message in messages] == [
        (
            "drc.W002",
            'REDIS_COMPONENTS["DASHBOARD"] requires the admin, but "django.contrib.admin" is not in INSTALLED_APPS.',
            'Add "django.contrib.admin" to INSTALLED_APPS, or remove "DASHBOARD" from REDIS_COMPONENTS.',
        )
    ]


@pytest.mark.parametrize("section", [None, {}, {"CONNECTIONS": {"default": {"URL": "redis://h/1"}}}, "nonsense"])
def test_site_without_admin_and_dashboard_has_no_warning(settings: Any, section: Any) -> None:
    settings.REDIS_COMPONENTS = section

    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django.contrib.admin"]

    assert checks.check_admin() == []


@pytest.mark.parametrize(
    "url",
    ["redis://redis.invalid:6379/0", "redis+sentinel://a.invalid,b.invalid/main", "redis+cluster://c.invalid:7000"],
)
def test_checks_do_not_use_the_network(settings: Any, network: list[str], url: str) -> None:
    settings.CACHES = {"default": {"BACKEND": DJANGO_REDIS, "LOCATION": "redis://cache.invalid:6379/0"}}
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": url}, "cache": {"CACHE": "default"}}}

    assert found() == []
    assert network == []


@pytest.mark.parametrize(
    ("section", "name", "path", "id", "text"),
    [
        ("TASKQUEUE", "JSON_CODEC", "shop.codec", "drc.E042", " cannot be imported: No module named 'shop'"),
        ("TASKQUEUE", "JSON_CODEC", "json.JSONDecoder", "drc.E042", ": expected an object with encode() and decode()."),
        ("ANALYTICS", "COUNTRY", "shop.country", "drc.E055", " cannot be imported: No module named 'shop'"),
        ("ANALYTICS", "COUNTRY", "math.pi", "drc.E055", " is not a function."),
    ],
)
def test_dotted_path_that_cannot_be_used_is_an_error(
    settings: Any, section: str, name: str, path: str, id: str, text: str
) -> None:
    components(settings, url="redis://h/1", **{section: {name: path}})

    [(found_id, message)] = found()

    assert found_id == id
    assert message.startswith(f'REDIS_COMPONENTS["{section}"]["{name}"]: {path!r}')
    assert message.endswith(text)
