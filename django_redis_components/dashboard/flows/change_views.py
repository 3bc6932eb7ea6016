"""The views of a flow: its page, and cancellation with its confirmation."""

from __future__ import annotations

from functools import partial

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.settings import conf
from django_redis_components.core.text import counted
from django_redis_components.dashboard import verbs
from django_redis_components.dashboard.flows import page
from django_redis_components.dashboard.flows.page import UNFINISHED
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.taskqueue import get_flow
from django_redis_components.taskqueue.exceptions import FlowDoesNotExist

CANCEL = Verb("cancel", "cancel_flow", MODELS["taskflow"])


def cancel(request: PageRequest) -> HttpResponse:
    """Ask for confirmation of a cancellation (GET), or cancel (POST)."""
    flow_id = request.object_id
    back = request.links.flow(flow_id)
    if request.is_post:
        change = Change(CANCEL, flow_id, f"Cancel flow {flow_id!r}", partial(_cancel, flow_id), back)
        return verbs.execute(request, change)
    found = page.read(request).value
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
    return verbs.confirm(request, confirmation)


def _cancel(flow_id: str) -> ChangeOutcome:
    try:
        done = get_flow(flow_id, using=conf.settings().dashboard.using).cancel()
    except FlowDoesNotExist:
        return ChangeOutcome("there was no such flow", _("The flow does not exist any more."), is_done=False)
    message = ngettext("Cancelled %(count)s task.", "Cancelled %(count)s tasks.", done) % {"count": number(done)}
    return ChangeOutcome(f"{counted(done, 'task')} cancelled", message, is_done=done > 0)


#: The view of the verb.
VIEWS = ((CANCEL, cancel),)
