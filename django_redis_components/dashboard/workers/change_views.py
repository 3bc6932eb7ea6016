"""The views of commands to workers: quiet, resume, restart and stop, each with its confirmation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

from django.http import HttpResponse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext
from redis.exceptions import RedisError

from django_redis_components.core.client import connections
from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import run
from django_redis_components.core.settings import conf
from django_redis_components.dashboard import clients, formats, outages, responses, verbs
from django_redis_components.dashboard.elements import TaskLine
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.models import MODELS
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.parameters import InvalidParameter
from django_redis_components.dashboard.verb import Verb
from django_redis_components.dashboard.verbs import Change, ChangeOutcome, Check, Confirmation
from django_redis_components.dashboard.workers import pool_views, worker_selection
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.stats.worker_reports import WorkerInfo
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.workers import command_worker

#: The verb of each command.
VERBS: dict[str, Verb] = {
    "quiet": Verb("quiet", "quiet_worker", MODELS["worker"]),
    "resume": Verb("resume", "quiet_worker", MODELS["worker"]),
    "restart": Verb("restart", "restart_worker", MODELS["worker"]),
    "stop": Verb("stop", "stop_worker", MODELS["worker"]),
}
#: Running tasks that a confirmation shows.
SAMPLE = 10


def change(request: PageRequest, command: str) -> HttpResponse:
    """Ask for confirmation of a command (GET), or send it (POST). The caller has checked the permission."""
    verb, back = VERBS[command], request.links.here
    ticket = verbs.ticket_of(request.http, verb)
    targets = ticket.selection.get("ids") or worker_selection.ids_of(request)
    try:
        worker_selection.check_ids(targets)
    except InvalidParameter as exc:
        return responses.bad_request(request, exc)
    if ticket.is_confirmed:
        noun = "worker" if len(targets) == 1 else "workers"
        action = f"{command.capitalize()} {noun} {', '.join(map(repr, targets))}"
        execute = partial(_send, targets, command, request.author, ticket.selection["op"])
        return verbs.execute(request, Change(verb, ", ".join(targets), action, execute, back))
    try:
        workers = run(clients.client(conf.settings().dashboard.using), worker_selection.find_all(targets))
    except (RedisError, RedisComponentsError) as exc:
        outage = outages.outage_of(exc, str(connections.endpoint(conf.settings().dashboard.using)))
        return responses.outage_response(request, outage)
    fields = {"ticket": verbs.sign(request.http, verb, {"ids": targets, "op": new_op()})}
    confirmation = _confirmation(request, targets, command, workers, fields, back)
    quiet = request.links.verb("quiet")
    if command in ("restart", "stop") and quiet:
        url = f"{quiet}?{urlencode([('id', target) for target in targets])}"
        confirmation = dataclasses.replace(confirmation, gentler=[(pgettext("worker", "Quiet…"), url)])
    return verbs.confirm(request, confirmation, ticket.problem)


def _send(targets: Sequence[str], command: str, author: str, op: str) -> ChangeOutcome:
    """Send a command to all targets, each in a separate round trip."""
    client, refused = clients.client(conf.settings().dashboard.using), []
    for index, target in enumerate(targets):
        try:  # a repetition of the same operation would not be sent
            send = partial(command_worker, target=target, verb=command, author=author, op=f"{op}-{index}")
            run(client, worker_selection.to_any_shard(send))
        except WorkerDoesNotExist as exc:
            refused.append(str(exc))
    if len(refused) == len(targets):
        message = _("Nothing was sent: the worker has exited or is lost, or does not execute its commands.")
        return ChangeOutcome(f"refused, {' '.join(refused)}", message, is_done=False)
    if refused:
        numbers = {"sent": number(len(targets) - len(refused)), "count": number(len(targets))}
        message = _("Sent to %(sent)s of %(count)s supervisors. The others have exited or are lost.") % numbers
        return ChangeOutcome(f"sent, operation {op}; refused, {' '.join(refused)}", message, is_done=False)
    return ChangeOutcome(f"sent, operation {op}", _("Sent. The worker's row shows when it has executed the command."))


def _confirmation(
    request: PageRequest,
    targets: Sequence[str],
    command: str,
    workers: list[WorkerInfo],
    fields: dict[str, str],
    back: str,
) -> Confirmation:
    name = {"name": worker_selection.names_of(targets, workers)}
    titles = {
        "quiet": _("Quiet %(name)s"),
        "resume": _("Resume %(name)s"),
        "restart": _("Restart %(name)s"),
        "stop": _("Stop %(name)s"),
    }
    buttons = {
        "quiet": _("Quiet"),
        "resume": _("Resume"),
        "restart": _("Restart"),
        "stop": _("Stop"),
    }
    running = [run for worker in workers for run in worker.runs]
    url_of = request.links.task
    sample = [TaskLine(run.id, run.name, url_of(run.id), "", formats.duration(run.elapsed)) for run in running]
    busy = sum(worker.busy for worker in workers)
    sample_note = _("%(count)s of %(total)s") % {"count": number(min(SAMPLE, len(sample))), "total": number(busy)}
    return Confirmation(
        title=titles[command] % name,
        button=buttons[command],
        back=back,
        facts=worker_selection.facts_of(workers),
        checks=_checks(command, workers, is_supervisor=workers[0].supervisor in targets) if workers else [],
        sample=sample[:SAMPLE],
        sample_note=sample_note,
        fields=fields,
        impossible=worker_selection.why_impossible(workers),
        is_danger=command == "stop",
    )


def _checks(command: str, workers: list[WorkerInfo], *, is_supervisor: bool) -> list[Check]:
    grace = {"seconds": formats.age(conf.settings().taskqueue.grace_s)}
    running = sum(worker.busy for worker in workers)
    tasks = ngettext("%(count)s task is running.", "%(count)s tasks are running.", running) % {"count": number(running)}
    if command == "quiet":
        return [
            Check(_("It fetches nothing more. Running tasks finish; prefetched ones return to their queues.")),
            Check(_("“Resume” ends it at any time.")),
        ]
    if command == "resume":
        return [Check(_("New processes take the place of the quiet ones, and fetch at once."))]
    if command == "restart":
        return [
            Check(_("Each process exits when its running tasks have finished. A new one takes its place at once.")),
            Check(_("New code is not loaded: the new processes have the code of their supervisor."), "caution"),
            Check(_("Until the old processes have exited, up to twice as many exist, with their memory."), "caution"),
        ]
    stays = _("“runworker” exits. It runs again if a service manager, such as systemd, restarts it.")
    process = _("No other process takes its place. With the last process “runworker” exits.")
    return [
        Check(tasks),
        Check(_("Running tasks have %(seconds)s to finish. Then they return to their queues.") % grace),
        Check(stays if is_supervisor else process, "caution"),
    ]


#: The view of each verb.
VIEWS = (*((verb, partial(change, command=command)) for command, verb in VERBS.items()), *pool_views.VIEWS)
