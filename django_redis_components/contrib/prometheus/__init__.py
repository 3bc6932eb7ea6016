"""Metrics for Prometheus, read from Redis when Prometheus scrapes: any process of the site returns the same figures.

In a process that has its own exporter::

    from prometheus_client import REGISTRY
    from django_redis_components.contrib.prometheus import RedisComponentsCollector

    REGISTRY.register(RedisComponentsCollector())

Or use the view: ``include("django_redis_components.urls")`` has it at ``metrics/``; it is 404 until
``REDIS_COMPONENTS["MONITORING"]`` has a ``TOKEN``. ``grafana.json`` in this package is a dashboard for Grafana.

See also: ``docs/guides/monitoring.md``.
"""

from __future__ import annotations

from django_redis_components.contrib.prometheus.collector import RedisComponentsCollector

__all__ = ["RedisComponentsCollector"]
