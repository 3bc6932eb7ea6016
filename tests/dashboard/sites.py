"""A project with two custom admin sites and without the default one."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.urls import path

from django_redis_components.dashboard.admin import register

ops = AdminSite(name="ops")
shop = AdminSite(name="shop")
register(ops)
register(shop)
register(shop)  # twice is no error

urlpatterns = [path("ops/", ops.urls), path("shop/", shop.urls)]
