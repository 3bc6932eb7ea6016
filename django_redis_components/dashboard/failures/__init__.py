"""The page of failures: error groups of all queues, one of them in detail, and changes of its tasks."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, hook


class FailuresPage(Page):
    """The page of failures. Its objects are errors by fingerprint. Each change of their tasks has its permission."""

    slug = "failure"
    title = _("Failures")
    name = _("failure")
    templates = "failures"
    shows_all_shards = True
    parse = hook("page.parse")
    read = hook("page.read")
    data = hook("data.failure_data")
    context = hook("page.context")
    url_of = hook("page.url_of")
    verbs = hook("change_views.VIEWS")
