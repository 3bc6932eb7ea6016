"""The links of a problem: pages that show its cause, and changes that remedy it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from django_redis_components.dashboard.overview.problem import Problem


@dataclasses.dataclass(frozen=True, slots=True)
class Remedy:
    """A link. `is_change` is true if the page that it opens asks for confirmation of a change."""

    label: str
    url: str
    is_change: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class RemedyUrls:
    """The URLs that the user may open; "" for one that they may not.

    Attributes:
        failures, workers, schedules, analytics: of these pages.
        retry_error: of the confirmation that retries the tasks of an error.
        queue: the URL of a queue's page ("change") or of a verb, by verb and name.
    """

    failures: str = ""
    workers: str = ""
    schedules: str = ""
    analytics: str = ""
    retry_error: str = ""
    queue: Callable[[str, str], str] = lambda _verb, _queue: ""


def remedies_of(problem: Problem, urls: RemedyUrls) -> list[Remedy]:
    """Return the links of a problem that the user may open, changes last."""
    return [remedy for remedy in (*_pages(problem, urls), *_changes(problem, urls)) if remedy.url]


def _pages(problem: Problem, urls: RemedyUrls) -> Iterator[Remedy]:
    if problem.code in ("failures", "retry_storm") and urls.failures:
        query = {"queue": problem.queue} | ({"group": problem.fingerprint} if problem.fingerprint else {})
        yield Remedy(_("Show failures"), f"{urls.failures}?{urlencode(query)}")
    elif problem.queue:
        url = urls.queue("change", problem.queue)
        yield Remedy(_("Show queue"), f"{url}?state={problem.state}" if url and problem.state else url)
    if problem.code in ("worker_lost", "worker_silent", "threads_lost", "no_worker", "leases_lost", "poller_missing"):
        yield Remedy(_("Show workers"), urls.workers)
    if problem.code == "schedule_late":
        yield Remedy(_("Show schedules"), urls.schedules)


def _changes(problem: Problem, urls: RemedyUrls) -> Iterator[Remedy]:
    if problem.code == "failures" and problem.fingerprint and urls.retry_error:
        query = urlencode({"group": problem.fingerprint, "queue": problem.queue})
        yield Remedy(_("Retry…"), f"{urls.retry_error}?{query}", is_change=True)
    elif problem.code in ("retry_storm", "growing", "late") and problem.queue:
        yield Remedy(pgettext("queue", "Pause…"), urls.queue("pause", problem.queue), is_change=True)
    elif problem.code == "paused" and problem.queue:
        yield Remedy(pgettext("queue", "Resume…"), urls.queue("resume", problem.queue), is_change=True)
