"""The sample data of the demo's first start: what it writes, and that it writes nothing over other data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.support.demo import demo_environment
from tests.support.processes import ROOT, Children


def modules_that_the_demo_does_not_install() -> list[str]:
    """Return the modules of the extras that are not among the demo's packages."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {extra: {re.split(r"[^\w.-]", each)[0] for each in packages} for extra, packages in extras.items()}
    others = set().union(*(names[extra] for extra in names if extra not in ("demo", "docs", "test"))) - names["demo"]
    return [module for module, packages in packages_distributions().items() if others.intersection(packages)]


def populate(env: dict[str, str], *arguments: str) -> str:
    """Run the command as where only the demo's packages are installed, and return what it prints."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({modules_that_the_demo_does_not_install()!r}))"
    command = (
        f"from django.core.management import execute_from_command_line as run; run({['', 'populate', *arguments]!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{blocked}; {command}"],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "example_project.settings"} | os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty database."""
    folder = tmp_path_factory.mktemp("tables")
    env = os.environ | demo_environment(folder)
    subprocess.run([sys.executable, "manage.py", "migrate", "-v", "0"], cwd=ROOT, env=env, check=True)
    return folder


@pytest.fixture
def empty(tables: Path, tmp_path: Path, own_server):
    """The environment of commands with an empty database and an empty Redis."""
    shutil.copytree(tables, tmp_path, dirs_exist_ok=True)
    return demo_environment(tmp_path) | {"REDIS_URL": own_server.url}


def test_first_start_has_a_past_on_every_page_and_a_second_one_changes_nothing(empty, own_server, children: Children):
    """The letters that have failed are delivered when they are retried."""
    printed = populate(empty, "--sample-data")

    assert "Sample data 1 of 3" in printed
    assert "Wrote the sample data" in printed
    found = children.call("tests.example.acts:sample_data", env=empty).result()
    assert found["minutes"] >= 55, "minutes of the last hour with finished tasks"
    assert found["failed_minutes"] >= 6
    assert found["days"] >= 28
    assert found["ten_minutes"] >= 140
    assert found["sums_agree"], "the history by hour is the sum of the minutes"
    assert found["errors"] == ["ConnectionRefusedError", "ValueError"]
    assert found["failed_ago_s"] > 1_800, "the letters failed in the outage"
    assert found["successful"] > 20
    assert {"market-1", "market-2"} <= {worker.partition(":")[0] for worker in found["workers"]}
    for queue, failed in {"default": 84, "high": 4, "low": 0}.items():
        tasks, of_errors, counted = found["failed"][queue]
        assert tasks == of_errors == failed
        assert failed <= counted <= failed + (queue == "high"), "a flow may fail in the minute after the counters"
    assert found["open"] == ["failures:default"]
    assert found["resolved"] == 2
    assert found["actions"] == 3
    assert found["chats"] >= 6
    assert found["views"] > 100
    assert found["denied"] > 10
    assert found["unfinished_flows"] == 1
    size = own_server.raw.dbsize()

    again = populate(empty, "--sample-data")

    assert "Created 0 members and 0 items." in again
    assert "Sample data" not in again
    assert own_server.raw.dbsize() <= size
    states = children.call("tests.example.acts:retry_letters", env=empty).result()
    assert states == ["successful"] * 10


def test_nothing_is_written_beside_other_data(empty, own_server, children: Children):
    own_server.raw.set("another", "program")

    printed = populate(empty, "--sample-data")

    assert "Sample data" not in printed
    assert not list(own_server.raw.scan_iter(match="market:taskqueue:*:history:*"))

    own_server.raw.flushall()
    printed = populate(empty, "--sample-data")

    assert "Sample data" not in printed, "the database has members"


def test_nothing_is_written_without_the_option(empty, own_server):
    populate(empty)

    assert not list(own_server.raw.scan_iter(match="market:taskqueue:*:history:*"))
