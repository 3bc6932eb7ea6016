"""Unmanaged models of the dashboard: they provide permissions and entries in the admin, and have no tables."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class EmptyManager(models.Manager[Any]):
    """Returns empty querysets without a query, for commands that read all models, as ``dumpdata`` does."""

    def get_queryset(self) -> models.QuerySet[Any]:
        """Return an empty queryset."""
        return super().get_queryset().none()


class UnmanagedModel(models.Model):
    """Base of the models: ``manage.py migrate`` creates their content types and permissions only."""

    objects = EmptyManager()

    class Meta:
        abstract = True
        app_label = "django_redis_components"
        managed = False
        default_permissions: ClassVar[tuple[str, ...]] = ("view",)
        base_manager_name = "objects"

    def __str__(self) -> str:
        return str(self._meta.verbose_name)


class Overview(UnmanagedModel):
    """The overview page."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("Redis operations overview")
        verbose_name_plural = _("Redis operations")


class Queues(UnmanagedModel):
    """The pages of queues. They require the permission of the overview, and each change its own."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        default_permissions: ClassVar[tuple[str, ...]] = ()
        verbose_name = _("task queue")
        verbose_name_plural = _("task queues")
        permissions = (
            ("pause_queue", "Can pause and resume queues"),
            ("purge_queue", "Can purge queues"),
            ("restore_task", "Can restore purged and deleted tasks"),
        )


class Task(UnmanagedModel):
    """Tasks. They are viewed with the permission of the overview, and each change requires its own."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        default_permissions: ClassVar[tuple[str, ...]] = ()
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        permissions = (
            ("retry_task", "Can retry failed tasks"),
            ("delete_task", "Can delete tasks"),
            ("run_task", "Can run scheduled tasks now"),
            ("reschedule_task", "Can reschedule tasks"),
            ("cancel_task", "Can cancel tasks"),
            ("view_task_arguments", "Can view masked arguments of tasks"),
        )


class TaskFlow(UnmanagedModel):
    """The pages of flows. They require the permission of the overview, and the cancellation its own."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        default_permissions: ClassVar[tuple[str, ...]] = ()
        verbose_name = _("flow")
        verbose_name_plural = _("flows")
        permissions = (("cancel_flow", "Can cancel flows"),)


class Schedule(UnmanagedModel):
    """The page of schedules. It requires the permission of the overview, and each change its own."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        default_permissions: ClassVar[tuple[str, ...]] = ()
        verbose_name = _("schedule")
        verbose_name_plural = _("Schedules")
        permissions = (
            ("run_schedule", "Can run schedules now"),
            ("pause_schedule", "Can pause and resume schedules"),
            ("change_schedule", "Can add schedules, and edit those that were added at run time"),
            ("remove_schedule", "Can remove schedules that were added at run time"),
        )


class Action(UnmanagedModel):
    """The page of actions: entries of the admin's log."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("action")
        verbose_name_plural = _("Actions")


class Failure(UnmanagedModel):
    """The page of failures. Each change of the failed tasks requires its own permission."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("failure")
        verbose_name_plural = _("Failures")


class LiveEvent(UnmanagedModel):
    """The page Live: the newest events of tasks and locks."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("live event")
        verbose_name_plural = _("Live")


class Worker(UnmanagedModel):
    """The page of workers. It requires the permission of the overview, and each change its own."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        default_permissions: ClassVar[tuple[str, ...]] = ()
        verbose_name = _("worker")
        verbose_name_plural = _("Workers")
        permissions = (
            ("quiet_worker", "Can quiet and resume workers"),
            ("restart_worker", "Can restart worker processes"),
            ("stop_worker", "Can stop workers"),
        )


class Analytics(UnmanagedModel):
    """The page of visitors, sign-ins and page views."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("analytics")
        verbose_name_plural = _("Analytics")


class Autocomplete(UnmanagedModel):
    """The page of the indexes of autocomplete and search."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("autocomplete and search")
        verbose_name_plural = _("Autocomplete and search")


class Messaging(UnmanagedModel):
    """The page of messages, files and logs."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("messages and files")
        verbose_name_plural = _("Messages and files")


class Lock(UnmanagedModel):
    """The page of locks and semaphores. A release requires its own permission."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("lock or semaphore")
        verbose_name_plural = _("Locks and semaphores")
        permissions = (("release_lock", "Can release locks and permits of other holders"),)


class RateLimit(UnmanagedModel):
    """The page of rate limits. A reset requires its own permission."""

    class Meta(UnmanagedModel.Meta):
        abstract = False
        verbose_name = _("rate limit")
        verbose_name_plural = _("Rate limits")
        permissions = (("reset_ratelimit", "Can reset rate limit counters"),)
