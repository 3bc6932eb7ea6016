"""App configuration of the market."""

from __future__ import annotations

from django.apps import AppConfig


class MarketConfig(AppConfig):
    name = "example_project.market"
    label = "market"
    verbose_name = "Sellers' market"

    def ready(self) -> None:
        from django_redis_components.dashboard import register_panel
        from example_project.market import contacts, panels, searching

        contacts.register()
        searching.register()
        register_panel(panels.SalesPanel)
