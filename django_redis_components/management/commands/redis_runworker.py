"""`manage.py redis_runworker`: an alias of `runworker`, for sites where another app has a command of that name."""

from __future__ import annotations

from django_redis_components.management.commands.runworker import Command

__all__ = ["Command"]
