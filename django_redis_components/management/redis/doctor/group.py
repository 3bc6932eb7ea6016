"""The arguments and the report of `manage.py redis doctor`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandParser

from django_redis_components.management.arguments import whole_number
from django_redis_components.management.base import CommandResult, ExitCode, add_common
from django_redis_components.management.redis import groups
from django_redis_components.management.redis.doctor.diagnosis import diagnose
from django_redis_components.management.redis.doctor.findings import Finding, Report
from django_redis_components.management.tables import escape_controls

#: Most keys that are scanned without --scan: about a second.
SCAN = 20_000


#: Parts of the help.
DESCRIPTION = (
    "Look for problems of the server, the Redis user, the settings, the task queue and the keys, each with its cause"
    " and its fix. Nothing is written."
)
EXIT_CODES = "Exit codes: 0 no problems; 1 warnings; 2 critical problems, or invalid arguments; 3 Redis is unavailable."


class Group(groups.CommandGroup):
    """Looks for problems of the installation."""

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the arguments."""
        parser.description, parser.epilog = DESCRIPTION, EXIT_CODES
        parser.set_defaults(skip_checks=True)  # invalid settings are findings
        add_common(parser)
        parser.add_argument(
            "--scan",
            type=whole_number(0, 10_000_000),
            default=SCAN,
            metavar="NUMBER",
            help=f"most keys to scan for orphaned and large ones (default: {SCAN:,}; 0: none)",
        )

    def perform(self, options: dict[str, Any]) -> CommandResult:
        """Run the checks."""
        report = diagnose(options["using"], options["scan"])
        critical, warnings = report.count("critical"), report.count("warning")
        data = {
            "critical": critical,
            "warnings": warnings,
            "findings": [dataclasses.asdict(finding) for finding in report.findings],
            "skipped": report.skipped,
            "facts": report.facts,
        }
        if not options["json"]:  # its lines have colors, and are escaped already
            lines = [*_facts(report), "", *self._findings(report), *_skipped(report), _verdict(critical, warnings)]
            self.command.stdout.write("\n".join(lines))
        return CommandResult(data, exit_code=2 if critical else 1 if warnings else ExitCode.DONE)

    def _findings(self, report: Report) -> Iterator[str]:
        style = self.command.style
        styles = {"critical": style.ERROR, "warning": style.WARNING}
        for finding in report.findings:
            lines = [escape_controls(line) for line in _lines(finding)]
            yield f"{styles[finding.severity](finding.severity.upper())} {finding.code}"
            yield from (f"  {line}" for line in lines)
            yield ""


def _lines(finding: Finding) -> Iterator[str]:
    yield finding.text
    yield f"Fix: {finding.fix}"
    if finding.command:
        yield f"  {finding.command}"


def _facts(report: Report) -> Iterator[str]:
    facts = report.facts
    if "address" in facts:
        yield escape_controls(f"{facts.get('server', 'Redis')} at {facts['address']}")
    if "versions" in facts:
        yield ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    if "queues" in facts:
        poller = "active" if facts["poller"] else "none"
        yield f"Queues: {facts['queues']}. Workers: {facts['workers'] or 'none'}. Poller: {poller}."
    if "keys" in facts:
        largest = " Largest:" if facts["largest_keys"] else ""
        yield f"Keys: scanned about {facts['scanned']:,} of {facts['keys']:,}.{largest}"
        for each in facts["largest_keys"]:
            yield escape_controls(f"  {each['bytes']:>13,} bytes  {each['key']}")


def _skipped(report: Report) -> Iterator[str]:
    for text in report.skipped:
        yield escape_controls(f"Not checked: {text}")


def _verdict(critical: int, warnings: int) -> str:
    if not critical and not warnings:
        return "No problems found."
    return f"Critical: {critical}. Warnings: {warnings}."
