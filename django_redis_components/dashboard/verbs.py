"""Verbs: changes that an operator makes, each with its permission, a confirmation and an entry in the admin's log.

A view asks for confirmation with `confirm`, and makes the change with `execute`. Between the two requests the browser
keeps a ticket: the selection, signed, with a watermark, so that only the tasks that were previewed are changed::

    RETRY = Verb("retry", "retry_task", models.Task)

    def retry(request):
        ticket = verbs.ticket_of(request, RETRY)
        if ticket.is_confirmed:
            change = Change(RETRY, name, action, partial(run, ticket.selection), back)
            return verbs.execute(request, change)
        selection = ticket.selection or {"group": group, "until_ms": server_ms()}
        fields = {"ticket": verbs.sign(request, RETRY, selection)}
        return verbs.confirm(request, Confirmation(…, fields=fields), ticket.problem)

A page names its verbs and their views; `respond` checks the permission and `READ_ONLY`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.core import signing
from django.core.exceptions import ImproperlyConfigured, PermissionDenied, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import outages, responses
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.elements import TaskLine
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.verb import Verb

if TYPE_CHECKING:
    from django_redis_components.dashboard.forms import ChangeForm

logger = guarded_logger("django_redis_components.dashboard")

#: Seconds for which a ticket is valid.
TICKET_S = 600
#: Seconds after which a change of many tasks stops between two chunks; the request must end before a proxy gives up.
BUDGET_S = 20.0


@dataclasses.dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What a change has done.

    Attributes:
        log: for the admin's log, in English: readers of the log may use any language.
        message: for the operator.
        is_done: False if it has done nothing, or only a part.
        links: labels and URLs after the message, to the changed object or to the undo.
    """

    log: str
    message: str
    is_done: bool = True
    links: Sequence[tuple[str, str]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A confirmed change.

    Attributes:
        name: id of the changed object, for the admin's log.
        action: what was requested, in English.
        run: makes the change.
        back: URL of the next page.
        using: alias of the connection.
    """

    verb: Verb
    name: str
    action: str
    run: Callable[[], ChangeOutcome]
    back: str
    using: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A statement about a change. Shapes: "ok" for what is kept or can be undone, "caution" for a risk."""

    text: str
    shape: str = "ok"


@dataclasses.dataclass(frozen=True, slots=True)
class NameCount:
    """How many tasks of one name a change applies to, and the age of the oldest, as text."""

    name: str
    count: str
    oldest: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Confirmation:
    """The content of a confirmation page.

    Attributes:
        title: of the page.
        button: its label has the count: "Retry 392 tasks".
        back: URL of "Cancel".
        question: heading, with the exact count.
        facts: labels and values.
        counts: by task name; `total_label` and `total` are the last row.
        checks: what is kept, until when the change can be undone, its risks.
        sample: the first ten of the tasks; `sample_note` says of how many.
        fields: hidden fields of the form.
        form: its other fields, or None.
        typed: the text that must be typed, and its label.
        impossible: why there is nothing to confirm, or "".
        is_danger: whether the change destroys something.
        gentler: labels and URLs of less drastic changes.
    """

    title: str
    button: str
    back: str
    question: str = ""
    facts: Sequence[tuple[str, str]] = ()
    counts: Sequence[NameCount] = ()
    total_label: str = ""
    total: str = ""
    checks: Sequence[Check] = ()
    sample: Sequence[TaskLine] = ()
    sample_note: str = ""
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)
    form: ChangeForm | None = None
    typed: tuple[str, str] = ("", "")
    impossible: str = ""
    is_danger: bool = True
    gentler: Sequence[tuple[str, str]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Ticket:
    """What the operator has seen and confirmed.

    Attributes:
        selection: the signed selection; empty without a valid ticket.
        problem: why the change must be confirmed again, or "".
    """

    selection: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    problem: str = ""

    @property
    def is_confirmed(self) -> bool:
        """Whether the change may be made."""
        return bool(self.selection) and not self.problem


def respond(request: PageRequest, verb: Verb, view: Callable[[PageRequest], HttpResponse]) -> HttpResponse:
    """Respond with the view of a verb; with 503 while Redis cannot be read, or has corrupt values.

    Raises:
        PermissionDenied: the user may not make this kind of change now.
    """
    if not verb.is_allowed(request.http):
        raise PermissionDenied
    try:
        return view(request)
    except (ImproperlyConfigured, PermissionDenied, Http404, SuspiciousOperation):
        raise
    except SnapshotFailed as exc:
        return responses.outage_response(request, outages.outage_of(exc.error, exc.address))
    except Exception as exc:
        if not isinstance(exc, RedisError | RedisComponentsError):
            logger.exception("The confirmation of a change failed.")
        return responses.outage_response(request, outages.outage_of(exc, _address("")))


def sign(request: HttpRequest, verb: Verb, selection: Mapping[str, Any]) -> str:
    """Return a ticket for this user and verb.

    Args:
        selection: JSON: what the change applies to, with a watermark. If it has the key ``typed``, the form's field
            ``typed`` must equal its value.
    """
    signed = {"user": str(request.user.pk), "selection": dict(selection)}
    return signing.dumps(signed, salt=_salt(verb), compress=True)


def ticket_of(request: HttpRequest, verb: Verb) -> Ticket:
    """Return the ticket of a POST. One that has expired keeps its selection, which must be confirmed again."""
    text = request.POST.get("ticket", "") if request.method == "POST" else ""
    if not text:
        return Ticket()
    try:
        signed, problem = signing.loads(text, salt=_salt(verb), max_age=TICKET_S), ""
    except signing.SignatureExpired:
        signed = signing.loads(text, salt=_salt(verb))
        problem = _("This confirmation was older than 10 minutes. Nothing was changed. Check it again.")
    except signing.BadSignature:
        return Ticket(problem=_("This confirmation is not valid. Nothing was changed."))
    if signed["user"] != str(request.user.pk):
        return Ticket(problem=_("This confirmation is not valid. Nothing was changed."))
    selection = signed["selection"]
    expected = selection.get("typed", "")
    if not problem and expected and request.POST.get("typed", "").strip() != expected:
        problem = _("The typed name does not match. Nothing was changed.")
    return Ticket(selection, problem)


def confirm(request: PageRequest, confirmation: Confirmation, problem: str = "") -> HttpResponse:
    """Respond with the confirmation page. Nothing has been changed."""
    context = {"title": confirmation.title, "confirmation": confirmation, "problem": problem, "is_subpage": True}
    response = responses.page_response(request, "confirm.html", context)
    if problem:
        response.status_code = 409
    return response


def execute(request: PageRequest, change: Change) -> HttpResponse:
    """Make a confirmed change: log it, make it, log its outcome, and redirect with a message."""
    entry = AuditEntry(request.http, change.verb.model, change.name, change.action)
    try:
        outcome = change.run()
    except (RedisError, RedisComponentsError) as exc:
        entry.finish(f"outcome unknown, {exc}")
        outage = outages.outage_of(exc, _address(change.using))
        return responses.outage_response(request, outage)
    entry.finish(outcome.log)
    message = format_html("{}", outcome.message)
    for label, url in outcome.links:
        message = format_html('{} <a href="{}">{}</a>', message, url, label)
    messages.add_message(request.http, messages.SUCCESS if outcome.is_done else messages.WARNING, message)
    return HttpResponseRedirect(change.back)


def in_chunks(step: Callable[[], tuple[int, bool]], budget_s: float | None = None) -> tuple[int, bool]:
    """Call `step` until nothing is left or the time is up.

    Args:
        step: changes one chunk; returns how many tasks it has changed and whether any are left.

    Returns:
        How many tasks were changed, and whether any are left.
    """
    deadline = time.monotonic() + (BUDGET_S if budget_s is None else budget_s)
    total, is_left = 0, True
    while is_left and time.monotonic() < deadline:
        done, is_left = step()
        total += done
    return total, is_left


def _salt(verb: Verb) -> str:
    return f"django_redis_components.dashboard.{verb.model._meta.model_name}.{verb.name}"


def _address(using: str) -> str:
    return str(connections.endpoint(using or conf.settings().dashboard.using))
