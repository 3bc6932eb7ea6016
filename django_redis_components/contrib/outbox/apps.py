"""The app in Django: it installs the storage of the outbox, and its figures on the dashboard."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.utils.translation import gettext_lazy as _


class OutboxConfig(AppConfig):
    """`"django_redis_components.contrib.outbox"` in `INSTALLED_APPS`."""

    name = "django_redis_components.contrib.outbox"
    label = "django_redis_components_outbox"
    verbose_name = _("Outbox of Redis tasks")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Install the storage; register the check of problems, and the panel if there are pages."""
        from django_redis_components.contrib.outbox.problems import waiting_rows
        from django_redis_components.contrib.outbox.storage import DatabaseOutbox
        from django_redis_components.dashboard.problems import register_check
        from django_redis_components.taskqueue import outbox

        outbox.install(DatabaseOutbox())
        register_check(waiting_rows)
        if apps.is_installed("django.contrib.admin"):
            from django_redis_components.contrib.outbox.panels import OutboxPanel
            from django_redis_components.dashboard import register_panel

            register_panel(OutboxPanel)
