"""Why a task does not run, as sentences in the active language: for the page and for `manage.py redis tasks show`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.dashboard import formats
from django_redis_components.dashboard.elements import pause_note
from django_redis_components.dashboard.formats import number
from django_redis_components.taskqueue import registry
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.stats.explain import Explanation, OtherTask, Reason, limit_key, moment, number_of

#: Sentence for a reason.
_Sentence = Callable[[Explanation, Reason], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a run, and whether it is met."""

    text: str
    is_met: bool


def answer(task: Explanation) -> str:
    """Return in one sentence why a task does not run, or what it does."""
    if reasons := task.reasons:
        return _("Not running: %(reason)s") % {"reason": reason_text(task, reasons[0])}
    return _running(task) if task.state == "running" else _finished(task)


def reason_text(task: Explanation, reason: Reason) -> str:
    """Return the sentence for a reason."""
    return _SENTENCES[reason.code](task, reason)


def conditions(task: Explanation) -> list[Condition]:
    """Return every condition that was checked for a pending task: unmet ones first."""
    reasons = task.reasons
    if not reasons or reasons[0].code in ("deleted", "expired"):
        return []
    codes = {reason.code for reason in reasons}
    unmet = [Condition(reason_text(task, reason), is_met=reason.code == "next") for reason in reasons]
    return [*unmet, *(Condition(text, is_met=True) for text in _met(task, codes))]


def has_expired_lease(task: Explanation) -> bool:
    """Return whether the lease of a running task has expired: its worker is lost, or cannot reach Redis."""
    lease_ends = moment(task.fact("score_ms"))
    return task.state == "running" and (lease_ends is None or lease_ends <= task.at)


def tasks_text(tasks: tuple[OtherTask, ...], count: int) -> str:
    """Return the first tasks by name and id, and how many others there are."""
    names = [f"{task.name} {task.id}".strip() for task in tasks]
    if count > len(names):
        names.append(_("%(count)s more") % {"count": number(count - len(names))})
    return ", ".join(names)


