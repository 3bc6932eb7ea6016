"""The pages of flows: their URLs."""

from __future__ import annotations

FLOWS = "/admin/django_redis_components/taskflow/"


def url_of(flow_id: str) -> str:
    return f"{FLOWS}{flow_id.replace('_', '_5F')}/"
