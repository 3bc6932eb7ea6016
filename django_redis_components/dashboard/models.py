"""The anchor of the dashboard in the admin: it has a permission and an entry, and no table."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _


class NoRows(models.Manager[Any]):
    """Finds nothing, and asks no database: ``dumpdata`` and others that go through all models pass."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """An empty queryset."""
        return super().get_queryset().none()


class Overview(models.Model):
    """``manage.py migrate`` makes its content type and the permission ``view_overview``, and nothing else."""

    objects = NoRows()

    class Meta:
        app_label = "django_redis_components"
        managed = False
        default_permissions = ("view",)
        base_manager_name = "objects"
        verbose_name = _("Redis operations overview")
        verbose_name_plural = _("Redis operations")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


class Queues(models.Model):
    """Where the pages of single queues stand. Who may view the overview may view them: no permission of its own."""

    objects = NoRows()

    class Meta:
        app_label = "django_redis_components"
        managed = False
        default_permissions = ()
        base_manager_name = "objects"
        verbose_name = _("task queue")
        verbose_name_plural = _("task queues")

    def __str__(self) -> str:
        return str(self._meta.verbose_name)
