"""The market, the package's own pages, the admin."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.staticfiles.views import serve
from django.templatetags.static import static
from django.urls import include, path
from django.views.generic import RedirectView

from example_project.market.views import chats, entrance

urlpatterns = [
    path("", include("example_project.market.urls")),
    # In front of the package's own page, which has no limit.
    path("redis/autocomplete/<str:name>/", entrance.suggestions),
    # In front of the package's own page, which accepts any body.
    path("redis/chats/<str:chat_id>/messages/", chats.json_messages),
    path("redis/", include("django_redis_components.urls")),
    path("admin/", admin.site.urls),
    # The admin's pages name no icon, so browsers ask for this one.
    path("favicon.ico", RedirectView.as_view(url=static("market/logo.svg"))),
    # runserver serves static files only with DEBUG, and this site runs without.
    path("static/<path:path>", serve, {"insecure": True}),
]
