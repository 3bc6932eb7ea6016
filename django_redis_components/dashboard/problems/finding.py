"""The checks of the package, and what all checks find."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FunctionType, MethodType
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_redis_components.core.arguments import short_repr
from django_redis_components.core.client.endpoint import naming_server
from django_redis_components.core.exception_text import safe_text
from django_redis_components.core.exceptions import ConfigurationError, must_raise
from django_redis_components.core.guarded_logger import guarded_logger
from django_redis_components.core.settings import conf
from django_redis_components.core.text import encodable
from django_redis_components.dashboard.outages import outage_of
from django_redis_components.dashboard.problems import channels, queues, schedules, server, traffic, workers
from django_redis_components.dashboard.problems.facts import ProblemFacts
from django_redis_components.dashboard.problems.of_connections import named, outage_of_connection, there
from django_redis_components.dashboard.problems.problem import REST, Problem
from django_redis_components.dashboard.problems.registry import SITE_CHECKS
from django_redis_components.dashboard.problems.watched import CHECKS as WATCHED
from django_redis_components.dashboard.problems.watched.traffic import with_watched_traffic

logger = guarded_logger("django_redis_components.dashboard")

#: Most problems of one kind that are listed individually.
MAX_OF_A_KIND = 5
#: Most problems that are taken from a check: one of the site may never end.
MAX_OF_A_CHECK = 1_000
#: Severities that a check may return.
SEVERITIES = ("critical", "warning")
#: Most characters of a problem's text and advice, of its names, and of its command, which is left out if it is longer:
#: a part of a command is another command.
MAX_TEXT, MAX_NAME, MAX_COMMAND = 4_000, 500, 50_000

#: Checks of queues and workers, most severe first. Those of the server and of data come before them: what they find may
#: be the cause of the rest.
_OF_QUEUES = (
    traffic.failing_queues,
    queues.queues_without_worker,
    workers.missing_poller,
    traffic.retry_storms,
    traffic.growing_queues,
    queues.late_queues,
    workers.lost_workers,
    workers.lost_threads,
    traffic.lost_leases,
    queues.unregistered_tasks,
    queues.paused_queues,
    queues.truncation,
)


def find_problems(facts: ProblemFacts) -> list[Problem]:
    """Return the problems, critical ones first, those of the server before others, in the active language."""
    facts = with_watched_traffic(facts)
    found = [*_unread_parts(facts), *server.clock_problem(facts.clock_offset_s)]
    if facts.queues is not None:
        found.extend(_found_by(server.server_problems, facts.queues, facts.watched))
    found.extend(_found_in_queues((server.eviction,), facts))
    found.extend(_found_watched(facts, of_server=True))
    if facts.schedules is not None:
        found.extend(_found_by(schedules.overdue_schedules, facts.schedules, facts.using))
    found.extend(_found_in_queues(_OF_QUEUES, facts))
    found.extend(_found_watched(facts, of_server=False))
    found.extend(_found_in_connections(facts))
    found.extend(_found_by(channels.failing_channels, facts))
    for check_of_site in [*SITE_CHECKS]:
        found.extend(_found_by(check_of_site, facts))
    redis_cli = facts.endpoint.redis_cli()
    found = [dataclasses.replace(problem, command=naming_server(problem.command, redis_cli)) for problem in found]
    unique: dict[str, Problem] = {}
    for problem in found:  # of two checks that find the same, the first one
        unique.setdefault(problem.id, problem)
    return sorted(unique.values(), key=lambda problem: problem.severity != "critical")


def _found_in_queues(checks: Iterable[Callable[..., Iterable[Problem]]], facts: ProblemFacts) -> Iterator[Problem]:
    if facts.queues is not None:
        for check in checks:
            yield from _found_by(check, facts.queues)


def _found_watched(facts: ProblemFacts, *, of_server: bool) -> Iterator[Problem]:
    for check in WATCHED:
        if check.name in facts.watched and check.is_of_server is of_server:
            yield from _found_by(check.find, facts.watched[check.name], facts)


def _found_in_connections(facts: ProblemFacts) -> Iterator[Problem]:
    for alias, watched in facts.connections.items():
        if alias not in conf.settings().connections:
            continue  # it was removed from the settings
        try:
            facts_there = there(alias, watched, facts.at)
        except ConfigurationError:
            continue  # the system checks report it
        found = [*_found_by(outage_of_connection, watched, alias, facts.using)]
        for of_server in (True, False):
            found += _found_watched(facts_there, of_server=of_server)
        redis_cli = facts_there.endpoint.redis_cli()
        for problem in found:
            yield named(dataclasses.replace(problem, command=naming_server(problem.command, redis_cli)), alias)


def _found_by(check: Callable[..., Iterable[Problem]], *arguments: object) -> list[Problem]:
    """Return what a check finds, critical problems first. One that raises must not hide the problems of others."""
    kind: Any = check if isinstance(check, FunctionType | MethodType) else type(check)
    try:
        found = [_plain(problem) for problem in islice(check(*arguments) or (), MAX_OF_A_CHECK)]
    except BaseException as exc:
        if must_raise(exc):
            raise
        logger.log_exception(exc, "The check %s failed.", kind.__qualname__)
        text = _("The check %(name)s failed: %(error)s") % {"name": kind.__qualname__, "error": safe_text(exc)}
        return [_plain(Problem("check_failed", text, _("The log has the traceback."), subject=kind.__qualname__))]
    return _truncate(sorted(found, key=lambda problem: problem.severity != "critical"))


def _plain(problem: Problem) -> Problem:
    """Return a problem with plain texts of bounded length.

    Raises:
        TypeError: it is none, or has a field of another type.
    """
    if not isinstance(problem, Problem) or problem.severity not in SEVERITIES or type(problem.count) is not int:
        raise TypeError(f"{short_repr(problem)}: expected a Problem with the severity 'critical' or 'warning'.")
    command = _text(problem.command)
    return Problem(
        code=_name(problem.code),
        text=_text(problem.text)[:MAX_TEXT],
        advice=_text(problem.advice)[:MAX_TEXT],
        command=command if len(command) <= MAX_COMMAND else "",
        severity=str(problem.severity),
        queue=_name(problem.queue),
        state=_name(problem.state),
        fingerprint=_name(problem.fingerprint),
        count=problem.count,
        subject=_name(problem.subject),
        kind=_name(problem.kind),
    )


def _text(value: object) -> str:
    if not isinstance(value, str | Promise):
        raise TypeError(f"{short_repr(value)}: expected a text.")
    return encodable(str.__str__(str(value)))


def _name(value: object) -> str:
    """Return a name; a long one is cut, and its hash keeps it different from others."""
    name = _text(value)
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 33]}…{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"


def _unread_parts(facts: ProblemFacts) -> Iterator[Problem]:
    parts = {"queues": _("queues and workers"), "schedules": _("periodic tasks"), "watched": _("watched facts")}
    for name, error in facts.errors.items():
        yield unread_part(parts[name], error, str(facts.endpoint), subject=name)


def unread_part(part: str, error: Exception, address: str, *, subject: str) -> Problem:
    """Return the problem of a part of a page that could not be read."""
    outage = outage_of(error, address)
    text = _("Cannot read %(part)s: %(reason)s") % {"part": part, "reason": outage.title}
    return Problem("unread", text, f"{outage.advice} ({outage.detail})", severity="critical", subject=subject)


def _truncate(problems: list[Problem]) -> list[Problem]:
    """Return the first problems of a kind, and the number of the others."""
    rest = len(problems) - MAX_OF_A_KIND
    if rest <= 0:
        return problems
    text = ngettext("%(count)d more of this kind.", "%(count)d more of this kind.", rest) % {"count": rest}
    severity = problems[MAX_OF_A_KIND].severity
    more = Problem(problems[0].code, text, "", severity=severity, count=rest, subject=REST)
    return [*problems[:MAX_OF_A_KIND], more]
