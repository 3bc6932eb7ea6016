"""Search in the items of the market."""

from __future__ import annotations

import dataclasses
from typing import Any

from django.db.models import QuerySet
from django.utils import translation

from django_redis_components import search
from django_redis_components.search import Document, ModelSearch
from example_project.market.content.goods import translated
from example_project.market.models import Item

#: Orders of the page, as `search` takes them.
ORDERS = {"relevance": "relevance", "cheap": "price", "new": "-listed_at"}


class Items(ModelSearch):
    """All items by title and description, those of the demo in English and Chinese."""

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

    def document(self, obj: Any) -> Document | None:
        document = super().document(obj)
        if document is None:
            return None
        with translation.override("zh-hans"):
            texts = {name: _both(getattr(obj, name)) for name in self.fields}
        return dataclasses.replace(document, text=texts)


def _both(text: str) -> str:
    chinese = translated(text)
    return text if chinese == text else f"{text}\n{chinese}"


def items() -> ModelSearch:
    """Return the registered index."""
    return search.registered()[0]
