"""`manage.py redis_runpoller`: an alias of `runpoller`, for sites where another app has a command of that name."""

from __future__ import annotations

from django_redis_components.management.commands.runpoller import Command

__all__ = ["Command"]
