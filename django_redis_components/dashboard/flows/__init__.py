"""The page of a flow: its graph, its states, cancellation, and a retry of what failed."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, PageRequest, hook

#: Longest id of a flow, in characters.
MAX_ID = 200


class FlowListPage(Page):
    """The page of the flows that have not finished, of the slug and the permission of the pages of flows."""

    slug = "taskflow"
    title = _("Flows")
    name = _("flows")
    permission = "view_overview"
    templates = "flows"
    shows_all_shards = True
    read = hook("list_page.read")
    data = hook("list_page.data")
    context = hook("list_page.context")


class FlowPage(Page):
    """The pages of flows. They require the permission of the overview, and the cancellation its own."""

    slug = "taskflow"
    title = _("flows")
    name = _("flow")
    permission = "view_overview"
    permissions = (("cancel_flow", "Can cancel flows"),)
    templates = "flow"
    is_object = True
    listing = FlowListPage()
    tab = _("Flows")
    read = hook("page.read")
    data = hook("page.flow_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")

    def index(self, request: PageRequest) -> HttpResponse | None:
        """Return a redirect to the flow whose id the form has; None for the page of all."""
        flow_id = request.http.GET.get("id", "").strip()
        url = request.links.flow(flow_id) if 0 < len(flow_id) <= MAX_ID else ""
        return HttpResponseRedirect(url) if url else super().index(request)

    def parse_id(self, object_id: str) -> str:
        """Return the id of a flow."""
        if not 0 < len(object_id) <= MAX_ID:
            from django_redis_components.dashboard.parameters import too_long

            raise too_long("flow id", MAX_ID)
        return object_id

    def heading(self, request: PageRequest) -> Any:
        """Return the heading, with the id."""
        return gettext("Flow %(id)s") % {"id": request.object_id}
