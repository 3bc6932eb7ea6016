"""Commands write any text to streams whose encoding does not have all characters."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from importlib import import_module

import pytest
from django.core.management import CommandError, call_command, get_commands
from django.core.management.base import BaseCommand

from django_redis_components.management.plain_output import accept_any_text
from django_redis_components.taskqueue import get_queue
from tests.dashboard.support import fail_with, write_worker
from tests.support import Store

NAMES = sorted(name for name, app in get_commands().items() if app == "django_redis_components")


def ascii_stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii")


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode("ascii")


def output(*words: str) -> str:
    out, err = ascii_stream(), ascii_stream()
    call_command(*words, stdout=out, stderr=err)
    return written(out)


def test_own_characters_have_plain_forms_and_others_are_escaped() -> None:
    stream = ascii_stream()
    accept_any_text(stream)

    stream.write("a… ≈ 3 é \ud800 \U0001f600\n")

    assert written(stream) == "a... ~ 3 \\xe9 \\ud800 \\U0001f600\n"


@pytest.mark.parametrize("name", NAMES)
def test_help_of_every_command_is_printed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = ascii_stream()
    monkeypatch.setattr(sys, "stdout", stream)
    command: BaseCommand = import_module(f"django_redis_components.management.commands.{name}").Command()

    with pytest.raises(SystemExit) as ended:
        command.run_from_argv(["manage.py", name, "--help"])

    assert ended.value.code == 0
    assert written(stream).startswith("usage: ")


def test_listings_are_printed(redis_server: Store) -> None:
    for number in range(3):
        fail_with(f"no such café {number} " + "ü" * 200, queue="mail")
    write_worker(redis_server, "høst:1:abc", host="høst", queues=["mail"])
    get_queue("mail").pause("gelöscht", author="jürgen")

    assert "no such caf\\xe9" in output("redis", "tasks", "list", "mail", "failed")
    assert "gel\\xf6scht" in output("redis", "queues", "status")
    assert "h\\xf8st" in output("redis", "workers", "list")
    for words in (
        ["schedules", "list"],
        ["limits", "list"],
        ["locks", "list"],
        ["top", "--once"],
        ["queues", "errors", "mail"],
    ):
        assert output("redis", *words)


@pytest.mark.django_db
def test_doctor_and_errors_are_printed(redis_server: Store) -> None:
    out, err = ascii_stream(), ascii_stream()
    with suppress(SystemExit):  # with findings
        call_command("redis", "doctor", stdout=out, stderr=err)

    assert "Redis" in written(out)
    with pytest.raises(CommandError, match="ü"):
        call_command("redis", "tasks", "list", "ü{", stdout=out, stderr=err)
