"""The view of the stack of a running task: it asks the worker process, and waits some seconds for the answer."""

from __future__ import annotations

import threading
import time

from django.http import HttpResponse
from django.utils.translation import gettext as _
from redis.exceptions import RedisError

from django_redis_components.core.exceptions import RedisComponentsError
from django_redis_components.core.protocol import Command, run
from django_redis_components.dashboard import formats, responses
from django_redis_components.dashboard.audit import AuditEntry
from django_redis_components.dashboard.clients import queue_shard
from django_redis_components.dashboard.error_text import masked_error
from django_redis_components.dashboard.formats import number
from django_redis_components.dashboard.page import PageRequest
from django_redis_components.dashboard.queues.changes import client
from django_redis_components.dashboard.task import changes
from django_redis_components.taskqueue.exceptions import WorkerDoesNotExist
from django_redis_components.taskqueue.fields import Field
from django_redis_components.taskqueue.stats.explain import Explanation
from django_redis_components.taskqueue.store.control import new_op
from django_redis_components.taskqueue.store.workers import request_stack, stack_key

#: Seconds for which the page waits for the answer, and between two looks. A supervisor that is woken takes some
#: milliseconds; one whose wakeup is lost sends its next heartbeat within a third of a lease.
WAIT_S, LOOK_S = 6.0, 0.05
#: Pages of this process that wait at the same time: each occupies a thread of the site.
MAX_WAITING = 2

free_waits = threading.BoundedSemaphore(MAX_WAITING)


def show(request: PageRequest, task: Explanation) -> HttpResponse:
    """Log the request, ask the worker, and show its answer, or that there is none."""
    entry = AuditEntry(
        request.http, changes.SHOW_STACK.model, task.record.id, f"Show the stack of task {task.record.id!r}"
    )
    worker = task.text(Field.lease).partition("/")[0]
    text, problem = "", ""
    found = None
    if not free_waits.acquire(blocking=False):
        entry.finish("not asked, others wait")
        problem = _("Not asked: %(count)s other pages of this process wait for a stack. Ask again in some seconds.") % {
            "count": number(MAX_WAITING)
        }
    else:
        try:
            found = ask(task.record.id, worker, request.author)
        except WorkerDoesNotExist as exc:
            problem = _("Not asked: the worker %(worker)s has exited or is lost.") % {"worker": worker}
            entry.finish(f"refused, {exc}")
        except (RedisError, RedisComponentsError) as exc:
            entry.finish(f"outcome unknown, {exc}")
            raise
        else:
            entry.finish("no answer" if found is None else "shown" if found else "it did not run there")
        finally:
            free_waits.release()
    if found:
        text = masked_error(found)
    elif found is not None:
        problem = _("The task does not run on the worker %(worker)s any more.") % {"worker": worker}
    elif not problem:
        problem = _(
            "The worker %(worker)s did not answer within %(age)s. Code that holds the interpreter lock, such as an"
            " extension in C, may block its process."
        ) % {"worker": worker, "age": formats.age(WAIT_S)}
    context = {
        "title": _("Stack of task %(id)s") % {"id": task.record.id},
        "is_subpage": True,
        "name": task.record.name,
        "worker": worker,
        "stack": text,
        "problem": problem,
        "again": request.links.task(task.record.id, changes.SHOW_STACK.name),
        "back": request.links.task(task.record.id),
    }
    return responses.page_response(request, "task/stack.html", context)


def ask(task_id: str, worker: str, author: str) -> str | None:
    """Return the stack; "" if the task does not run on the worker, None without an answer in time."""
    shard, op = queue_shard(), new_op()
    run(client(), request_stack(shard, worker, task_id, author, op))
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        answer = client().execute(Command("GET", stack_key(shard, op)))
        if answer is not None:
            return str(answer.decode(errors="replace"))
        time.sleep(LOOK_S)
    return None
