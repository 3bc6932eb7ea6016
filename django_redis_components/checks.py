"""System checks: report mistakes and risks in the settings. No check opens a connection.

Django imports this module when it starts. A check imports a component only if the site uses it.

========  ===============================================================================================
drc.E001  `REDIS_COMPONENTS` is invalid
drc.E002  a connection is invalid (no such cache, not django-redis, a wrong URL) or does not exist
drc.E030  `redis_autocomplete_fields` of an admin class is neither a list nor a mapping
drc.E031  it names a field that the model does not have
drc.E032  it names a field that is neither a foreign key nor a many-to-many field
drc.E033  the model that a field refers to has no index or several, or the named index is unknown or of another model
drc.E034  the index of a field has scopes, and nothing determines the scope
drc.E035  `redis_autocomplete_create` of an admin class names another field, or has no function for it
drc.E042  TASKQUEUE["JSON_CODEC"] cannot be imported, or is no codec
drc.E043  a task or a schedule is invalid, for example its cron expression
drc.E044  the queue or connection of a schedule does not exist
drc.E045  an entry of TASKQUEUE["MIDDLEWARE"] cannot be imported, or is not a middleware
drc.E046  a value in TASKQUEUE["DEFAULTS"] or TASKQUEUE["ROUTES"] is invalid, or does not fit a task
drc.E047  tasks are to use the outbox, and the app `contrib.outbox` is not installed
drc.E048  a task is sealed, and TASKQUEUE["SEAL_KEYS"] has no key
drc.E049  TASKQUEUE["SEAL_KEYS"] is set, and cryptography is not installed
drc.E050  the rate limit middleware limits by user but is above the middleware that sets the user
drc.E051  a throttle of Django REST framework has invalid rates, or a scope without a rate
drc.E052  the rate limit middleware has rates that its algorithm does not support, or the same rate twice
drc.E053  TASKQUEUE["SHARDS"] names a connection, or TASKQUEUE["QUEUES"] a shard, that does not exist
drc.E054  the keys of a task of a spread queue, or of tasks that share a limit, would be in different shards
drc.E055  ANALYTICS["COUNTRY"] cannot be imported, or is not a function
drc.E060  a `JitteredRedisCache` uses a serializer that unpickles
drc.W001  tasks are stored in a database that a cache deletes with `cache.clear()`
drc.W002  `REDIS_COMPONENTS` has a section for the dashboard, but the admin is not installed
drc.W030  autocomplete is used, but the URLconf does not include its view
drc.W031  an autocomplete widget names an index that is not registered
drc.W032  an index of a model names an attribute that its objects do not have
drc.W050  the rate limit middleware is installed, but there are no rates
drc.W054  all tasks of a name go to one shard of a spread queue
drc.W056  a task has a backoff, but no second attempt
drc.W070  the monitoring views answer everybody
drc.W071  the monitoring views are on, and prometheus-client, which the metrics view needs, is not installed
========  ===============================================================================================
"""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage, Error, Warning
from django.urls import get_resolver
from django.utils.module_loading import import_string, module_has_submodule

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf

logger = guarded_logger("django_redis_components.checks")

#: `manage.py check --tag redis_components` runs these checks alone.
TAG = "redis_components"

#: An example of a valid connection.
CONNECTION_HINT = (
    'For example: REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://localhost:6379/1"}}}, '
    'or {"CACHE": "NAME"} for a cache of django-redis.'
)


