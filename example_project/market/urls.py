"""URLs of the market."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from example_project.market.views import chats, entrance, items, mine, places, rush, searching, tour, writing

urlpatterns = [
    path("", items.MarketView.as_view(), name="market"),
    path("items/new/", mine.ListItemView.as_view(), name="sell"),
    path("items/<int:pk>/", items.ItemView.as_view(), name="item"),
    path("items/<int:pk>/buy/", items.buy, name="buy"),
    path("items/<int:pk>/label/", mine.label, name="label"),
    path("chats/", chats.ChatsView.as_view(), name="chats"),
    path("chats/<int:pk>/", chats.ChatView.as_view(), name="chat"),
    path("chats/<int:pk>/members/", chats.ChatMembersView.as_view(), name="chat-members"),
    path("chats/<int:pk>/leave/", chats.LeaveChatView.as_view(), name="chat-leave"),
    path("mine/", mine.MyThingsView.as_view(), name="mine"),
    path("write/", writing.WriteView.as_view(), name="write"),
    path("mails/", writing.mails, name="mails"),
    path("search/", searching.SearchView.as_view(), name="search"),
    path("rush/", rush.rush, name="rush"),
    path("rush/state/", rush.state, name="rush-state"),
    path("rush/<int:pk>/kill/", rush.kill, name="rush-kill"),
    path("places/", places.places, name="places"),
    path("tour/", tour.tour, name="tour"),
    path("login/", entrance.SignInView.as_view(), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
