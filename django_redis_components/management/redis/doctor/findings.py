"""Findings: what is wrong, and how to fix it."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A problem of the installation.

    Attributes:
        severity: "critical" if tasks or data are lost or stuck, else "warning".
        code: for programs: "eviction", "no_worker", …
        text: the cause.
        fix: what to do.
        command: a command that does it, or "".
    """

    severity: str
    code: str
    text: str
    fix: str
    command: str = ""


@dataclasses.dataclass(slots=True)
class Report:
    """The result of all checks.

    Attributes:
        facts: what was found out about the server, the client and the keys, by name.
        skipped: checks that could not be made, with the reason.
    """

    findings: list[Finding] = dataclasses.field(default_factory=list)
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    skipped: list[str] = dataclasses.field(default_factory=list)

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)
