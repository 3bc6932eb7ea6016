"""The pages of `django_redis_components.urls` with async views, for a site under ASGI."""

from __future__ import annotations

from django.urls import path

from django_redis_components.autocomplete.views import aautocomplete
from django_redis_components.contrib.prometheus.views import metrics
from django_redis_components.dashboard.healthz import healthz
from django_redis_components.messaging import views

app_name = "django_redis_components"

urlpatterns = [
    path("autocomplete/<str:name>/", aautocomplete, name="autocomplete"),
    path("chats/unread/", views.aunread, name="unread"),
    path("chats/<str:chat_id>/messages/", views.achat_messages, name="chat_messages"),
    path("chats/<str:chat_id>/ack/", views.achat_ack, name="chat_ack"),
    path("chats/<str:chat_id>/events/", views.chat_events, name="chat_events"),
    path("metrics/", metrics, name="metrics"),
    path("healthz/", healthz, name="healthz"),
]
