"""The pages of tasks: their URLs and text."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.utils import quote

from tests.dashboard.support import text_of

TASKS = "/admin/django_redis_components/task/"


def url_of(task_id: str) -> str:
    return f"{TASKS}{quote(task_id)}/"


def text(response: Any) -> str:
    assert response.status_code == 200, response.content
    return text_of(response.content.decode()).replace("&quot;", '"')
