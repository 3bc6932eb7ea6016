"""URLs of pages that several test modules open."""

from __future__ import annotations

LIMITS = "/admin/django_redis_components/ratelimit/"
SCHEDULES = "/admin/django_redis_components/schedule/"
