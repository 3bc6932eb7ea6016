"""The app in Django: its name, and what is set up when all apps are loaded."""

from __future__ import annotations

from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _

from django_redis_components import checks
from django_redis_components.analytics import receivers
from django_redis_components.contrib import task_discovery
from django_redis_components.taskqueue import registry


class RedisComponentsConfig(AppConfig):
    """`"django_redis_components"` in `INSTALLED_APPS`."""

    name = "django_redis_components"
    label = "django_redis_components"
    verbose_name = _("Redis components")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, the receivers of signals, and the search for tasks of Django's framework."""
        for check in checks.CHECKS:
            register(check, checks.TAG)
        task_discovery.import_framework()
        receivers.connect()
        registry.after_discovery(task_discovery.discover)
