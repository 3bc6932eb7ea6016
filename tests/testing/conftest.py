"""The fixtures of the pytest plugin, for a package that was not installed."""

from __future__ import annotations

from django_redis_components.pytest_plugin import redis_components_server, redis_tasks, redis_tasks_inline

__all__ = ["redis_components_server", "redis_tasks", "redis_tasks_inline"]
