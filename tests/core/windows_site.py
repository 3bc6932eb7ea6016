"""What a developer's site does on Windows. Runs in a process of `tests.support.windows`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command, execute_from_command_line
from django.test import Client
from django.urls import resolve

from django_redis_components.taskqueue import task
from tests.architecture.sources import modules

#: Modules that only workers and the full-screen view import.
POSIX_ONLY = (
    "django_redis_components.management.redis.top.terminal",
    "django_redis_components.taskqueue.startup",
    "django_redis_components.taskqueue.supervisor",
    "django_redis_components.taskqueue.worker.process",
    "django_redis_components.taskqueue.worker.process_signals",
    "django_redis_components.taskqueue.worker.restart_policy",
)
#: Modules of which their package imports the one for the version of Django.
BY_VERSION = (
    "django_redis_components.contrib.django_tasks.native",
    "django_redis_components.contrib.django_tasks.backport",
)


def import_modules() -> dict[str, str]:
    """Import all modules that a site without workers may import; return the errors."""
    errors: dict[str, str] = {}
    for module in modules():
        if not f"{module.name}.".startswith(tuple(f"{name}." for name in POSIX_ONLY + BY_VERSION)):
            try:
                importlib.import_module(module.name)
            except Exception as exc:  # noqa: BLE001 - the test looks at it
                errors[module.name] = repr(exc)
    return errors


def load_urls() -> list[str]:
    """Return the names of pages of the admin and of the package."""
    return [resolve(path).view_name for path in ("/admin/", "/redis/autocomplete/cities/")]


@task
def double(number: int) -> int:
    return 2 * number


def use_lock() -> list[Any]:
    """Wait for a lock that another thread holds, with a thread and with a coroutine."""
    from django_redis_components.locks import Lock

    taken, release = threading.Event(), threading.Event()

    def hold() -> None:
        with Lock("stock", timeout=60):
            taken.set()
            release.wait(60)

    async def acquire() -> bool:
        lock = Lock("stock", timeout=60)
        await lock.aacquire(blocking_timeout=60)
        await lock.arelease()
        return True

    holder = threading.Thread(target=hold)
    holder.start()
    taken.wait(60)
    threading.Timer(0.05, release.set).start()
    lock = Lock("stock", timeout=60)
    lock.acquire(blocking_timeout=60)
    lock.release()
    holder.join()
    return [holder.is_alive(), asyncio.run(acquire())]


def use_semaphore() -> bool:
    from django_redis_components.semaphores import Semaphore

    with Semaphore("reports", 3, timeout=60):
        return True


def hit_limit() -> list[bool]:
    from django_redis_components.ratelimits import RateLimit

    limit = RateLimit("sign-in", "1/h")
    return [bool(limit.hit("kim")), bool(limit.hit("kim"))]


def enqueue() -> list[Any]:
    """Enqueue tasks, run them as a test of a site does, and read their results."""
    from django_redis_components.testing import captured, drain

    with captured() as sent:
        result = double.enqueue(1)
        sent.run()
        first = result.get()
    second = double.enqueue(2)
    third = asyncio.run(double.aenqueue(3))
    drain("default")
    return [first, second.get(timeout=60), asyncio.run(third.aget(timeout=60))]


def search() -> list[list[str]]:
    from django_redis_components.autocomplete import PrefixIndex
    from django_redis_components.search import SearchIndex

    items, contacts = SearchIndex("items", fields={"title": 1}), PrefixIndex("contacts")
    items.add(1, {"title": "Black cat"})
    contacts.add(7, "Émile Zola")
    return [items.search("cat").ids, [one.text for one in contacts.complete("zol")]]


def chat() -> list[Any]:
    """Send a message to a thread that waits for it."""
    from django_redis_components.messaging import Chat

    lunch = Chat.create("jeff", ["jenny"], "Lunch at noon?")
    lunch.ack("jenny", 1)
    waits: list[bool] = []
    waiter = threading.Thread(target=lambda: waits.append(lunch.wait_for_message("jenny", timeout=60)))
    waiter.start()
    lunch.send("jeff", "Or later?")
    waiter.join()
    return [waits, [message.body for message in lunch.fetch("jenny")]]


def publish_file() -> list[Any]:
    """Publish a file, and save it twice, beside a part that a killed process has left."""
    from django_redis_components.files import FileChannel

    logs = FileChannel("logs", consumers=["stats"])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "access.log").write_bytes(b"GET /\n")
        left = folder / f"copy.log.{'0' * 16}.part"
        left.write_bytes(b"GET")
        logs.publish(str(folder / "access.log"))
        for file in logs.consumer("stats").files(timeout=0):
            file.save_to(folder / "copy.log")
            file.save_to(folder / "copy.log")
            file.done()
        return [(folder / "copy.log").read_text(), sorted(path.name for path in folder.iterdir())]


def show_overview() -> list[Any]:
    from django.contrib.auth.models import User

    client = Client()
    client.force_login(User.objects.get(username="admin"))
    page = client.get("/admin/django_redis_components/overview/")
    return [page.status_code, "Redis memory" in page.content.decode()]


def use_all() -> dict[str, Any]:
    """Use the components; return what each function returned."""
    functions: list[Callable[[], Any]] = [
        load_urls, use_lock, use_semaphore, hit_limit, enqueue, search, chat, publish_file, show_overview,
    ]  # fmt: skip
    return {function.__name__: function() for function in functions}


def run_commands() -> dict[str, list[Any]]:
    """Return error and exit code of commands."""
    sys.platform = "win32"
    replies: dict[str, list[Any]] = {}
    for words in ("runworker", "redis_runworker", "runworker --reload", "runpoller", "redis_runpoller", "redis top"):
        try:
            call_command(*words.split())
        except CommandError as exc:
            replies[words] = [str(exc), exc.returncode]
    for words in (
        "check",
        "redis top --once",
        "redis top --json",
        "redis queues status",
        "redis workers list",
        "redis locks list",
    ):
        call_command(*words.split(), stdout=io.StringIO())
        replies[words] = ["", 0]
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            execute_from_command_line(["manage.py", "runworker", "--no-color"])
        except SystemExit as exc:
            replies["manage.py runworker"] = [errors.getvalue().strip(), exc.code]
    return replies
