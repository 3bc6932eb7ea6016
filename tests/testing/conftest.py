"""The fixtures of the pytest plugin."""

from __future__ import annotations

from django_redis_components.testing.pytest_plugin import redis_tasks, redis_tasks_inline

__all__ = ["redis_tasks", "redis_tasks_inline"]
