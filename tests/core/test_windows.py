"""A site on a platform without forks, POSIX signals, `select.poll` and `fcntl`: all but the workers works."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.architecture.sources import modules
from tests.core.windows_site import POSIX_ONLY
from tests.support import Store
from tests.support.processes import UNMEASURED, Children

NEEDS_POSIX = "manage.py {} needs a POSIX system (Linux, macOS, BSD, WSL): this one is win32."


def on_windows(children: Children, function: str) -> Any:
    """Return what a function of tests/core/windows_site.py returns there."""
    return children.run("tests/support/windows.py", f"tests.core.windows_site:{function}", env=UNMEASURED).result()


def test_all_modules_but_those_of_the_worker_are_imported(children: Children) -> None:
    assert on_windows(children, "import_modules") == {}


@pytest.mark.django_db(transaction=True)
def test_components_are_used(store: Store, children: Children) -> None:
    User.objects.create_superuser("admin")

    assert on_windows(children, "use_all") == {
        "load_urls": ["admin:index", "django_redis_components:autocomplete"],
        "use_lock": [False, True],
        "use_semaphore": True,
        "hit_limit": [True, False],
        "enqueue": [2, 4, 6],
        "search": [["1"], ["Émile Zola"]],
        "chat": [[True], ["Or later?"]],
        "publish_file": ["GET /\n", ["access.log", "copy.log"]],
        "show_overview": [200, True],
    }


def test_commands_of_workers_say_that_they_need_a_posix_system(store: Store, children: Children) -> None:
    replies = on_windows(children, "run_commands")

    assert {words: reply for words, reply in replies.items() if reply[0]} == {
        "runworker": [NEEDS_POSIX.format("runworker"), 1],
        "redis_runworker": [NEEDS_POSIX.format("runworker"), 1],
        "runworker --reload": [NEEDS_POSIX.format("runworker"), 1],
        "runpoller": [NEEDS_POSIX.format("runpoller"), 1],
        "redis_runpoller": [NEEDS_POSIX.format("runpoller"), 1],
        "redis top": [NEEDS_POSIX.format("redis top"), 1],
        "manage.py runworker": [f"CommandError: {NEEDS_POSIX.format('runworker')}", 1],
    }
    done = [words for words, reply in replies.items() if not reply[0]]
    assert done == [
        "check",
        "redis top --once",
        "redis top --json",
        "redis queues status",
        "redis workers list",
        "redis locks list",
    ]


def test_modules_of_the_worker_exist() -> None:
    assert set(POSIX_ONLY) <= {module.name for module in modules()}
