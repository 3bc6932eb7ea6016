"""The user's own items: list an item, show all items, print a price label."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET
from django.views.generic import FormView, TemplateView

from django_redis_components.semaphores import SemaphoreFull
from example_project.market import counting, deals, labels
from example_project.market.forms import ItemForm
from example_project.market.models import Item
from example_project.market.views.notices import try_later

#: Items shown on each side of the page, newest first.
SHOWN = 50


class ListItemView(LoginRequiredMixin, FormView):
    """The form to list an item."""

    template_name = "market/sell.html"
    form_class = ItemForm

    def form_valid(self, form: ItemForm) -> HttpResponse:
        item = deals.list_item(self.request.user, **form.sale())
        messages.success(self.request, _("%(title)s is on sale.") % {"title": item})
        return redirect(item)


class MyThingsView(LoginRequiredMixin, TemplateView):
    """Show the items that the user sells and has bought."""

    template_name = "market/mine.html"

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        items = Item.objects.select_related("seller", "buyer")
        return super().get_context_data(
            selling=items.filter(seller=self.request.user)[:SHOWN],
            top_sellers=counting.top_sellers(),
            bought=items.filter(buyer=self.request.user).order_by("-sold_at")[:SHOWN],
            **kwargs,
        )


@require_GET
@login_required
def label(request: HttpRequest, pk: int) -> HttpResponse:
    """Print the price label of the user's item, if the printer is free."""
    item = get_object_or_404(Item.objects.select_related("seller"), pk=pk, seller=request.user)
    try:
        text = labels.print_label(item)
    except SemaphoreFull:
        sheets = labels.SHEETS_AT_ONCE
        return try_later(request, "market/printer_full.html", retry_after_s=2, sheets=sheets, again=request.path)
    return HttpResponse(
        text,
        content_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="label-{item.pk}.txt"'},
    )