def _running(task: Explanation) -> str:
    worker = task.text(Field.lease).partition("/")[0]
    leased = moment(number_of(task.text(Field.leased_at_us)) // 1_000)
    facts = {"worker": worker, "age": formats.age((task.at - (leased or task.at)).total_seconds())}
    if has_expired_lease(task):
        return _("The lease of its worker %(worker)s has ended. The poller requeues the task.") % facts
    if task.text(Field.cancel_request):
        return _("Running on %(worker)s for %(age)s. It was asked to stop.") % facts
    return _("Running on %(worker)s for %(age)s.") % facts


def _finished(task: Explanation) -> str:
    texts = {
        "successful": _("Succeeded at %(time)s."),
        "failed": _("Failed at %(time)s."),
        "cancelled": _("Cancelled at %(time)s."),
        "expired": _("Expired at %(time)s, before it started."),
    }
    finished = moment(number_of(task.text(Field.finished_at_us)) // 1_000)
    return texts.get(task.state, task.state) % {"time": _time(finished, task.at)}


def _deleted(task: Explanation, reason: Reason) -> str:
    if task.place == "purged":
        return _("it was purged. It can be restored for 24 hours from the page of its queue.")
    return _("it was deleted. It can be restored for 24 hours from the page of its queue.")


def _expired(task: Explanation, reason: Reason) -> str:
    return _("it expired at %(time)s, before it started.") % {"time": _time(reason.at, task.at)}


def _waiting(task: Explanation, reason: Reason) -> str:
    facts = {"count": number(reason.count), "tasks": tasks_text(reason.tasks, reason.count)}
    return (
        ngettext(
            "it waits for %(count)s task of its flow: %(tasks)s.",
            "it waits for %(count)s tasks of its flow: %(tasks)s.",
            reason.count,
        )
        % facts
    )


def _on_error(task: Explanation, reason: Reason) -> str:
    return _("it runs only if another task of its flow fails.")


def _on_complete(task: Explanation, reason: Reason) -> str:
    return _("it runs when all other tasks of its flow have finished.")


def _on_success(task: Explanation, reason: Reason) -> str:
    return _("it runs when all other tasks of its flow have succeeded.")


def _unregistered(task: Explanation, reason: Reason) -> str:
    if task.record.is_sealed and registry.find(reason.name) is not None:
        return _("the worker that fetched it could not open its sealed arguments, or had not registered its name.")
    return _("no worker of its queue has registered the name %(name)s.") % {"name": reason.name}


def _due(task: Explanation, reason: Reason) -> str:
    return _("it is due at %(time)s, in %(age)s.") % _until(task, reason)


def _retry(task: Explanation, reason: Reason) -> str:
    text = ngettext(
        "its retry after %(count)s error is due at %(time)s, in %(age)s.",
        "its retry after %(count)s errors is due at %(time)s, in %(age)s.",
        reason.count,
    )
    return text % {**_until(task, reason), "count": number(reason.count)}


def _rate(task: Explanation, reason: Reason) -> str:
    if not reason.count:
        text = _("the rate limit %(name)s lets it start at %(time)s, in %(age)s.")
        return text % {**_until(task, reason), "name": reason.name}
    text = ngettext(
        "the rate limit %(name)s lets %(count)s other task start first.",
        "the rate limit %(name)s lets %(count)s other tasks start first.",
        reason.count,
    )
    return text % {"name": reason.name, "count": number(reason.count)}


def _paused(task: Explanation, reason: Reason) -> str:
    note = pause_note(task.pause, task.at) if task.pause else ""
    return _("the queue %(queue)s is paused. %(note)s") % {"queue": task.queue, "note": note}


def _no_worker(task: Explanation, reason: Reason) -> str:
    return _("no live worker serves the queue %(queue)s.") % {"queue": reason.name}


def _quiet(task: Explanation, reason: Reason) -> str:
    text = ngettext(
        "the %(count)s worker of the queue %(queue)s is quiet: it fetches no more tasks.",
        "all %(count)s workers of the queue %(queue)s are quiet: they fetch no more tasks.",
        reason.count,
    )
    return text % {"count": number(reason.count), "queue": reason.name}


def _concurrency(task: Explanation, reason: Reason) -> str:
    held = task.fact("holders")
    facts = {
        "name": reason.name,
        "held": number(held),
        "limit": number(task.fact("max_running")),
        "tasks": tasks_text(reason.tasks, held),
    }
    text = _("the concurrency limit %(name)s is full, %(held)s of %(limit)s: held by %(tasks)s.") % facts
    if not reason.count:
        return text
    ahead = ngettext("%(count)s task waits before it.", "%(count)s tasks wait before it.", reason.count)
    return f"{text} {ahead % {'count': number(reason.count)}}"


def _group_paused(task: Explanation, reason: Reason) -> str:
    return _("its group %(name)s is paused.") % {"name": reason.name}


def _batch(task: Explanation, reason: Reason) -> str:
    return _("it waits for further calls of its batch, until %(time)s at the latest, in %(age)s.") % _until(
        task, reason
    )


def _turn(task: Explanation, reason: Reason) -> str:
    text = _("it waits for the turn of its group %(name)s.") % {"name": reason.name}
    if not reason.count:
        return text
    ahead = ngettext(
        "%(count)s task of the group is served first.", "%(count)s tasks of the group are served first.", reason.count
    )
    return f"{text} {ahead % {'count': number(reason.count)}}"


def _behind(task: Explanation, reason: Reason) -> str:
    count = number(reason.count) if reason.is_exact else f"≈ {number(reason.count)}"
    if not task.higher:
        text = ngettext("%(count)s task is served first.", "%(count)s tasks are served first.", reason.count)
        return text % {"count": count}
    text = ngettext(
        "%(count)s task is served first, %(higher)s of higher priority.",
        "%(count)s tasks are served first, %(higher)s of them of higher priority.",
        reason.count,
    )
    return text % {"count": count, "higher": number(task.higher)}


def _busy(task: Explanation, reason: Reason) -> str:
    text = ngettext(
        "it is the next task; the %(count)s thread of the queue’s workers is busy.",
        "it is the next task; all %(count)s threads of the queue’s workers are busy.",
        reason.count,
    )
    return text % {"count": number(reason.count)}


def _busy_coroutines(task: Explanation, reason: Reason) -> str:
    text = ngettext(
        "it is the next task; the %(count)s coroutine that the queue’s workers may run at once runs.",
        "it is the next task; all %(count)s coroutines that the queue’s workers may run at once run.",
        reason.count,
    )
    return text % {"count": number(reason.count)}


def _next(task: Explanation, reason: Reason) -> str:
    if task.pause or not any(worker.state == "working" for worker in task.live_workers):
        return _("it is the next task of its queue.")
    return _("it is the next task; a worker fetches it now.")


def _unknown(task: Explanation, reason: Reason) -> str:
    return _("it is in no list of its queue. Another client may have changed the data.")


_SENTENCES: dict[str, _Sentence] = {
    "deleted": _deleted,
    "expired": _expired,
    "waiting": _waiting,
    "on_error": _on_error,
    "on_complete": _on_complete,
    "on_success": _on_success,
    "unregistered": _unregistered,
    "due": _due,
    "retry": _retry,
    "rate": _rate,
    "paused": _paused,
    "no_worker": _no_worker,
    "quiet": _quiet,
    "concurrency": _concurrency,
    "group_paused": _group_paused,
    "batch": _batch,
    "turn": _turn,
    "behind": _behind,
    "busy": _busy,
    "busy_coroutines": _busy_coroutines,
    "next": _next,
    "unknown": _unknown,
}


def _met(task: Explanation, codes: set[str]) -> list[str]:
    """Return the conditions that are met."""
    conditions = []
    if "paused" not in codes:
        conditions.append(_("The queue %(queue)s is active.") % {"queue": task.queue})
    live = task.live_workers
    if not codes & {"no_worker", "quiet", "busy"}:
        threads = sum(worker.threads for worker in live)
        text = ngettext(
            "Workers of the queue: %(workers)s, %(busy)s of %(threads)s thread busy.",
            "Workers of the queue: %(workers)s, %(busy)s of %(threads)s threads busy.",
            threads,
        )
        busy = number(sum(worker.busy_threads for worker in live))
        conditions.append(text % {"workers": number(len(live)), "busy": busy, "threads": number(threads)})
    if "unregistered" not in codes and registry.find(task.record.name) is not None:
        conditions.append(_("The name of the task is registered in this process."))
    key = limit_key(task, Field.concurrency)
    if key and "concurrency" not in codes and task.fact("holders") < task.fact("max_running"):
        facts = {"name": key, "held": number(task.fact("holders")), "limit": number(task.fact("max_running"))}
        conditions.append(_("Concurrency limit %(name)s: %(held)s of %(limit)s held.") % facts)
    if task.fact("flow_tasks") and not codes & {"waiting", "on_error", "on_complete", "on_success"}:
        conditions.append(_("It waits for no other task of its flow."))
    return conditions


def _until(task: Explanation, reason: Reason) -> dict[str, str]:
    left_s = (reason.at - task.at).total_seconds() if reason.at else 0.0
    return {"time": _time(reason.at, task.at), "age": formats.age(left_s)}


def _time(at: datetime | None, now: datetime) -> str:
    try:
        return formats.timestamp(at, now).text if at else "?"
    except OverflowError:  # the year 9999 has no local time east of Greenwich
        return at.isoformat(" ", "seconds") if at else "?"
