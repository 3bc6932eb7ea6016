"""The page of a flow: its graph, its states, cancellation, and a retry of what failed."""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from django_redis_components.dashboard.page import Page, PageRequest, hook

#: Longest id of a flow, in characters.
MAX_ID = 200


class FlowPage(Page):
    """The pages of flows. They require the permission of the overview, and the cancellation its own."""

    slug = "taskflow"
    title = _("flows")
    name = _("flow")
    permission = "view_overview"
    permissions = (("cancel_flow", "Can cancel flows"),)
    templates = "flow"
    is_object = True
    read = hook("page.read")
    data = hook("page.flow_data")
    context = hook("page.context")
    verbs = hook("change_views.VIEWS")

    def parse_id(self, object_id: str) -> str:
        """Return the id of a flow."""
        if not 0 < len(object_id) <= MAX_ID:
            raise ValueError(f"flow id: expected at most {MAX_ID} characters.")
        return object_id

    def heading(self, request: PageRequest) -> Any:
        """Return the heading, with the id."""
        return gettext("Flow %(id)s") % {"id": request.object_id}
