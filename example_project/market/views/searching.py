"""The search page: results while the visitor types, by kind, in a chosen order."""

from __future__ import annotations

import math
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from django.views.generic import TemplateView

from django_redis_components.ratelimits import Decision, rate_limit
from example_project.market import limiting, searching
from example_project.market.models import Kind
from example_project.market.views.notices import try_later

#: Items on one page.
PAGE_SIZE = 12

#: Names of the orders.
ORDERS = {"relevance": _("Relevance"), "cheap": _("Lowest price"), "new": _("Newest")}


def _not_yet(request: HttpRequest, decision: Decision) -> HttpResponse:
    """Render the page with a message instead of results."""
    seconds = max(1, math.ceil(decision.retry_after))
    context = {"query": request.GET.get("q", ""), "order": "relevance", "orders": ORDERS.items()}
    problem = _("Too many searches. Go on in a moment.")
    return try_later(request, _template_name(request), retry_after_s=seconds, status=429, problem=problem, **context)


def _template_name(request: HttpRequest) -> str:
    return "market/_results.html" if request.GET.get("part") else "market/search.html"


@rate_limit(*limiting.SEARCHES, key="user_or_ip", name="searches", response=_not_yet)
class SearchView(TemplateView):
    """Items that match ``q``, of the kind ``kind``. ``part=1`` returns the results only."""

    def get_template_names(self) -> list[str]:
        return [_template_name(self.request)]

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        asked = self.request.GET
        query, kind = asked.get("q", ""), asked.get("kind", "")
        order = asked["order"] if asked.get("order") in ORDERS else "relevance"
        items = searching.items()
        options: dict[str, Any] = {
            "order_by": searching.ORDERS[order],
            "filters": {"kind": kind} if kind in Kind.values else {},
            "facets": ["kind"],
            "page": asked.get("page"),
            "per_page": PAGE_SIZE,
        }
        found = items.search(query, prefix=True, **options)
        if not (found.paginator.count or asked.get("part")):
            items.search(query, **options)  # whole words: the index logs that it finds nothing
        kinds = [(value, Kind(value).label, count) for value, count in found.facets["kind"].items() if value in Kind]
        return super().get_context_data(
            query=query, kind=kind, order=order, orders=ORDERS.items(), found=found, kinds=kinds,
            object_list=items.objects(found), **kwargs,
        )  # fmt: skip
