"""The description of a lease's holder, which is stored beside its token for operators.

The acquire scripts store a description of the caller under ``<base>:holder:<token>``, with the lease's TTL; a release
deletes it, and a forced release adds who released it (`forced_release`). The value has one ``field=value`` line for
each fact. It is a hint: no script decides anything by it.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING

from django_redis_components.core.forks import after_fork_in_child

if TYPE_CHECKING:
    from django.http import HttpRequest

#: Longest host name, thread name, name of a task or path of a request, and id of a task, in bytes.
MAX_HOST, MAX_THREAD, MAX_WORK, MAX_ID = 64, 32, 56, 40
#: Most digits of a process id.
MAX_PID = 10
#: Longest text of a field, in bytes, when it is read.
MAX_FIELD = 100
#: Bytes that are read of a stored value: other clients may write any.
MAX_READ = 1_000

#: Returns the lines about the task or request that the current code works for: set by the worker and the middlewares.
current_work: ContextVar[Callable[[], str] | None] = ContextVar("django_redis_components.work", default=None)


#: The request that the current code works for: set by the middlewares.
current_request: ContextVar[HttpRequest | None] = ContextVar("django_redis_components.request", default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseHolder:
    """The process, thread, and task or request that acquired a lease. `adopt` does not change it.

    Attributes:
        host: name of the machine or container.
        pid: id of the process; 0 if unknown.
        thread: name of the thread.
        task, task_id: name and id of the running task; "" outside of tasks.
        request: method and path of the request; "" if unknown.
    """

    host: str
    pid: int
    thread: str
    task: str = ""
    task_id: str = ""
    request: str = ""

    def __str__(self) -> str:
        text = f"{self.host}, process {self.pid}, thread {self.thread}"
        if self.task:
            return f"{text}, task {self.task} {self.task_id}"
        return f"{text}, request {self.request}" if self.request else text


def clean(text: str, limit: int) -> str:
    """Return a text without unprintable characters, of at most `limit` bytes as UTF-8."""
    if text.isascii() and text.isprintable():
        return text[:limit]
    kept = "".join(each for each in text[: 4 * limit] if each.isprintable())
    return kept.encode()[:limit].decode(errors="ignore")


class _ThreadLines(threading.local):
    """The lines about this process and thread, made by the first description of each thread.

    A thread that is renamed later keeps its first name.

    Attributes:
        description: the lines; "" until they are needed.
    """

    description = ""

    def make(self) -> str:
        """Store and return the lines."""
        thread = clean(threading.current_thread().name, MAX_THREAD)
        self.description = f"host={clean(socket.gethostname(), MAX_HOST)}\npid={os.getpid()}\nthread={thread}"
        return self.description


class _Caller:
    """The lines of each thread of this process."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the lines, in the child of a fork: its process has another id."""
        self.lines = _ThreadLines()


_caller = _Caller()
after_fork_in_child(_caller.forget)


def describe_caller() -> str:
    """Return the description of the caller: at most about 200 bytes."""
    work = current_work.get()
    thread = _caller.lines
    lines = thread.description or thread.make()
    return lines if work is None else f"{lines}\n{work()}"


def describe_task(name: str, task_id: str) -> str:
    """Return the lines about a running task."""
    return f"task={clean(name, MAX_WORK)}\nid={clean(task_id, MAX_ID)}"


def describe_request(method: str | None, path: str) -> str:
    """Return the line about a request; without its query, which may contain secrets."""
    return f"request={clean(f'{method} {path}', MAX_WORK)}"


@contextmanager
def working_for(request: HttpRequest) -> Iterator[None]:
    """Name the request in the descriptions of what the block acquires, and as the origin of tasks that it enqueues."""
    outer = current_work.set(partial(describe_request, request.method, request.path))
    outer_request = current_request.set(request)
    try:
        yield
    finally:
        current_request.reset(outer_request)
        current_work.reset(outer)


def parse_holder(value: bytes | None) -> LeaseHolder | None:
    """Return the holder from a stored value; None without one."""
    fields = parse_fields(value)
    if "host" not in fields:
        return None
    pid = fields.get("pid", "")
    return LeaseHolder(
        host=fields["host"],
        pid=int(pid) if pid.isascii() and pid.isdigit() and len(pid) <= MAX_PID else 0,
        thread=fields.get("thread", ""),
        task=fields.get("task", ""),
        task_id=fields.get("id", ""),
        request=fields.get("request", ""),
    )


def parse_fields(value: bytes | None) -> dict[str, str]:
    """Return the fields of a stored value, cleaned again: other clients may have written it."""
    lines = (value or b"")[:MAX_READ].decode(errors="replace").split("\n")
    pairs = (line.partition("=") for line in lines)
    return {field: clean(text, MAX_FIELD) for field, _, text in pairs}
