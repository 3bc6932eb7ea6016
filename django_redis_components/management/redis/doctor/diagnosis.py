"""All checks of `manage.py redis doctor`, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from django.core import checks
from redis.exceptions import RedisError

from django_redis_components.checks import TAG
from django_redis_components.core.client import connections
from django_redis_components.core.client.endpoint import naming_server
from django_redis_components.core.exceptions import ConfigurationError
from django_redis_components.dashboard import clients
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.management.redis.doctor.formats import check_formats
from django_redis_components.management.redis.doctor.indexes import check_indexes
from django_redis_components.management.redis.doctor.keyspace import check_keys
from django_redis_components.management.redis.doctor.names import check_names
from django_redis_components.management.redis.doctor.permissions import check_database, check_redis_user
from django_redis_components.management.redis.doctor.server import check_server
from django_redis_components.management.redis.doctor.slots import check_coverage, check_slots
from django_redis_components.management.redis.doctor.tasks import check_tasks
from django_redis_components.taskqueue.shards import Shard, shards_of


def diagnose(using: str, scan: int) -> Report:
    """Run all checks of a connection. Nothing is written.

    Args:
        scan: most keys that are scanned.

    Raises:
        redis.exceptions.RedisError: Redis is unavailable.
    """
    report = Report()
    report.findings.extend(_system_checks())
    try:
        client = connections.client(using)
    except ConfigurationError as exc:
        if not report.findings:
            report.findings.append(Finding("critical", "connection", str(exc), "Correct REDIS_COMPONENTS."))
        return report
    report.facts["address"] = str(client.endpoint)
    shard, *others = shards_of(using)
    check_server(shard, client, report)
    is_supported = not any(finding.code == "server_version" for finding in report.findings)
    if is_supported:
        check_redis_user(client, report)
        check_formats(using, client, report)
        check_slots(using, shard, client, report)
        check_coverage(shard, client, report)
        check_names(client, report)
        check_keys(shard, client, report, scan)
        check_indexes(using, report)
    check_database(report)
    redis_cli = client.endpoint.redis_cli()
    report.findings = [
        dataclasses.replace(finding, command=naming_server(finding.command, redis_cli)) for finding in report.findings
    ]
    if is_supported:
        check_tasks(using, client, report)  # its commands name the server already
    for other in others:
        _add_shard(report, other, scan)
    report.findings.sort(key=lambda finding: finding.severity != "critical")
    return report


def _add_shard(report: Report, shard: Shard, scan: int) -> None:
    """Add what is found in a further shard, under its name."""
    client, found = connections.client(shard.alias), Report()
    found.facts["address"] = str(client.endpoint)
    try:
        check_server(shard, client, found)
        check_redis_user(client, found)
        check_formats(shard.alias, client, found)
        check_coverage(shard, client, found)
        check_keys(shard, client, found, scan)
        with clients.showing(shard):
            check_tasks(shard.using, client, found)
    except RedisError as exc:
        fix = "Start its server, or correct the connection. The tasks of this shard wait; those of others run."
        found.findings.append(Finding("critical", "shard_unavailable", str(exc), fix))
    report.facts.setdefault("shards", {})[shard.name] = found.facts
    report.skipped += [f"Shard {shard.name}: {text}" for text in found.skipped]
    report.findings += [
        dataclasses.replace(finding, text=f"Shard {shard.name}: {finding.text}") for finding in found.findings
    ]


def _system_checks() -> Iterator[Finding]:
    """Yield the results of this package's system checks, such as a queue in the database of a cache."""
    for message in checks.run_checks(tags=[TAG]):
        if not message.is_silenced():
            yield Finding(
                "critical" if message.level >= checks.ERROR else "warning",
                message.id or "check",
                str(message.msg),
                str(message.hint or "See `manage.py check`."),
            )
