"""The page of rate limits: registered limits, the state of a key, block, reset."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class LimitsPage(Page):
    """The page of rate limits. A reset, a block, and denied keys as text require their own permissions."""

    slug = "ratelimit"
    title = _("Rate limits")
    name = _("rate limit")
    permissions = (
        ("reset_ratelimit", "Can reset rate limit counters"),
        ("block_ratelimit", "Can block keys of rate limits"),
        ("view_ratelimit_keys", "Can view denied keys of rate limits"),
    )
    templates = "limits"
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("page.limit_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")
