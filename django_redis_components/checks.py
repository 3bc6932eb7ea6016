"""System checks: report mistakes and risks in the settings. No check opens a connection.

========  ===============================================================================================
drc.E001  `REDIS_COMPONENTS` is invalid
drc.E002  a connection is invalid (no such cache, not django-redis, a wrong URL) or does not exist
drc.E043  a task or a schedule is invalid, for example its cron expression
drc.E044  the queue or connection of a schedule does not exist
drc.E050  the rate limit middleware limits by user but is above the middleware that sets the user
drc.E051  a throttle of Django REST framework has invalid rates, or a scope without a rate
drc.E052  the rate limit middleware has rates that its algorithm does not support, or the same rate twice
drc.E060  a `JitteredRedisCache` uses a serializer that unpickles
drc.W001  tasks are stored in a database that a cache deletes with `cache.clear()`
drc.W002  `REDIS_COMPONENTS` has a section for the dashboard, but the admin is not installed
drc.W030  autocomplete is used, but the URLconf does not include its view
drc.W031  an autocomplete widget names an index that is not registered
drc.W050  the rate limit middleware is installed, but there are no rates
========  ===============================================================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning

from django_redis_components.autocomplete.checks import check_widgets
from django_redis_components.contrib import drf
from django_redis_components.core import conf
from django_redis_components.core.client import connections
from django_redis_components.core.client.caches import caches_on
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.expiry.checks import check_serializers
from django_redis_components.ratelimits.checks import check_middleware
from django_redis_components.taskqueue.checks import check_periodic, connections_of_tasks

#: `manage.py check --tag redis_components` runs these checks alone.
TAG = "redis_components"

#: What a connection looks like, for those who have none yet.
CONNECTION_HINT = (
    'For example: REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://localhost:6379/1"}}}, '
    'or {"CACHE": "NAME"} for a cache of django-redis.'
)


def check_settings(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Every mistake in `REDIS_COMPONENTS` (drc.E001)."""
    return [Error(mistake, id="drc.E001") for mistake in conf.validation_errors()]


def check_connections(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Every connection that cannot be understood, or is used and does not exist (drc.E002)."""
    found: list[CheckMessage] = []
    for alias in _aliases():
        try:
            connections.endpoint(alias)
        except ConfigurationError as exc:
            found.append(Error(str(exc), hint=CONNECTION_HINT, id="drc.E002"))
    found.extend(_missing(section, alias) for section, alias in _used())
    return found


def check_shared_database(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Tasks in a cache's database (drc.W001)."""
    found: list[CheckMessage] = []
    for alias in _queue_aliases():
        try:
            names = caches_on(connections.endpoint(alias))
        except ConfigurationError:
            continue  # drc.E002 says it
        found.extend(_shared(alias, name) for name in names)
    return found


def check_admin(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """No admin to put the dashboard into, although there are settings for one (drc.W002).

    Without such settings nothing is missing: workers and APIs need no admin, and each of their commands would warn.
    """
    if apps.is_installed("django.contrib.admin") or not _has_dashboard_settings():
        return []
    text = 'REDIS_COMPONENTS["DASHBOARD"] needs the admin, and django.contrib.admin is not installed.'
    hint = 'Add "django.contrib.admin" to INSTALLED_APPS, or remove the section if you want no dashboard.'
    return [Warning(text, hint=hint, id="drc.W002")]


def check_autocomplete(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Autocomplete widgets without a view or an index (drc.W030, drc.W031)."""
    return [] if conf.validation_errors() else check_widgets()


def check_schedules(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Tasks and schedules that no worker or poller could load or send (drc.E043, drc.E044)."""
    return [] if conf.validation_errors() else check_periodic()


def check_rate_limits(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """A rate limit middleware that cannot do what the settings say (drc.E050, drc.E052, drc.W050)."""
    return [] if conf.validation_errors() else check_middleware()


def check_throttles(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Throttles of Django REST framework that would fail at the first request (drc.E051)."""
    return [] if conf.validation_errors() else drf.check_throttles()


def check_caches(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Caches of ours that unpickle (drc.E060)."""
    return list(check_serializers())


CHECKS = (
    check_settings,
    check_connections,
    check_shared_database,
    check_admin,
    check_autocomplete,
    check_schedules,
    check_rate_limits,
    check_throttles,
    check_caches,
)


def _has_dashboard_settings() -> bool:
    section = getattr(django_settings, conf.SETTING, None)
    return isinstance(section, Mapping) and "DASHBOARD" in section


def _aliases() -> list[str]:
    """The aliases in use; none when the settings have mistakes, which drc.E001 says."""
    if conf.validation_errors():
        return []
    return list(conf.settings().connections)


def _used() -> Iterator[tuple[str, str]]:
    """The sections whose ``USING`` names no connection, and what it names instead."""
    if conf.validation_errors():
        return
    settings = conf.settings()
    used = {"ANALYTICS": settings.analytics.using, "DASHBOARD": settings.dashboard.using}
    if settings.ratelimits.rates or settings.ratelimits.using != "default":
        used["RATELIMITS"] = settings.ratelimits.using
    for section, alias in used.items():
        if alias not in settings.connections:
            yield section, alias


def _missing(section: str, alias: str) -> CheckMessage:
    known = sorted(conf.settings().connections)
    near = difflib.get_close_matches(alias, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
    text = (
        f'REDIS_COMPONENTS["{section}"]["USING"] = {alias!r}: REDIS_COMPONENTS["CONNECTIONS"] has no {alias!r}. {hint}'
    )
    return Error(text, hint=CONNECTION_HINT, id="drc.E002")


def _queue_aliases() -> list[str]:
    """Where tasks go unless they name another connection, those that they name, and what the dashboard shows."""
    if conf.validation_errors():
        return []
    settings = conf.settings()
    wanted = dict.fromkeys(["default", settings.dashboard.using, *connections_of_tasks()])
    return [alias for alias in wanted if alias in settings.connections]


def _shared(alias: str, cache: str) -> CheckMessage:
    text = (
        f'The tasks of REDIS_COMPONENTS["CONNECTIONS"]["{alias}"] stand in the database of the cache {cache!r}: '
        "cache.clear() is FLUSHDB and deletes every queued task."
    )
    hint = (
        'Give the connection a "URL" with another database number or server, '
        "or silence drc.W001 if nobody clears that cache."
    )
    return Warning(text, hint=hint, id="drc.W001")
