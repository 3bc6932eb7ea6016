"""The views of an acknowledgment of a problem, and of its withdrawal."""

from __future__ import annotations

from functools import partial

from django import forms
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_redis_components.core.settings import conf
from django_redis_components.dashboard import formats, verbs
from django_redis_components.dashboard.forms import ReasonForm
from django_redis_components.dashboard.incidents.page import acknowledgment_note, moment
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.problems import incidents
from django_redis_components.dashboard.problems.facts import ProblemFacts, read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.incidents import Acknowledgment, IncidentState
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.storage import change_state
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation

#: Silences a problem, and lets it alarm again.
ACKNOWLEDGE = Verb("acknowledge", "acknowledge_problem", MODELS["incident"])
WITHDRAW = Verb("withdraw", "acknowledge_problem", MODELS["incident"])


class AcknowledgeForm(ReasonForm):
    """The reason and the end of an acknowledgment."""

    minutes = forms.TypedChoiceField(
        label=gettext_lazy("For"),
        required=False,
        coerce=int,
        empty_value=None,
        choices=[
            ("", gettext_lazy("until the problem is resolved")),
            ("60", gettext_lazy("1 hour")),
            ("240", gettext_lazy("4 hours")),
            ("1440", gettext_lazy("1 day")),
            ("10080", gettext_lazy("7 days")),
        ],
    )


def acknowledge(request: PageRequest) -> HttpResponse:
    """Ask for the reason and the end of an acknowledgment (GET), or acknowledge (POST)."""
    facts = read_facts()
    problem = _problem(request, facts)
    form = AcknowledgeForm(request.http.POST if request.is_post else None)
    if form.is_valid():
        minutes, reason = form.cleaned_data["minutes"], form.cleaned_data["reason"]
        action = f"Acknowledge problem {problem.id!r}" + (f" for {minutes} min" if minutes else " until it is resolved")
        run = partial(_acknowledge, problem, facts.at.timestamp(), request.author, reason, minutes)
        return verbs.execute(request, Change(ACKNOWLEDGE, problem.id, action, run, _back(request)))
    confirmation = Confirmation(
        title=_("Acknowledge a problem"),
        button=_("Acknowledge"),
        back=_back(request),
        question=problem.text,
        checks=[
            Check(_("It stays on the overview, apart from the others, with your name.")),
            Check(_("No notification is sent for it meanwhile, and healthz does not count it.")),
            Check(_("If a warning becomes critical, it alarms again."), "caution"),
        ],
        fields={"problem": problem.id},
        form=form,
        is_danger=False,
    )
    return verbs.confirm(request, confirmation, form.problem)


def withdraw(request: PageRequest) -> HttpResponse:
    """Ask for confirmation (GET), or withdraw an acknowledgment (POST)."""
    facts = read_facts()
    problem = _problem(request, facts)
    incident = facts.incidents.incidents.get(problem.id)
    held = incident.acknowledged if incident else None
    if request.is_post:
        action = f"Withdraw the acknowledgment of problem {problem.id!r}"
        return verbs.execute(request, Change(WITHDRAW, problem.id, action, partial(_withdraw, problem), _back(request)))
    confirmation = Confirmation(
        title=_("Withdraw an acknowledgment"),
        button=_("Withdraw"),
        back=_back(request),
        question=problem.text,
        facts=[(_("Acknowledgment"), acknowledgment_note(held, facts.at))] if held else [],
        checks=[Check(_("The problem alarms again."))],
        fields={"problem": problem.id},
        impossible="" if held else _("This problem is not acknowledged."),
        is_danger=False,
    )
    return verbs.confirm(request, confirmation)


def _problem(request: PageRequest, facts: ProblemFacts) -> Problem:
    """Return the problem of a request: one that is found now, or whose incident lasts.

    Raises:
        Http404: there is none.
        SnapshotFailed: it is not known whether there is.
    """
    wanted = request.form.get("problem", "")
    for problem in find_problems(facts):
        if problem.id == wanted:
            return problem
    incident = facts.incidents.incidents.get(wanted)
    if incident is None and facts.errors:  # it may be among what could not be read
        raise SnapshotFailed(next(iter(facts.errors.values())), str(facts.endpoint))
    if incident is None:
        raise Http404(_("This problem is resolved."))
    is_by_code = wanted.startswith(f"{incident.code}:")  # a code may contain a colon
    kind = incident.code if is_by_code else wanted.partition(":")[0]
    return Problem(
        incident.code,
        incident.text,
        incident.advice,
        incident.command,
        incident.severity,
        incident.queue,
        subject=wanted.removeprefix(f"{kind}:"),
        kind="" if is_by_code else kind,
    )


def _acknowledge(problem: Problem, now: float, author: str, reason: str, minutes: int | None) -> ChangeOutcome:
    until = now + minutes * 60 if minutes else None
    held = Acknowledgment(author, reason, problem.severity, now, until)
    _change(problem, held)
    end = formats.timestamp(moment(until), moment(now)).text if until else ""
    text = (
        _("Acknowledged until %(time)s: %(problem)s") if until else _("Acknowledged until it is resolved: %(problem)s")
    )
    return ChangeOutcome(
        f"done, reason {reason!r}" if reason else "done", text % {"time": end, "problem": problem.text}
    )


def _withdraw(problem: Problem) -> ChangeOutcome:
    _change(problem, None)
    return ChangeOutcome("done", _("It alarms again: %(problem)s") % {"problem": problem.text})


def _change(problem: Problem, held: Acknowledgment | None) -> None:
    def change(state: IncidentState) -> tuple[IncidentState, list[incidents.Incident]]:
        return incidents.acknowledge(state, problem, held), []

    change_state(change, conf.settings().dashboard.using)


def _back(request: PageRequest) -> str:
    return request.links.page("overview") or request.links.reverse("incident")


#: The views of the verbs.
VIEWS = ((ACKNOWLEDGE, acknowledge), (WITHDRAW, withdraw))
