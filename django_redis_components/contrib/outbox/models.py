"""The table of the outbox."""

from __future__ import annotations

from django.db import models
from django.utils import timezone


class OutboxEntry(models.Model):
    """A call that waits to be sent, or that was sent lately. The primary key is its only index: commits pay for each.

    Attributes:
        using: alias of the connection that it is sent over.
        token: by which the scripts of the queue recognize it.
        format: of the message, `taskqueue.outbox.FORMAT`. A relay of an older version leaves newer ones to others.
        message: the arguments of the scripts, opaque to the table.
        size: of the message, in bytes: the relay reads a bounded amount at a time.
        created_at: when it was written, by the clock of the process that did.
    """

    id = models.BigAutoField(primary_key=True)
    using = models.CharField(max_length=200)
    token = models.CharField(max_length=40)
    format = models.PositiveSmallIntegerField()
    message = models.BinaryField()
    size = models.PositiveIntegerField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        app_label = "django_redis_components_outbox"
        db_table = "django_redis_components_outbox"
        verbose_name = "outbox entry"
        verbose_name_plural = "outbox entries"
        default_permissions = ()

    def __str__(self) -> str:
        return self.token
