"""The links of a problem: pages that show its cause, and changes that remedy it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext

from django_redis_components.dashboard.links import Links
from django_redis_components.dashboard.problems.problem import Problem

#: The page that shows more of a problem: its link's label and its slug, by code.
_PAGES = {
    "schedule_late": (gettext_lazy("Show schedules"), "schedule"),
    "lock_waiters": (gettext_lazy("Show locks"), "lock"),
    "limit_denies": (gettext_lazy("Show limits"), "ratelimit"),
    "chat_flood": (gettext_lazy("Show chats"), "messaging"),
    "mailbox_full": (gettext_lazy("Show mailboxes"), "messaging"),
    "memory": (gettext_lazy("Show memory"), "memory"),
    "memory_growth": (gettext_lazy("Show memory"), "memory"),
    "files_behind": (gettext_lazy("Show channels"), "files"),
    "searches_empty": (gettext_lazy("Show indexes"), "indexes"),
    **dict.fromkeys(
        ("worker_lost", "worker_silent", "threads_lost", "no_worker", "leases_lost", "poller_missing"),
        (gettext_lazy("Show workers"), "worker"),
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Remedy:
    """A link. `is_change` is true if the page that it opens asks for confirmation of a change."""

    label: str
    url: str
    is_change: bool = False


def remedies_of(problem: Problem, links: Links) -> list[Remedy]:
    """Return the links of a problem that the user may open, changes last."""
    return [remedy for remedy in (*_pages(problem, links), *_changes(problem, links)) if remedy.url]


def _pages(problem: Problem, links: Links) -> Iterator[Remedy]:
    if problem.code in ("failures", "retry_storm") and links.page("failure"):
        url = links.reverse("failure", queue=problem.queue, group=problem.fingerprint)
        yield Remedy(_("Show failures"), url)
    elif problem.queue:
        yield Remedy(_("Show queue"), links.queue(problem.queue, state=problem.state))
    if slug := _PAGES.get(problem.code):
        label, page = slug
        yield Remedy(str(label), links.page(page))
    if problem.code == "hung":
        yield Remedy(_("Show task"), links.task(problem.subject))


def _changes(problem: Problem, links: Links) -> Iterator[Remedy]:
    if problem.code == "failures" and problem.fingerprint and links.page("failure"):
        url = links.verb("retry_error", "failure", group=problem.fingerprint, queue=problem.queue)
        yield Remedy(_("Retry…"), url, is_change=True)
    elif problem.code == "failures" and problem.queue:
        yield Remedy(_("Retry all…"), links.queue(problem.queue, "retry", state="failed", all="1"), is_change=True)
    elif problem.code in ("retry_storm", "growing", "late") and problem.queue:
        yield Remedy(pgettext("queue", "Pause…"), links.queue(problem.queue, "pause"), is_change=True)
    elif problem.code == "paused" and problem.queue:
        yield Remedy(pgettext("queue", "Resume…"), links.queue(problem.queue, "resume"), is_change=True)
