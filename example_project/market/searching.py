"""Search in the items of the market."""

from __future__ import annotations

from django.db.models import QuerySet

from django_redis_components import search
from django_redis_components.search import ModelSearch
from example_project.market.models import Item

#: Orders of the page, as `search` takes them.
ORDERS = {"relevance": "relevance", "cheap": "price", "new": "-listed_at"}


class Items(ModelSearch):
    """All items by title and description."""

    model = Item
    name = "items"
    fields = {"title": 3, "description": 1}
    facets = ("kind",)
    sort_values = ("price", "listed_at")
    watch_fields = ("title", "description", "kind", "price", "listed_at")
    language = "en"
    synonyms = {"boot": ["boots"], "lantern": ["lamp"], "lamp": ["lantern"]}

    def queryset(self) -> QuerySet[Item]:
        return Item.objects.select_related("seller", "buyer")


def items() -> ModelSearch:
    """Return the registered index."""
    return search.registered()[0]
