"""The models that Django looks for here: one for each page of the dashboard, without a table and without migrations."""

from __future__ import annotations

from django_redis_components.dashboard.models import MODELS

__all__ = ["MODELS"]
