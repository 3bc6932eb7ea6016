"""`manage.py redis`: what all of its groups have in common."""

from __future__ import annotations

import io
import json
import pkgutil
import re
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands

from django_redis_components.core.command_line import command_line
from django_redis_components.management import redis
from django_redis_components.management.commands.redis import Command
from django_redis_components.management.redis.groups import GROUPS
from tests.management.support import READS, command_data, refusal
from tests.support import Store
from tests.support.processes import ROOT, child_environment

#: The keys of their JSON. The flow is not found.
KEYS = {
    "doctor": {"critical", "warnings", "findings", "skipped", "facts"},
    "migrate": {"formats", "dry_run", "migrations"},
    "top": {"at", "poller", "queues", "workers", "running"},
    "queues": {"at", "queues", "workers", "poller"},
    "tasks": {"queue", "state", "total", "limit", "offset", "tasks"},
    "shards": {"shards"},
    "workers": {"at", "poller", "workers"},
    "schedules": {"at", "schedules"},
    "outbox": {"rows", "relays", "missing", "errors"},
    "locks": {"at", "held"},
    "limits": {"limits"},
    "analytics": {"site", "views", "visitors", "days"},
    "aggregation": {"name", "deleted"},
    "geoip": {"name", "deleted"},
    "autocomplete": {"unregistered"},
    "search": {"indexes"},
}
#: Commands of their own before; they are groups now.
FORMER = ("queues", "workers", "schedules", "flows", "locks", "limits", "analytics", "top", "doctor")
#: Prints the components that the parser of the command and its help have imported.
IMPORTS = """
import sys, django
django.setup()
before = set(sys.modules)
from django.core.management import call_command, load_command_class
load_command_class("django_redis_components", "redis").create_parser("manage.py", "redis").format_help()
parts = [name.split(".") for name in set(sys.modules) - before if name.startswith("django_redis_components.")]
print(*sorted({part[1] for part in parts}))
"""


