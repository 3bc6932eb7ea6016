"""Importing a room reads no setting, opens no connection and starts no thread."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.architecture.sources import FLOORS, ROOT, Module, modules, rooms

#: Runs in a Python of its own, without settings; prints what went wrong as JSON.
SCRIPT = """
import importlib, json, sys, threading
network = []
sys.addaudithook(lambda event, args: event.startswith("socket.") and network.append(event))
problems = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception as exc:
        problems[name] = repr(exc)
    if network:
        problems[name] = f"used the network: {network}"
        network = []
    if threading.active_count() > 1:
        problems[name] = f"started threads: {threading.enumerate()}"
        break
print(json.dumps(problems))
"""


@pytest.mark.parametrize("room", [room for room in rooms() if FLOORS[room] < 3])
def test_a_room_imports_without_django_settings_and_without_redis(room: str) -> None:
    names = [module.name for module in modules() if module.room == room and not _needs_apps(module)]

    assert import_problems(names) == {}


def test_the_package_itself_imports_nothing() -> None:
    package = next(module for module in modules() if not module.room)

    assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(package.tree))


def test_a_module_that_reads_a_setting_is_found() -> None:
    assert "ImproperlyConfigured" in import_problems(["django.contrib.auth.models"])["django.contrib.auth.models"]


def test_only_the_reloader_reads_environment_variables() -> None:
    readers = {
        module.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
    }

    assert readers == {"django_redis_components.taskqueue.supervisor.autoreload"}


def import_problems(names: list[str]) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _needs_apps(module: Module) -> bool:
    """Files that hold Django models can only be imported when the apps are loaded."""
    return module.name.rpartition(".")[2] in ("models", "admin") or "django.db.models import Model" in module.text
