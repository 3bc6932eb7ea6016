"""The formats of the stored data, compared with those of this release."""

from __future__ import annotations

from redis.exceptions import ResponseError

from django_redis_components.core.client.connections import SyncClient
from django_redis_components.core.command_line import command_line
from django_redis_components.core.exceptions import StoredFormatTooNew
from django_redis_components.core.protocol import run
from django_redis_components.core.stored_formats import WRITTEN, read_formats
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.management.redis.migrate import pending_migrations

#: What to do about newer data; the text of the error says more.
NEWER_FIX = 'Workers and pollers of this release do not start. See "Upgrades" in the documentation.'


def check_formats(using: str, client: SyncClient, report: Report) -> None:
    """Report data of a newer release, and migrations that have not finished."""
    try:
        stored = run(client, read_formats())
    except ResponseError as exc:
        report.skipped.append(f"Formats of the stored data: {exc}")
        return
    report.facts["formats"] = {component: stored.number(component) for component in WRITTEN}
    try:
        stored.check(str(client.endpoint))
    except StoredFormatTooNew as exc:
        report.findings.append(Finding("critical", "data_newer", str(exc), NEWER_FIX))
    for migration in pending_migrations(stored):
        text = (
            f"The data of {migration.component} may be in an older format than {migration.number} ({migration.change})."
            " This release reads both; a later one may not."
        )
        command = command_line("redis", "migrate", using=using)
        fix = "Convert them, while everything runs:"
        report.findings.append(Finding("warning", "migration_pending", text, fix, command))
