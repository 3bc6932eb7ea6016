"""The views of a flow: its page, and cancellation with its confirmation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from django.contrib.admin.utils import quote
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core import conf
from django_redis_components.dashboard import outages, responses, verbs
from django_redis_components.dashboard.flows import page, snapshot
from django_redis_components.dashboard.flows.page import UNFINISHED
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.models import TaskFlow
from django_redis_components.dashboard.queues import changes
from django_redis_components.dashboard.queues.change_views import queue_url, task_url
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation, Verb
from django_redis_components.taskqueue import get_flow
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

CANCEL = Verb("cancel", "cancel_flow", TaskFlow)
#: Longest id of a flow, in characters.
MAX_ID = 200
_TEMPLATES = responses.Templates("flow/page.html", "flow/fragment.html")


def flow_url(model_admin: ModelAdmin[Any], flow_id: str, verb: str = "change") -> str:
    """Return the URL of a flow's page, or of a verb."""
    name = f"admin:{model_admin.opts.app_label}_taskflow_{verb}"
    return reverse(name, args=[quote(flow_id)], current_app=model_admin.admin_site.name)


def flow(model_admin: ModelAdmin[Any], request: HttpRequest, flow_id: str) -> HttpResponse:
    """Respond with the page of a flow; 404 without such a flow. The caller has checked the permission."""
    extra = {
        "title": _("Flow %(id)s") % {"id": flow_id},
        "is_subpage": True,
        "cancel_url": flow_url(model_admin, flow_id, "cancel") if verbs.is_allowed(request, CANCEL) else "",
    }
    retry_url = partial(queue_url, model_admin, "retry") if verbs.is_allowed(request, changes.RETRY) else None
    build = partial(page.build_page, url_of=partial(task_url, model_admin), retry_url=retry_url)
    return responses.snapshot_response(
        model_admin, request, partial(_read, flow_id), page.flow_data, build, _TEMPLATES, extra
    )


def cancel(model_admin: ModelAdmin[Any], request: HttpRequest, flow_id: str) -> HttpResponse:
    """Ask for confirmation of a cancellation (GET), or cancel (POST)."""
    back = flow_url(model_admin, flow_id)
    if request.method == "POST":
        change = Change(CANCEL, flow_id, f"Cancel flow {flow_id!r}", partial(_cancel, flow_id), back)
        return verbs.execute(model_admin, request, change)
    try:
        found = _read(flow_id).flow
    except outages.SnapshotFailed as exc:
        return responses.outage_response(model_admin, request, outages.outage_of(exc.error, exc.address))
    count = sum(found.states.get(state, 0) for state in UNFINISHED)
    names = {"count": number(count), "all": number(found.tasks)}
    confirmation = Confirmation(
        title=_("Cancel flow %(id)s") % {"id": flow_id},
        button=ngettext("Cancel %(count)s task", "Cancel %(count)s tasks", count) % names,
        back=back,
        question=ngettext(
            "Cancel %(count)s unfinished task of the flow? It has %(all)s tasks.",
            "Cancel %(count)s unfinished tasks of the flow? It has %(all)s tasks.",
            count,
        )
        % names,
        checks=[
            Check(_("Results of finished tasks are kept.")),
            Check(_("Running tasks are requested to end."), "caution"),
            Check(_("A cancellation cannot be undone."), "caution"),
        ],
        impossible="" if count else _("All tasks of the flow have finished."),
    )
    return verbs.confirm(model_admin, request, confirmation)


def _read(flow_id: str) -> snapshot.FlowSnapshot:
    try:
        return snapshot.read(flow_id)
    except FlowDoesNotExist as exc:
        raise Http404("No flow has this id, or it has expired.") from exc


def _cancel(flow_id: str) -> ChangeOutcome:
    try:
        done = get_flow(flow_id, using=conf.settings().dashboard.using).cancel()
    except FlowDoesNotExist:
        return ChangeOutcome("there was no such flow", _("The flow does not exist any more."), is_done=False)
    message = ngettext("Cancelled %(count)s task.", "Cancelled %(count)s tasks.", done) % {"count": number(done)}
    return ChangeOutcome(f"{changes.tasks_text(done)} cancelled", message, is_done=done > 0)
