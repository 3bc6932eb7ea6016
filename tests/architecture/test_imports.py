"""Importing a component reads no setting, opens no connection and starts no thread."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys

import pytest

from tests.architecture.sources import LAYERS, ROOT, Module, components, modules

#: Runs in a new process without Django settings; prints the problems as JSON.
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

#: Runs in a new process: starts a site with the admin, as its first argument says, and prints the modules as JSON.
SITE = """
import json, sys
import django
from django.conf import settings
from django.core.management import call_command
django_apps = ("admin", "auth", "contenttypes", "sessions", "messages")
settings.configure(
    INSTALLED_APPS=[*(f"django.contrib.{name}" for name in django_apps), "django_redis_components"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "OPTIONS": {"context_processors": [
        f"django.{name}" for name in (
            "template.context_processors.request", "contrib.auth.context_processors.auth",
            "contrib.messages.context_processors.messages")]}}],
    MIDDLEWARE=[f"django.contrib.{name}" for name in (
        "sessions.middleware.SessionMiddleware", "auth.middleware.AuthenticationMiddleware",
        "messages.middleware.MessageMiddleware")],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    REDIS_COMPONENTS={"CONNECTIONS": {"default": {"URL": "redis://localhost:6379/1"}}},
    SECRET_KEY="key of a test",
)
django.setup()
if sys.argv[1] == "check":
    call_command("check")
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize("component", [name for name in components() if LAYERS[name] < 3])
def test_component_imports_without_django_settings_and_without_redis(component: str) -> None:
    names = [module.name for module in modules() if module.component == component and not _needs_apps(module)]

    assert import_problems(names) == {}


@pytest.mark.parametrize("command", ["setup", "check"])
def test_site_that_uses_no_component_imports_none(command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SITE, command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )

    assert done.returncode == 0, done.stderr
    names = json.loads(done.stdout.splitlines()[-1])
    imported = {name.split(".")[1] for name in names if name.startswith("django_redis_components.")}
    assert imported - {"admin", "apps", "checks", "contrib", "core", "dashboard", "models", "templatetags"} == set()
    assert command == "check" or "redis" not in names


def test_the_package_itself_imports_nothing() -> None:
    package = next(module for module in modules() if not module.component)

    assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in package.nodes)


def test_a_module_that_reads_a_setting_is_found() -> None:
    assert "ImproperlyConfigured" in import_problems(["django.contrib.auth.models"])["django.contrib.auth.models"]


def test_only_the_reloader_and_the_log_colors_read_environment_variables() -> None:
    readers = {
        module.name
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
    }

    assert readers == {
        "django_redis_components.management.logs",
        "django_redis_components.taskqueue.supervisor.autoreload",
    }


def import_problems(names: list[str]) -> dict[str, str]:
    env = {key: value for key, value in os.environ.items() if key != "DJANGO_SETTINGS_MODULE"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *names], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _needs_apps(module: Module) -> bool:
    """Return whether the module defines Django models, which import only after the apps are loaded."""
    return module.name.rpartition(".")[2] in ("models", "admin") or "django.db.models import Model" in module.text
