"""The view that Prometheus scrapes."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from django_redis_components.contrib.prometheus.collector import RedisComponentsCollector
from django_redis_components.core.exceptions import missing_extra
from django_redis_components.core.expected_responses import unlogged
from django_redis_components.dashboard.monitoring_access import access_of, refusal


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Respond with the metrics in the text format that the request accepts.

    Returns:
        404 unless the settings allow it, 401 without the token, 501 if prometheus-client is not installed.
    """
    if access_of(request) is None:
        return refusal()
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder
    except ModuleNotFoundError:
        reason = missing_extra("The metrics view", "prometheus-client", "prometheus")
        return unlogged(HttpResponse(f"501 Not Implemented: {reason}\n", "text/plain", status=501))
    registry = CollectorRegistry()
    registry.register(RedisComponentsCollector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)
