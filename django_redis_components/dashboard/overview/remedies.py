"""The links of a problem: pages that show its cause, and changes that remedy it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.dashboard.elements import anchor_of
from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.problem import REST, Problem
from django_redis_components.dashboard.problems.traffic import error_text, named_errors
from django_redis_components.dashboard.problems.watched import locks
from django_redis_components.dashboard.workers.page import PAGE_SIZE
from django_redis_components.taskqueue import ErrorGroup

#: The page that shows more of a problem: its link's label and its slug, by code.
_PAGES = {
    "schedule_late": (gettext_lazy("Show schedules"), "schedule"),
    "lock_waiters": (gettext_lazy("Show locks"), "lock"),
    "limit_denies": (gettext_lazy("Show limits"), "ratelimit"),
    "chat_flood": (gettext_lazy("Show chats"), "messaging"),
    "mailbox_full": (gettext_lazy("Show mailboxes"), "messaging"),
    "notifications_failing": (gettext_lazy("Show notifications"), "incident"),
    "memory": (gettext_lazy("Show memory"), "memory"),
    "memory_growth": (gettext_lazy("Show memory"), "memory"),
    "files_behind": (gettext_lazy("Show channels"), "files"),
    "searches_empty": (gettext_lazy("Show indexes"), "indexes"),
    **dict.fromkeys(
        (
            "worker_lost",
            "worker_silent",
            "threads_lost",
            "no_worker",
            "leases_lost",
            "poller_missing",
            "poller_failing",
        ),
        (gettext_lazy("Show workers"), "worker"),
    ),
}
#: The panel of the page that shows a problem, by code.
_PANELS = {
    "chat_flood": "panel-chats",
    "mailbox_full": "panel-mailboxes",
    "notifications_failing": "channels",
}
#: What the ids of the rows of a page begin with, by the code of problems whose subject has a row.
_ROWS = {
    "schedule_late": "schedule",
    **dict.fromkeys(("worker_lost", "worker_silent", "threads_lost"), "worker"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Remedy:
    """A link. `is_change` is true if the page that it opens asks for confirmation of a change."""

    label: str
    url: str
    is_change: bool = False


def remedies_of(problem: Problem, facts: ProblemFacts, links: Links) -> list[Remedy]:
    """Return the links of a problem that the user may open, changes last."""
    return [remedy for remedy in (*_pages(problem, facts, links), *_changes(problem, facts, links)) if remedy.url]


def causes_of(problem: Problem, facts: ProblemFacts) -> list[ErrorGroup]:
    """Return the errors that the problem of a failing queue names, the one with most failures first."""
    if problem.code != "failures" or facts.queues is None:
        return []
    return named_errors(facts.queues.main_errors.get(problem.queue, []))


def retries_of(problem: Problem, errors: Sequence[ErrorGroup], links: Links) -> list[Remedy]:
    """Return the retry of each error that a problem names, if it names several."""
    if problem.fingerprint or not links.page("failure"):
        return []
    urls = [links.verb("retry_error", "failure", group=each.fingerprint, queue=problem.queue) for each in errors]
    return [Remedy(error_text(each), url) for each, url in zip(errors, urls, strict=True) if url]


def _pages(problem: Problem, facts: ProblemFacts, links: Links) -> Iterator[Remedy]:
    if problem.code in ("failures", "retry_storm") and links.page("failure"):
        url = links.reverse("failure", queue=problem.queue, group=problem.fingerprint)
        yield Remedy(_("Show failures"), url)
    elif problem.queue:
        yield Remedy(_("Show queue"), links.queue(problem.queue, state=problem.state))
    if known := _PAGES.get(problem.code):
        label, slug = known
        if url := links.page(slug):
            query = _query(problem, facts)
            query.pop("token", None)
            yield Remedy(str(label), links.reverse(slug, **query) + _anchor(problem))
    if problem.code == "hung" and problem.subject != REST:
        yield Remedy(_("Show task"), links.task(problem.subject))


def _changes(problem: Problem, facts: ProblemFacts, links: Links) -> Iterator[Remedy]:
    query = _query(problem, facts)
    if problem.code == "failures" and problem.fingerprint and links.page("failure"):
        url = links.verb("retry_error", "failure", group=problem.fingerprint, queue=problem.queue)
        yield Remedy(_("Retry…"), url, is_change=True)
    elif problem.code == "failures" and problem.queue:
        yield Remedy(_("Retry all…"), links.queue(problem.queue, "retry", state="failed", all="1"), is_change=True)
    elif problem.code in ("retry_storm", "growing", "late") and problem.queue:
        yield Remedy(pgettext("queue", "Pause…"), links.queue(problem.queue, "pause"), is_change=True)
    elif problem.code == "paused" and problem.queue:
        yield Remedy(pgettext("queue", "Resume…"), links.queue(problem.queue, "resume"), is_change=True)
    elif problem.code == "hung" and problem.subject != REST:
        yield Remedy(_("Show the stack"), links.task(problem.subject, "stack"), is_change=True)
        yield Remedy(pgettext("a task", "Cancel…"), links.task(problem.subject, "cancel"), is_change=True)
    elif problem.code == "lock_waiters" and query:
        yield Remedy(_("Release…"), links.verb("release", "lock", **query), is_change=True)
    elif problem.code == "limit_denies" and query.get("key"):
        yield Remedy(_("Block…"), links.verb("block", "ratelimit", **query), is_change=True)


def _query(problem: Problem, facts: ProblemFacts) -> dict[str, str]:
    """Return the parameters that name a lock with its holder, a limit with a key, or where a worker's page begins.

    They are empty if they are not known.
    """
    if problem.code == "lock_waiters":
        for held in facts.watched.get("locks", {}).get("held", []):
            if locks.subject_of(held) == problem.subject:
                name, kind, group = held["resource"]
                return {"using": facts.using, "kind": kind, "group": group, "name": name, "token": held["token"]}
    if problem.code == "limit_denies":
        for name, _hits, _denied, key, _times, limit_id in facts.watched.get("limits", []):
            if name == problem.subject:
                return {"limit": limit_id, "key": key}
    if _ROWS.get(problem.code) == "worker" and facts.queues and facts.queues.worker_count > PAGE_SIZE:
        return {"after": problem.subject[:-1]}  # sorts before the worker, and after nearly all other ids before it
    return {}


def _anchor(problem: Problem) -> str:
    """Return the fragment of a URL that leads to the row or the panel of a problem on its page."""
    if problem.code in _PANELS:
        return f"#drc-{_PANELS[problem.code]}"
    if problem.code in _ROWS and problem.subject != REST:
        return f"#{anchor_of(_ROWS[problem.code], problem.subject)}"
    return ""
