"""The views of changes of pools: other threads, coroutines and queues, and the reset of such changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.protocol import Flow, run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients, responses, verbs
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation, Ticket
from django_redis_components.dashboard.workers import worker_selection
from django_redis_components.dashboard.workers.pool_form import PoolForm
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.pool import POOL_VALUES
from django_redis_components.taskqueue.shards import Shard, home
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.pools import ALL_HOSTS, forget_kept, keep_pool, list_kept
from django_redis_components.taskqueue.store.workers import POOL, RESET, change_pool, reset_pool

#: The verbs; both need the same permission.
VERBS: dict[str, Verb] = {
    POOL: Verb(POOL, "change_worker_pool", MODELS["worker"]),
    RESET: Verb(RESET, "change_worker_pool", MODELS["worker"]),
}


@dataclasses.dataclass(frozen=True, slots=True)
class PoolRequest:
    """A request of an operator, and the workers that it concerns.

    Attributes:
        able: the live workers that can change their pools.
    """

    page: PageRequest
    ticket: Ticket
    targets: list[str]
    workers: list[WorkerInfo]
    able: list[WorkerInfo]
    is_all: bool

    @classmethod
    def read(cls, page: PageRequest, verb: Verb) -> PoolRequest:
        """Read the workers.

        Raises:
            InvalidParameter: the ids are not accepted.
        """
        ticket = verbs.ticket_of(page.http, verb)
        targets = ticket.selection.get("ids") or worker_selection.ids_of(page)
        worker_selection.check_ids(targets)
        workers = run(_client(), worker_selection.find_all(targets))
        able = [worker for worker in workers if worker.is_alive and worker.command_line]
        is_all = bool(ticket.selection.get("all", page.form.get("all") == "1"))
        return cls(page, ticket, targets, workers, able, is_all)

    def scopes(self) -> list[tuple[str, str]]:
        """Return the hosts and command lines for which a change is kept."""
        hosts = [(ALL_HOSTS if self.is_all else worker.host, worker.command_line) for worker in self.able]
        return list(dict.fromkeys(hosts))

    def able_targets(self) -> list[str]:
        """Return the targets with processes that can change their pools."""
        known = {name for worker in self.able for name in (worker.id, worker.supervisor)}
        return [target for target in self.targets if target in known]

    def ticket_with(self, verb: Verb, **selection: Any) -> dict[str, str]:
        """Return the hidden field with a new ticket."""
        chosen = {"ids": self.targets, "op": new_op(), "all": self.is_all, **selection}
        return {"ticket": verbs.sign(self.page.http, verb, chosen)}

    def facts(self) -> list[tuple[str, str]]:
        """Return labels and values about the workers."""
        labels = {"threads": _("Threads"), "coroutines": _("Coroutines"), "queues": _("Queues, in order")}
        found = {name: sorted({worker.pool.value(name) for worker in self.able}) for name in labels}
        shown = [(label, " · ".join(found[name])) for name, label in labels.items()] if self.able else []
        return [fact for fact in worker_selection.facts_of(self.able) if fact[0] != _("Queues")] + shown

    def why_impossible(self) -> str:
        """Return why there is nothing to confirm, or ""."""
        impossible = worker_selection.why_impossible(self.workers)
        if not impossible and not self.able:
            return _("This worker’s release cannot change its pool. Restart it with the new code.")
        return impossible

    def execute(self, verb: Verb, action: str, run_change: Callable[[], ChangeOutcome]) -> HttpResponse:
        """Make the confirmed change."""
        noun = "worker" if len(self.targets) == 1 else "workers"
        action = f"{action} of {noun} {', '.join(map(repr, self.targets))}"
        back = self.page.links.here
        return verbs.execute(self.page, Change(verb, ", ".join(self.targets), action, run_change, back))


def respond(page: PageRequest, verb: Verb, view: Callable[[PoolRequest], HttpResponse]) -> HttpResponse:
    """Respond with the view for the workers of a request. The caller has checked the permission."""
    try:
        request = PoolRequest.read(page, verb)
    except InvalidParameter as exc:
        return responses.bad_request(page, exc)
    return view(request)


def change(request: PoolRequest) -> HttpResponse:
    """Ask for the new values (GET), or send them (POST)."""
    page, verb = request.page, VERBS[POOL]
    selection, problem = request.ticket.selection, request.ticket.problem
    if request.ticket.is_confirmed and selection["pools"] != _pools(request.able):
        problem = _("The pool has changed since you opened this page. Nothing was sent. Check it again.")
    form = PoolForm(page.http.POST if selection else None, shown=selection.get("shown", _shown(request.able)))
    if request.ticket.is_confirmed and not problem and request.able and form.is_valid():
        values, keep = form.change(), form.cleaned_data["keep"]
        what = ", ".join(f"{name} {value}" for name, value in values.items())
        run_change = partial(_change, request, values, request.scopes() if keep else [])
        return request.execute(verb, f"Set {what}{', kept,' if keep else ''}", run_change)
    confirmation = Confirmation(
        title=_("Change the pool of %(name)s") % {"name": worker_selection.names_of(request.targets, request.workers)},
        button=_("Change pool"),
        back=page.links.here,
        facts=request.facts(),
        checks=_checks(request),
        fields=request.ticket_with(verb, pools=_pools(request.able), shown=_shown(request.able)),
        form=form,
        impossible=request.why_impossible(),
        is_danger=False,
    )
    return verbs.confirm(page, confirmation, problem or form.problem)


def reset(request: PoolRequest) -> HttpResponse:
    """Ask for confirmation of a reset (GET), or make it (POST)."""
    page, verb = request.page, VERBS[RESET]
    if request.ticket.is_confirmed and request.able:
        return request.execute(verb, "Reset the pool", partial(_reset, request))
    confirmation = Confirmation(
        title=_("Reset the pool of %(name)s") % {"name": worker_selection.names_of(request.targets, request.workers)},
        button=_("Reset pool"),
        back=page.links.here,
        facts=request.facts(),
        checks=[
            Check(_("The threads, coroutines and queues are again those of the command line. Running tasks continue.")),
            Check(_("What is kept for the host and the command line ends.")),
        ],
        fields=request.ticket_with(verb),
        impossible=request.why_impossible(),
        is_danger=False,
    )
    return verbs.confirm(page, confirmation, request.ticket.problem)


def _client() -> SyncClient:
    return clients.client(conf.settings().dashboard.using)


def _home() -> Shard:
    return home(conf.settings().dashboard.using)


def _pools(workers: Sequence[WorkerInfo]) -> list[list[str]]:
    """Return the pools of the workers, each once."""
    return [list(pool) for pool in sorted({tuple(map(worker.pool.value, POOL_VALUES)) for worker in workers})]


def _shown(workers: Sequence[WorkerInfo]) -> dict[str, str]:
    """Return the values that all the workers share, by name."""
    values = {name: {worker.pool.value(name) for worker in workers} for name in POOL_VALUES}
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def _change(request: PoolRequest, values: Mapping[str, str], kept_for: Sequence[tuple[str, str]]) -> ChangeOutcome:
    author = request.page.author
    if kept_for and not run(_client(), keep_pool(_home(), kept_for, values, author)):
        message = _("Too many changed pools are kept. Nothing was sent. Reset some of them.")
        return ChangeOutcome("refused, too many changes are kept", message, is_done=False)

    def flow(target: str, op: str) -> Flow[None]:
        send = partial(change_pool, target=target, change=values, author=author, op=op, keep=bool(kept_for))
        return worker_selection.to_any_shard(send)

    return _send(request, flow)


def _reset(request: PoolRequest) -> ChangeOutcome:
    scopes = request.scopes()
    kept = [each for each in run(_client(), list_kept(_home())) if (each.host, each.command_line) in scopes]
    run(_client(), forget_kept(_home(), kept))
    author = request.page.author
    return _send(
        request,
        lambda target, op: worker_selection.to_any_shard(partial(reset_pool, target=target, author=author, op=op)),
    )


def _send(request: PoolRequest, flow: Callable[[str, str], Flow[None]]) -> ChangeOutcome:
    """Send a command to all targets, each in a separate round trip."""
    refused, targets, op = [], request.able_targets(), request.ticket.selection["op"]
    for index, target in enumerate(targets):
        try:  # a repetition of the same operation would not be sent
            run(_client(), flow(target, f"{op}-{index}"))
        except WorkerDoesNotExist as exc:
            refused.append(str(exc))
    if not refused:
        text = _("Sent. The worker's row shows when it has executed the command.")
        return ChangeOutcome(f"sent, operation {op}", text)
    numbers = {"sent": number(len(targets) - len(refused)), "count": number(len(targets))}
    message = _("Sent to %(sent)s of %(count)s workers. The others have exited or are lost.") % numbers
    return ChangeOutcome(f"sent, operation {op}; refused, {' '.join(refused)}", message, is_done=False)


def _checks(request: PoolRequest) -> list[Check]:
    old = sum(worker.is_alive for worker in request.workers) - len(request.able)
    left_out = ngettext(
        "%(count)s process is left out: its release cannot change the pool.",
        "%(count)s processes are left out: their release cannot change the pool.",
        old,
    )
    checks = [
        Check(_("Running tasks continue. Threads beyond the new number end after their task.")),
        Check(_("It lasts until a restart. If kept, later processes of this host and command line take it.")),
        Check(_("Each thread may open its own connections to the database."), "caution"),
    ]
    return [*checks, *([Check(left_out % {"count": number(old)}, "caution")] if old > 0 else [])]


#: The view of each verb.
VIEWS = tuple(
    (VERBS[name], partial(respond, verb=VERBS[name], view=view)) for name, view in ((POOL, change), (RESET, reset))
)
