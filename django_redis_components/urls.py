"""The pages that one ``include("django_redis_components.urls")`` adds to a site."""

from __future__ import annotations

from django.urls import path

from django_redis_components.autocomplete.views import autocomplete
from django_redis_components.contrib.prometheus.views import metrics
from django_redis_components.dashboard.healthz import healthz
from django_redis_components.messaging import views

app_name = "django_redis_components"

urlpatterns = [
    path("autocomplete/<str:name>/", autocomplete, name="autocomplete"),
    path("chats/unread/", views.unread, name="unread"),
    path("chats/<str:chat_id>/messages/", views.chat_messages, name="chat_messages"),
    path("chats/<str:chat_id>/ack/", views.chat_ack, name="chat_ack"),
    path("chats/<str:chat_id>/events/", views.chat_events, name="chat_events"),
    path("metrics/", metrics, name="metrics"),
    path("healthz/", healthz, name="healthz"),
]
