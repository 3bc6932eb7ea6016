"""The pages that one ``include("django_redis_components.urls")`` adds to a site."""

from __future__ import annotations

from django.urls import path

from django_redis_components.autocomplete.views import autocomplete
from django_redis_components.contrib.prometheus.views import metrics
from django_redis_components.dashboard.healthz import healthz

app_name = "django_redis_components"

urlpatterns = [
    path("autocomplete/<str:name>/", autocomplete, name="autocomplete"),
    path("metrics/", metrics, name="metrics"),
    path("healthz/", healthz, name="healthz"),
]
