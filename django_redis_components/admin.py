"""The dashboard in the default admin site, unless ``DASHBOARD["AUTOREGISTER"]`` is off."""

from __future__ import annotations

from django.contrib import admin

from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.core.settings import conf
from django_redis_components.dashboard.admin import register


def _wanted() -> bool:
    try:
        return conf.settings().dashboard.autoregister
    except ConfigurationError:  # the system checks and the page itself say what is wrong
        return True


if _wanted():
    register(admin.site)
