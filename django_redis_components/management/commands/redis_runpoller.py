"""`manage.py redis_runpoller`: the same as `runpoller`, for sites where another app owns that name."""

from __future__ import annotations

from django_redis_components.management.commands.runpoller import Command

__all__ = ["Command"]
