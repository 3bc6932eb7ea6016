"""The market's panel in the dashboard."""

from __future__ import annotations

from typing import Any

from django.db.models import Sum
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.dashboard import Panel
from example_project.market.models import Item


class SalesPanel(Panel):
    """Items on sale, and the sales of today. It reads the database only."""

    name = "sales"
    title = gettext_lazy("Sales today")
    permission = "market.view_item"

    def context(self, value: None) -> dict[str, Any]:
        labels = {"open": _("Open items"), "sold": _("Sold today"), "revenue": _("Revenue today, in gold")}
        figures = self.data(value)
        return {"facts": [(label, number_format(figures[key], force_grouping=True)) for key, label in labels.items()]}

    def data(self, value: None) -> dict[str, int]:
        sold = Item.objects.sold().filter(sold_at__date=timezone.localdate())
        return {
            "open": Item.objects.on_sale().count(),
            "sold": sold.count(),
            "revenue": sold.aggregate(gold=Sum("price", default=0))["gold"],
        }
