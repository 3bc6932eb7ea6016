"""A problem on the overview: the fact, the cause or the remedy, and a command."""

from __future__ import annotations

import dataclasses
import shlex


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


def worker_command(*queues: str) -> str:
    """Return the command that starts a worker for queues, quoted for a shell."""
    names = sorted(queues, key=lambda queue: queue.startswith("-"))  # after "--" all are names
    return f"python manage.py runworker {' '.join(map(_argument, names))}"


def queue_command(verb: str, queue: str) -> str:
    """Return a command of `manage.py redis queues` for a queue, quoted for a shell."""
    return f"python manage.py redis queues {verb} {_argument(queue)}"


def _argument(queue: str) -> str:
    return ("-- " if queue.startswith("-") else "") + shlex.quote(queue)
