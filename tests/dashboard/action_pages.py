"""The page of actions: its URL, and entries of the log."""

from __future__ import annotations

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType

from django_redis_components.dashboard.models import MODELS

ACTIONS = "/admin/django_redis_components/action/"


def write_entries(
    count: int, model: type = MODELS["queues"], name: str = "mail", message: str = "Pause: done."
) -> None:
    user, _ = User.objects.get_or_create(username="ada")
    content_type = ContentType.objects.get_for_model(model)
    LogEntry.objects.bulk_create(
        LogEntry(user=user, content_type=content_type, object_id=name, action_flag=CHANGE, change_message=message)
        for _ in range(count)
    )
