"""The market, one item, and buying it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST
from django.views.generic import DetailView, ListView

from django_redis_components.locks import LockNotAcquired
from django_redis_components.transactions import TooMuchContention
from example_project.market import counting, deals, known_items, sale_chats, selling
from example_project.market.models import Item
from example_project.market.views.notices import try_later

#: Items on one page of the market.
PAGE_SIZE = 12


class MarketView(ListView):
    """List the items on sale, or the sold items, newest first."""

    template_name = "market/market.html"
    paginate_by = PAGE_SIZE

    @property
    def show(self) -> str:
        return "sold" if self.request.GET.get("show") == "sold" else "open"

    def get_queryset(self) -> QuerySet[Item]:
        items = Item.objects.select_related("seller", "buyer")
        return items.sold().order_by("-sold_at") if self.show == "sold" else items.on_sale()

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(
            show=self.show,
            visitors=counting.visitors_today(),
            views=counting.views_today(self.request.path),
            sales=selling.WAYS[selling.chosen()],
            **kwargs,
        )


class ItemView(DetailView):
    """Show an item, with a button for members who may buy it."""

    template_name = "market/item.html"
    queryset = Item.objects.select_related("seller", "buyer")

    def get_object(self, queryset: QuerySet[Item] | None = None) -> Item:
        if not known_items.may_exist(self.kwargs["pk"]):
            raise Http404
        return super().get_object(queryset)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        user, item = self.request.user, self.object
        return super().get_context_data(
            may_buy=item.may_be_bought_by(user),
            has_chat=item.state == "sold" and user.is_authenticated and sale_chats.is_member(item.pk, user),
            seen_by=counting.seen_by(item, user.pk),
            **kwargs,
        )


@require_POST
@login_required
def buy(request: HttpRequest, pk: int) -> HttpResponse:
    """Buy an item. A second buyer gets a page that says it is sold."""
    item = get_object_or_404(Item, pk=pk)
    try:
        item = deals.buy(pk, request.user)
    except deals.NotForSale as refused:
        return render(request, "market/too_late.html", {"item": refused.item}, status=409)
    except (LockNotAcquired, selling.BeingBought, TooMuchContention):
        return try_later(request, "market/busy.html", retry_after_s=5, item=item)
    messages.success(
        request, _("%(title)s is yours. A mail to %(seller)s is on its way.") % {"title": item, "seller": item.seller}
    )
    return redirect(item)
