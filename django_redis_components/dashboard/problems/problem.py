"""A problem: the fact, the cause or the remedy, and a command."""

from __future__ import annotations

import dataclasses

from django_redis_components.core.command_line import command_line
from django_redis_components.dashboard.outages import CODES, Outage

#: Subject of the problem that stands for others of its kind.
REST = "…"
#: Kind of the problem of a server that cannot be used.
OUTAGE = "redis_outage"
#: Its codes.
OUTAGE_CODES = frozenset(f"redis_{code}" for code in CODES)


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its remedy.

    Attributes:
        code: for programs: "no_worker", "poller_missing", …
        text: what is wrong, in one sentence.
        advice: what to do.
        command: a command that does it, or "".
        severity: "critical" if tasks fail, wait without an end or may be lost, else "warning".
        queue: the queue that has the problem, or "".
        state: the state of tasks that the page of the queue should show, or "".
        fingerprint: of the error that is the cause, or "".
        count: how many problems it stands for.
        subject: what has the problem, if it is not a queue: a worker, a lock, a task, …
        kind: what the problem is, if its code may change while it lasts, such as that of an outage; "": its code.
    """

    code: str
    text: str
    advice: str
    command: str = ""
    severity: str = "warning"
    queue: str = ""
    state: str = ""
    fingerprint: str = ""
    count: int = 1
    subject: str = ""
    kind: str = ""

    @property
    def id(self) -> str:
        """What is the same as long as the problem lasts, whatever its text says."""
        return f"{self.kind or self.code}:{self.subject or self.queue}"


def outage_problem(outage: Outage, text: str) -> Problem:
    """Return the problem of a server that cannot be used. Its code may change while it lasts."""
    return Problem(f"redis_{outage.code}", text, outage.advice, severity="critical", kind=OUTAGE)


def worker_command(*queues: str, using: str) -> str:
    """Return the command that starts a worker for queues, quoted for a shell."""
    return command_line("runworker", arguments=queues, using=using)


def poller_command(using: str) -> str:
    """Return the command that starts a poller."""
    return command_line("runpoller", using=using)


def queue_command(verb: str, queue: str, *, using: str) -> str:
    """Return a command of `manage.py redis queues` for a queue, quoted for a shell."""
    return command_line("redis", "queues", verb, arguments=[queue], using=using)
