"""Problems of queues, workers, schedules and the server: the list that the dashboard shows."""

from __future__ import annotations

import dataclasses

from django.utils import translation
from redis.exceptions import ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.dashboard.outages import SnapshotFailed
from django_redis_components.dashboard.problems.facts import read_facts
from django_redis_components.dashboard.problems.finding import find_problems
from django_redis_components.dashboard.problems.problem import Problem
from django_redis_components.dashboard.problems.watched.reading import read_checks
from django_redis_components.management.redis.doctor.findings import Finding, Report


def check_tasks(using: str, client: SyncClient, report: Report) -> None:
    """Report what the overview of the dashboard would, in English.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    try:
        facts = read_facts(using)
    except SnapshotFailed as exc:
        if isinstance(exc.error, ResponseError):
            report.skipped.append(f"Queues, workers and schedules: {exc.error}")
            return
        raise exc.error from exc
    watched = read_checks(client, facts)
    if "data_loss" in facts.watched:  # only the watching process remembers what the server held
        watched["data_loss"] = facts.watched["data_loss"]
    facts = dataclasses.replace(facts, watched=watched)
    if facts.queues is not None:
        report.facts |= {
            "queues": len(facts.queues.queues),
            "workers": facts.queues.live_count,
            "poller": facts.queues.poller,
        }
    with translation.override(None):
        report.findings.extend(_finding(problem) for problem in find_problems(facts))


def _finding(problem: Problem) -> Finding:
    return Finding(problem.severity, problem.code, problem.text, problem.advice, problem.command)
