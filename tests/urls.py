"""Admin, the package's own pages, and nothing else."""

from __future__ import annotations

import importlib.util

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls)]

if importlib.util.find_spec("django_redis_components.urls"):
    urlpatterns.append(path("redis/", include("django_redis_components.urls")))
