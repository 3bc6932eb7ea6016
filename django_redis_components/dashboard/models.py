"""The anchors of the dashboard in the admin: they have permissions and entries, and no tables."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class NoRows(models.Manager[Any]):
    """Finds nothing, and asks no database: ``dumpdata`` and others that go through all models pass."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """An empty queryset."""
        return super().get_queryset().none()


class Anchor(models.Model):
    """What all of them share: ``manage.py migrate`` makes content types and permissions, and nothing else."""

    objects = NoRows()

    class Meta:
        abstract = True
        app_label = "django_redis_components"
        managed = False
        default_permissions: ClassVar[tuple[str, ...]] = ("view",)
        base_manager_name = "objects"

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


class Overview(Anchor):
    """The page of everything."""

    class Meta(Anchor.Meta):
        abstract = False
        verbose_name = _("Redis operations overview")
        verbose_name_plural = _("Redis operations")


class Queues(Anchor):
    """Where the pages of single queues stand. Who may view the overview may view them: no permission of its own."""

    class Meta(Anchor.Meta):
        abstract = False
        default_permissions: ClassVar[tuple[str, ...]] = ()
        verbose_name = _("task queue")
        verbose_name_plural = _("task queues")


class Lock(Anchor):
    """The page of locks and semaphores. Who may view it may not yet release what others hold."""

    class Meta(Anchor.Meta):
        abstract = False
        verbose_name = _("lock or semaphore")
        verbose_name_plural = _("Locks and semaphores")
        permissions = (("release_lock", "Can release locks and permits of others"),)


class RateLimit(Anchor):
    """The page of rate limits. Who may view it may not yet forget what was counted."""

    class Meta(Anchor.Meta):
        abstract = False
        verbose_name = _("rate limit")
        verbose_name_plural = _("Rate limits")
        permissions = (("reset_ratelimit", "Can reset rate limits of a key"),)
