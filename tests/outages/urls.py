"""Pages to count, and those of the package."""

from __future__ import annotations

from tests.analytics.urls import urlpatterns as counted
from tests.urls import urlpatterns as package

urlpatterns = [*counted, *package]