def manage(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a management command as a shell does, without a server."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=child_environment() | {"DJANGO_SETTINGS_MODULE": "tests.taskqueue.site", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("component", ["search", "autocomplete"])
@pytest.mark.parametrize("verb", ["check", "repair"])
def test_command_that_rebuilds_names_the_one_that_compares(component: str, verb: str) -> None:
    with pytest.raises(CommandError) as raised:
        call_command(f"rebuild_{component}", f"--{verb}")

    assert str(raised.value).endswith(
        f"unrecognized arguments: --{verb}. To compare indexes, run: python manage.py redis {component} {verb}"
    )


def test_each_module_is_a_group_and_each_group_is_a_module() -> None:
    assert {module.name for module in pkgutil.iter_modules(redis.__path__)} == {*GROUPS, "groups"}
    assert set(READS) == set(GROUPS)


def test_help_lists_the_groups_and_imports_no_component() -> None:
    shown = manage("-m", "django", "redis", "--help")

    text = " ".join(shown.stdout.split())
    assert (shown.returncode, shown.stderr) == (0, "")
    assert all(f"{name} {does}" in text for name, does in GROUPS.items())
    assert "Exit codes: 0 done; 1 not or only partly done" in text
    assert set(manage("-c", IMPORTS).stdout.split()) <= {"management", "core"}


def test_help_of_each_command_names_options_units_and_exit_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def help_of(*words: str) -> str:
        with pytest.raises(SystemExit, match=r"^0$"):
            call_command("redis", *words, "--help")
        return capsys.readouterr().out

    monkeypatch.setenv("COLUMNS", "200")
    leaves = []
    for group in GROUPS:
        listed = re.findall(r"^    ([a-z-]+) +(.+)$", help_of(group).partition("commands:")[2], re.M)
        assert all(does for _, does in listed)
        leaves += [[group, verb] for verb, _ in listed] or [[group]]

    assert len(leaves) > 40
    for words in leaves:
        text = " ".join(help_of(*words).split())
        assert "Exit codes: 0 " in text, words
        assert "--using ALIAS connection alias (default: " in text or "--using ALIAS only " in text, words
        assert "--json print one line of JSON instead of text" in text, words


def test_former_commands_are_unknown() -> None:
    assert not set(FORMER) & set(get_commands())
    for name in FORMER:
        with pytest.raises(CommandError, match=rf"^Unknown command: '{name}'"):
            call_command(name)


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ([], ["the following arguments are required: GROUP"]),
        (["queus"], ["invalid choice: 'queus' (choose from doctor, migrate, top, queues, ", "Did you mean 'queues'?"]),
        (["locks"], ["the following arguments are required: COMMAND"]),
        (["locks", "relase"], ["invalid choice: 'relase' (choose from list, release). Did you mean 'release'?"]),
        (["locks", "x"], ["invalid choice: 'x' (choose from list, release)."]),
        (["locks", "list", "x"], ["unrecognized arguments: x"]),
        (["workers", "quiet"], ["the following arguments are required: ID"]),
    ],
)
def test_wrong_words_are_answered_with_what_is_accepted(
    words: list[str], texts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = Command()
    command._called_from_command_line = True

    with pytest.raises(SystemExit, match=r"^2$"):
        command.create_parser("manage.py", "redis").parse_args(words)

    shown = capsys.readouterr()
    assert shown.err.startswith("usage: manage.py redis ")
    assert (shown.out, [text for text in texts if text not in shown.err]) == ("", [])
    assert all(text in refusal("redis", *words) for text in texts)


@pytest.mark.django_db
@pytest.mark.parametrize("group", KEYS)
def test_each_group_prints_json(redis_server: Store, group: str) -> None:
    out = io.StringIO()
    with suppress(SystemExit):  # the doctor has findings
        call_command("redis", *READS[group], "--json", stdout=out)

    assert len(out.getvalue().splitlines()) == 1
    assert KEYS[group] <= set(json.loads(out.getvalue()))


@pytest.mark.django_db
@pytest.mark.parametrize("group", GROUPS)
def test_each_group_uses_the_given_connection(redis_server: Store, settings: Any, group: str) -> None:
    connections = {"default": {"URL": redis_server.url}, "away": {"URL": "redis://127.0.0.1:1"}}
    settings.REDIS_COMPONENTS = {**settings.REDIS_COMPONENTS, "CONNECTIONS": connections}

    if group in ("limits", "search", "outbox"):  # it selects what is on the connection: nothing
        assert not any(command_data("redis", *READS[group], "--using", "away").values())
    else:
        assert refusal("redis", *READS[group], "--using", "away", code=3).startswith("Redis is unavailable: ")
    if group != "doctor":
        assert "'nowhere'" in refusal("redis", *READS[group], "--using", "nowhere", code=2)


def test_options_may_be_given_by_keyword(redis_server: Store) -> None:
    out = io.StringIO()
    call_command("redis", "queues", "status", json=True, using="default", stdout=out)

    assert json.loads(out.getvalue())["queues"] == []
    with pytest.raises(TypeError, match="Unknown option"):
        call_command("redis", "queues", "status", cohorts=[], stdout=out)


def test_options_of_django_are_accepted_after_the_command(redis_server: Store) -> None:
    words = ["queues", "status", "--settings", "a.b", "--no-color", "-v", "2", "--traceback"]
    found = Command().create_parser("manage.py", "redis").parse_args(words)

    assert (found.settings, found.no_color, found.verbosity, found.traceback) == ("a.b", True, 2, True)
    found = Command().create_parser("manage.py", "redis").parse_args(["--no-color", "-v", "3", "doctor"])
    assert (found.no_color, found.verbosity, found.traceback) == (True, 3, False)


def test_invalid_settings_are_findings_of_doctor_and_errors_of_others() -> None:
    parser = Command().create_parser("manage.py", "redis")

    assert parser.parse_args(["doctor"]).skip_checks
    assert not parser.parse_args(["queues", "status"]).skip_checks


def test_command_line_is_quoted_for_a_shell() -> None:
    assert command_line("redis", "queues", "pause", arguments=["-a b"], options=["--until", "5"], using="far") == (
        "python manage.py redis queues pause --using far --until 5 -- '-a b'"
    )
