"""The models that Django looks for here: anchors of the dashboard, without a table and without migrations."""

from __future__ import annotations

from django_redis_components.dashboard.models import Lock, Overview, Queues, RateLimit

__all__ = ["Lock", "Overview", "Queues", "RateLimit"]
