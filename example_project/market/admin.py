"""Members and items in the admin."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.utils.translation import gettext_lazy as _

from django_redis_components.autocomplete.admin import RedisAutocompleteMixin
from example_project.market import contacts
from example_project.market.models import Item, Member


@admin.register(Member)
class MemberAdmin(UserAdmin):
    fieldsets = [(None, {"fields": ["name"]}), *UserAdmin.fieldsets]
    list_display = ["username", "name", "email", "is_staff"]
    search_fields = ["username", "name", "email"]


@admin.register(Item)
class ItemAdmin(RedisAutocompleteMixin, admin.ModelAdmin):
    list_display = ["title", "kind", "price", "seller", "buyer", "listed_at", "sale_ends_at"]
    list_filter = ["kind"]
    list_select_related = ["seller", "buyer"]
    search_fields = ["title", "seller__name", "buyer__name"]
    redis_autocomplete_fields = ["seller"]
    redis_autocomplete_create = {"seller": contacts.create}

    def get_readonly_fields(self, request: object, obj: Item | None = None) -> list[str]:
        """Return fields that only the market changes: items are sold and ended by the market, under the item's lock."""
        return ["listed_at", "sale_ends_at", "buyer", "sold_at", "ended_at"]

    def has_add_permission(self, request: object) -> bool:
        """Return False: items are listed by the market, which schedules the end of the sale."""
        return False


admin.site.site_header = _("Sellers' Market")
