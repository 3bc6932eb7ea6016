"""Pages to count, and those of the package."""

from __future__ import annotations

from django.urls import include, path

from tests.analytics.urls import urlpatterns as counted
from tests.urls import urlpatterns as package

#: The package's pages as async views, beside the sync ones.
twins = path("async/redis/", include("django_redis_components.async_urls", namespace="async"))
urlpatterns = [*counted, *package, twins]
