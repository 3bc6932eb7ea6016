"""App configuration of the market."""

from __future__ import annotations

from django.apps import AppConfig


class MarketConfig(AppConfig):
    name = "example_project.market"
    label = "market"
    verbose_name = "Sellers' market"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from django_redis_components.dashboard import register_panel
        from example_project.market import panels, sale_chats

        register_panel(panels.SalesPanel)
        post_delete.connect(sale_chats.delete_with_item, sender="market.Item")
        post_delete.connect(sale_chats.erase_member, sender="market.Member")
