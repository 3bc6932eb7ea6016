"""`runworker --reload` on a site whose files change, break and are fixed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from django.utils import autoreload

from django_redis_components.taskqueue import TaskResult, registry
from django_redis_components.taskqueue.options import TaskOptions, options_with
from django_redis_components.taskqueue.supervisor.autoreload import VARIABLE, Reloader, ReloaderClient
from django_redis_components.taskqueue.task import Task
from tests.support import Store, eventually
from tests.support.processes import Child, Children
from tests.taskqueue.support import Held, is_running, processes_of, taskqueue_settings

TASKS = """
from django_redis_components.taskqueue import task
from tests.taskqueue.tasks import hold
from reloadshop.words import WORD

@task
def say() -> str:
    return WORD
"""


class Shop:
    """A site in a folder."""

    def __init__(self, folder: Path, children: Children) -> None:
        self.folder = folder
        self._children = children
        (folder / "reloadshop").mkdir()
        self.write("reloadshop/__init__.py", "")
        self.write("reloadshop/words.py", "WORD = 'one'\n")
        self.write("reloadshop/tasks.py", TASKS)
        self.write(
            "reloadsite.py",
            "from tests.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'reloadshop', 'tests.taskqueue']\n",
        )

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def start(self, *args: str) -> Child:
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        root = str(Path(__file__).resolve().parents[3])
        env = {"DJANGO_SETTINGS_MODULE": "reloadsite", "PYTHONPATH": f"{path}{os.pathsep}{root}"}
        env["PYTHONDONTWRITEBYTECODE"] = "1"  # bytecode knows two texts of one second and one length as the same
        return self._children.manage("runworker", "--reload", *args, env=env)


@pytest.fixture
def shop(redis_server: Store, tmp_path: Path, children: Children, settings: Any) -> Shop:
    taskqueue_settings(settings, LEASE=5, GRACE=60)
    return Shop(tmp_path, children)


def send_word() -> TaskResult:
    """Send the shop's task, which this process does not have."""
    task = Task(
        func=send_word, name="reloadshop.tasks.say", declared_options=options_with(send_word, TaskOptions(), {})
    )
    return task.enqueue()


def worker_of(watcher: Child) -> int:
    [pid] = eventually(lambda: processes_of(watcher.pid))
    return pid


@pytest.mark.integration
def test_reloader_restarts_after_changes_and_errors_and_leaves_no_process(shop: Shop) -> None:
    watcher = shop.start()
    watcher.wait_for("Worker: queues default")
    assert send_word().get(60) == "one"
    first = worker_of(watcher)

    shop.write("reloadshop/words.py", "WORD = 'two'\n")
    watcher.wait_for("words.py has changed; restarting the worker.")
    watcher.wait_for("Worker: queues default")
    assert send_word().get(60) == "two"
    second = worker_of(watcher)
    assert second != first

    shop.write("reloadshop/broken.py", "WORD = \n")
    shop.write("reloadshop/tasks.py", TASKS.replace("words", "broken"))
    watcher.wait_for("SyntaxError: invalid syntax")
    watcher.wait_for("The worker exited with code 1; it restarts when a file changes.")
    waiting = send_word()
    shop.write("reloadshop/broken.py", "WORD = 'three'\n")
    watcher.wait_for("broken.py has changed; restarting the worker.")
    assert waiting.get(60) == "three"

    third = worker_of(watcher)
    [child] = processes_of(third)
    watcher.signal(signal.SIGINT)
    assert watcher.wait(60) == 0
    assert not any(map(is_running, (first, second, third, child)))
    assert watcher.output.count("Stopping: running tasks have 60 s to finish") == 3


def test_restart_returns_running_tasks_and_two_ctrl_c_stop_at_once(shop: Shop, redis_server: Store) -> None:
    held = Held(redis_server, "a")
    watcher = shop.start()
    watcher.wait_for("Worker: queues default")
    result = registry.find("tests.taskqueue.tasks.hold").enqueue("a")
    first = held.started()

    shop.write("reloadshop/words.py", "WORD = 'two'\n")

    watcher.wait_for("words.py has changed; restarting the worker.")
    assert held.started(2) != first
    result.refresh()
    assert result.attempts == 1, "it was handed back, and used no attempt"
    watcher.signal(signal.SIGINT)
    watcher.wait_for("Stopping: running tasks have 60 s to finish")
    watcher.signal(signal.SIGINT)
    assert watcher.wait(60) == 0
    result.refresh()
    assert (result.state, result.attempts) == ("ready", 0)


def test_worker_forwards_quiet_and_stops_when_its_reloader_was_killed(shop: Shop) -> None:
    watcher = shop.start()
    watcher.wait_for("Worker: queues default")
    worker = worker_of(watcher)
    [child] = eventually(lambda: processes_of(worker))
    watcher.signal(signal.SIGUSR1)
    watcher.wait_for("Quiet: fetching nothing more")
    assert watcher.returncode is None

    watcher.kill()

    watcher.wait_for("The reloader has exited; stopping.")
    eventually(lambda: not is_running(worker) and not is_running(child))


def test_reloader_exits_after_success_and_stays_after_an_error(shop: Shop) -> None:
    result = send_word()
    assert shop.start("--burst").wait(60) == 0
    assert result.get(0) == "one"

    shop.write("reloadshop/words.py", "WORD = \n")
    watcher = shop.start("--burst")
    watcher.wait_for("it restarts when a file changes.")
    watcher.terminate()

    assert watcher.wait(60) == 0


def test_worker_waiting_for_redis_stops_when_its_reloader_was_killed(shop: Shop, settings: Any) -> None:
    settings.REDIS_COMPONENTS = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}
    watcher = shop.start()
    watcher.wait_for("Waiting for Redis: ")
    worker = worker_of(watcher)

    watcher.kill()

    eventually(lambda: not is_running(worker))


@pytest.mark.integration
def test_change_between_report_and_first_check_is_recorded_once(tmp_path: Path) -> None:
    module, files = tmp_path / "module.py", tmp_path / "files.json"
    module.write_text("")
    os.utime(module, (1, 1))
    files.write_text(json.dumps([str(module)]))
    watcher = Reloader(print)
    watcher.worker_started_at = 10
    autoreload.file_changed.connect(watcher._note_change)

    watcher._add_files(files)
    assert watcher.changed == []
    os.utime(module, (2, 2))
    watcher._check_files()
    watcher._check_files()

    assert watcher.changed == [module]


@pytest.mark.integration
def test_reloader_client_exists_only_with_a_reloader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ReloaderClient.from_environment() is None
    monkeypatch.setenv(VARIABLE, f"{os.getppid()} {tmp_path / 'a b.json'}")

    watched = ReloaderClient.from_environment()

    assert watched is not None
    assert not watched.has_exited()
    assert VARIABLE not in os.environ
    watched.report_files()
    assert __file__ in (tmp_path / "a b.json").read_text()
    monkeypatch.setenv(VARIABLE, f"{os.getpid()} {tmp_path}")
    alone = ReloaderClient.from_environment()
    assert alone is not None
    assert alone.has_exited()


def test_stop_signal_before_the_first_worker_is_counted() -> None:
    watcher = Reloader(print)

    watcher._forward_signal(signal.SIGUSR1, None)
    assert watcher.stop_count == 0
    watcher._forward_signal(signal.SIGTERM, None)

    assert watcher.stop_count == 1
