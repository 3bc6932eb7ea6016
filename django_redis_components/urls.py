"""The pages that one ``include("django_redis_components.urls")`` adds to a site."""

from __future__ import annotations

from django.urls import path

from django_redis_components.autocomplete.views import autocomplete

app_name = "django_redis_components"

urlpatterns = [
    path("autocomplete/<str:name>/", autocomplete, name="autocomplete"),
]
