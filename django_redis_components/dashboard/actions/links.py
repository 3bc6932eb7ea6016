"""Links from an object's page to the actions on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin


def actions_url(model_admin: ModelAdmin[Any], request: HttpRequest, model: str, name: str) -> str:
    """Return the URL of the actions on an object, or "" if the user may not view them."""
    app = model_admin.opts.app_label
    if not request.user.has_perm(f"{app}.view_action"):
        return ""
    url = reverse(f"admin:{app}_action_changelist", current_app=model_admin.admin_site.name)
    return f"{url}?{urlencode({'model': model, 'object': name})}"
