"""`manage.py redis_runworker`: the same as `runworker`, for sites where another app owns that name."""

from __future__ import annotations

from django_redis_components.management.commands.runworker import Command

__all__ = ["Command"]
