"""The app in Django: its name, and what is set up when all apps are loaded.

No component is imported here but those of the `indexes` modules of the site's apps: a command, a migration or a site
that uses one component does not wait for the others.
"""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.checks import register
from django.utils.translation import gettext_lazy as _

from django_redis_components import checks
from django_redis_components.contrib import task_discovery
from django_redis_components.core import discovery


class RedisComponentsConfig(AppConfig):
    """`"django_redis_components"` in `INSTALLED_APPS`."""

    name = "django_redis_components"
    label = "django_redis_components"
    verbose_name = _("Redis components")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks and receivers of signals, and import the `indexes` modules of the installed apps."""
        from django.contrib.auth.signals import user_logged_in

        for check in checks.CHECKS:
            register(check, checks.TAG)
        task_discovery.import_framework()
        user_logged_in.connect(_count_sign_in, dispatch_uid="django_redis_components.analytics.sign_in")
        discovery.after_discovery(task_discovery.discover)
        discovery.import_indexes()


def _count_sign_in(**facts: Any) -> None:
    """Count a login as the user's sign-in of the day. The first one imports analytics."""
    from django_redis_components.analytics.receivers import count_sign_in

    count_sign_in(**facts)
