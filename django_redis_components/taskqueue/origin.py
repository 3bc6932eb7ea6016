"""Who enqueued a task: a running task, a schedule, a request, or a command of ``manage.py``.

It is a field of the record, "kind name" or "kind name\\tuser". Values of more than 64 bytes would double the memory of
a short record, so those that are known at each call are shorter.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.utils.functional import empty

from django_redis_components.core.leasing.holder import clean, current_request, current_work
from django_redis_components.taskqueue.logs import current_run

if TYPE_CHECKING:
    from django.http import HttpRequest

    from django_redis_components.core.settings.sections import TaskQueueSettings

#: Longest origin of a request, in bytes, without and with its user; and longest primary key of a user.
MAX_REQUEST, MAX_USER = 64, 20
#: Attribute of a request that has its origin.
_ATTRIBUTE = "_drc_origin"


def current(settings: TaskQueueSettings) -> str:
    """Return the origin of a task that is enqueued now, as it is stored; "" if it is unknown, or not recorded."""
    if not settings.record_origin:
        return ""
    if current_work.get() is None:
        return COMMAND
    run = current_run.get(None)
    if run is not None:
        return f"task {run.job.id}"
    request = current_request.get()
    return COMMAND if request is None else _request_origin(request, settings)


def of_schedule(name: str) -> str:
    """Return the origin of the tasks of a schedule."""
    return f"schedule {name}"


def _request_origin(request: HttpRequest, settings: TaskQueueSettings) -> str:
    """Return the origin without the query of the request, which may contain secrets; made once for a request."""
    origin: str | None = request.__dict__.get(_ATTRIBUTE)
    if origin is None:
        user = f"\t{_known_user(request)}".rstrip() if settings.record_user else ""
        origin = clean(f"request {request.method} {request.path}", MAX_REQUEST - len(user)) + user
        if user or not settings.record_user:  # else the user may be loaded later
            request.__dict__[_ATTRIBUTE] = origin
    return origin


def _known_user(request: HttpRequest) -> str:
    """Return the primary key of the user if the request has loaded them: `enqueue` must not query the database."""
    try:
        user: Any = getattr(request, "_acached_user", None) or getattr(request, "user", None)
        if user is None or getattr(user, "_wrapped", None) is empty or user.pk is None:
            return ""
        return clean(str(user.pk), MAX_USER)
    except Exception:  # noqa: BLE001 - the site's request, user or key; the task is enqueued without its user
        return ""


def command_of(argv: Sequence[str]) -> str:
    """Return the origin of a process that runs a command of ``manage.py``; "" for others, such as web servers."""
    program, *arguments = argv or [""]
    path = Path(program)
    is_manage = path.name in ("manage.py", "django-admin") or path.parts[-2:] == ("django", "__main__.py")
    command = next((each for each in arguments if not each.startswith("-")), "")
    return clean(f"command {command}", MAX_REQUEST) if is_manage and command else ""


#: The origin of what this process enqueues outside of tasks and requests.
COMMAND = command_of(sys.argv)
