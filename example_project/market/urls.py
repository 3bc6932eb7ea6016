"""Addresses of the market's pages."""

from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from example_project.market.views import items, mine, writing

urlpatterns = [
    path("", items.MarketView.as_view(), name="market"),
    path("items/new/", mine.ListItemView.as_view(), name="sell"),
    path("items/<int:pk>/", items.ItemView.as_view(), name="item"),
    path("items/<int:pk>/buy/", items.buy, name="buy"),
    path("items/<int:pk>/label/", mine.label, name="label"),
    path("mine/", mine.MyThingsView.as_view(), name="mine"),
    path("write/", writing.WriteView.as_view(), name="write"),
    path("mails/", writing.mails, name="mails"),
    path(
        "login/", LoginView.as_view(template_name="market/login.html", redirect_authenticated_user=True), name="login"
    ),
    path("logout/", LogoutView.as_view(), name="logout"),
]