def check_settings(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report each error in `REDIS_COMPONENTS` (drc.E001)."""
    return [Error(mistake, id="drc.E001") for mistake in conf.validation_errors()]


def check_connections(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report invalid connections, and unknown aliases in use (drc.E002)."""
    from django_redis_components.core.client import connections

    found: list[CheckMessage] = []
    for alias in _aliases():
        try:
            connections.endpoint(alias)
        except ConfigurationError as exc:
            found.append(Error(str(exc), hint=CONNECTION_HINT, id="drc.E002"))
    found.extend(_missing(section, alias) for section, alias in _used())
    return found


def check_shared_database(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report tasks stored in the database of a cache (drc.W001)."""
    from django_redis_components.core.client import connections
    from django_redis_components.core.client.caches import caches_on

    found: list[CheckMessage] = []
    for alias in _queue_aliases():
        try:
            names = caches_on(connections.endpoint(alias))
        except ConfigurationError:
            continue  # reported by drc.E002
        found.extend(_shared(alias, name) for name in names)
    return found


def check_admin(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report settings of the dashboard without the admin (drc.W002).

    Without these settings there is no warning, because workers and APIs run without the admin on purpose.
    """
    if apps.is_installed("django.contrib.admin") or not _has_dashboard_settings():
        return []
    text = 'REDIS_COMPONENTS["DASHBOARD"] requires the admin, but "django.contrib.admin" is not in INSTALLED_APPS.'
    hint = 'Add "django.contrib.admin" to INSTALLED_APPS, or remove "DASHBOARD" from REDIS_COMPONENTS.'
    return [Warning(text, hint=hint, id="drc.W002")]


def check_autocomplete(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report autocomplete widgets without a view or an index (drc.W030, drc.W031).

    The admin checks its own classes, with `RedisAutocompleteMixin` also for drc.E030 to drc.E035.
    """
    if conf.validation_errors() or not getattr(django_settings, "ROOT_URLCONF", None):
        return []  # a site without a URLconf has workers only, and no widgets
    get_resolver().url_patterns  # noqa: B018 - loads it: it imports the forms
    if not _is_imported("autocomplete"):
        return []
    from django_redis_components.autocomplete.checks import check_widgets

    return check_widgets()


def check_indexes(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report names in indexes of models that the objects do not have (drc.W032)."""
    found: list[CheckMessage] = []
    if _is_imported("search.model_search"):
        from django_redis_components.search import model_search

        for search in model_search.registered():
            found += _unknown_names(f"Search {search.name}", search, model_search.attributes_of(search))
    if _is_imported("autocomplete.model_index"):
        from django_redis_components.autocomplete import model_index, registry

        for index in registry.registered():
            if isinstance(index, model_index.ModelIndex):
                found += _unknown_names(f"Index {index.name}", index, model_index.attributes_of(index))
    return found


def _unknown_names(label: str, index: Any, names: Sequence[str]) -> Iterator[CheckMessage]:
    from django_redis_components.core.object_values import unknown_attributes

    try:
        unknown = unknown_attributes(index.queryset(), names)
    except Exception:  # code of the site, which may need a table that `migrate` makes after the checks
        logger.debug("The objects of an index cannot be read.", exc_info=True)
        return
    for name in unknown:
        near = difflib.get_close_matches(name, dir(index.model), n=1)
        text = f"{label} names {name!r}, which {index.model._meta.label} does not have: no object can be written."
        yield Warning(text, hint=f"Did you mean {near[0]!r}?" if near else None, id="drc.W032")


def check_schedules(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report tasks, schedules and middleware that cannot be loaded or enqueued (drc.E042 to E049, E053 to W056)."""
    if conf.validation_errors() or not _has_tasks():
        return []
    from django_redis_components.taskqueue import checks

    if of_shards := checks.check_shards():
        return of_shards
    if of_codec := checks.check_codec():
        return of_codec
    of_tasks = [*checks.check_middleware(), *checks.check_options(), *checks.check_periodic()]
    return [*of_tasks, *checks.check_placement(), *checks.check_outbox(), *checks.check_sealing()]


def check_countries(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report a function of countries that cannot be called (drc.E055)."""
    path = None if conf.validation_errors() else conf.settings().analytics.country
    if path is None:
        return []
    text = f'REDIS_COMPONENTS["ANALYTICS"]["COUNTRY"]: {path!r}'
    hint = 'For example "django_redis_components.geoip.country_of". Until then no country is counted.'
    try:
        found = import_string(path)
    except Exception as exc:  # noqa: BLE001 - the module is the site's
        return [Error(f"{text} cannot be imported: {exc}", hint=hint, id="drc.E055")]
    return [] if callable(found) else [Error(f"{text} is not a function.", hint=hint, id="drc.E055")]


def check_rate_limits(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report a misconfigured rate limit middleware (drc.E050, drc.E052, drc.W050)."""
    if conf.validation_errors() or not _has_rate_limits():
        return []
    from django_redis_components.ratelimits.checks import check_middleware

    return check_middleware()


def check_throttles(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report misconfigured throttles of Django REST framework (drc.E051)."""
    if conf.validation_errors() or not (
        apps.is_installed("rest_framework") or hasattr(django_settings, "REST_FRAMEWORK")
    ):
        return []
    from django_redis_components.contrib import drf

    return drf.check_throttles()


def check_monitoring(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report monitoring views that need no token (drc.W070), and a metrics view without its package (drc.W071)."""
    if conf.validation_errors():
        return []
    monitoring = conf.settings().monitoring
    found: list[CheckMessage] = []
    if monitoring.public:
        text = 'REDIS_COMPONENTS["MONITORING"]["PUBLIC"] is True: everybody who reaches the views can read the metrics.'
        hint = 'Set "TOKEN" and remove "PUBLIC", or silence drc.W070 if only the monitoring system can reach the views.'
        found.append(Warning(text, hint=hint, id="drc.W070"))
    if (monitoring.public or monitoring.token is not None) and importlib.util.find_spec("prometheus_client") is None:
        text = 'REDIS_COMPONENTS["MONITORING"] is set, but prometheus-client is not installed: metrics/ answers 501.'
        hint = "pip install 'django-redis-components[prometheus]', or silence drc.W071 if only healthz/ is read."
        found.append(Warning(text, hint=hint, id="drc.W071"))
    return found


def check_caches(app_configs: Sequence[AppConfig] | None = None, **_: Any) -> list[CheckMessage]:
    """Report caches that unpickle values (drc.E060)."""
    backends = [str(cache.get("BACKEND")) for cache in django_settings.CACHES.values()]
    for path in backends:
        with contextlib.suppress(ImportError, ValueError):  # Django reports it
            import_string(path)
    if not _is_imported("expiry.cache"):
        return []
    from django_redis_components.expiry.checks import check_serializers

    return list(check_serializers())


CHECKS = (
    check_settings,
    check_connections,
    check_shared_database,
    check_admin,
    check_autocomplete,
    check_indexes,
    check_schedules,
    check_countries,
    check_rate_limits,
    check_throttles,
    check_monitoring,
    check_caches,
)


def _is_imported(module: str) -> bool:
    """Return whether the site has imported a module of this package."""
    return f"{__package__}.{module}" in sys.modules


def _has_tasks() -> bool:
    """Return whether the site may have tasks: an app has a module of them, or some module imported the queue."""
    return _is_imported("taskqueue") or any(module_has_submodule(app.module, "tasks") for app in apps.get_app_configs())


def _has_rate_limits() -> bool:
    """Return whether the site has rates for its middleware, or the middleware."""
    return bool(conf.settings().ratelimits.rates) or any(
        path.startswith(f"{__package__}.ratelimits.") for path in django_settings.MIDDLEWARE
    )


def _has_dashboard_settings() -> bool:
    section = getattr(django_settings, conf.SETTING, None)
    return isinstance(section, Mapping) and "DASHBOARD" in section


def _aliases() -> list[str]:
    """Return the configured aliases; none if the settings are invalid, which drc.E001 reports."""
    if conf.validation_errors():
        return []
    return list(conf.settings().connections)


def _used() -> Iterator[tuple[str, str]]:
    """Yield the sections with an unknown alias in ``USING``, and the alias."""
    if conf.validation_errors():
        return
    settings = conf.settings()
    used = {"ANALYTICS": settings.analytics.using, "DASHBOARD": settings.dashboard.using}
    if settings.ratelimits.rates or settings.ratelimits.using != "default":
        used["RATELIMITS"] = settings.ratelimits.using
    if settings.geoip.using != "default":
        used["GEOIP"] = settings.geoip.using
    for section, alias in used.items():
        if alias not in settings.connections:
            yield section, alias


def _missing(section: str, alias: str) -> CheckMessage:
    known = sorted(conf.settings().connections)
    near = difflib.get_close_matches(alias, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known aliases: {', '.join(known)}."
    text = (
        f'REDIS_COMPONENTS["{section}"]["USING"] = {alias!r}: REDIS_COMPONENTS["CONNECTIONS"] has no such alias. {hint}'
    )
    return Error(text, hint=CONNECTION_HINT, id="drc.E002")


def _queue_aliases() -> list[str]:
    """Return the aliases that tasks and the dashboard use."""
    if conf.validation_errors():
        return []
    settings = conf.settings()
    of_shards = (settings.taskqueue.shards or {}).values()
    wanted = dict.fromkeys(["default", settings.dashboard.using, *of_shards, *_aliases_of_tasks()])
    return [alias for alias in wanted if alias in settings.connections]


def _aliases_of_tasks() -> list[str]:
    if not _has_tasks():
        return []
    from django_redis_components.taskqueue.checks import connections_of_tasks

    return connections_of_tasks()


def _shared(alias: str, cache: str) -> CheckMessage:
    text = (
        f'REDIS_COMPONENTS["CONNECTIONS"]["{alias}"] stores tasks in the same database as the cache {cache!r}: '
        "cache.clear() runs FLUSHDB, which deletes all tasks."
    )
    hint = (
        'Set "URL" of the connection to another database or server, or silence drc.W001 if the cache is never cleared.'
    )
    return Warning(text, hint=hint, id="drc.W001")
