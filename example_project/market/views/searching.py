"""The search page: results while the visitor types, by kind, in a chosen order."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext_lazy as _
from django.views.generic import TemplateView

from example_project.market import searching
from example_project.market.models import Kind

#: Items on one page, and the last page.
PAGE_SIZE, LAST_PAGE = 12, 50

#: Names of the orders.
ORDERS = {"relevance": _("Relevance"), "cheap": _("Lowest price"), "new": _("Newest")}


class SearchView(TemplateView):
    """Items that match ``q``, of the kind ``kind``. ``part=1`` returns the results only."""

    def get_template_names(self) -> list[str]:
        return ["market/_results.html" if self.request.GET.get("part") else "market/search.html"]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        asked = self.request.GET
        query, kind = asked.get("q", ""), asked.get("kind", "")
        order = asked["order"] if asked.get("order") in ORDERS else "relevance"
        number = asked.get("page", "1")
        page = min(max(int(number), 1), LAST_PAGE) if number.isdecimal() and len(number) < 5 else 1
        items = searching.items()
        options: dict[str, Any] = {
            "order_by": searching.ORDERS[order],
            "filters": {"kind": kind} if kind in Kind.values else {},
            "facets": ["kind"],
            "page": page,
            "page_size": PAGE_SIZE,
        }
        found = items.search(query, prefix=True, **options)
        if not (found.total or asked.get("part")):
            items.search(query, **options)  # whole words: the index logs that it finds nothing
        kinds = [(value, Kind(value).label, count) for value, count in found.facets["kind"].items() if value in Kind]
        return super().get_context_data(
            query=query, kind=kind, order=order, orders=ORDERS.items(), found=found, kinds=kinds,
            object_list=items.objects(found), **kwargs,
        )  # fmt: skip
